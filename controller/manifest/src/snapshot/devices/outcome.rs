//! Place of a pod with claims: what it takes of a node, and which nodes have that.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_scheduling::model::{InstanceType, PodSpec, Problem, Requirements, SpecId};
use rustc_hash::FxHashMap;

use super::demand::{Demand, Lack, combinations, evaluate, hopeless};
use super::stock::Stock;
use super::uses::{Use, Uses};
use crate::{DeviceClaimSpec, Located};

/// Consequence of its claims for a pod.
#[derive(Debug, Clone, Default)]
pub(super) struct Outcome {
    /// Devices that it takes.
    pub(super) demand: Demand,
    /// Instance types that have them; none if its claims do not limit them.
    pub(super) types: Option<Vec<Arc<str>>>,
    /// Host name of the node that has the devices which are allocated to it.
    pub(super) host: Option<Arc<str>>,
    /// Reason why no node can have them.
    pub(super) refusal: Option<String>,
}

/// Devices that claims take, and the instance types that have them.
type Found = Result<(Demand, Vec<Arc<str>>), String>;

/// Outcomes of the pods of a snapshot.
pub(super) struct Outcomes<'u, 'm> {
    uses: &'u Uses<'m>,
    stock: &'u Stock<'m>,
    specs: FxHashMap<&'m DeviceClaimSpec, usize>,
    /// Results for pods that do not run yet, by their distinct claims and other constraints.
    known: FxHashMap<(Vec<usize>, SpecId), Found>,
}

impl<'u, 'm> Outcomes<'u, 'm> {
    pub(super) fn new(uses: &'u Uses<'m>, stock: &'u Stock<'m>) -> Self {
        Self { uses, stock, specs: FxHashMap::default(), known: FxHashMap::default() }
    }

    /// Returns the outcome of a pod, whose other constraints are `spec`.
    pub(super) fn of(&mut self, pod: &str, problem: &Problem, spec: SpecId) -> Outcome {
        let is_running = self.uses.is_running(pod);
        let uses = match self.uses.of(pod) {
            Ok(uses) => uses,
            Err(_) if is_running => return Outcome::default(),
            Err(why) => return Outcome { refusal: Some(why.to_owned()), ..Outcome::default() },
        };
        let mut demand = Demand::default();
        let carried = || uses.iter().filter(|one| self.uses.carries(pod, one));
        carried().filter_map(|one| one.allocation).for_each(|one| demand.add(&self.stock.allocated(one)));
        if is_running {
            return self.running(&carried().collect::<Vec<_>>(), demand, problem, spec);
        }
        let mut outcome = Outcome { demand, ..Outcome::default() };
        for one in uses {
            let Some(allocation) = one.allocation else { continue };
            match self.host(allocation.located.clone()) {
                Ok(None) => {}
                Ok(Some(host)) if outcome.host.as_ref().is_none_or(|other| *other == host) => outcome.host = Some(host),
                Ok(Some(_)) => outcome.refusal = Some("its claims are allocated on different nodes".to_owned()),
                Err(why) => outcome.refusal = Some(format!("{} {why}", one.title)),
            }
        }
        let open: Vec<&Use<'m>> =
            carried().filter(|one| one.allocation.is_none() && !one.spec.requests.is_empty()).collect();
        if open.is_empty() {
            return outcome;
        }
        match self.choose(&open, problem, spec) {
            Ok((more, types)) => {
                outcome.demand.add(&more);
                outcome.types = Some(types);
            }
            Err(why) => outcome.refusal = Some(why),
        }
        outcome
    }

