//! Every message about a script that makes no sense, as its reader sees it: exit code 2, nothing on stdout, nothing played.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod process;

use std::fmt::Write as _;
use std::path::Path;
use std::process::Output;

use process::muster;

const CLUSTER: &str = "simulate/src/tests/cluster.yaml";
const CATALOGUE: &str = "simulate/src/tests/catalogue.yaml";
const HEAD: &str = "apiVersion: muster.dev/v1\nkind: Simulation\nspec:\n";

/// What `muster simulate` says to `script`, on top of the small cluster and `more` of it.
fn simulate(script: &str, more: &[&str]) -> Output {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let arguments = ["simulate", "-f", CLUSTER, "--catalog", CATALOGUE, "--script", "-", "--no-comparison"];
    muster(&[&arguments[..], more].concat(), folder, script.as_bytes())
}

/// Adds the message that refuses `script`.
#[track_caller]
fn refuse(all: &mut String, name: &str, script: &str) {
    let output = simulate(script, &[]);
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{name}: {message}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "", "{name}");
    assert!(message.starts_with("error: ") && message.matches("\n\nhint: ").count() == 1, "{name}: {message}");
    writeln!(all, "=== {name}\n{message}").unwrap();
}

#[track_caller]
fn refuse_events(cases: &[(&str, &str)]) -> String {
    let mut all = String::new();
    for (name, events) in cases {
        let lines: String = events.lines().map(|line| format!("  - {line}\n")).collect();
        refuse(&mut all, name, &format!("{HEAD}  length: 6h\n  events:\n{lines}"));
    }
    all
}

#[test]
fn scripts() {
    let cases = [
        ("another document", "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n".to_owned()),
        ("nothing", String::new()),
        ("no spec", "apiVersion: muster.dev/v1\nkind: Simulation\n".to_owned()),
        ("an unknown key", format!("{HEAD}  lenght: 1h\n")),
        ("an unknown key like no other", format!("{HEAD}  faults: []\n")),
        ("an unknown latency", format!("{HEAD}  latencies: {{podstart: 3s}}\n")),
        ("a length in words", format!("{HEAD}  length: soon\n")),
        ("no length", format!("{HEAD}  length: 0s\n")),
        ("a length beyond a year", format!("{HEAD}  length: 9000h\n")),
        ("a length beyond measure", format!("{HEAD}  length: 99999999999999999999h\n")),
        ("a latency beyond a year", format!("{HEAD}  latencies: {{boot: 9999999h}}\n")),
        ("a beginning in words", format!("{HEAD}  start: monday\n")),
        ("a beginning before all clocks", format!("{HEAD}  start: \"-009999-01-02T00:00:00Z\"\n")),
        ("events that are no list", format!("{HEAD}  events: {{}}\n")),
    ];
    let mut all = String::new();
    for (name, text) in cases {
        refuse(&mut all, name, &text);
    }
    insta::assert_snapshot!(all);
}

