//! Which pods are pending, bound or nowhere, and what they ask for once defaults and owners are applied.

use muster_scheduling::model::{LabelSelector, NamespaceScope, Protocol, Refusal, SelectorOperator, SelectorTerm};

use super::*;
use crate::{DefaultSpread, Owning, read_scheduler_config};

/// Effective requests of a pod with these containers.
fn requests(spec: &str) -> String {
    let text = format!("{{apiVersion: v1, kind: Pod, metadata: {{name: a}}, spec: {{{spec}}}}}");
    amounts(&only_spec(&snapshot(&text)).requests)
}

#[test]
fn requests_are_those_of_the_worst_moment() {
    let cpu = |name: &str, amount: &str| format!("{{name: {name}, resources: {{requests: {{cpu: {amount}}}}}}}");
    let sidecar = |name: &str, amount: &str| cpu(name, amount).replacen('{', "{restartPolicy: Always, ", 1);
    let list = |all: &[String]| all.join(", ");
    for (init, main, rest, expected) in [
        (vec![], vec![cpu("a", "1"), cpu("b", "250m")], "", "cpu=1250 pods=1"),
        (vec![cpu("i", "2")], vec![cpu("a", "1")], "", "cpu=2000 pods=1"),
        (vec![cpu("i", "2"), cpu("j", "3")], vec![cpu("a", "1")], "", "cpu=3000 pods=1"),
        // The sidecar runs beside the init container that follows it, and beside the others.
        (vec![sidecar("s", "1"), cpu("i", "2")], vec![cpu("a", "1")], "", "cpu=3000 pods=1"),
        (vec![cpu("i", "2"), sidecar("s", "1")], vec![cpu("a", "1")], "", "cpu=2000 pods=1"),
        (vec![sidecar("s", "1")], vec![cpu("a", "1")], "", "cpu=2000 pods=1"),
        (vec![], vec![cpu("a", "1")], "overhead: {cpu: 100m, memory: 1Ki}", "cpu=1100 memory=1024 pods=1"),
        (vec![], vec![cpu("a", "1")], "resources: {requests: {cpu: 500m}}", "cpu=500 pods=1"),
        (vec![], vec![cpu("a", "1")], "resources: {limits: {cpu: 4, memory: 1Ki}}", "cpu=1000 memory=1024 pods=1"),
    ] {
        let text = format!("initContainers: [{}], containers: [{}], {rest}", list(&init), list(&main));
        assert_eq!(requests(&text), expected, "{text}");
    }
    assert_eq!(
        requests("containers: [{name: c, resources: {limits: {cpu: 2, nvidia.com/gpu: 1}, requests: {cpu: 1}}}]"),
        "cpu=1000 pods=1 nvidia.com/gpu=1"
    );
}

#[test]
fn a_pod_that_is_resized_holds_the_larger_amount() {
    let text = "{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: [{name: c, resources: {requests: {cpu: 1}}}]}, \
                status: {containerStatuses: [{name: c, allocatedResources: {cpu: 500m}, resources: {requests: {cpu: 2, memory: 1}}}]}}";
    assert_eq!(amounts(&only_spec(&snapshot(text)).requests), "cpu=2000 memory=1 pods=1");
    // The kubelet will never grant more than it has.
    let refused = text
        .replace("status: {", "status: {conditions: [{type: PodResizePending, status: 'True', reason: Infeasible}], ");
    let refused = refused.replace("resources: {requests: {cpu: 1}}", "resources: {requests: {cpu: 64}}");
    assert_eq!(amounts(&only_spec(&snapshot(&refused)).requests), "cpu=2000 memory=1 pods=1");
    let of_pod = "{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {resources: {requests: {cpu: 1}}, containers: [{name: c}]}, \
                  status: {allocatedResources: {cpu: 3}, resources: {requests: {cpu: 2}}}}";
    assert_eq!(amounts(&only_spec(&snapshot(of_pod)).requests), "cpu=3000 pods=1");
}

#[test]
fn a_runtime_class_adds_what_admission_would() {
    let class = "{apiVersion: node.k8s.io/v1, kind: RuntimeClass, metadata: {name: kata}, handler: kata, overhead: {podFixed: {cpu: 250m}}, \
                 scheduling: {nodeSelector: {kata: 'true'}, tolerations: [{key: kata, operator: Exists}]}}";
    let snapshot = snapshot(&[&pod("a", "runtimeClassName: kata"), class].concat());
    let spec = only_spec(&snapshot);
    assert_eq!(amounts(&spec.requests), "cpu=250 pods=1");
    assert_eq!(spec.node_selector.single("kata"), Some("true"));
    assert_eq!(spec.tolerations.len(), 1);
    let snapshot = super::snapshot(&pod("a", "runtimeClassName: gvisor"));
    assert_eq!(snapshot.warnings, ["RuntimeClass `gvisor` is not in the input, so its overhead is not counted"]);
}

