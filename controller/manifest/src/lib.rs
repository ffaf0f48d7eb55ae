//! Reader of manifests: from files to texts, from texts to objects, from objects to typed values.
//!
//! ```text
//!  source ──► document ──► reader ──► pod, workload, volume, devices, cluster, capacity ──► objects (Manifests)
//!  files      YAML, JSON,    │             │                                                     │
//!             lists          │             └─ field: a value and its path                        ▼
//!                            └─ judge: validation by our CRDs                                 snapshot
//! ```
//!
//! Every error is one [`InputError`] that names file, document, line, object and field. Nothing here panics, whatever
//! the bytes are. One object at a time is in memory as text and tree; pods that do not differ in scheduling share one
//! [`PodTemplate`].

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

pub mod convert;
pub mod snapshot;

mod capacity;
mod cluster;
mod containers;
mod devices;
mod document;
mod error;
mod field;
mod image;
mod inspect;
mod judge;
mod locate;
mod meta;
mod object;
mod objects;
mod observed;
mod own;
mod placement;
mod pod;
mod reader;
mod scheduler_config;
mod selector;
mod source;
#[cfg(test)]
mod tests;
mod tree;
mod version;
mod volume;
mod workload;

pub use capacity::{BufferSource, CapacityBuffer, NodeClaim, NodeClass, NodeClassRef, NodeOverlay, NodePool};
pub use cluster::fill;
pub use cluster::{Condition, DisruptionBudget, LimitRange, Node, PriorityClass, RuntimeClass, Service};
pub use containers::{Container, PodResources, Stage, effective_requests};
pub use devices::{
    AllocatedDevice, Allocation, Attribute, Capacity, Device, DeviceAlternative, DeviceClaimSpec, DeviceClass,
    DeviceConstraint, DeviceCount, DeviceRequest, Located, ResourceClaim, ResourceClaimTemplate, ResourceSlice,
    published,
};
use error::Rejected;
pub use error::{InputError, Place};
pub use field::{Decoded, Fault, Field, Unknown, UnknownField};
pub use image::TellingImage;
pub use inspect::{Inspected, inspect};
pub use judge::{Judgement, judge};
pub use meta::{Meta, Owner};
pub use object::{Object, decode, decode_ours};
pub use objects::Manifests;
pub use observed::{ObservedCloud, ObservedInstance};
pub use own::{read_own, refuse_own};
pub use placement::{Affinity, PodTerm, WeightedPodTerm};
pub use pod::{Pod, PodClaim, PodTemplate};
pub use scheduler_config::DefaultSpread;
pub use source::{Source, read_one};
pub use tree::{Skip, Tree, Trimmed, shorten};
pub use version::{Scope, kind_named, kinds};
pub use volume::{Claim, CsiNode, PersistentVolume, StorageClass, Volume, VolumeAttachment, driver_of, is_foreign};
pub use workload::{DaemonSet, Owning, Workload};

/// Collects objects of several texts, from files and from a cluster.
#[derive(Default)]
pub struct Intake {
    reader: reader::Reader,
}

impl Intake {
    /// Reads every object under `paths`: files, folders (recursively), `-` for `stdin`.
    ///
    /// # Errors
    /// All files that cannot be read, and all objects that are rejected.
    pub fn files(&mut self, paths: &[PathBuf], stdin: &mut dyn Read) -> Result<(), InputError> {
        let reader = &mut self.reader;
        let mut rejected = Rejected::default();
        for path in paths {
            let before = reader.objects();
            let read = source::each_source(path, stdin, &mut |source| {
                reader.enter(&source.name);
                let read = document::each_object(source, &mut |tree, origin| {
                    rejected.note(reader.take(tree, origin));
                    Ok(())
                });
                rejected.note(read);
                Ok(())
            });
            rejected.note(read);
            // Often a command before the pipe has failed, and "nothing is pending" would be misleading.
            if reader.objects() == before {
                let name = if path.as_os_str() == "-" { "stdin".to_owned() } else { format!("`{}`", path.display()) };
                reader.say(format!("there is no object in {name}"));
            }
        }
        rejected.into_result()
    }

