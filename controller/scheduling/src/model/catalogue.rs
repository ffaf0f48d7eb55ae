//! The instance types of one NodeClass, with everything about them that can be computed without pods.

mod editions;

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, Mutex};

use fixedbitset::FixedBitSet;
use index_vec::{IndexSlice, IndexVec};
use rustc_hash::FxHashMap;

use self::editions::Editions;
pub use self::editions::{Amount, AttachFacts};
use super::{InstanceType, Requirement, Requirements, Resource, Resources, UNLIMITED};
use crate::index::index_type;
use crate::labels;

/// Instance types as one NodeClass sees them, in a fixed order.
///
/// A plain value: it derefs to the types, catalogues of equal types are equal, and a clone shares everything. What
/// solves need of the types alone is computed once, in the constructor: which types have which labels, which offerings
/// have equal requirements, what is allocatable. To change a type, make another catalogue with [`Catalogue::edit`].
///
/// The second field has the types before NodeOverlays were applied, if any were.
#[derive(Clone)]
pub struct Catalogue(Arc<Ingested>, Option<Arc<Ingested>>);

struct Ingested {
    types: Vec<InstanceType>,
    /// Sorted by label.
    columns: Vec<(Arc<str>, LabelColumn)>,
    offering_keys: Vec<Arc<str>>,
    sets: IndexVec<SetId, OfferingSet>,
    offers: Vec<Offer>,
    /// Index of the first offer, by type, with the total number of offers at the end.
    first_offer: Vec<u32>,
    resources: Vec<Resource>,
    allocatable: Vec<i64>,
    /// Maximum allocatable amount of any type, by resource.
    most: Vec<i64>,
    editions: Mutex<Editions>,
}

/// One label of all types: the distinct requirements on it, and the index of the requirement of each type.
#[derive(Default)]
pub(crate) struct LabelColumn {
    /// `None`: the type does not have the label.
    pub(crate) distinct: Vec<Option<Requirement>>,
    pub(crate) of_type: Vec<u32>,
}

index_type! {
    /// Position in [`Catalogue::sets`].
    pub(crate) struct SetId;
}

/// Requirements on zone, capacity type and reservation that many offerings share.
pub(crate) struct OfferingSet {
    pub(crate) requirements: Requirements,
    pub(crate) spot: bool,
    pub(crate) reserved: bool,
}

/// A launchable offering.
pub(crate) struct Offer {
    /// Index among all offerings of the type.
    pub(crate) number: u32,
    /// Zone, capacity type and reservation.
    pub(crate) set: SetId,
    /// USD per hour.
    pub(crate) price: f64,
    pub(crate) reservation_capacity: u32,
}

impl Catalogue {
    /// Builds the catalogue of `types`.
    pub fn new(mut types: Vec<InstanceType>) -> Self {
        let mut sets = Sets::default();
        let mut offers = Vec::new();
        let mut first_offer = Vec::with_capacity(types.len() + 1);
        for one in &mut types {
            first_offer.push(offers.len() as u32);
            for (number, offering) in (0_u32..).zip(&mut one.offerings) {
                let set = sets.intern(&mut offering.requirements);
                if let Some(price) = offering.price.filter(|_| offering.launchable()) {
                    let reservation_capacity = offering.reservation_capacity;
                    offers.push(Offer { number, set, price, reservation_capacity });
                }
            }
        }
        first_offer.push(offers.len() as u32);
        let sets = sets.all;
        let mut keys = BTreeSet::from([Arc::from(labels::ZONE), Arc::from(labels::CAPACITY_TYPE)]);
        keys.extend(sets.iter().flat_map(|set| set.requirements.iter()).map(|(key, _)| Arc::clone(key)));
        let resources: BTreeSet<&Resource> =
            types.iter().flat_map(|one| one.capacity.iter()).map(|(resource, _)| resource).collect();
        let resources: Vec<Resource> = resources.into_iter().cloned().collect();
        // A type of which no attach limit is known attaches any number of volumes.
        let absent = |one: &Resource| if one.name().starts_with(Resource::ATTACHABLE) { UNLIMITED } else { 0 };
        let absent: Vec<i64> = resources.iter().map(absent).collect();
        let mut allocatable = absent.repeat(types.len());
        let mut most = vec![0; resources.len()];
        for (row, one) in allocatable.chunks_mut(resources.len().max(1)).zip(&types) {
            for (resource, amount) in one.allocatable().iter() {
                if let Ok(at) = resources.binary_search(resource) {
                    row[at] = amount;
                    most[at] = amount.max(most[at]);
                }
            }
        }
        let ingested = Ingested {
            columns: columns(&types),
            offering_keys: keys.into_iter().collect(),
            types,
            sets,
            offers,
            first_offer,
            resources,
            allocatable,
            most,
            editions: Mutex::default(),
        };
        Self(Arc::new(ingested), None)
    }