#[test]
fn events() {
    let all = refuse_events(&[
        ("an unknown event", "{at: 1h, scal: {kind: Deployment, name: web, replicas: 2}}"),
        ("an event of no kind", "{at: 1h, explode: true}"),
        ("two deeds", "{at: 1h, deleteAll: true, refuse: {for: 1m}}"),
        ("no deed", "{at: 1h}"),
        ("no moment", "{deleteAll: true}"),
        ("after the day", "{at: 1h, deleteAll: true}\n{at: 6h, deleteAll: true}"),
        ("deleteAll: false", "{at: 1h, deleteAll: false}"),
        ("interrupt no nodes", "{at: 1h, interrupt: {nodes: 0}}"),
        ("refuse no launches", "{at: 1h, refuse: {launches: 0, for: 1m}}"),
        ("run out for no time", "{at: 1h, runOut: {for: 0s}}"),
        ("misregister without a code", "{at: 1h, misregister: {launches: 1}}"),
        ("misregister with another code", "{at: 1h, misregister: {code: XX99}}"),
        ("a capacity type", "{at: 1h, runOut: {capacityType: cheap, for: 1m}}"),
        ("an unknown key of a deed", "{at: 1h, refuse: {lanches: 2, for: 1m}}"),
        ("scale what has no replicas", "{at: 1h, scale: {kind: Pod, name: a, replicas: 1}}"),
        ("scale below zero", "{at: 1h, scale: {kind: Deployment, namespace: shop, name: web, replicas: -1}}"),
        ("an unknown kind", "{at: 1h, delete: {kind: Deploymnt, namespace: shop, name: web}}"),
        ("a namespace of a kind without", "{at: 1h, delete: {kind: NodePool, namespace: shop, name: general}}"),
        ("set what the object is", "{at: 1h, patch: {kind: NodePool, name: general, set: {kind: Pod}}}"),
        ("set a status", "{at: 1h, patch: {kind: NodePool, name: general, set: {status: {}}}}"),
        ("set a name", "{at: 1h, patch: {kind: NodePool, name: general, set: {metadata: {name: x}}}}"),
        ("change a node", "{at: 1h, patch: {kind: Node, name: x, set: {spec: {}}}}"),
        ("delete an attachment", "{at: 1h, delete: {kind: VolumeAttachment, name: x}}"),
    ]);
    insta::assert_snapshot!(all);
}

#[test]
fn names() {
    let all = refuse_events(&[
        ("a slip", "{at: 1h, scale: {kind: Deployment, namespace: shop, name: wbe, replicas: 2}}"),
        ("another namespace", "{at: 1h, scale: {kind: Deployment, name: web, replicas: 2}}"),
        ("like no other", "{at: 1h, scale: {kind: Deployment, namespace: shop, name: zeppelin, replicas: 2}}"),
        ("none of the kind", "{at: 1h, delete: {kind: CronJob, name: nightly}}"),
        ("a pool", "{at: 1h, patch: {kind: NodePool, name: genral, set: {spec: {weight: 5}}}}"),
        ("a pod of nobody", "{at: 1h, delete: {kind: Pod, namespace: shop, name: wep-0}}"),
        ("a claim of nobody", "{at: 1h, delete: {kind: PersistentVolumeClaim, namespace: shop, name: date-db-0}}"),
        ("a NodeClaim of no pool", "{at: 1h, delete: {kind: NodeClaim, name: genral-x7k2p}}"),
        (
            "after it was deleted",
            "{at: 1h, delete: {kind: Deployment, namespace: shop, name: web}}\n\
             {at: 2h, scale: {kind: Deployment, namespace: shop, name: web, replicas: 2}}",
        ),
        (
            "before it is made",
            "{at: 2h, apply: {apiVersion: v1, kind: Pod, metadata: {name: one}, spec: {containers: [{name: c}]}}}\n\
             {at: 1h, delete: {kind: Pod, name: one}}",
        ),
        (
            "after everything was deleted",
            "{at: 1h, deleteAll: true}\n{at: 2h, delete: {kind: NodePool, name: general}}",
        ),
    ]);
    insta::assert_snapshot!(all);
}

