//! String interning: 1,400 types repeat a few thousand labels a hundred thousand times.

use std::sync::Arc;

use rustc_hash::FxHashSet;

/// Set of interned strings.
#[derive(Debug, Default)]
pub(crate) struct Texts(FxHashSet<Arc<str>>);

impl Texts {
    pub(crate) fn get(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.0.get(text) {
            return Arc::clone(known);
        }
        let fresh: Arc<str> = text.into();
        self.0.insert(Arc::clone(&fresh));
        fresh
    }
}
