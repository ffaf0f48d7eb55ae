//! Checks of one pod against the instance types of one pool: requirements, host ports, resources, offerings, minValues,
//! limits.

use std::collections::BTreeSet;
use std::sync::Arc;

use fixedbitset::FixedBitSet;

use super::census::{Admitted, Census, TypeView};
use super::finding::{Finding, Stage};
use super::{judge, purchase, volumes, wording};
use crate::labels;
use crate::model::{
    Conflict, InstanceType, MinValuesPolicy, Operator, PodSpec, Requirement, Requirements, Resource, Resources,
};
use crate::solution::Reason;

/// Returns the types of the pool that hold a pod of `spec` under `required` and can be bought, as indices in its
/// catalogue.
pub(super) fn fitting(
    census: &Census<'_>,
    pool: usize,
    spec: &PodSpec,
    required: &Requirements,
) -> Result<Vec<usize>, Finding> {
    let check = Check { census, pool, spec, required };
    let admitted = census.admitted(pool, required, || check.admitted());
    let types = &census.view(pool).types;
    if admitted.meeting.is_clear() {
        return Err(check.nothing_meets());
    }
    let ported = check.host_ports(admitted.meeting.ones().map(|position| &types[position]).collect())?;
    let holding = check.resources(volumes::attachable(census, pool, spec, ported)?)?;
    let (bought, unavailable): (Vec<&TypeView>, Vec<&TypeView>) =
        holding.into_iter().partition(|candidate| admitted.bought.contains(candidate.position));
    if bought.is_empty() {
        return Err(purchase::nothing_offered(census, pool, required, &unavailable));
    }
    check.min_values(&bought)?;
    let within = purchase::within_limits(census, pool, bought)?;
    check.min_values(&within)?;
    Ok(within.into_iter().map(|candidate| candidate.index).collect())
}

/// Returns the type of `candidate`.
pub(super) fn named<'c>(census: &'c Census<'_>, pool: usize, candidate: &TypeView) -> &'c InstanceType {
    &census.problem.catalogues[census.problem.pools[pool].catalogue][candidate.index]
}

/// The operating system that needs a NodeClass of its own.
const WINDOWS: &str = "windows";

struct Check<'c, 'a> {
    census: &'c Census<'a>,
    pool: usize,
    spec: &'c PodSpec,
    required: &'c Requirements,
}

