//! What other pods, daemons and volumes do to a pod.

use super::case;
use super::fixture::{FAMILY, GI, World, app, node, requires, spread, taint, term, values};
use crate::labels;
use crate::model::{Attachment, HostPort, PodSpec, Protocol, SpreadConstraint};
use crate::solution::Reason;

#[test]
fn pod_affinity() {
    let affinity = |_: &mut World, spec: &mut PodSpec| spec.affinity.push(term("cache", labels::ZONE));
    case(
        "nobody to join",
        affinity,
        Reason::PodAffinity,
        [
            "unsatisfiable topology constraint for pod affinity, key=topology.kubernetes.io/zone (counts = none; domains = a b; app=cache)",
            "no pod with a place matches app=cache",
            "check the labels and the namespaces of the term, or make it preferred",
        ],
    );
    let elsewhere = |world: &mut World, spec: &mut PodSpec| {
        world.node(node("ip-1"), [app("cache", 100, GI)]);
        spec.node_selector = requires(&[(labels::ZONE, &["b"])]);
        spec.affinity.push(term("cache", labels::ZONE));
    };
    case(
        "in another zone",
        elsewhere,
        Reason::PodAffinity,
        [
            "unsatisfiable topology constraint for pod affinity, key=topology.kubernetes.io/zone (counts = a: 1; domains = b; app=cache)",
            "\"a\" has 1 such pod and cannot take this one",
            "let the pod reach the nodes of app=cache, or make the term preferred",
        ],
    );
}

#[test]
fn pod_anti_affinity() {
    let anti = |world: &mut World, spec: &mut PodSpec| {
        let pods = [world.pod(app("web", 100, GI)), world.pod(app("web", 100, GI))];
        world.launch(0, 0, vec![pods[0]]);
        world.launch(0, 1, vec![pods[1]]);
        spec.anti_affinity.push(term("web", labels::ZONE));
    };
    case(
        "zones are taken",
        anti,
        Reason::PodAntiAffinity,
        [
            "unsatisfiable topology constraint for pod anti-affinity, key=topology.kubernetes.io/zone (counts = a: 1, b: 1; domains = a b; app=web)",
            "\"a\" has the fewest such pods, 1",
            "allow more values of topology.kubernetes.io/zone, use fewer replicas, or make the term preferred",
        ],
    );
    case(
        "no such label",
        |_, spec| spec.anti_affinity.push(term("web", "rack")),
        Reason::PodAntiAffinity,
        [
            "unsatisfiable topology constraint for pod anti-affinity, key=rack (counts = none; domains = none; app=web)",
            "",
            "give the nodes the label \"rack\", or use another topologyKey",
        ],
    );
    let elsewhere = |world: &mut World, _: &mut PodSpec| {
        let owner = PodSpec { anti_affinity: vec![term("web", "rack")], ..app("db", 100, GI) };
        let mut racked = node("n-1");
        racked.labels.set("rack", "r1");
        world.node(racked, [owner]);
        world.problem.catalogues[0].edit(|types| {
            types.iter_mut().flat_map(|it| &mut it.offerings).for_each(|it| it.available = false);
        });
    };
    case(
        "anti-affinity of others over a label that the pool lacks",
        elsewhere,
        Reason::NoOffering,
        [
            "no instance type has the required offering, none of m.small m.large is available there now",
            "",
            "wait for capacity, or allow more instance types",
        ],
    );
    let inverse = |world: &mut World, spec: &mut PodSpec| {
        let mut lonely = app("db", 100, GI);
        lonely.anti_affinity.push(term("web", labels::ZONE));
        world.node(node("ip-1"), [lonely]);
        spec.node_selector = requires(&[(labels::ZONE, &["a"])]);
    };
    case(
        "others keep it away",
        inverse,
        Reason::PodAntiAffinity,
        [
            "unsatisfiable topology constraint for pod anti-affinity, key=topology.kubernetes.io/zone (counts = a: 1; domains = a; anti-affinity of other pods)",
            "\"a\" has the fewest such pods, 1",
            "allow more values of topology.kubernetes.io/zone, use fewer replicas, or make the term preferred",
        ],
    );
}

#[test]
fn topology_spread() {
    let skewed = |world: &mut World, spec: &mut PodSpec| {
        let web = app("web", 100, GI);
        world.node(node("ip-1"), [web.clone(), web]);
        spec.volume_terms = vec![requires(&[(labels::ZONE, &["a"])])];
        spec.spread.push(spread("web", labels::ZONE));
    };
    case(
        "volume against spread",
        skewed,
        Reason::TopologySpread,
        [
            "unsatisfiable topology constraint for topology spread, key=topology.kubernetes.io/zone (counts = a: 2, b: 0; domains = a; maxSkew 1)",
            "\"a\" would have a skew of 3, 2 too many",
            "let the pod reach \"b\", raise maxSkew, or set whenUnsatisfiable: ScheduleAnyway",
        ],
    );
    case(
        "no such label",
        |_, spec| spec.spread.push(spread("web", "rack")),
        Reason::TopologySpread,
        [
            "unsatisfiable topology constraint for topology spread, key=rack (counts = none; domains = none; maxSkew 1)",
            "",
            "give the nodes the label \"rack\", or use another topologyKey",
        ],
    );
}

