//! Offerings that the cloud refused recently.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::{Catalogue, InstanceType, Offering, Problem};
use crate::labels;

/// A set of offerings that the cloud refused recently; a part that is `None` matches any.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Refused {
    /// Name of the type.
    pub instance_type: Arc<str>,
    /// Zone.
    pub zone: Option<Arc<str>>,
    /// Capacity type.
    pub capacity_type: Option<Arc<str>>,
    /// ID of the capacity reservation.
    pub reservation: Option<Arc<str>>,
}

// === impl Refused ===

impl Refused {
    /// Returns true if this matches an offering of the named type.
    fn means(&self, offering: &Offering) -> bool {
        let same = |wanted: &Option<Arc<str>>, have: Option<&str>| wanted.is_none() || wanted.as_deref() == have;
        same(&self.zone, offering.zone())
            && same(&self.capacity_type, offering.capacity_type())
            && same(&self.reservation, offering.requirements.single(labels::CAPACITY_RESERVATION_ID))
    }
}

// === impl Catalogue ===

impl Catalogue {
    /// Makes all offerings in `refused` unavailable in one edit: building a catalogue is expensive.
    pub fn refuse(&mut self, refused: &[Refused]) {
        let mut by_type: FxHashMap<&str, Vec<&Refused>> = FxHashMap::default();
        for one in refused {
            by_type.entry(&one.instance_type).or_default().push(one);
        }
        let is_meant = |name: &str, offering: &Offering| {
            offering.available && by_type.get(name).is_some_and(|all| all.iter().any(|one| one.means(offering)))
        };
        if !self.types().iter().any(|one| one.offerings.iter().any(|offering| is_meant(&one.name, offering))) {
            return;
        }
        self.edit(|types| {
            for InstanceType { name, offerings, .. } in types {
                offerings.iter_mut().for_each(|offering| offering.available &= !is_meant(name, offering));
            }
        });
    }
}

// === impl Problem ===

impl Problem {
    /// Makes all offerings in `refused` unavailable, so that no plan uses them.
    pub fn refuse(&mut self, refused: &[Refused]) {
        self.catalogues.iter_mut().for_each(|catalogue| catalogue.refuse(refused));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Operator, Requirement, Resources};

    fn offering(zone: &str, capacity_type: &str, reservation: Option<&str>) -> Offering {
        let mut labels = vec![(labels::ZONE, zone), (labels::CAPACITY_TYPE, capacity_type)];
        labels.extend(reservation.map(|id| (labels::CAPACITY_RESERVATION_ID, id)));
        let requirement = |(key, value): (&str, &str)| (key.to_owned(), Requirement::new(Operator::In, [value]));
        Offering {
            requirements: labels.into_iter().map(requirement).collect(),
            price: Some(1.0),
            available: true,
            reservation_capacity: u32::from(reservation.is_some()),
        }
    }

    fn catalogue() -> Catalogue {
        let one = |name: &str| InstanceType {
            name: name.into(),
            requirements: std::iter::empty::<(String, Requirement)>().collect(),
            capacity: Resources::new(),
            overhead: Resources::new(),
            offerings: vec![
                offering("a", "spot", None),
                offering("b", "spot", None),
                offering("a", "reserved", Some("cr-1")),
                offering("a", "reserved", Some("cr-2")),
            ],
        };
        ["x", "y"].map(one).into_iter().collect()
    }

    fn left(refused: &[Refused]) -> Vec<Vec<bool>> {
        let mut catalogue = catalogue();
        catalogue.refuse(refused);
        let of = |one: &InstanceType| one.offerings.iter().map(|offering| offering.available).collect();
        catalogue.iter().map(of).collect()
    }

    #[test]
    fn what_is_not_named_is_any() {
        let refused = |zone: Option<&str>, capacity_type: Option<&str>, reservation: Option<&str>| Refused {
            instance_type: "y".into(),
            zone: zone.map(Into::into),
            capacity_type: capacity_type.map(Into::into),
            reservation: reservation.map(Into::into),
        };
        let all = vec![true; 4];
        assert_eq!(left(&[]), [all.clone(), all.clone()]);
        assert_eq!(left(&[refused(None, None, None)]), [all.clone(), vec![false; 4]]);
        assert_eq!(left(&[refused(Some("b"), None, None)]), [all.clone(), vec![true, false, true, true]]);
        assert_eq!(left(&[refused(None, Some("reserved"), None)]), [all.clone(), vec![true, true, false, false]]);
        let one = refused(Some("a"), Some("reserved"), Some("cr-2"));
        assert_eq!(left(&[one, refused(Some("a"), Some("spot"), None)]), [all, vec![false, true, true, false]]);
    }

    #[test]
    fn a_catalogue_that_has_none_of_it_is_the_same_one() {
        let mut catalogue = catalogue();
        let before = catalogue.types().as_ptr();
        let of = |name: &str, zone: &str| Refused {
            instance_type: name.into(),
            zone: Some(zone.into()),
            capacity_type: None,
            reservation: None,
        };
        catalogue.refuse(&[of("x", "c"), of("z", "a")]);
        assert_eq!(catalogue.types().as_ptr(), before);
    }
}