    /// Returns the outcome of a pod on a node, which has its devices. Elsewhere it takes as many; if nothing is known
    /// of those that it has, what it requests.
    fn running(&self, uses: &[&Use<'m>], demand: Demand, problem: &Problem, spec: SpecId) -> Outcome {
        let has_own = |one: &&&Use<'_>| one.allocation.is_some_and(|one| one.devices.iter().any(|it| !it.is_admin));
        let uses: Vec<&Use<'m>> = uses.iter().filter(has_own).copied().collect();
        if uses.is_empty() {
            return Outcome { demand, ..Outcome::default() };
        }
        let wanted = (!demand.devices.is_empty()).then_some(&demand);
        match self.search(&uses, wanted, problem, &problem.specs[spec]) {
            Ok((demand, types)) => Outcome { demand, types: Some(types), ..Outcome::default() },
            Err(why) => Outcome { demand, refusal: Some(why), ..Outcome::default() },
        }
    }

    fn host(&self, located: Located) -> Result<Option<Arc<str>>, String> {
        match located {
            Located::Anywhere => Ok(None),
            Located::Node(node) => match self.stock.host(&node) {
                Some(host) => Ok(Some(host)),
                None => Err(format!("is allocated on node `{node}`, which is gone")),
            },
            Located::Selected => Err("is allocated to devices that several nodes reach".to_owned()),
        }
    }

    fn choose(&mut self, uses: &[&Use<'m>], problem: &Problem, spec: SpecId) -> Found {
        let mut key = Vec::with_capacity(uses.len());
        for one in uses {
            let next = self.specs.len();
            key.push(*self.specs.entry(one.spec).or_insert(next));
        }
        let key = (key, spec);
        if let Some(found) = self.known.get(&key) {
            return found.clone();
        }
        let found = self.search(uses, None, problem, &problem.specs[spec]);
        self.known.insert(key, found.clone());
        found
    }

    /// Returns the devices of the first combination of alternatives for which an instance type is offered; with
    /// `wanted`, of the first one that takes that many.
    fn search(&self, uses: &[&Use<'m>], wanted: Option<&Demand>, problem: &Problem, spec: &PodSpec) -> Found {
        let title = uses.iter().map(|one| one.title.as_str()).collect::<Vec<_>>().join(", ");
        let claims: Vec<&DeviceClaimSpec> = uses.iter().map(|one| &**one.spec).collect();
        if claims.iter().flat_map(|claim| &claim.constraints).any(|constraint| constraint.same.is_none()) {
            return Err(format!("{title}: of constraints only `matchAttribute` is looked at"));
        }
        let Some(combinations) = combinations(&claims, |alternative| self.stock.id(alternative)) else {
            return Err(format!("{title}: there are too many combinations of alternatives"));
        };
        let market = Market::new(problem, spec);
        let mut not_offered = None;
        let mut broken = None;
        let mut lack: Option<Lack> = None;
        for choices in combinations {
            if let Some((request, why)) = hopeless(&choices, |id| self.stock.problem(id)) {
                broken.get_or_insert_with(|| format!("request `{}`: {why}", request.name));
                continue;
            }
            let mut found: BTreeMap<Demand, Vec<Arc<str>>> = BTreeMap::new();
            for (name, supplies) in self.stock.types() {
                let evaluated =
                    supplies.iter().map(|one| evaluate(one, &choices, &claims, self.stock.grouping.as_ref()));
                let mut evaluated: Vec<Result<Demand, Lack>> = evaluated.collect();
                evaluated.dedup();
                match (evaluated.pop(), evaluated.is_empty()) {
                    (Some(Ok(demand)), true) => found.entry(demand).or_default().push(Arc::clone(name)),
                    (Some(Err(why)), _) => lack = lack.take().max(Some(why)),
                    _ => {}
                }
            }
            for (demand, types) in found {
                match wanted {
                    Some(wanted) if wanted.devices == demand.devices => return Ok((demand, types)),
                    None if types.iter().any(|name| market.offers(name)) => return Ok((demand, types)),
                    None => drop(not_offered.get_or_insert((demand, types))),
                    Some(_) => {}
                }
            }
        }
        // The engine says why the types are not offered.
        not_offered.ok_or_else(|| {
            let nothing = match wanted {
                Some(_) => "no instance type has as many devices as it has now",
                None => "no instance type of the NodePools is known to have devices",
            };
            let why = broken.or_else(|| lack.map(|lack| lack.describe()));
            format!("{title}: {}", why.unwrap_or_else(|| nothing.to_owned()))
        })
    }
}

/// Offerings that the pools have for a pod.
struct Market<'p> {
    pools: Vec<(&'p [InstanceType], Requirements)>,
    spec: &'p PodSpec,
}

impl<'p> Market<'p> {
    fn new(problem: &'p Problem, spec: &'p PodSpec) -> Self {
        let tolerates = |taint| spec.tolerations.iter().any(|toleration| toleration.tolerates(taint));
        let pools = problem.pools.iter().filter(|pool| {
            pool.missing_replicas.is_none() && pool.taints.iter().all(|taint| !taint.repels() || tolerates(taint))
        });
        let merged = pools.map(|pool| {
            let mut requirements = pool.requirements.clone();
            requirements.add_all(&spec.node_selector);
            (problem.catalogues[pool.catalogue].types(), requirements)
        });
        Self { pools: merged.collect(), spec }
    }

    /// Returns true if a pool can launch a type on which the pod fits, apart from its devices.
    fn offers(&self, name: &str) -> bool {
        self.pools.iter().any(|(types, requirements)| {
            types.iter().find(|one| &*one.name == name).is_some_and(|one| {
                let terms = &self.spec.node_terms;
                one.requirements.intersects(requirements)
                    && (terms.is_empty() || terms.iter().any(|term| one.requirements.intersects(term)))
                    && one.offerings.iter().any(|one| one.launchable() && one.requirements.intersects(requirements))
                    && self.spec.requests.first_shortage(&one.allocatable()).is_none()
            })
        })
    }
}