    /// Reads every object of `text`, which messages call `name`; a name that ends with `.json` forbids YAML.
    ///
    /// # Errors
    /// The first problem of the text.
    pub fn text(&mut self, name: &str, text: String) -> Result<(), InputError> {
        let source = Source { name: name.to_owned(), text, only_json: name.ends_with(".json") };
        read_source(&mut self.reader, &source)
    }

    /// Adds a warning.
    pub fn say(&mut self, warning: String) {
        self.reader.say(warning);
    }

    /// Returns everything that was read.
    #[must_use]
    pub fn finish(self) -> Manifests {
        self.reader.finish()
    }
}

/// Reads every object under `paths`; see [`Intake::files`].
///
/// # Errors
/// The first problem of the input.
pub fn read(paths: &[PathBuf], stdin: &mut dyn Read) -> Result<Manifests, InputError> {
    let mut intake = Intake::default();
    intake.files(paths, stdin)?;
    Ok(intake.finish())
}

/// Reads every object under `paths`, and returns the raw objects too; `check` can reject each of them.
///
/// # Errors
/// The first problem of the input.
pub fn read_with_raw(
    paths: &[PathBuf],
    stdin: &mut dyn Read,
    check: &dyn Fn(&serde_json::Value) -> Decoded<()>,
) -> Result<(Manifests, Vec<serde_json::Value>), InputError> {
    let mut reader = reader::Reader::default();
    let mut objects = Vec::new();
    for path in paths {
        source::each_source(path, stdin, &mut |source| {
            reader.enter(&source.name);
            document::each_object(source, &mut |tree, origin| {
                reader.take(tree, origin)?;
                let object = tree.to_json();
                check(&object).map_err(|fault| reader.refuse(tree, origin, *fault))?;
                objects.push(object);
                Ok(())
            })
        })?;
    }
    Ok((reader.finish(), objects))
}

/// Raw objects.
#[derive(Debug, Default)]
pub struct Raw {
    /// All objects.
    pub objects: Vec<serde_json::Value>,
    /// Number of objects of unknown kinds, by kind.
    pub unknown: BTreeMap<String, usize>,
}

/// Reads every raw object under `paths`. Earlier versions of Muster's kinds are accepted if `is_old` returns true for
/// their apiVersion and kind.
///
/// # Errors
/// A file cannot be read, is not YAML or JSON, or contains a value that is not an object, or whose kind or version in
/// one of Muster's groups is unknown.
pub fn read_raw(
    paths: &[PathBuf],
    stdin: &mut dyn Read,
    is_old: impl Fn(&str, &str) -> bool,
) -> Result<Raw, InputError> {
    let mut raw = Raw::default();
    for path in paths {
        source::each_source(path, stdin, &mut |source| {
            document::each_object(source, &mut |tree, origin| {
                if let Some(kind) = reader::look(tree, origin, &is_old)? {
                    *raw.unknown.entry(kind).or_default() += 1;
                }
                raw.objects.push(tree.to_json());
                Ok(())
            })
        })?;
    }
    Ok(raw)
}

/// Returns every raw object in `source`.
///
/// # Errors
/// Fails if `source` is not valid YAML or JSON.
pub fn raw_of(source: &Source) -> Result<Vec<serde_json::Value>, InputError> {
    let mut objects = Vec::new();
    document::each_object(source, &mut |tree, _| {
        objects.push(tree.to_json());
        Ok(())
    })?;
    Ok(objects)
}

/// Returns the first error of the CRD's validation of an object.
pub fn refusal(object: &serde_json::Value) -> Option<Fault> {
    judge(object).refusals.into_iter().next()
}

/// Reads every object in `text`, which messages call `name`.
///
/// # Errors
/// The first problem of the text.
pub fn read_text(name: &str, text: &str) -> Result<Manifests, InputError> {
    let mut intake = Intake::default();
    intake.text(name, text.to_owned())?;
    Ok(intake.finish())
}

fn read_source(reader: &mut reader::Reader, source: &Source) -> Result<(), InputError> {
    reader.enter(&source.name);
    document::each_object(source, &mut |tree, origin| reader.take(tree, origin))
}

/// Reads a KubeSchedulerConfiguration (`--scheduler-config`).
///
/// # Errors
/// The first problem of the file.
pub fn read_scheduler_config(path: &Path) -> Result<DefaultSpread, InputError> {
    scheduler_config::read(&source::read_file(path)?)
}
