//! Warnings about input that silently changes what a plan may launch: no NodePool, missing classes, classes without
//! their subnets, and zones of another region.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use muster_api::likeness::nearest_of;
use muster_aws::Region;
use muster_manifest::{Manifests, NodeClass, NodePool};
use muster_scheduling::labels::ZONE;
use muster_scheduling::model::Problem;
use serde_json::Value;

use super::types::Supply;

/// Maximum number of zones in a message.
const ZONES: usize = 4;

/// Returns the warnings, one line each. With `--catalog` classes have no effect, so only the first applies.
pub(super) fn warnings(manifests: &Manifests, problem: &Problem, supply: &Supply) -> Vec<String> {
    let mut warnings = Vec::new();
    if problem.pools.is_empty() && !problem.pods.is_empty() {
        let add = "add NodePools and their EC2NodeClasses with `-f`, or read them with `--cluster`";
        warnings.push(format!("there is no NodePool in the input, so no node can be launched: {add}"));
    }
    let Supply::Embedded { region, ec2, .. } = supply else { return warnings };
    let regions = Regions { used: region, all: ec2.regions() };
    let pools: Vec<&NodePool> = manifests.node_pools.iter().filter(|pool| !pool.meta.deleting).collect();
    let mut used: BTreeMap<(&str, &str), (&NodeClass, Vec<&NodePool>)> = BTreeMap::new();
    for pool in &pools {
        let class = manifests.node_classes.iter().find(|it| *it.kind == *pool.class.kind && it.name == pool.class.name);
        match class {
            Some(class) => used.entry((class.kind, &*class.name)).or_insert((class, Vec::new())).1.push(pool),
            None => warnings.push(missing_class(pool, manifests, region)),
        }
    }
    for (class, pools) in used.values().filter(|(class, _)| class.kind == "EC2NodeClass") {
        warnings.extend(regions.class_warning(class, pools));
    }
    warnings.extend(pools.iter().filter_map(|pool| regions.pool_warning(pool)));
    warnings
}

fn missing_class(pool: &NodePool, manifests: &Manifests, region: &Region) -> String {
    let (kind, name) = (&pool.class.kind, &pool.class.name);
    let known = manifests.node_classes.iter().filter(|class| *class.kind == **kind).map(|class| &*class.name);
    let add = match nearest_of(known, name) {
        Some(nearest) => format!("did you mean `{nearest}`?"),
        None => "add it with `-f`".to_owned(),
    };
    format!(
        "NodePool `{}` refers to {kind} `{name}`, which is not in the input; default settings and every zone of {} are \
         assumed: {add}",
        pool.meta.name,
        region.name()
    )
}

/// The region of the catalogue, and all that the catalogue knows.
struct Regions<'r> {
    used: &'r Region,
    all: &'r [Region],
}

impl Regions<'_> {
    /// Returns the warning about the zones of a class that `pools` use.
    fn class_warning(&self, class: &NodeClass, pools: &[&NodePool]) -> Option<String> {
        let subnets = class.object.pointer("/status/subnets").and_then(Value::as_array);
        let zones: BTreeSet<&str> =
            subnets.into_iter().flatten().filter_map(|subnet| subnet.get("zone").and_then(Value::as_str)).collect();
        if zones.is_empty() {
            // Pools that select zones do not depend on those of the class.
            let needed = pools.iter().any(|pool| zones_of(pool).is_none());
            return needed.then(|| {
                format!(
                    "EC2NodeClass `{name}` has no `status.subnets`, so every zone of {region} is assumed: add its \
                     status as the cluster has it (`kubectl get ec2nodeclass {name} -o yaml`)",
                    name = class.name,
                    region = self.used.name()
                )
            });
        }
        let advice = self.elsewhere(&zones)?;
        Some(format!("EC2NodeClass `{}` has subnets only in {advice}", class.name))
    }

    /// Returns the warning about the zones that a pool allows.
    fn pool_warning(&self, pool: &NodePool) -> Option<String> {
        let zones = zones_of(pool)?;
        let advice = self.elsewhere(&zones.iter().map(|zone| &**zone).collect())?;
        Some(format!("NodePool `{}` allows only {advice}", pool.meta.name))
    }

    /// Returns the zones with advice if none of them is in the region.
    fn elsewhere(&self, zones: &BTreeSet<&str>) -> Option<String> {
        let has = |region: &Region| region.zones().iter().any(|zone| zones.contains(&**zone));
        if zones.is_empty() || has(self.used) {
            return None;
        }
        let mut names = zones.iter().take(ZONES).copied().collect::<Vec<_>>().join(", ");
        if zones.len() > ZONES {
            names.push_str(", …");
        }
        let advice = match self.all.iter().find(|region| has(region)) {
            Some(region) => format!("use `--region {}`", region.name()),
            None => "use `--region` with the region of the cluster".to_owned(),
        };
        let noun = if zones.len() == 1 { "zone" } else { "zones" };
        Some(format!("{noun} {names}, which {} does not have: {advice}", self.used.name()))
    }
}

