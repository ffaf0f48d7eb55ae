//! Instance types as columns: equal requirements are compared once, and types that the plan does not use are not read.

use fixedbitset::FixedBitSet;
use index_vec::{Idx, IndexVec};
use rustc_hash::FxHashMap;

use super::specs::{Placement, Specs, add_row, fits, intern, joined};
use crate::index::index_type;
use crate::labels::WELL_KNOWN;
use crate::model::{HostPort, InstanceType, NodePool, PoolState, Problem, Requirement, Requirements};

index_type! {
    /// Position in [`Column::distinct`].
    pub(crate) struct LabelId;
}

index_type! {
    /// Position in [`Catalogue::terms`].
    struct TermId;
}

index_type! {
    /// Position of a set of daemons in [`Overheads`].
    pub(crate) struct DaemonsId;
}

/// The labels of one key over a catalogue.
struct Column<'a> {
    distinct: IndexVec<LabelId, Option<&'a Requirement>>,
    of_type: Vec<LabelId>,
}

/// A set of instance types.
pub(crate) struct Catalogue<'a> {
    /// All types.
    pub(crate) types: &'a [InstanceType],
    /// Types that the plan uses: other fields and results by type are valid for these only.
    named: Vec<usize>,
    allocatable: Vec<i64>,
    columns: FxHashMap<&'a str, Column<'a>>,
    /// Distinct requirements of offerings.
    terms: IndexVec<TermId, &'a Requirements>,
    /// Launchable offerings of each type.
    offers: Vec<Vec<Offer>>,
}

/// A launchable offering.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Offer {
    /// Index in the type's offerings.
    pub(crate) index: usize,
    term: TermId,
    price: f64,
    reserved: bool,
}

/// Possible launches under one set of requirements.
pub(crate) struct Launches {
    /// True if the labels of the type can meet the requirements, by type.
    pub(crate) admitted: Vec<bool>,
    /// Price of the cheapest launch without a reservation, by type; infinite if there is none.
    pub(crate) open: Vec<f64>,
    /// Price of the cheapest launch, reservations included, by type; infinite if there is none.
    pub(crate) any: Vec<f64>,
}

/// Requests and ports of a pool's daemons, by type.
pub(crate) struct Overheads {
    /// Room left for pods, one row per type.
    pub(crate) room: Vec<i64>,
    /// Daemons of each type.
    pub(crate) daemons: Vec<DaemonsId>,
    /// Sum of the daemons' requests.
    pub(crate) requests: IndexVec<DaemonsId, Vec<i64>>,
    /// Ports of the daemons.
    pub(crate) ports: IndexVec<DaemonsId, Vec<HostPort>>,
}

impl<'a> Catalogue<'a> {
    /// Reads the named types.
    pub(crate) fn new(
        types: &'a [InstanceType],
        named: &FixedBitSet,
        specs: &Specs<'a>,
        reserved_allowed: bool,
    ) -> Self {
        let width = specs.resources.len();
        let mut allocatable = vec![0; types.len() * width];
        let mut ids = FxHashMap::default();
        let mut terms = IndexVec::new();
        let mut offers = vec![Vec::new(); types.len()];
        for at in named.ones() {
            let kind = &types[at];
            allocatable[at * width..(at + 1) * width].copy_from_slice(&specs.row(&kind.allocatable()));
            let launchable: &mut Vec<Offer> = &mut offers[at];
            for (index, offering) in kind.offerings.iter().enumerate() {
                let reserved = offering.capacity_type() == Some("reserved");
                if !offering.launchable() || reserved && !(reserved_allowed && offering.reservation_capacity > 0) {
                    continue;
                }
                let term = intern(&mut ids, &mut terms, &offering.requirements);
                launchable.push(Offer { index, term, price: offering.price.unwrap_or(f64::INFINITY), reserved });
            }
        }
        Self { types, named: named.ones().collect(), allocatable, columns: FxHashMap::default(), terms, offers }
    }

    /// Returns true if a launch defines `key` even if no pool lists it.
    pub(crate) fn defines(&self, key: &str) -> bool {
        WELL_KNOWN.contains(&key) || self.types.iter().any(|kind| kind.requirements.get(key).is_some())
    }

