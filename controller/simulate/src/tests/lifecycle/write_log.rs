//! Record of the controller's writes, and interference with them.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::core::DynamicObject;
use muster_api::NodeClaim;
use muster_stages::step::{Event, Write};

use super::invariants;
use crate::api::{Api, Kept, Kind, Path};
use crate::world::World;

/// See the module.
#[derive(Clone, Default)]
pub(crate) struct WriteLog {
    entries: Vec<Arc<(Timestamp, Write)>>,
    /// Numbers of the writes just before which another client changes every object.
    pub(super) conflicts: BTreeSet<u64>,
    /// Copies of the world before each write since they were last taken; none if they are not wanted.
    pub(super) copies: Option<Vec<World>>,
}

// === impl WriteLog ===

impl WriteLog {
    pub(super) fn writes(&self) -> impl Iterator<Item = &Write> {
        self.entries.iter().map(|entry| &entry.1)
    }

    pub(super) fn events(&self) -> impl Iterator<Item = &Event> {
        self.writes().filter_map(|write| if let Write::Event(event) = write { Some(event) } else { None })
    }

    /// Returns the diary, which messages of failed tests show.
    pub(super) fn diary(&self) -> String {
        let lines = self.entries.iter().map(|entry| format!("{}: {:?}", entry.0, entry.1));
        lines.collect::<Vec<_>>().join("\n")
    }
}

/// Takes in a write that is about to be applied.
pub(crate) fn log_write(write: &Write, world: &mut World) {
    let Some(mut log) = world.write_log.take() else { return };
    invariants::check(world, &log);
    if let Some(mut copies) = log.copies.take() {
        let mut copy = world.clone();
        copy.write_log = Some(log.clone());
        copy.writes -= 1;
        copies.push(copy);
        log.copies = Some(copies);
    }
    if log.conflicts.remove(&(world.writes - 1)) {
        change_everything(&mut world.api, world.writes);
    }
    log.entries.push(Arc::new((world.clock.now(), write.clone())));
    world.write_log = Some(log);
}

/// Changes every object that the controller writes to, as another client does.
fn change_everything(api: &mut Api, number: u64) {
    fn change<T: Kept>(api: &mut Api, kind: &Kind, number: u64) {
        let paths: Vec<Path> =
            T::store(api, kind).into_iter().flat_map(|all| all.iter().map(|(path, _)| path.clone())).collect();
        for path in paths {
            api.update(kind, &path, None, |object: &mut T| {
                let annotations = object.meta_mut().annotations.get_or_insert_default();
                annotations.insert("example.com/changed-before-write".to_owned(), number.to_string());
            })
            .unwrap();
        }
    }
    change::<NodeClaim>(api, &Kind::NodeClaim, number);
    change::<Node>(api, &Kind::Node, number);
    change::<DynamicObject>(api, &Kind::Other("EC2NodeClass".to_owned()), number);
}