/// Returns the zones that a pool's requirements allow; `None` if they do not name any.
fn zones_of(pool: &NodePool) -> Option<BTreeSet<Arc<str>>> {
    let wanted = pool.requirements.iter().find(|(key, wanted)| &**key == ZONE && wanted.is_finite())?;
    Some(wanted.1.values().cloned().collect())
}

#[cfg(test)]
mod tests {
    use super::super::progress::Progress;
    use super::super::settings::CatalogueSource;
    use super::*;
    use muster_manifest as manifest;

    const CLASS: &str = "---\napiVersion: karpenter.k8s.aws/v1\nkind: EC2NodeClass\nmetadata: {name: default}\nspec:\n  \
                         role: r\n  amiSelectorTerms: [{alias: al2023@latest}]\n  subnetSelectorTerms: [{id: subnet-1}]\n  \
                         securityGroupSelectorTerms: [{id: sg-1}]\n";

    fn pool(class: &str, zones: &str) -> String {
        let requirements = match zones {
            "" => String::new(),
            zones => format!("{{key: topology.kubernetes.io/zone, operator: In, values: [{zones}]}}"),
        };
        format!(
            "---\napiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {{name: general}}\nspec:\n  template:\n    \
             spec:\n      nodeClassRef: {{group: karpenter.k8s.aws, kind: EC2NodeClass, name: {class}}}\n      \
             requirements: [{requirements}]\n"
        )
    }

    fn told(text: &str) -> Vec<String> {
        let manifests = manifest::read_text("input.yaml", text).unwrap();
        let source = CatalogueSource::Embedded { region: "us-west-2".to_owned(), prices: Vec::new() };
        let supply = Supply::open(&source, &mut Progress::new(false)).unwrap();
        warnings(&manifests, &Problem::default(), &supply)
    }

    #[test]
    fn classes_and_zones_that_change_a_plan_are_named() {
        let subnet = |zone: &str| format!("{CLASS}status: {{subnets: [{{id: subnet-1, zone: {zone}}}]}}\n");
        let all = [
            pool("default", ""),
            pool("defalt", "") + CLASS,
            pool("default", "") + CLASS,
            pool("default", "us-west-2a") + CLASS,
            pool("default", "") + &subnet("us-west-2a"),
            pool("default", "") + &subnet("eu-west-1a"),
            pool("default", "eu-west-1b, eu-west-1a") + &subnet("us-west-2a"),
            pool("default", "nowhere-1a") + CLASS,
        ];
        let all: Vec<String> = all.iter().map(|text| told(text).join("\n")).collect();
        insta::assert_snapshot!(all.join("\n\n"), @r"
        NodePool `general` refers to EC2NodeClass `default`, which is not in the input; default settings and every zone of us-west-2 are assumed: add it with `-f`

        NodePool `general` refers to EC2NodeClass `defalt`, which is not in the input; default settings and every zone of us-west-2 are assumed: did you mean `default`?

        EC2NodeClass `default` has no `status.subnets`, so every zone of us-west-2 is assumed: add its status as the cluster has it (`kubectl get ec2nodeclass default -o yaml`)





        EC2NodeClass `default` has subnets only in zone eu-west-1a, which us-west-2 does not have: use `--region eu-west-1`

        NodePool `general` allows only zones eu-west-1a, eu-west-1b, which us-west-2 does not have: use `--region eu-west-1`

        NodePool `general` allows only zone nowhere-1a, which us-west-2 does not have: use `--region` with the region of the cluster
        ");
    }
}