#[test]
fn workloads_are_expanded_under_their_own_names() {
    let template = "template: {spec: {containers: [{name: c}]}}";
    for (version, kind, spec, expected) in [
        ("apps/v1", "Deployment", "replicas: 2", vec!["default/w-0", "default/w-1"]),
        ("apps/v1", "Deployment", "", vec!["default/w-0"]),
        ("apps/v1", "Deployment", "replicas: 0", vec![]),
        ("apps/v1", "ReplicaSet", "replicas: 1", vec!["default/w-0"]),
        ("apps/v1", "StatefulSet", "replicas: 2, ordinals: {start: 5}", vec!["default/w-5", "default/w-6"]),
        ("batch/v1", "Job", "", vec!["default/w-0"]),
        ("batch/v1", "Job", "parallelism: 3, completions: 2", vec!["default/w-0", "default/w-1"]),
        ("batch/v1", "Job", "parallelism: 3, suspend: true", vec![]),
    ] {
        let gap = if spec.is_empty() { "" } else { ", " };
        let text =
            format!("{{apiVersion: {version}, kind: {kind}, metadata: {{name: w}}, spec: {{{spec}{gap}{template}}}}}");
        assert_eq!(pending(&snapshot(&text)), expected, "{text}");
    }
    let cron = format!(
        "{{apiVersion: batch/v1, kind: CronJob, metadata: {{name: w}}, spec: {{schedule: '@daily', jobTemplate: {{spec: {{parallelism: 2, completions: 5, {template}}}}}}}}}"
    );
    assert_eq!(pending(&snapshot(&cron)), ["default/w-0", "default/w-1"]);
    let done = "{apiVersion: batch/v1, kind: Job, metadata: {name: w}, spec: {parallelism: 2, template: {spec: {containers: [{name: c}]}}}, status: {conditions: [{type: Complete, status: 'True'}]}}";
    assert!(pending(&snapshot(done)).is_empty());
}

#[test]
fn replicas_that_are_in_the_input_are_not_made_again() {
    let owned = |name: &str, kind: &str, owner: &str| {
        pod(name, "").replacen(
            "metadata: {",
            &format!("metadata: {{ownerReferences: [{{kind: {kind}, name: {owner}, controller: true}}], "),
            1,
        )
    };
    let template = "template: {spec: {containers: [{name: c}]}}";
    let deployment = format!(
        "{{apiVersion: apps/v1, kind: Deployment, metadata: {{name: w}}, spec: {{replicas: 3, {template}}}}}\n---\n"
    );
    let replica_set = format!(
        "{{apiVersion: apps/v1, kind: ReplicaSet, metadata: {{name: w-5d, ownerReferences: [{{kind: Deployment, name: w, controller: true}}]}}, spec: {{replicas: 3, {template}}}}}\n---\n"
    );
    let text = [deployment.clone(), replica_set, owned("x", "ReplicaSet", "w-5d"), owned("w-0", "ReplicaSet", "w-5d")]
        .concat();
    assert_eq!(pending(&snapshot(&text)), ["default/w-1", "default/x", "default/w-0"]);
    // The order is that of the input.
    let text = [pod("a", ""), deployment, pod("z", "")].concat();
    assert_eq!(pending(&snapshot(&text)), ["default/a", "default/w-0", "default/w-1", "default/w-2", "default/z"]);
}

#[test]
fn limit_ranges_are_for_workloads_only() {
    let range = "{apiVersion: v1, kind: LimitRange, metadata: {name: l}, spec: {limits: [{type: Pod, max: {cpu: 9}}, {type: Container, default: {memory: 2Ki}, defaultRequest: {cpu: 100m}, max: {cpu: 4}}]}}\n---\n";
    let workload = "{apiVersion: apps/v1, kind: Deployment, metadata: {name: w}, spec: {template: {spec: {containers: [{name: c}]}}}}";
    assert_eq!(amounts(&only_spec(&snapshot(&[range, workload].concat())).requests), "cpu=100 memory=2048 pods=1");
    let own = workload.replace("{name: c}", "{name: c, resources: {limits: {cpu: 1}}}");
    assert_eq!(amounts(&only_spec(&snapshot(&[range, &own].concat())).requests), "cpu=1000 memory=2048 pods=1");
    assert_eq!(amounts(&only_spec(&snapshot(&[range, &pod("a", "")].concat())).requests), "pods=1");
    let elsewhere = range.replace("name: l}", "name: l, namespace: other}");
    assert_eq!(amounts(&only_spec(&snapshot(&[&elsewhere, workload].concat())).requests), "pods=1");
}