impl<'c> Check<'c, '_> {
    fn type_of(&self, candidate: &TypeView) -> &'c InstanceType {
        named(self.census, self.pool, candidate)
    }

    /// Returns true if the type can have a value of `key` that `wanted` allows. Zone and capacity type depend on
    /// offerings.
    fn meets(&self, candidate: &TypeView, key: &str, wanted: &Requirement) -> bool {
        let suits = |requirements: &Requirements| {
            requirements
                .get(key)
                .is_none_or(|it| it.overlaps(wanted) || (it.allows_absence() && wanted.allows_absence()))
        };
        match key {
            labels::ZONE | labels::CAPACITY_TYPE => {
                self.type_of(candidate).offerings.iter().any(|offering| suits(&offering.requirements))
            }
            _ => suits(&self.type_of(candidate).requirements),
        }
    }

    fn admitted(&self) -> Admitted {
        let types = &self.census.view(self.pool).types;
        let mut meeting = FixedBitSet::with_capacity(types.len());
        let mut bought = meeting.clone();
        // Zone and capacity type are checked with the offerings, unless no type has a suitable one at all.
        let offered = |key: &str| [labels::ZONE, labels::CAPACITY_TYPE].contains(&key);
        let impossible = self.impossible().is_some();
        for candidate in types.iter().filter(|_| !impossible) {
            let mut own = self.required.iter().filter(|(key, _)| !offered(key));
            meeting.set(candidate.position, own.all(|(key, wanted)| self.meets(candidate, key, wanted)));
            let it = self.type_of(candidate);
            let buys = |it: &InstanceType, offering| purchase::buys(self.census, it, offering);
            let mut usable = it.offerings.iter().filter(|offering| self.required.intersects(&offering.requirements));
            bought.set(candidate.position, usable.any(|offering| buys(it, offering)));
        }
        Admitted { meeting, bought }
    }

    /// Returns the first requirement that no type of the pool meets.
    fn impossible(&self) -> Option<(&'c Arc<str>, &'c Requirement)> {
        let types = &self.census.view(self.pool).types;
        self.required.iter().find(|(key, wanted)| !types.iter().any(|candidate| self.meets(candidate, key, wanted)))
    }

    fn nothing_meets(&self) -> Finding {
        let types = &self.census.view(self.pool).types;
        if let Some((key, wanted)) = self.impossible() {
            return self.no_value(key, wanted);
        }
        let failed = |candidate: &&TypeView| {
            let failed = self.required.iter().filter(|(key, wanted)| !self.meets(candidate, key, wanted));
            failed.map(|(key, _)| Arc::clone(key)).collect::<Vec<_>>()
        };
        let nearest = types.iter().map(|candidate| (failed(&candidate), candidate)).min_by_key(|(keys, _)| keys.len());
        let message = "no instance type met all requirements, each can be met but not together".to_owned();
        let finding = Finding::new(Stage::Types, Reason::IncompatibleRequirements, message);
        let Some((keys, candidate)) = nearest else { return finding };
        let keys = wording::list(keys, ", ");
        let name = &self.type_of(candidate).name;
        finding.near(format!("{name} misses {keys}")).hint(format!("loosen what the pod asks of {keys}"))
    }

    /// Returns the finding for a key of which no type of the pool has an allowed value.
    fn no_value(&self, key: &str, wanted: &Requirement) -> Finding {
        let there = self.values(key);
        let finding = judge::disjoint(Stage::Types, key, wanted, &there);
        let message = format!("no instance type met all requirements, {}", finding.message);
        let finding = Finding { message, ..finding };
        if key == labels::OS && wanted.has(WINDOWS) {
            let hint = "add a nodepool whose EC2NodeClass has Windows images, such as `amiSelectorTerms: [{alias: windows2022@latest}]`";
            return finding.hint(hint.to_owned());
        }
        let has = |it: &InstanceType| it.requirements.get(key).is_some_and(|there| there.overlaps(wanted));
        let finding = match self.elsewhere(has) {
            Some((near, hint)) => finding.near(near).hint(hint),
            None => finding.hint(format!("change what the pod asks of {key}")),
        };
        judge::corrected(self.census, self.spec, finding, (key, wanted, &there))
    }

    /// Returns every value of `key` that some type of the pool has.
    fn values(&self, key: &str) -> Requirement {
        let types = self.census.view(self.pool).types.iter().map(|candidate| self.type_of(candidate));
        let offered = |it: &'c InstanceType| it.offerings.iter().filter_map(|it| it.requirements.get(key));
        let sources = types.flat_map(|it| it.requirements.get(key).into_iter().chain(offered(it)));
        Requirement::new(Operator::In, sources.filter(|it| it.is_finite()).flat_map(|it| it.values()).cloned())
    }

    fn host_ports(&self, candidates: Vec<&'c TypeView>) -> Result<Vec<&'c TypeView>, Finding> {
        let problem = self.census.problem;
        let clash = |candidate: &TypeView| {
            candidate.daemons.iter().map(|daemon| &problem.daemons[*daemon]).find_map(|daemon| {
                let taken = &problem.specs[daemon.spec].host_ports;
                let port = self.spec.host_ports.iter().find(|port| taken.iter().any(|taken| taken.conflicts(port)))?;
                Some((daemon, port))
            })
        };
        let (free, taken): (Vec<&TypeView>, Vec<&TypeView>) =
            candidates.into_iter().partition(|it| clash(it).is_none());
        let Some((daemon, port)) = taken.first().filter(|_| free.is_empty()).and_then(|candidate| clash(candidate))
        else {
            return Ok(free);
        };
        let port = wording::port(port);
        let message =
            format!("checking host port usage, port {port} is taken by daemonset {} on every node", daemon.name);
        Err(Finding::new(Stage::HostPorts, Reason::HostPort, message)
            .hint(format!("use another hostPort than {port}, or none")))
    }

    fn resources(&self, candidates: Vec<&'c TypeView>) -> Result<Vec<&'c TypeView>, Finding> {
        let requests = &self.spec.requests;
        let fits = |candidate: &&TypeView| requests.first_shortage(&candidate.room).is_none();
        let holding: Vec<&TypeView> = candidates.iter().copied().filter(fits).collect();
        if !holding.is_empty() {
            return Ok(holding);
        }
        // A request of a million cores was probably meant in millicores.
        let typo = requests.get(&Resource::Cpu) >= 1_000_000_000;
        let suffix = if typo { " (CPU request >= 1 Million, m vs M typo?)" } else { "" };
        let lacking = requests.iter().find(|(resource, wanted)| {
            *wanted > 0 && candidates.iter().all(|candidate| candidate.room.get(resource) < *wanted)
        });
        let message = format!("no instance type has enough resources{suffix}");
        let finding = Finding::new(Stage::Resources, Reason::Resources, message);
        Err(match lacking {
            Some((resource, wanted)) => self.too_small(finding, &candidates, resource, wanted),
            None => self.too_little(finding, &candidates),
        })
    }

    /// Returns the finding if no type has enough of `resource`.
    fn too_small(&self, finding: Finding, candidates: &[&TypeView], resource: &Resource, wanted: i64) -> Finding {
        let largest = candidates.iter().max_by_key(|it| (it.room.get(resource), std::cmp::Reverse(it.index)));
        let asked = wording::amount(resource, wanted);
        let most = largest.map_or(0, |it| it.room.get(resource));
        let has_any = candidates.iter().any(|it| self.type_of(it).capacity.get(resource) > 0);
        let elsewhere = self.elsewhere(|_| true);
        if !has_any {
            let message = format!("{}, resource {resource}: {asked} requested, none has any", finding.message);
            let hint = elsewhere.as_ref().map_or_else(
                || format!("add a nodepool with types that have {resource}, or drop the request"),
                |(_, hint)| hint.clone(),
            );
            // Such a pool ranks with pools of other labels.
            let finding = Finding { message, stage: Stage::Requirements, ..finding };
            return finding.near(elsewhere.map(|(near, _)| near)).hint(hint);
        }
        let message = format!(
            "{}, {resource}: {asked} requested, at most {} there",
            finding.message,
            wording::amount(resource, most.max(0))
        );
        let nearest = largest.map(|it| {
            let short = wording::amount(resource, wanted.saturating_sub(most));
            let problem = self.census.problem;
            let charged = it.daemons.iter().map(|daemon| &problem.specs[problem.daemons[*daemon].spec].requests);
            let after = if charged.clone().any(|it| it.get(resource) > 0) { " left by its daemons" } else { "" };
            let most = wording::amount(resource, most.max(0));
            format!("{} has {most} of {resource}{after}, {short} short", self.type_of(it).name)
        });
        let hint = match (&elsewhere, resource) {
            (_, Resource::Cpu) if finding.message.contains("typo") => "write the cpu request with m, not M".to_owned(),
            (Some((near, hint)), _) => format!("{hint} ({near})"),
            (None, Resource::EphemeralStorage) => format!(
                "request at most {} of {resource}, or give the nodes a larger volume (blockDeviceMappings of the EC2NodeClass)",
                wording::amount(resource, most.max(0))
            ),
            (None, _) => format!("request at most {} of {resource}", wording::amount(resource, most.max(0))),
        };
        Finding { message, ..finding }.near(nearest).hint(hint)
    }

    /// Returns the finding if each resource is available on some type, but no type has enough of all.
    fn too_little(&self, finding: Finding, candidates: &[&TypeView]) -> Finding {
        let shortages = |candidate: &TypeView| {
            let short = |(resource, wanted): (&Resource, i64)| {
                let short = wanted.saturating_sub(candidate.room.get(resource));
                (short > 0 && wanted > 0).then(|| (resource.clone(), short))
            };
            self.spec.requests.iter().filter_map(short).collect::<Vec<_>>()
        };
        // Fewest missing resources first, then the smallest missing part (in millionths, to use integers).
        let part = |short: &[(Resource, i64)]| {
            let millionths = |(resource, amount): &(Resource, i64)| {
                i128::from(*amount) * 1_000_000 / i128::from(self.spec.requests.get(resource).max(1))
            };
            short.iter().map(millionths).sum::<i128>()
        };
        let measured = candidates.iter().map(|candidate| (shortages(candidate), candidate));
        let nearest = measured.min_by_key(|(short, candidate)| (short.len(), part(short), candidate.index));
        let wanted = self.spec.requests.iter().filter(|(_, amount)| *amount > 0);
        let wanted = wording::list(wanted.map(|(it, amount)| format!("{it} {}", wording::amount(it, amount))), ", ");
        let message = format!("{}, none has all of {wanted}", finding.message);
        let nearest = nearest.map(|(short, candidate)| {
            let short = short.iter().map(|(it, amount)| format!("{} of {it}", wording::amount(it, *amount)));
            format!("{} is {} short", self.type_of(candidate).name, wording::list(short, ", "))
        });
        Finding { message, ..finding }
            .near(nearest)
            .hint("request less, or allow more instance types in the nodepool and the pod's selector".to_owned())
    }

    /// Returns the smallest type of the catalogue that satisfies `suits` and would hold the pod, but is excluded by one
    /// requirement of the pool or the pod.
    fn elsewhere(&self, suits: impl Fn(&InstanceType) -> bool) -> Option<(String, String)> {
        let pool = &self.census.problem.pools[self.pool];
        let catalogue = self.census.problem.catalogues.get(pool.catalogue)?;
        let holds = |it: &&InstanceType| self.spec.requests.first_shortage(&it.allocatable()).is_none();
        // One edit must be enough: types with a second conflict do not help.
        let excluded = catalogue.iter().filter(|it| suits(it)).filter(holds).filter_map(|it| {
            let Conflict::Disjoint { key, incoming, .. } = self.required.first_disjoint(&it.requirements)? else {
                return None;
            };
            let mut rest = self.required.clone();
            rest.remove(&key);
            rest.intersects(&it.requirements).then_some((it, key, incoming))
        });
        let (found, key, value) = excluded.min_by(|(a, ..), (b, ..)| {
            let size = |it: &InstanceType| (it.capacity.get(&Resource::Cpu), it.capacity.get(&Resource::Memory));
            size(a).cmp(&size(b)).then_with(|| a.name.cmp(&b.name))
        })?;
        let value = wording::requirement(&value);
        let near = format!("{} would hold it, excluded by {key}", found.name);
        let side =
            if pool.requirements.get(&key).is_some() { format!("nodepool {:?}", pool.name) } else { "the pod".into() };
        Some((near, format!("let {side} allow {key} {value}")))
    }

    fn min_values(&self, candidates: &[&TypeView]) -> Result<(), Finding> {
        if self.census.options.min_values == MinValuesPolicy::BestEffort {
            return Ok(());
        }
        for (key, required) in self.required.iter() {
            let Some(least) = required.min_values else { continue };
            let sources = candidates.iter().filter_map(|it| self.type_of(it).requirements.get(key));
            let values: BTreeSet<&Arc<str>> = sources.filter(|it| it.is_finite()).flat_map(|it| it.values()).collect();
            if values.len() >= usize::try_from(least).unwrap_or(usize::MAX) {
                continue;
            }
            let message = format!(
                "minValues requirement is not met for label(s) (label(s)=[{key}]): {} of {least} values left",
                values.len()
            );
            let nearest = format!("types that hold the pod have {key} [{}]", wording::list(&values, " "));
            let name = &self.census.problem.pools[self.pool].name;
            let hint = format!("lower minValues of {key} in nodepool {name:?} to {}, or loosen the pod", values.len());
            let finding = Finding::new(Stage::MinValues, Reason::MinValues, message);
            return Err(finding.near(nearest).hint(hint));
        }
        Ok(())
    }
}

/// Returns the rest of the pool's limits, by limited resource.
pub(super) fn left_of_limits(census: &Census<'_>, pool: usize) -> Option<Resources> {
    let limits = census.problem.pools[pool].limits.as_ref()?;
    let used = &census.view(pool).used;
    Some(limits.iter().map(|(it, limit)| (it.clone(), limit.saturating_sub(used.get(it)))).collect())
}
