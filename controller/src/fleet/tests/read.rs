//! What an order means, and what makes no sense.

use super::super::read;
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