    /// Returns all types.
    pub fn types(&self) -> &[InstanceType] {
        &self.0.types
    }

    /// Replaces the catalogue by one of its types after `change`. Clones made before keep the old types.
    pub fn edit(&mut self, change: impl FnOnce(&mut Vec<InstanceType>)) {
        let mut types = self.0.types.clone();
        change(&mut types);
        *self = Self(Self::new(types).0, self.1.take());
    }

    /// Replaces the catalogue as [`Catalogue::edit`] does, and keeps the types before `change` as those that the cloud
    /// knows. `change` must not add, remove or move types.
    pub(crate) fn overlay(&mut self, change: impl FnOnce(&mut Vec<InstanceType>)) {
        let plain = self.1.take().unwrap_or_else(|| Arc::clone(&self.0));
        self.edit(change);
        self.1 = Some(plain);
    }

    /// Returns the type with this index as the cloud knows it: without NodeOverlays.
    #[must_use]
    pub fn plain(&self, index: usize) -> Option<&InstanceType> {
        self.1.as_ref().unwrap_or(&self.0).types.get(index)
    }

    /// Returns true if the catalogue is `other`, or `other` with NodeOverlays applied. Compares addresses, not types.
    #[must_use]
    pub fn is_made_of(&self, other: &Self) -> bool {
        Arc::ptr_eq(self.1.as_ref().unwrap_or(&self.0), &other.0)
    }

    /// Returns true if a NodeOverlay has changed the price of an offering of the type with this index.
    #[must_use]
    pub fn has_other_price(&self, index: usize) -> bool {
        let (Some((own, plain)), true) = (self.get(index).zip(self.plain(index)), self.1.is_some()) else {
            return false;
        };
        own.offerings.iter().zip(&plain.offerings).any(|(own, plain)| own.price != plain.price)
    }

    /// Returns the resources of the type with this index that NodeOverlays have set.
    #[must_use]
    pub fn other_capacity(&self, index: usize) -> Resources {
        let (Some((own, plain)), true) = (self.get(index).zip(self.plain(index)), self.1.is_some()) else {
            return Resources::new();
        };
        // Attach limits and devices are not of EC2 and not of overlays either.
        let is_other = |resource: &Resource, amount: i64| {
            let differs = !plain.capacity.contains(resource) || plain.capacity.get(resource) != amount;
            differs && !resource.name().starts_with(Resource::ATTACHABLE) && !resource.is_of_claims()
        };
        let all = own.capacity.iter().filter(|(resource, amount)| is_other(resource, *amount));
        all.map(|(resource, amount)| (resource.clone(), amount)).collect()
    }

    /// Returns the column of the label `key`, `None` if no type has the label.
    pub(crate) fn column(&self, key: &str) -> Option<&LabelColumn> {
        let columns = &self.0.columns;
        columns.binary_search_by(|(other, _)| (**other).cmp(key)).ok().map(|at| &columns[at].1)
    }

    /// Keeps in `set` the types whose label `key` passes `test` (`None`: the type does not have it).
    pub(crate) fn retain(&self, key: &str, set: &mut FixedBitSet, test: impl Fn(Option<&Requirement>) -> bool) {
        let Some(column) = self.column(key) else {
            if !test(None) {
                set.clear();
            }
            return;
        };
        let verdicts: Vec<bool> = column.distinct.iter().map(|requirement| test(requirement.as_ref())).collect();
        if verdicts.iter().all(|&verdict| verdict) {
            return;
        }
        for (index, &id) in column.of_type.iter().enumerate() {
            if !verdicts[id as usize] {
                set.set(index, false);
            }
        }
    }

    /// Returns the types that can meet `requirements`; a label that a type does not have is not checked.
    pub(crate) fn suiting(&self, requirements: &Requirements) -> FixedBitSet {
        let mut set = FixedBitSet::with_capacity(self.len());
        set.insert_range(..);
        for (key, wanted) in requirements.iter() {
            self.retain(key, &mut set, |own| own.is_none_or(|own| own.meets(wanted)));
        }
        set
    }

    /// Returns true if some type allows several values of `key`.
    pub(crate) fn is_open(&self, key: &str) -> bool {
        let distinct = self.column(key).map_or(&[][..], |column| &column.distinct);
        distinct.iter().flatten().any(|requirement| requirement.single().is_none())
    }

    /// Labels that distinguish offerings: zone, capacity type and any others that offerings have. Sorted.
    pub(crate) fn offering_keys(&self) -> &[Arc<str>] {
        &self.0.offering_keys
    }

