//! Catalogues with other capacities than the one that they are made of, shared by equal snapshots.

use std::collections::BTreeMap;
use std::sync::{Arc, MutexGuard, PoisonError};

use super::{Catalogue, Ingested};
use crate::model::{InstanceType, Resource};

/// The last catalogues that were made of one with other capacities.
#[derive(Default)]
pub(super) struct Editions {
    with_amounts: Option<Edition>,
    with_attach_limits: Option<(AttachFacts, Edition)>,
}

/// Capacities, and the catalogue that has them.
struct Edition {
    amounts: Vec<Amount>,
    /// None without amounts: a catalogue that kept itself would never be freed.
    made: Option<Arc<Ingested>>,
}

/// Index of a type, a resource and its amount.
pub type Amount = (usize, Resource, i64);

/// Facts from which the attach limits of all types of a catalogue follow, besides the types themselves.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AttachFacts {
    /// Drivers in use, in order.
    pub drivers: Vec<Arc<str>>,
    /// Number of volumes with which nodes are launched.
    pub disks: u32,
    /// Limits that nodes state, by instance type and driver.
    pub stated: BTreeMap<(Arc<str>, Arc<str>), Vec<u32>>,
}

// === impl Catalogue ===

impl Catalogue {
    /// Sets capacities. The result of equal amounts is shared, since a catalogue costs more than a plan of few pods and
    /// snapshots of one cluster need the same one again.
    pub fn set_capacities(&mut self, amounts: Vec<Amount>) {
        let base = Arc::clone(&self.0);
        let mut editions = base.editions();
        let edition = self.edition(editions.with_amounts.take(), amounts);
        self.show(&edition);
        editions.with_amounts = Some(edition);
    }

    /// Sets the capacities that `amounts` computes from the types and from `facts`. They are computed once for equal
    /// facts, and the result of equal amounts is shared.
    pub fn set_attach_limits(
        &mut self,
        facts: AttachFacts,
        amounts: impl FnOnce(&[InstanceType], &AttachFacts) -> Vec<Amount>,
    ) {
        let base = Arc::clone(&self.0);
        let mut editions = base.editions();
        let edition = match editions.with_attach_limits.take() {
            Some((known, edition)) if known == facts => edition,
            known => self.edition(known.map(|(_, edition)| edition), amounts(&base.types, &facts)),
        };
        self.show(&edition);
        editions.with_attach_limits = Some((facts, edition));
    }

    /// Returns `known` if it has these amounts, otherwise the edition with them.
    fn edition(&self, known: Option<Edition>, amounts: Vec<Amount>) -> Edition {
        if let Some(known) = known.filter(|known| known.amounts == amounts) {
            return known;
        }
        let made = (!amounts.is_empty()).then(|| {
            let mut other = self.clone();
            other.edit(|types| {
                for (index, resource, amount) in &amounts {
                    if let Some(one) = types.get_mut(*index) {
                        one.capacity.set(resource.clone(), *amount);
                    }
                }
            });
            other.0
        });
        Edition { amounts, made }
    }

    fn show(&mut self, edition: &Edition) {
        if let Some(made) = &edition.made {
            self.0 = Arc::clone(made);
        }
    }
}

// === impl Ingested ===

impl Ingested {
    fn editions(&self) -> MutexGuard<'_, Editions> {
        self.editions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
