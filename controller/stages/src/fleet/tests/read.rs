//! What an order means, and what makes no sense.

use muster_api::validation;
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use proptest::sample::select;

use super::super::{Kind, WrittenOrder as Order, WrittenRequirement as Requirement, read};
use super::{Fixture, Refusal};

fn refused(unusual: fn(&mut Fixture)) -> String {
    let mut fixture = Fixture::new();
    unusual(&mut fixture);
    let Refusal { kind, message } = read(fixture.order).unwrap_err();
    format!("{}: {message}", kind.code())
}

#[test]
fn a_field_that_makes_no_sense_is_named() {
    let refused: Vec<String> = [
        (|it: &mut Fixture| drop(it.order.requests.insert("memory".to_owned(), "4GiB".to_owned()))) as fn(&mut Fixture),
        |it| drop(it.order.requests.insert("cpu".to_owned(), "-1".to_owned())),
        |it| it.require("topology.kubernetes.io/zone", "Equals", &["a"]),
        |it| it.require("topology.kubernetes.io/zone", "In", &[]),
        |it| it.require("karpenter.k8s.aws/instance-cpu", "Gt", &["many"]),
        |it| it.require("kubernetes.io/hostname", "In", &["a"]),
        |it| it.require("karpenter.sh/registered", "In", &["true"]),
        |it| {
            it.require("topology.kubernetes.io/zone", "Exists", &[]);
            it.require("not a label", "Exists", &[]);
        },
    ]
    .map(refused)
    .into();
    insta::assert_snapshot!(refused.join("\n"));
}

#[test]
fn orders_that_mean_the_same_are_the_same() {
    let mut one = Fixture::new();
    one.require("topology.kubernetes.io/zone", "In", &["a", "b"]);
    one.require("kubernetes.io/arch", "In", &["amd64"]);
    let mut other = Fixture::new();
    other.order.requests.insert("cpu".to_owned(), "1000m".to_owned());
    other.require("kubernetes.io/arch", "In", &["amd64"]);
    other.require("topology.kubernetes.io/zone", "In", &["b", "a", "b"]);
    let fingerprint = |fixture: &Fixture| read(fixture.order.clone()).unwrap().fingerprint();
    assert_eq!(fingerprint(&one), fingerprint(&other));
    let unusual: [fn(&mut Fixture); 4] = [
        |it| it.order.count = 2,
        |it| it.order.node_pool = "other".to_owned(),
        |it| drop(it.order.requests.insert("memory".to_owned(), "1".to_owned())),
        |it| it.require("kubernetes.io/os", "In", &["linux"]),
    ];
    for unusual in unusual {
        let mut changed = Fixture::new();
        changed.order = one.order.clone();
        unusual(&mut changed);
        assert_ne!(fingerprint(&changed), fingerprint(&one));
    }
}

/// What anybody may write where a name, an operator or an amount stands.
fn words() -> impl Strategy<Value = String> {
    let known = [
        "cpu",
        "memory",
        "pods",
        "nodes",
        "hugepages-2Mi",
        "1",
        "500m",
        "1e3",
        "9223372036854775808",
        "-0",
        "1.5Gi",
        "In",
        "NotIn",
        "Gt",
        "Lte",
        "Exists",
        "DoesNotExist",
        "topology.kubernetes.io/zone",
        "karpenter.sh/capacity-type",
        "karpenter.sh/nodepool",
        "general",
        "karpenter.k8s.aws/instance-cpu",
        "a",
        "spot",
        "",
    ];
    prop_oneof![4 => select(known.to_vec()).prop_map(str::to_owned), 1 => "\\PC{0,12}", 1 => any::<String>()]
}

proptest! {
    /// Whatever is ordered, it is launched as it says or refused in words.
    #[test]
    fn nothing_that_is_ordered_panics(
        count in 1..5_u32,
        requests in btree_map(words(), words(), 0..3),
        requirements in vec((words(), words(), vec(words(), 0..3)), 0..3),
    ) {
        let mut fixture = Fixture::new();
        fixture.order = Order { node_pool: "general".to_owned(), count, requests, requirements: Vec::new() };
        for (key, operator, values) in requirements {
            fixture.order.requirements.push(Requirement { key, operator, values });
        }
        match fixture.decide() {
            Ok(decision) => {
                prop_assert_eq!((decision.nodes.len(), decision.claims.len()), (count as usize, count as usize));
                for claim in decision.claims {
                    let checked = validation::check(&serde_json::to_value(claim).unwrap());
                    prop_assert_eq!(checked.errors, Vec::new());
                }
            }
            Err(Refusal { kind, message }) => prop_assert!(kind != Kind::Defect && !message.is_empty(), "{}", message),
        }
    }
}