#[test]
fn offerings() {
    let all = refuse_events(&[
        ("a slip", "{at: 1h, runOut: {instanceType: a.larg, for: 1m}}"),
        ("a pattern of nothing", "{at: 1h, runOut: {instanceType: '[', for: 1m}}"),
        ("a zone of another region", "{at: 1h, runOut: {zone: us-east-1a, for: 1m}}"),
        ("an interruption elsewhere", "{at: 1h, interrupt: {zone: x}}"),
    ]);
    insta::assert_snapshot!(all, @r"
    === a slip
    error: stdin: document 1, line 6: Simulation: field `spec.events[0].runOut.instanceType` is `a.larg`, and no instance type is named so

    hint: did you mean `a.large`?

    === a pattern of nothing
    error: stdin: document 1, line 6: Simulation: field `spec.events[0].runOut.instanceType` is `[`, and no instance type is named so

    hint: `muster types` lists all that there are

    === a zone of another region
    error: stdin: document 1, line 6: Simulation: field `spec.events[0].runOut.zone` is `us-east-1a`, and nothing is offered there

    hint: there are `z1`, `z2`

    === an interruption elsewhere
    error: stdin: document 1, line 6: Simulation: field `spec.events[0].interrupt.zone` is `x`, and nothing is offered there

    hint: there are `z1`, `z2`
    ");
}

#[test]
fn objects() {
    let patched = |kind: &str, name: &str, set: &str| {
        format!("{{at: 90m, patch: {{kind: {kind}, namespace: shop, name: {name}, set: {set}}}}}")
    };
    let pool = |set: &str| format!("{{at: 90m, patch: {{kind: NodePool, name: general, set: {set}}}}}");
    let applied = |object: &str| format!("{{at: 90m, apply: {object}}}");
    let cases = [
        ("a spec that is a list", patched("Deployment", "web", "{spec: []}")),
        ("a spec that is gone", patched("Deployment", "web", "{spec: null}")),
        ("replicas in words", patched("Deployment", "web", "{spec: {replicas: many}}")),
        ("a template that is a text", patched("StatefulSet", "db", "{spec: {template: none}}")),
        (
            "ports that are no list",
            patched("Deployment", "web", "{spec: {template: {spec: {containers: [{name: c, ports: 80}]}}}}"),
        ),
        ("labels that are numbers", patched("Deployment", "web", "{metadata: {labels: {tier: 1}}}")),
        ("claims that are no list", patched("StatefulSet", "db", "{spec: {volumeClaimTemplates: {}}}")),
        ("a field that is none", patched("Deployment", "web", "{spec: {replica: 4}}")),
        ("a budget", patched("PodDisruptionBudget", "web", "{spec: {maxUnavailable: [1]}}")),
        (
            "a selector",
            patched("PodDisruptionBudget", "web", "{spec: {selector: {matchExpressions: [{key: a, operator: Is}]}}}"),
        ),
        ("a pod of a workload", patched("Pod", "web-0", "{spec: {containers: 5}}")),
        ("a claim of a workload", patched("PersistentVolumeClaim", "data-db-0", "{spec: {resources: 5}}")),
        ("a weight", pool("{spec: {weight: 1000}}")),
        ("a policy", pool("{spec: {disruption: {consolidationPolicy: Sometimes}}}")),
        ("a limit of a pool", pool("{spec: {limits: {cpu: lots}}}")),
        ("apply a kind that nobody knows", applied("{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}")),
        (
            "apply a claim of devices",
            applied("{apiVersion: resource.k8s.io/v1, kind: ResourceClaim, metadata: {name: a}, spec: {}}"),
        ),
        ("apply of another group", applied("{apiVersion: v1, kind: Deployment, metadata: {name: a}}")),
        ("apply v1beta1", applied("{apiVersion: karpenter.sh/v1beta1, kind: NodePool, metadata: {name: a}, spec: {}}")),
        ("apply a Node", applied("{apiVersion: v1, kind: Node, metadata: {name: a}}")),
        (
            "apply half a pool",
            applied("{apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {name: a}, spec: {template: {spec: {}}}}"),
        ),
        ("apply a pod without containers", applied("{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {}}")),
        ("apply what has no name", applied("{apiVersion: v1, kind: Pod, metadata: {}, spec: {}}")),
        (
            "apply a name that is a path",
            applied("{apiVersion: v1, kind: Pod, metadata: {name: a/b}, spec: {containers: [{name: c}]}}"),
        ),
        (
            "apply a schedule",
            applied(
                "{apiVersion: batch/v1, kind: CronJob, metadata: {name: a}, spec: {schedule: '* * * * * *', jobTemplate: {spec: {template: {spec: {containers: [{name: c}]}}}}}}",
            ),
        ),
        (
            "apply a negative amount",
            applied(
                "{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: [{name: c, resources: {requests: {cpu: -1}}}]}}",
            ),
        ),
    ];
    let cases: Vec<(&str, &str)> = cases.iter().map(|(name, event)| (*name, event.as_str())).collect();
    let all = refuse_events(&cases);
    insta::assert_snapshot!(all);
}

#[test]
fn crowds() {
    let crowds = refuse_events(&[
        ("scaled", "{at: 1h, scale: {kind: Deployment, namespace: shop, name: web, replicas: 1000000000}}"),
        ("patched", "{at: 1h, patch: {kind: StatefulSet, namespace: shop, name: db, set: {spec: {replicas: 100000}}}}"),
        (
            "patched beyond measure",
            "{at: 1h, patch: {kind: StatefulSet, namespace: shop, name: db, set: {spec: {replicas: 1000000000}}}}",
        ),
        (
            "ordinals",
            "{at: 1h, patch: {kind: StatefulSet, namespace: shop, name: db, set: {spec: {ordinals: {start: 9000000000000000000}}}}}",
        ),
        ("static nodes", "{at: 1h, patch: {kind: NodePool, name: steady, set: {spec: {replicas: 150000}}}}"),
        (
            "together",
            "{at: 1h, scale: {kind: Deployment, namespace: shop, name: web, replicas: 60000}}\n\
             {at: 2h, scale: {kind: Deployment, namespace: shop, name: batch, replicas: 60000}}",
        ),
    ]);
    insta::assert_snapshot!(crowds);
}

/// More than a day is played with, from the beginning: with a script, and doubled over noon by the default day.
#[test]
fn crowds_of_manifests() {
    let folder = tempfile::tempdir().unwrap();
    let mut all = String::new();
    for (name, replicas) in [("at once", 100_001), ("at noon", 60_000)] {
        let deployment = format!(
            "{{apiVersion: apps/v1, kind: Deployment, metadata: {{name: web}}, spec: {{replicas: {replicas}, \
             template: {{spec: {{containers: [{{name: c}}]}}}}}}}}"
        );
        let output = muster(&["simulate", "-f", "-"], folder.path(), deployment.as_bytes());
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{message}");
        writeln!(all, "=== {name}\n{message}").unwrap();
    }
    insta::assert_snapshot!(all);
}

/// Fields that nobody reads are said of what is applied, as of what is read with `-f`, and the day is played.
#[test]
fn what_is_ignored_is_said() {
    let script = format!(
        "{HEAD}  length: 1m\n  events:\n  - at: 10s\n    apply:\n      apiVersion: v1\n      kind: Pod\n      metadata: {{name: one}}\n      \
         spec: {{containers: [{{name: c}}], restartpolicy: Never}}\n"
    );
    let output = simulate(&script, &[]);
    assert_eq!(output.status.code(), Some(0));
    let said = String::from_utf8(output.stderr).unwrap();
    insta::assert_snapshot!(said);
}

/// Objects that the API server would refuse, and that the reader of other commands does not look at.
#[test]
fn manifests_that_cannot_be_played() {
    let folder = tempfile::tempdir().unwrap();
    let mut all = String::new();
    for (name, text) in [
        (
            "a template",
            "{apiVersion: apps/v1, kind: Deployment, metadata: {name: a}, spec: {template: {spec: {containers: [{name: c, ports: 80}]}}}}",
        ),
        (
            "a budget",
            "{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: a}, spec: {minAvailable: {}}}",
        ),
        (
            "a schedule",
            "{apiVersion: batch/v1, kind: CronJob, metadata: {name: a}, spec: {schedule: hourly, jobTemplate: {spec: {template: {spec: {containers: [{name: c}]}}}}}}",
        ),
        ("a time", "{apiVersion: v1, kind: Namespace, metadata: {name: a, creationTimestamp: yesterday}}"),
    ] {
        let output = muster(&["simulate", "-f", "-"], folder.path(), text.as_bytes());
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{message}");
        writeln!(all, "=== {name}\n{message}").unwrap();
    }
    insta::assert_snapshot!(all);
}
