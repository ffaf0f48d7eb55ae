use serde_json::json;

use super::*;
use crate::state::{Cluster, Kind};

fn at_second(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn report(name: &str, outcome: OverlayOutcome) -> OverlayReport {
    OverlayReport { name: name.into(), outcome }
}

fn cluster(names: &[&str]) -> Cluster {
    let mut cluster = Cluster::default();
    for name in names {
        let requirements = json!([{"key": "kubernetes.io/arch", "operator": "In", "values": ["arm64"]}]);
        cluster.apply_object(
            Kind::NodeOverlay,
            &json!({"apiVersion": "karpenter.sh/v1alpha1", "kind": "NodeOverlay",
                "metadata": {"name": name, "generation": 2, "resourceVersion": "7"},
                "spec": {"requirements": requirements, "price": "0.5"}}),
        );
    }
    cluster
}

fn spoken(step: &Step) -> Vec<String> {
    let word = |write: &Write| match write {
        Write::OverlayStatus { name, status } => {
            let all = status.conditions.iter();
            let all = all.map(|one| format!(" {}={} {} {}", one.type_, one.status, one.reason, one.message));
            format!("{name}:{}", all.collect::<Vec<_>>().join(";"))
        }
        other => panic!("{other:?}"),
    };
    step.writes.iter().map(word).collect()
}

#[test]
fn an_overlay_says_whether_it_counts_once() {
    let mut cluster = cluster(&["a", "b", "c"]);
    let reports = [
        report("a", OverlayOutcome::Conflict { with: vec!["b".into()] }),
        report("b", OverlayOutcome::Applied { prices: 3, capacities: 0 }),
        report("c", OverlayOutcome::MatchesNothing),
    ];
    let step = decide(cluster.overlays(), &reports, at_second(5));
    let good = "Ready=True Ready ; ValidationSucceeded=True ValidationSucceeded ";
    assert_eq!(
        spoken(&step),
        [
            "a: Ready=False UnhealthyDependents ValidationSucceeded=False; ValidationSucceeded=False Conflict conflict \
             with another overlay of the same weight: `b`; this one has no effect"
                .to_owned(),
            format!("b: {good}"),
            format!("c: {good}"),
        ]
    );
    for write in &step.writes {
        let Write::OverlayStatus { name, status } = write else { panic!("{write:?}") };
        let mut typed =
            cluster.overlays().find(|one| one.typed.metadata.name.as_ref() == Some(name)).unwrap().typed.clone();
        typed.status = Some((**status).clone());
        assert!(!cluster.apply_object(Kind::NodeOverlay, &typed).is_empty());
    }
    assert_eq!(decide(cluster.overlays(), &reports, at_second(9)), Step::rest());

    // The other one goes: the conflict is over, and the time of the transition is new.
    let step = decide(cluster.overlays(), &[report("a", OverlayOutcome::MatchesNothing)], at_second(9));
    assert_eq!(spoken(&step), [format!("a: {good}")]);
}

#[test]
fn what_the_api_server_does_not_see_is_said() {
    let step =
        decide(cluster(&["a"]).overlays(), &[report("a", OverlayOutcome::Invalid("no".to_owned()))], at_second(5));
    assert!(spoken(&step)[0].ends_with("ValidationSucceeded=False RuntimeValidation no"), "{step:?}");
}