    fn column(&mut self, key: &'a str) -> &Column<'a> {
        let (types, named) = (self.types, &self.named);
        self.columns.entry(key).or_insert_with(|| {
            let mut ids = FxHashMap::default();
            let mut distinct = IndexVec::new();
            let mut of_type = vec![LabelId::from_usize(0); types.len()];
            for &at in named {
                of_type[at] = intern(&mut ids, &mut distinct, types[at].requirements.get(key));
            }
            Column { distinct, of_type }
        })
    }

    /// True if the type is named, by type.
    fn is_named(&self) -> Vec<bool> {
        let mut named = vec![false; self.types.len()];
        self.named.iter().for_each(|&at| named[at] = true);
        named
    }

    /// Returns the result of `judge` for each distinct requirement on `key`, and the index of the requirement of each
    /// type.
    pub(crate) fn judged<T>(
        &mut self,
        key: &'a str,
        judge: impl FnMut(Option<&'a Requirement>) -> T,
    ) -> (IndexVec<LabelId, T>, &[LabelId]) {
        let column = self.column(key);
        (column.distinct.iter().copied().map(judge).collect(), &column.of_type)
    }

    /// Returns the possible launches under `requirements`.
    pub(crate) fn launches(&mut self, requirements: &'a Requirements) -> Launches {
        let mut admitted = self.is_named();
        for (key, wanted) in requirements.iter() {
            let (meets, of_type) = self.judged(key, |there| {
                there.is_none_or(|there| wanted.overlaps(there) || (wanted.allows_absence() && there.allows_absence()))
            });
            for (admitted, &label) in admitted.iter_mut().zip(of_type) {
                *admitted = *admitted && meets[label];
            }
        }
        let meets: IndexVec<TermId, bool> = self.terms.iter().map(|term| requirements.intersects(term)).collect();
        let (mut open, mut any) = (vec![f64::INFINITY; admitted.len()], vec![f64::INFINITY; admitted.len()]);
        for (at, offers) in self.offers.iter().enumerate().filter(|(at, _)| admitted[*at]) {
            for offer in offers.iter().filter(|offer| meets[offer.term]) {
                any[at] = any[at].min(offer.price);
                if !offer.reserved {
                    open[at] = open[at].min(offer.price);
                }
            }
        }
        Launches { admitted, open, any }
    }

    /// Returns the launchable reserved offerings of type number `at`.
    pub(crate) fn reserved(&self, at: usize) -> impl Iterator<Item = Offer> {
        self.offers[at].iter().copied().filter(|offer| offer.reserved)
    }

    /// Returns true if offering `index` of type `at` can be launched.
    pub(crate) fn is_offered(&self, at: usize, index: usize) -> bool {
        self.offers[at].iter().any(|offer| offer.index == index)
    }

    /// Returns true for types on whose nodes in `pool` a daemon with these requirements runs.
    fn hosts(&mut self, pool: &'a NodePool, choice: &'a Requirements) -> Vec<bool> {
        let mut hosts = self.is_named();
        for (key, wanted) in choice.iter() {
            let of_pool = pool.requirements.get(key);
            let known = of_pool.is_some()
                || wanted.allows_absence()
                || is_simulated(key) && wanted.has("true")
                || self.defines(key);
            let (meets, of_type) = self.judged(key, |there| {
                let both = match (of_pool, there) {
                    (Some(a), Some(b)) => Some(a.intersection(b)),
                    (a, b) => a.or(b).cloned(),
                };
                known
                    && both
                        .is_none_or(|both| wanted.overlaps(&both) || (wanted.allows_absence() && both.allows_absence()))
            });
            for (hosts, &label) in hosts.iter_mut().zip(of_type) {
                *hosts = *hosts && meets[label];
            }
        }
        hosts
    }

    /// Returns the requests and ports of the daemons of `pool`, by type.
    pub(crate) fn overheads(
        &mut self,
        specs: &Specs<'a>,
        pool: &'a NodePool,
        choices: &'a [Vec<Requirements>],
    ) -> Overheads {
        let mut daemons_of = vec![Vec::new(); self.types.len()];
        for (daemon, choices) in specs.problem.daemons.iter().zip(choices) {
            if specs.repelled_by(specs.tolerance_id(daemon.spec), &pool.taints).is_some() {
                continue;
            }
            let mut hosts = vec![false; self.types.len()];
            for choice in choices {
                for (host, more) in hosts.iter_mut().zip(self.hosts(pool, choice)) {
                    *host |= more;
                }
            }
            for (daemons, _) in daemons_of.iter_mut().zip(hosts).filter(|(_, host)| *host) {
                daemons.push(daemon.spec);
            }
        }
        let width = specs.resources.len();
        let mut room = self.allocatable.clone();
        let mut ids: FxHashMap<Vec<usize>, DaemonsId> = FxHashMap::default();
        let mut sets = Vec::with_capacity(daemons_of.len());
        let (mut requests, mut ports) = (IndexVec::new(), IndexVec::new());
        for (at, daemons) in daemons_of.into_iter().enumerate() {
            let id = *ids.entry(daemons).or_insert_with_key(|daemons| {
                let mut sum = vec![0; width];
                daemons.iter().for_each(|&spec| add_row(&mut sum, specs.request(spec)));
                let all = daemons.iter().flat_map(|&spec| &specs.problem.specs[spec].host_ports);
                ports.push(all.copied().collect::<Vec<_>>());
                requests.push(sum)
            });
            for (room, taken) in room[at * width..(at + 1) * width].iter_mut().zip(&requests[id]) {
                *room = room.saturating_sub(*taken);
            }
            sets.push(id);
        }
        Overheads { room, daemons: sets, requests, ports }
    }
}

/// Returns true for labels that every node has once it is initialized; daemons may select them.
fn is_simulated(key: &str) -> bool {
    matches!(key, "karpenter.sh/registered" | "karpenter.sh/initialized")
}

/// Returns the alternatives of each daemon's selector and node affinity, without volumes and hostnames.
pub(crate) fn daemon_choices(problem: &Problem) -> Vec<Vec<Requirements>> {
    let choices = problem.daemons.iter().map(|daemon| {
        let spec = &problem.specs[daemon.spec];
        let mut choices =
            Placement { selector: &spec.node_selector, node_terms: &spec.node_terms, volume_terms: &[] }.choices();
        choices.iter_mut().for_each(|choice| choice.remove(crate::labels::HOSTNAME));
        choices
    });
    choices.collect()
}

/// Returns true if pods may open nodes of `pool`.
pub(crate) fn opens_for_pods(pool: &NodePool) -> bool {
    pool.state == PoolState::Ready && pool.missing_replicas.is_none()
}

/// Returns true if a pod alone could have a new node of `pool`; `within` returns true if the pool's limits leave room
/// for a type.
pub(crate) fn could_open(
    catalogue: &mut Catalogue<'_>,
    overheads: &Overheads,
    pool: &NodePool,
    (choice, request, ports): (&Requirements, &[i64], &[HostPort]),
    strict: bool,
    within: impl Fn(&InstanceType) -> bool,
) -> bool {
    let asked = choice.iter().all(|(key, wanted)| match key.as_ref() {
        crate::labels::HOSTNAME => wanted.allows_unheard(),
        key => pool.requirements.get(key).is_some() || wanted.allows_absence() || catalogue.defines(key),
    });
    let Some(requirements) = joined(&[&pool.requirements, choice]).filter(|_| asked) else { return false };
    let width = request.len();
    let fitting = catalogue.types.iter().enumerate().filter(|(at, kind)| {
        let ports_free =
            overheads.ports[overheads.daemons[*at]].iter().all(|taken| ports.iter().all(|port| !port.conflicts(taken)));
        fits(request, &overheads.room[at * width..(at + 1) * width])
            && ports_free
            && kind.requirements.intersects(&requirements)
            && catalogue.offers[*at]
                .iter()
                .any(|offer| !offer.reserved && requirements.intersects(catalogue.terms[offer.term]))
            && within(kind)
    });
    if !strict || requirements.iter().all(|(_, requirement)| requirement.min_values.is_none()) {
        return fitting.into_iter().next().is_some();
    }
    let fitting: Vec<&InstanceType> = fitting.map(|(_, kind)| kind).collect();
    !fitting.is_empty() && super::nodes::first_min_values_miss(&requirements, &fitting).is_none()
}
