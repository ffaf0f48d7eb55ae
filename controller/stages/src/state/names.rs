//! Deduplication of texts and templates that many objects share.

use std::hash::Hash;
use std::sync::Arc;

use muster_manifest::{Condition, Meta, Owner, PodTemplate};
use muster_scheduling::model::Labels;
use rustc_hash::FxHashSet;

/// Shared texts and templates.
#[derive(Debug, Clone, Default)]
pub(super) struct Names {
    texts: Shared<Arc<str>>,
    templates: Shared<Arc<PodTemplate>>,
    /// Bytes of the objects that were read since unused ones were last removed.
    read: usize,
}

/// Deduplicated values. Unused ones are removed when the set has doubled in size.
#[derive(Debug, Clone)]
struct Shared<T> {
    all: FxHashSet<T>,
    sweep_at: usize,
}

/// Minimum size for such a cleanup.
const FEW: usize = 1024;
/// Bytes of objects after which unused values are removed in any case: a text or a template has up to a megabyte, so
/// their number alone bounds no memory.
const MUCH: usize = 16 << 20;

impl Names {
    /// Counts an object of so many bytes, whose values may be added next.
    pub(super) fn read(&mut self, bytes: usize) {
        self.read = self.read.saturating_add(bytes);
        if self.read >= MUCH {
            self.read = 0;
            self.texts.sweep(|text| Arc::strong_count(text) > 1);
            self.templates.sweep(|template| Arc::strong_count(template) > 1);
        }
    }

    pub(super) fn text(&mut self, text: &Arc<str>) -> Arc<str> {
        self.texts.share(text, Arc::clone, |text| Arc::strong_count(text) > 1)
    }

    pub(super) fn optional(&mut self, text: &mut Option<Arc<str>>) {
        if let Some(text) = text {
            *text = self.text(text);
        }
    }

    pub(super) fn owner(&mut self, owner: &mut Option<Owner>) {
        if let Some(Owner { kind, name }) = owner {
            *kind = self.text(kind);
            *name = self.text(name);
        }
    }

    fn labels(&mut self, labels: &mut Labels) {
        *labels = labels.iter().map(|(key, value)| (self.text(key), self.text(value))).collect();
    }

    pub(super) fn meta(&mut self, meta: &mut Meta) {
        self.labels(&mut meta.labels);
        self.labels(&mut meta.annotations);
    }

    pub(super) fn conditions(&mut self, conditions: &mut [Condition]) {
        for Condition { kind, status, reason, message, since } in conditions {
            [kind, status, reason, message].into_iter().for_each(|text| *text = self.text(text));
            self.optional(since);
        }
    }

    pub(super) fn template(&mut self, template: PodTemplate) -> Arc<PodTemplate> {
        self.templates.share(&Arc::new(template), Arc::clone, |template| Arc::strong_count(template) > 1)
    }

    /// Returns all texts.
    #[cfg(test)]
    pub(super) fn texts(&self) -> impl Iterator<Item = &Arc<str>> {
        self.texts.all.iter()
    }

    /// Returns the numbers of texts and templates.
    #[cfg(test)]
    pub(super) fn len(&self) -> (usize, usize) {
        (self.texts.all.len(), self.templates.all.len())
    }
}

impl<T: Eq + Hash> Shared<T> {
    fn share(&mut self, value: &T, clone: impl Fn(&T) -> T, is_used: impl Fn(&T) -> bool) -> T {
        if let Some(shared) = self.all.get(value) {
            return clone(shared);
        }
        if self.all.len() >= self.sweep_at {
            self.sweep(is_used);
        }
        self.all.insert(clone(value));
        clone(value)
    }

    fn sweep(&mut self, is_used: impl Fn(&T) -> bool) {
        self.all.retain(is_used);
        self.sweep_at = (2 * self.all.len()).max(FEW);
    }
}

impl<T> Default for Shared<T> {
    fn default() -> Self {
        Self { all: FxHashSet::default(), sweep_at: FEW }
    }
}