#[test]
fn only_pods_that_wait_for_a_node_are_pending() {
    let with = |name: &str, meta: &str, spec: &str, status: &str| {
        format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{name: {name}, {meta}}}, spec: {{containers: [{{name: c}}], {spec}}}, status: {{{status}}}}}\n---\n"
        )
    };
    let owner = |kind: &str| format!("ownerReferences: [{{kind: {kind}, name: o, controller: true}}]");
    let node = "{apiVersion: v1, kind: Node, metadata: {name: n}}\n---\n{apiVersion: v1, kind: Node, metadata: {name: gone, deletionTimestamp: '2026-01-01T00:00:00Z', finalizers: [a]}}\n---\n";
    let text = [
        node.to_owned(),
        with("waits", "", "", "phase: Pending"),
        with("gated", "", "schedulingGates: [{name: g}]", ""),
        with("succeeded", "", "", "phase: Succeeded"),
        with("failed", "", "nodeName: n", "phase: Failed"),
        with("ends", "deletionTimestamp: '2026-01-01T00:00:00Z'", "", ""),
        with("daemon", &owner("DaemonSet"), "", ""),
        with("mirror", &owner("Node"), "", ""),
        with("nominated", "", "", "nominatedNodeName: n"),
        with("nominated-elsewhere", "", "", "nominatedNodeName: m"),
        with("nominated-gone", "", "", "nominatedNodeName: gone"),
        with("bound", "", "nodeName: n", ""),
        with("bound-ends", "deletionTimestamp: '2026-01-01T00:00:00Z'", "nodeName: n", ""),
        with("bound-elsewhere", "", "nodeName: m", ""),
        with("moves", "", "nodeName: gone", ""),
        with("moves-not", "deletionTimestamp: '2026-01-01T00:00:00Z'", "nodeName: gone", ""),
        with(
            "follows",
            &format!("deletionTimestamp: '2026-01-01T00:00:00Z', {}", owner("StatefulSet")),
            "nodeName: gone",
            "",
        ),
        with("stays", &owner("DaemonSet"), "nodeName: gone", ""),
    ]
    .concat();
    let snapshot = snapshot(&text);
    let names = ["waits", "nominated-elsewhere", "nominated-gone", "moves", "follows"];
    assert_eq!(pending(&snapshot), names.map(|name| format!("default/{name}")));
    let bound = |node: usize| -> Vec<(&str, bool)> {
        snapshot.problem.nodes[node].bound.iter().map(|pod| (&*pod.name, pod.counts)).collect()
    };
    assert_eq!(bound(0), [("default/nominated", true), ("default/bound", true), ("default/bound-ends", false)]);
    assert_eq!(bound(1), [("default/moves-not", false), ("default/stays", true)]);
    assert!(snapshot.problem.nodes[1].deleting && !snapshot.problem.nodes[0].deleting);
}