    /// Returns the distinct requirements of offerings, in the order in which they first occur.
    pub(crate) fn sets(&self) -> &IndexSlice<SetId, [OfferingSet]> {
        &self.0.sets
    }

    /// Returns true if some offering, launchable or not, is of capacity type `reserved`.
    pub(crate) fn reserves(&self) -> bool {
        self.sets().iter().any(|set| set.reserved)
    }

    /// Returns the launchable offerings of a type, ascending.
    pub(crate) fn offers(&self, instance_type: usize) -> &[Offer] {
        let inner = &*self.0;
        &inner.offers[inner.first_offer[instance_type] as usize..inner.first_offer[instance_type + 1] as usize]
    }

    /// Returns the resources of [`Catalogue::allocatable`], sorted.
    pub(crate) fn resources(&self) -> &[Resource] {
        &self.0.resources
    }

    /// Returns the amounts that pods and daemons can use of a type, by resource: millicores or base units.
    pub(crate) fn allocatable(&self, instance_type: usize) -> &[i64] {
        let width = self.0.resources.len();
        &self.0.allocatable[instance_type * width..][..width]
    }

    /// Returns the maximum that pods and daemons can use of `resource` on one node of any type: millicores or base
    /// units.
    pub(crate) fn most(&self, resource: &Resource) -> i64 {
        self.resources().binary_search(resource).map_or(0, |at| self.0.most[at])
    }
}

impl Default for Catalogue {
    fn default() -> Self {
        Self::new(Vec::new())
    }
}

impl Deref for Catalogue {
    type Target = [InstanceType];

    fn deref(&self) -> &[InstanceType] {
        &self.0.types
    }
}

impl PartialEq for Catalogue {
    fn eq(&self, other: &Self) -> bool {
        let is_same = |one: &Arc<Ingested>, other: &Arc<Ingested>| Arc::ptr_eq(one, other) || one.types == other.types;
        is_same(&self.0, &other.0)
            && match (&self.1, &other.1) {
                (Some(one), Some(other)) => is_same(one, other),
                (one, other) => one.is_none() && other.is_none(),
            }
    }
}

impl fmt::Debug for Catalogue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Catalogue").field(&self.0.types).finish()
    }
}

impl From<Vec<InstanceType>> for Catalogue {
    fn from(types: Vec<InstanceType>) -> Self {
        Self::new(types)
    }
}

impl FromIterator<InstanceType> for Catalogue {
    fn from_iter<I: IntoIterator<Item = InstanceType>>(types: I) -> Self {
        Self::new(types.into_iter().collect())
    }
}

impl<'a> IntoIterator for &'a Catalogue {
    type Item = &'a InstanceType;
    type IntoIter = std::slice::Iter<'a, InstanceType>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.types.iter()
    }
}

#[derive(Default)]
struct Sets {
    all: IndexVec<SetId, OfferingSet>,
    ids: FxHashMap<Requirements, SetId>,
    /// Ids by the address of the entries of a set: resolved types often share them already.
    by_address: FxHashMap<usize, SetId>,
}

impl Sets {
    /// Returns the id of the set of `requirements`, and makes them share its memory.
    fn intern(&mut self, requirements: &mut Requirements) -> SetId {
        // A set keeps its entries alive, so an address that is known here still means the same entries.
        if let Some(&id) = self.by_address.get(&requirements.address()) {
            return id;
        }
        let id = *self.ids.entry(requirements.clone()).or_insert_with(|| {
            let capacity_type = requirements.single(labels::CAPACITY_TYPE);
            self.all.push(OfferingSet {
                requirements: requirements.clone(),
                spot: capacity_type == Some("spot"),
                reserved: capacity_type == Some("reserved"),
            })
        });
        requirements.clone_from(&self.all[id].requirements);
        self.by_address.insert(requirements.address(), id);
        id
    }
}

/// A column while types are added to it.
struct Growing<'t> {
    key: &'t Arc<str>,
    column: LabelColumn,
    ids: FxHashMap<Option<&'t Requirement>, u32>,
}

impl<'t> Growing<'t> {
    fn new(key: &'t Arc<str>) -> Self {
        Self { key, column: LabelColumn::default(), ids: FxHashMap::default() }
    }

    /// Marks the types before number `end` that were skipped as not having the label.
    fn skip_to(&mut self, end: usize) {
        while self.column.of_type.len() < end {
            self.push(None);
        }
    }

    fn push(&mut self, requirement: Option<&'t Requirement>) {
        let id = *self.ids.entry(requirement).or_insert_with(|| {
            self.column.distinct.push(requirement.cloned());
            self.column.distinct.len() as u32 - 1
        });
        self.column.of_type.push(id);
    }
}

