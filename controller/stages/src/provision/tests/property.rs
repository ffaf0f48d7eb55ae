//! Whatever pools and pods say, claims are such as the API server takes, and rounds come to an end.

use std::collections::BTreeSet;

use muster_api::validation;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::fixture::{Cluster, marked, pool};

const KEYS: [&str; 9] = [
    "example.com/a",
    "b",
    "topology.kubernetes.io/zone",
    "karpenter.sh/capacity-type",
    "node.kubernetes.io/instance-type",
    "kubernetes.io/arch",
    "karpenter.k8s.aws/instance-cpu",
    "topology.ebs.csi.aws.com/zone",
    "karpenter.sh/strange",
];

fn values(key: &str) -> &'static [&'static str] {
    match key {
        "topology.kubernetes.io/zone" | "topology.ebs.csi.aws.com/zone" => &["a", "b", "c"],
        "karpenter.sh/capacity-type" => &["on-demand", "spot", "reserved"],
        "node.kubernetes.io/instance-type" => &["small", "large", "none"],
        "kubernetes.io/arch" => &["amd64", "arm64"],
        _ => &["1", "2", "4"],
    }
}

/// A requirement, as nodes or pools state it. Those of pools know more operators, and `minValues`.
fn requirement(keys: &'static [&'static str], of_pool: bool) -> impl Strategy<Value = Value> {
    let operators: &[&str] = &["In", "In", "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Gte", "Lte"];
    let operators = if of_pool { operators } else { &operators[..8] };
    let parts = (prop::sample::select(keys), prop::sample::select(operators), 1..4_usize, 0..6_i64, 0..3_u32);
    parts.prop_map(move |(key, operator, count, number, least)| {
        let known = &values(key)[..count.min(values(key).len())];
        let values = match operator {
            "In" | "NotIn" => json!(known),
            "Exists" | "DoesNotExist" => json!([]),
            _ if of_pool => json!([number.to_string()]),
            _ => json!([(number - 3).to_string()]),
        };
        let mut one = json!({"key": key, "operator": operator, "values": values});
        if of_pool && operator == "In" && (1..=known.len()).contains(&(least as usize)) {
            one["minValues"] = json!(least);
        }
        one
    })
}

fn some_pool(name: &'static str) -> impl Strategy<Value = Value> {
    let parts = (
        prop::collection::vec(requirement(&KEYS[..8], true), 0..4),
        any::<(bool, bool, bool)>(),
        prop::option::of(2..20_u32),
    );
    parts.prop_map(move |(requirements, (label, taint, startup), limit)| {
        let mut pool = pool(name);
        let template = &mut pool["spec"]["template"];
        template["spec"]["requirements"] = json!(requirements);
        if label {
            template["metadata"] = json!({"labels": {"example.com/a": "2"}, "annotations": {"x": "y"}});
        }
        if taint {
            template["spec"]["taints"] = json!([{"key": "t", "effect": "NoSchedule"}]);
        }
        if startup {
            template["spec"]["startupTaints"] = json!([{"key": "s", "value": "v", "effect": "NoExecute"}]);
        }
        if let Some(limit) = limit {
            pool["spec"]["limits"] = json!({"cpu": limit});
        }
        pool
    })
}

fn some_pod() -> impl Strategy<Value = Value> {
    let parts = (
        1..30_u32,
        prop::collection::vec(requirement(&KEYS, false), 0..3),
        prop::option::of(prop::sample::select(&["topology.kubernetes.io/zone", "kubernetes.io/hostname"][..])),
        any::<(bool, bool)>(),
    );
    parts.prop_map(|(tenths, expressions, spread, (tolerates, unlike))| {
        let mut pod = marked("", &format!("{}m", tenths * 100));
        if !expressions.is_empty() {
            pod["spec"]["affinity"]["nodeAffinity"] = json!({"requiredDuringSchedulingIgnoredDuringExecution":
                {"nodeSelectorTerms": [{"matchExpressions": expressions}]}});
        }
        if let Some(key) = spread {
            pod["spec"]["topologySpreadConstraints"] = json!([{"maxSkew": 1, "topologyKey": key,
                "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "web"}}}]);
        }
        if unlike {
            pod["spec"]["affinity"]["podAntiAffinity"] = json!({"requiredDuringSchedulingIgnoredDuringExecution":
                [{"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}}]});
        }
        if tolerates {
            pod["spec"]["tolerations"] = json!([{"operator": "Exists"}]);
        }
        pod
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn every_claim_is_one_that_the_api_server_takes(
        pools in (some_pool("first"), some_pool("second")),
        pods in prop::collection::vec(some_pod(), 1..12),
        relaxes in any::<bool>(),
    ) {
        let mut cluster = Cluster::default();
        if relaxes {
            cluster.settings.packing.min_values = muster_scheduling::model::MinValuesPolicy::BestEffort;
        }
        for pool in [pools.0, pools.1] {
            prop_assume!(validation::check(&pool).errors.is_empty());
            cluster.add(pool);
        }
        let count = pods.len();
        for (number, mut pod) in pods.into_iter().enumerate() {
            pod["metadata"]["name"] = json!(format!("p{number}"));
            pod["metadata"]["uid"] = json!(format!("uid-{number}"));
            cluster.add(pod);
        }
        let first = cluster.decide(0);
        prop_assert_eq!(&first, &cluster.decide(0), "the same input, the same bytes");
        let breaks_a_launch = |one: &muster_scheduling::Violation| matches!(one.place, muster_scheduling::Place::New(_));
        prop_assert!(!first.violations.iter().any(breaks_a_launch), "{:?}", first.violations);
        cluster.round(0);
        for claim in cluster.claims() {
            let object = serde_json::to_value(&claim).unwrap();
            let checked = validation::check(&object);
            prop_assert!(checked.errors.is_empty() && checked.warnings.is_empty(), "{:?}\n{object:#}", checked);
        }
        let placed = (0..count).filter(|pod| cluster.plan.place_of(&format!("default/p{pod}")).is_some());
        prop_assert_eq!(placed.count() + first.figures.unplaced, count);
        // Pods that found no place may find one beside those that did; for the others nothing more is bought.
        let claims = || -> BTreeSet<String> { cluster.claims().into_iter().filter_map(|one| one.metadata.name).collect() };
        let bought = claims();
        let again = cluster.decide(1);
        let places: BTreeSet<String> = (0..count)
            .map(|pod| format!("default/p{pod}"))
            .filter(|pod| cluster.plan.place_of(pod) != again.plan.place_of(pod) && cluster.plan.place_of(pod).is_some())
            .collect();
        prop_assert!(places.is_empty(), "{places:?} have moved");
        prop_assert!(first.figures.unplaced > 0 || again.figures.claims == 0, "bought again beside {bought:?}");
    }
}