#[test]
fn a_nomination_holds_room_as_far_as_there_is_some() {
    let pods = |more: &str| {
        let with = |name: &str, cpu: &str, meta: &str, node: &str| {
            let (spec, status) = if let Some(node) = node.strip_prefix('~') {
                (String::new(), format!("nominatedNodeName: {node}"))
            } else {
                (format!("nodeName: {node}, "), String::new())
            };
            format!(
                "{{apiVersion: v1, kind: Pod, metadata: {{name: {name}, {meta}}}, spec: {{{spec}containers: [{{name: c, resources: \
                 {{requests: {{cpu: {cpu}}}}}}}]}}, status: {{{status}}}}}\n---\n"
            )
        };
        let node =
            "{apiVersion: v1, kind: Node, metadata: {name: n}, status: {allocatable: {cpu: 4, pods: 10}}}\n---\n";
        let ending = with("ends", "100m", "deletionTimestamp: '2026-01-01T00:00:00Z'", "n");
        let text = [
            node.to_owned(),
            with("first", "2", "", "~n"),
            with("large", "3", "", "~n"),
            with("small", "1", "", "~n"),
            with("there", "1", "", "n"),
            match more {
                "" => String::new(),
                "one that ends" => ending,
                daemon => format!(
                    "{{apiVersion: apps/v1, kind: DaemonSet, metadata: {{name: {daemon}}}, spec: {{template: {{spec: {{containers: [{{name: \
                     c, resources: {{requests: {{cpu: 1}}}}}}]}}}}}}}}\n---\n"
                ),
            },
        ];
        snapshot(&text.concat())
    };
    let bound = |snapshot: &Snapshot| -> Vec<String> {
        snapshot.problem.nodes[0].bound.iter().map(|pod| pod.name.trim_start_matches("default/").to_owned()).collect()
    };
    let full = pods("");
    assert_eq!((pending(&full), bound(&full).join(" ")), (vec!["default/large"], "first small there".to_owned()));
    let preempted = pods("one that ends");
    assert_eq!(pending(&preempted), [""; 0], "it may end for them");
    let waiting = pods("daemon");
    let waits = vec!["default/large", "default/small"];
    assert_eq!(
        (pending(&waiting), bound(&waiting).join(" ")),
        (waits, "first there".to_owned()),
        "a daemon is to come"
    );
}

#[test]
fn a_nomination_ends_where_a_rule_between_pods_forbids_it() {
    let pod = |name: &str, rule: &str, at: &str| {
        let (spec, status) = match at.strip_prefix('~') {
            Some(node) => (String::new(), format!("nominatedNodeName: {node}")),
            None => (format!("nodeName: {at}, "), String::new()),
        };
        format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{name: {name}, labels: {{app: {rule}}}}}, spec: {{{spec}containers: [{{name: c}}], {}}}, \
             status: {{{status}}}}}\n---\n",
            match rule {
                "spread" =>
                    "topologySpreadConstraints: [{maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: DoNotSchedule, \
                     labelSelector: {matchLabels: {app: spread}}}]",
                "zones" =>
                    "topologySpreadConstraints: [{maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule, \
                     labelSelector: {matchLabels: {app: zones}}}]",
                "apart" =>
                    "affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: kubernetes.io/hostname, \
                     labelSelector: {matchLabels: {app: apart}}}]}}",
                _ => "",
            }
        )
    };
    let nodes = |count: usize| -> String {
        let node = |number| {
            format!(
                "{{apiVersion: v1, kind: Node, metadata: {{name: n{number}, labels: {{kubernetes.io/hostname: n{number}, \
                 topology.kubernetes.io/zone: z{number}}}}}, status: {{allocatable: {{cpu: 4, pods: 10}}}}}}\n---\n"
            )
        };
        (0..count).map(node).collect()
    };
    for rule in ["spread", "apart"] {
        // `a` was bound where `b` is expected; nobody is on n1.
        let text = [nodes(2), pod("a", rule, "n0"), pod("b", rule, "~n0"), pod("c", "free", "~n0")].concat();
        let snapshot = snapshot(&text);
        assert_eq!(pending(&snapshot), ["default/b"], "{rule}");
        let bound: Vec<&str> = snapshot.problem.nodes[0].bound.iter().map(|pod| &*pod.name).collect();
        assert_eq!(bound, ["default/a", "default/c"], "{rule}");
    }
    // Two in one zone are what a spread will allow once the others are in theirs.
    let each = ["~n0", "~n0"].iter().enumerate();
    let text: String = each.map(|(number, node)| pod(&format!("p{number}"), "zones", node)).collect();
    assert_eq!(pending(&snapshot(&[nodes(2), text].concat())), [""; 0]);
}

#[test]
fn selectors_and_affinities_become_requirements() {
    let spec = spec_of(
        "nodeSelector: {failure-domain.beta.kubernetes.io/zone: a}, affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: \
         {nodeSelectorTerms: [{}, {matchExpressions: [{key: cores, operator: Gt, values: ['4']}, {key: cores, operator: Lt, values: ['9']}]}]}, \
         preferredDuringSchedulingIgnoredDuringExecution: [{weight: 7, preference: {matchExpressions: [{key: disk, operator: DoesNotExist}]}}, {weight: 1, preference: {}}]}}",
    );
    assert_eq!(spec.node_selector.single("topology.kubernetes.io/zone"), Some("a"));
    assert_eq!(spec.node_terms.len(), 1);
    assert_eq!(spec.node_terms[0].get("cores").unwrap().bounds(), (Some(5), Some(8)));
    assert_eq!(spec.preferred_node_terms.len(), 1);
    assert_eq!(spec.refusal, None);
}