fn columns(types: &[InstanceType]) -> Vec<(Arc<str>, LabelColumn)> {
    let mut columns: Vec<Growing<'_>> = Vec::new();
    for (number, one) in types.iter().enumerate() {
        let mut at = 0;
        for (key, requirement) in one.requirements.iter() {
            // Both are sorted, and most types have the same labels: the column is nearly always the next one.
            while columns.get(at).is_some_and(|known| known.key < key) {
                at += 1;
            }
            if columns.get(at).is_none_or(|known| known.key != key) {
                columns.insert(at, Growing::new(key));
            }
            columns[at].skip_to(number);
            columns[at].push(Some(requirement));
        }
    }
    let finish = |mut one: Growing<'_>| {
        one.skip_to(types.len());
        (Arc::clone(one.key), one.column)
    };
    columns.into_iter().map(finish).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Offering, Operator};

    fn of(key: &str, value: &str) -> (String, Requirement) {
        (key.to_owned(), Requirement::new(Operator::In, [value]))
    }

    fn instance_type(name: &str, labels: &[(&str, &str)], zones: &[&str]) -> InstanceType {
        let offering = |zone: &&str| Offering {
            requirements: [of(labels::ZONE, zone), of(labels::CAPACITY_TYPE, "spot")].into_iter().collect(),
            price: (*zone != "c").then_some(1.0),
            available: true,
            reservation_capacity: 0,
        };
        InstanceType {
            name: name.into(),
            requirements: labels.iter().map(|(key, value)| of(key, value)).collect(),
            capacity: Resources::from_iter([(Resource::Cpu, 2000), (Resource::Pods, 10)]),
            overhead: Resources::from_iter([(Resource::Cpu, 100), (Resource::Memory, 1)]),
            offerings: zones.iter().map(offering).collect(),
        }
    }

    #[test]
    fn what_types_share_is_found_once() {
        let types =
            vec![instance_type("x", &[("b", "1")], &["a", "c"]), instance_type("y", &[("a", "2"), ("b", "1")], &["a"])];
        let catalogue = Catalogue::new(types.clone());
        assert_eq!(catalogue.types(), types);
        assert_eq!(catalogue.sets().len(), 2, "zones a and c");
        let offers = |index| {
            catalogue
                .offers(index)
                .iter()
                .map(|offer| (offer.number, index_vec::Idx::index(offer.set)))
                .collect::<Vec<_>>()
        };
        assert_eq!((offers(0), offers(1)), (vec![(0, 0)], vec![(0, 0)]), "one without a price is left out");
        let column = |key| catalogue.column(key).map(|column| (column.of_type.clone(), column.distinct.len()));
        assert_eq!(column("a"), Some((vec![0, 1], 2)));
        assert_eq!(column("b"), Some((vec![0, 0], 1)));
        assert_eq!(column("c"), None);
        assert_eq!(catalogue.resources(), [Resource::Cpu, Resource::Pods]);
        assert_eq!(catalogue.allocatable(1), [1900, 10]);
    }

    #[test]
    fn an_edit_leaves_other_owners_alone() {
        let mut catalogue: Catalogue = [instance_type("x", &[], &["a"])].into_iter().collect();
        let before = catalogue.clone();
        catalogue.edit(|types| types[0].offerings[0].available = false);
        assert_ne!(catalogue, before);
        assert!(catalogue.offers(0).is_empty() && before.offers(0).len() == 1);
    }

    #[test]
    fn an_overlay_remembers_the_types_of_the_cloud() {
        let plain: Catalogue = [instance_type("x", &[], &["a"]), instance_type("y", &[], &["a"])].into_iter().collect();
        let mut catalogue = plain.clone();
        assert!(catalogue.is_made_of(&plain) && !catalogue.has_other_price(0));
        let gpu = Resource::new("example.com/gpu");
        catalogue.overlay(|types| types[0].offerings[0].price = Some(0.5));
        catalogue.overlay(|types| types[1].capacity.set(gpu.clone(), 8));
        catalogue.edit(|types| types[1].offerings[0].available = false);
        assert!(catalogue.is_made_of(&plain), "an edit does not forget them");
        assert_eq!((catalogue.has_other_price(0), catalogue.has_other_price(1)), (true, false));
        assert!(catalogue.other_capacity(0).is_empty());
        assert_eq!(catalogue.other_capacity(1), Resources::from_iter([(gpu, 8)]));
        assert_eq!(catalogue.plain(0), Some(&plain[0]));
        assert_ne!(catalogue, plain);
    }
}