#[test]
fn ports_and_volumes() {
    let port = HostPort { ip: [0, 0, 0, 0].into(), port: 9100, protocol: Protocol::Tcp };
    let taken = |world: &mut World, spec: &mut PodSpec| {
        let mut agent = app("agent", 100, GI);
        agent.host_ports.push(port);
        world.daemon(agent);
        spec.host_ports.push(port);
    };
    case(
        "port",
        taken,
        Reason::HostPort,
        [
            "checking host port usage, port 9100/TCP is taken by daemonset kube-system/agent on every node",
            "",
            "use another hostPort than 9100/TCP, or none",
        ],
    );
    let volume = |world: &mut World, spec: &mut PodSpec| {
        world.pool().requirements.add(labels::ZONE, values(&["a"]));
        spec.volume_terms = vec![requires(&[(labels::ZONE, &["c"])])];
        spec.attachments.push(Attachment { driver: "ebs.csi.aws.com".into(), claim: "default/data".into() });
    };
    case(
        "volume",
        volume,
        Reason::Volume,
        [
            "incompatible volume requirements of default/data, key topology.kubernetes.io/zone, In [c] not in In [a]",
            "the volume can be attached where topology.kubernetes.io/zone is In [c]",
            "let nodepool \"general\" and the pod allow topology.kubernetes.io/zone In [c], or restore the volume elsewhere",
        ],
    );
}

#[test]
fn the_setting_of_a_spread_that_is_at_fault_is_named() {
    let few = |world: &mut World, spec: &mut PodSpec| {
        world.node(node("ip-1"), [app("web", 100, GI)]);
        let other = world.pod(app("web", 100, GI));
        world.launch(0, 1, vec![other]);
        spec.spread.push(SpreadConstraint { min_domains: Some(3), ..spread("web", labels::ZONE) });
    };
    case(
        "minDomains",
        few,
        Reason::TopologySpread,
        [
            "unsatisfiable topology constraint for topology spread, key=topology.kubernetes.io/zone (counts = a: 1, b: 1; domains = a b; maxSkew 1, minDomains 3 of which there are 2, so the emptiest counts as 0)",
            "\"a\" would have a skew of 2, 1 too many",
            "lower minDomains to 2, or let a nodepool have more values of topology.kubernetes.io/zone",
        ],
    );
    let tainted = |honored: bool| {
        move |world: &mut World, spec: &mut PodSpec| {
            let mut closed = node("ip-1");
            closed.labels = [(labels::HOSTNAME, "ip-1"), (labels::ZONE, "c")].into_iter().collect();
            closed.taints.push(taint("team", "ml"));
            world.node(closed, []);
            world.node(node("ip-2"), [app("web", 100, GI)]);
            let other = world.pod(app("web", 100, GI));
            world.launch(0, 1, vec![other]);
            let skew = if honored { 0 } else { 1 };
            let spread = spread("web", labels::ZONE);
            spec.spread.push(SpreadConstraint { honor_taints: honored, max_skew: skew, ..spread });
        }
    };
    case(
        "nodeTaintsPolicy",
        tainted(false),
        Reason::TopologySpread,
        [
            "unsatisfiable topology constraint for topology spread, key=topology.kubernetes.io/zone (counts = a: 1, b: 1, c: 0; domains = a b; maxSkew 1, nodeTaintsPolicy Ignore counts nodes of c whose taints the pod does not tolerate)",
            "\"a\" would have a skew of 2, 1 too many",
            "set nodeTaintsPolicy: Honor in the spread, or tolerate the taints of the nodes there",
        ],
    );
    case(
        "none of them",
        tainted(true),
        Reason::TopologySpread,
        [
            "unsatisfiable topology constraint for topology spread, key=topology.kubernetes.io/zone (counts = a: 1, b: 1; domains = a b; maxSkew 0)",
            "\"a\" would have a skew of 1, 1 too many",
            "raise maxSkew, or set whenUnsatisfiable: ScheduleAnyway",
        ],
    );
    let unselected = |world: &mut World, spec: &mut PodSpec| {
        let web = app("web", 100, GI);
        world.node(node("ip-1"), [web.clone(), web]);
        spec.node_selector = requires(&[(FAMILY, &["m"])]);
        spec.volume_terms = vec![requires(&[(labels::ZONE, &["a"])])];
        spec.spread.push(spread("web", labels::ZONE));
    };
    case(
        "nodeAffinityPolicy",
        unselected,
        Reason::TopologySpread,
        [
            "unsatisfiable topology constraint for topology spread, key=topology.kubernetes.io/zone (counts = a: 2, b: 0; domains = a; maxSkew 1, nodeAffinityPolicy Ignore counts nodes of a that the pod does not select)",
            "\"a\" would have a skew of 3, 2 too many",
            "set nodeAffinityPolicy: Honor in the spread, or let the pod select the nodes there",
        ],
    );
}