#[test]
fn what_no_node_can_mend_is_a_refusal() {
    let required = |terms: &str| {
        format!(
            "affinity: {{nodeAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: {{nodeSelectorTerms: [{terms}]}}}}}}"
        )
    };
    let fields = "{matchFields: [{key: metadata.name, operator: In, values: [n]}]}";
    assert!(
        matches!(spec_of(&required(fields)).refusal, Some(Refusal::MatchFields(why)) if why.contains("metadata.name In [n]"))
    );
    assert_eq!(spec_of(&required("{}")).refusal, Some(Refusal::EmptyTerm));
    let expression = |operator: &str| format!("{{key: a, operator: {operator}, values: [x]}}");
    let exclusive = format!("{{matchExpressions: [{}, {}]}}", expression("In"), expression("NotIn"));
    assert_eq!(spec_of(&required(&exclusive)).refusal, Some(Refusal::Contradiction("a".to_owned())));
    let one_holds = spec_of(&required(&format!("{exclusive}, {{matchExpressions: [{}]}}", expression("In"))));
    assert_eq!((one_holds.refusal, one_holds.node_terms.len()), (None, 1));
    let or = required(&format!("{fields}, {{matchExpressions: [{{key: a, operator: Exists}}]}}"));
    assert_eq!(spec_of(&or).refusal, None);
    let claims = spec_of("resourceClaims: [{name: gpu, resourceClaimName: x}]");
    assert!(matches!(claims.refusal, Some(Refusal::DynamicResources { why, .. }) if why.contains("`gpu`")));
}

#[test]
fn terms_of_pods_know_their_namespaces_and_labels() {
    let term = |term: &str| {
        let text = format!(
            "{{apiVersion: v1, kind: Namespace, metadata: {{name: blue, labels: {{team: b}}}}}}\n---\n{{apiVersion: v1, kind: Pod, metadata: {{name: a, namespace: own, labels: {{app: x, v: '1'}}}}, spec: {{containers: [{{name: c}}], affinity: {{podAntiAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: [{{topologyKey: z, {term}}}]}}}}}}}}"
        );
        only_spec(&snapshot(&text)).anti_affinity[0].clone()
    };
    let only = |names: &[&str]| NamespaceScope::Only(names.iter().map(|name| (*name).into()).collect());
    for (text, expected) in [
        ("labelSelector: {}", only(&["own"])),
        ("namespaces: [x]", only(&["x"])),
        ("namespaceSelector: {}", NamespaceScope::All),
        ("namespaces: [x], namespaceSelector: {matchLabels: {team: b}}", only(&["blue", "x"])),
        ("namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: own}}", only(&["own"])),
        ("namespaceSelector: {matchLabels: {team: r}}", only(&[])),
    ] {
        assert_eq!(term(text).namespaces, expected, "{text}");
    }
    assert_eq!(term("namespaces: [x]").selector, LabelSelector::Nothing);
    let labels = |v: &str| [("v", v)].into_iter().collect();
    let merged = term("labelSelector: {}, matchLabelKeys: [v, absent]").selector;
    assert!(merged.matches(&labels("1")) && !merged.matches(&labels("2")));
    let merged = term("labelSelector: {}, mismatchLabelKeys: [v]").selector;
    assert!(!merged.matches(&labels("1")) && merged.matches(&labels("2")));
}

#[test]
fn spread_constraints_have_the_defaults_of_the_api() {
    let constraint = |rest: &str| {
        spec_of(&format!(
            "topologySpreadConstraints: [{{maxSkew: 2, topologyKey: z, whenUnsatisfiable: DoNotSchedule{rest}}}]"
        ))
        .spread[0]
            .clone()
    };
    let plain = constraint("");
    assert_eq!((plain.max_skew, plain.min_domains, plain.required), (2, None, true));
    assert_eq!((plain.honor_affinity, plain.honor_taints), (true, false));
    assert_eq!(plain.selector, LabelSelector::Nothing);
    let full = constraint(", minDomains: 3, nodeAffinityPolicy: Ignore, nodeTaintsPolicy: Honor, labelSelector: {}");
    assert_eq!((full.min_domains, full.honor_affinity, full.honor_taints), (Some(3), false, true));
    assert_eq!(full.selector, LabelSelector::Terms(Vec::new()));
}

