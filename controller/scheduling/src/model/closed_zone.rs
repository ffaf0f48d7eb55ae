//! Zones in which nothing is launched for now.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{Catalogue, InstanceType, Offering};
use crate::labels;

/// A zone in which nothing is launched for now.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClosedZone {
    /// ID of the zone (`use1-az1`).
    pub id: Arc<str>,
    /// Reason, as the end of a sentence about the zone (`is shifted away until …`).
    pub why: Arc<str>,
}

// === impl Catalogue ===

impl Catalogue {
    /// Makes all offerings in the zones with these IDs unavailable, in one edit. Offerings without a zone ID stay.
    pub fn close_zones(&mut self, ids: &BTreeSet<Arc<str>>) {
        let is_meant =
            |offering: &Offering| offering.available && zone_id(offering).is_some_and(|zone| ids.contains(zone));
        if ids.is_empty() || !self.types().iter().any(|one| one.offerings.iter().any(is_meant)) {
            return;
        }
        self.edit(|types| {
            for InstanceType { offerings, .. } in types {
                offerings.iter_mut().for_each(|offering| offering.available &= !is_meant(offering));
            }
        });
    }
}

/// Returns the ID of the offering's zone, if the cloud has told it.
pub(crate) fn zone_id(offering: &Offering) -> Option<&str> {
    offering.requirements.single(labels::ZONE_ID)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Operator, Requirement, Requirements, Resources};

    fn offering(zone: &str, id: Option<&str>, capacity_type: &str) -> Offering {
        let mut all = vec![(labels::ZONE, zone), (labels::CAPACITY_TYPE, capacity_type)];
        all.extend(id.map(|id| (labels::ZONE_ID, id)));
        let requirement = |(key, value): (&str, &str)| (key.to_owned(), Requirement::new(Operator::In, [value]));
        Offering {
            requirements: all.into_iter().map(requirement).collect(),
            price: Some(1.0),
            available: true,
            reservation_capacity: u32::from(capacity_type == "reserved"),
        }
    }

    fn catalogue() -> Catalogue {
        Catalogue::new(vec![InstanceType {
            name: "m".into(),
            requirements: Requirements::new(),
            capacity: Resources::new(),
            overhead: Resources::new(),
            offerings: vec![
                offering("a", Some("az1"), "on-demand"),
                offering("a", Some("az1"), "reserved"),
                offering("b", Some("az2"), "spot"),
                offering("c", None, "spot"),
            ],
        }])
    }

    #[test]
    fn every_capacity_type_of_a_closed_zone_is_unavailable() {
        let left = |ids: &[&str]| -> Vec<bool> {
            let mut catalogue = catalogue();
            catalogue.close_zones(&ids.iter().map(|id| Arc::from(*id)).collect());
            catalogue[0].offerings.iter().map(|one| one.available).collect()
        };
        assert_eq!(left(&["az1"]), [false, false, true, true]);
        assert_eq!(left(&["az1", "az2"]), [false, false, false, true], "a zone whose ID is not known stays open");
        assert_eq!(left(&[]), [true; 4]);
    }

    #[test]
    fn a_catalogue_without_that_zone_is_the_same_one() {
        let mut catalogue = catalogue();
        let before = catalogue.types().as_ptr();
        catalogue.close_zones(&BTreeSet::from(["az9".into()]));
        assert_eq!(catalogue.types().as_ptr(), before);
    }
}