#[test]
fn ports_on_the_node_are_taken() {
    let ports = |rest: &str| {
        let text = format!("{{apiVersion: v1, kind: Pod, metadata: {{name: a}}, spec: {{{rest}}}}}");
        let ports = only_spec(&snapshot(&text)).host_ports.clone();
        ports.iter().map(|port| (port.ip.to_string(), port.port, port.protocol)).collect::<Vec<_>>()
    };
    assert_eq!(ports("containers: [{name: c, ports: [{containerPort: 80}]}]"), []);
    assert_eq!(
        ports("containers: [{name: c, ports: [{containerPort: 80, hostPort: 8080, hostIP: 10.0.0.1, protocol: UDP}]}]"),
        [("10.0.0.1".to_owned(), 8080, Protocol::Udp)]
    );
    assert_eq!(
        ports(
            "hostNetwork: true, containers: [{name: c, ports: [{containerPort: 80}]}], initContainers: [{name: i, ports: [{containerPort: 81}]}]"
        ),
        [("0.0.0.0".to_owned(), 80, Protocol::Tcp)]
    );
}

#[test]
fn priorities_come_from_their_class() {
    let class = "{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: high}, value: 1000}\n---\n{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: usual}, value: 5, globalDefault: true}\n---\n";
    for (spec, expected) in [
        ("", 5),
        ("priorityClassName: high", 1000),
        ("priorityClassName: high, priority: 7", 7),
        ("priorityClassName: system-node-critical", 2_000_001_000),
    ] {
        assert_eq!(only_spec(&snapshot(&[class, &pod("a", spec)].concat())).priority, expected, "{spec}");
    }
    assert_eq!(spec_of("").priority, 0);
}

#[test]
fn the_default_spread_is_for_pods_that_belong_together() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config.yaml");
    let config = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles: [{pluginConfig: [{name: PodTopologySpread, args: {defaultConstraints: [{maxSkew: 1, topologyKey: z, whenUnsatisfiable: ScheduleAnyway}]}}]}]";
    std::fs::write(&path, config).unwrap();
    let default_spread: DefaultSpread = read_scheduler_config(&path).unwrap();
    let settings = Settings { default_spread, ..Settings::default() };
    let spread = |text: &str| {
        let manifests = read_text("input", text).unwrap();
        let snapshot = assemble(&manifests, &settings, &|_| Catalogue::default()).unwrap();
        only_spec(&snapshot).spread.clone()
    };
    assert_eq!(spread(&pod("a", "")), []);
    let workload = "{apiVersion: apps/v1, kind: Deployment, metadata: {name: w}, spec: {selector: {matchLabels: {app: w}}, template: {metadata: {labels: {app: w}}, spec: {containers: [{name: c}]}}}}";
    let deduced = spread(workload);
    assert_eq!(deduced.len(), 1);
    assert!(deduced[0].selector.matches(&[("app", "w")].into_iter().collect()));
    let own = workload.replace("spec: {containers", "spec: {topologySpreadConstraints: [{maxSkew: 9, topologyKey: y, whenUnsatisfiable: ScheduleAnyway}], containers");
    assert_eq!(spread(&own)[0].max_skew, 9);
    let mut manifests = read_text(
        "input",
        &pod("a", "").replacen(
            "metadata: {",
            "metadata: {ownerReferences: [{kind: ReplicaSet, name: w, controller: true}], ",
            1,
        ),
    )
    .unwrap();
    let selector = [("app", "live")].into_iter().map(|(key, value)| SelectorTerm {
        key: key.into(),
        operator: SelectorOperator::In,
        values: vec![value.into()],
    });
    manifests.owners.push(Owning {
        kind: "ReplicaSet",
        path: "default/w".into(),
        selector: LabelSelector::Terms(selector.collect()),
    });
    let live = assemble(&manifests, &settings, &|_| Catalogue::default()).unwrap();
    assert!(only_spec(&live).spread[0].selector.matches(&[("app", "live")].into_iter().collect()));
    let controller = workload
        .replace("apps/v1", "v1")
        .replace("Deployment", "ReplicationController")
        .replace("selector: {matchLabels: {app: w}}", "selector: {app: w}");
    assert!(spread(&controller)[0].selector.matches(&[("app", "w")].into_iter().collect()));
    let service = "{apiVersion: v1, kind: Service, metadata: {name: s}, spec: {selector: {app: x}}}\n---\n{apiVersion: v1, kind: Pod, metadata: {name: a, labels: {app: x}}, spec: {containers: [{name: c}]}}";
    assert!(spread(service)[0].selector.matches(&[("app", "x")].into_iter().collect()));
}
