//! Every message about bad input as its reader sees it: exit code 2, nothing on stdout, and what to do after a blank line.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod process;

use std::fmt::Write as _;
use std::os::unix::fs::symlink;
use std::path::Path;

use process::muster;

const POOL: &str = r"apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: general}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      requirements:
        - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
";

const CLASS: &str = r"apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata:
  name: default
spec:
  role: nodes
  amiSelectorTerms: [{alias: al2023@latest}]
  subnetSelectorTerms: [{tags: {a: b}}]
  securityGroupSelectorTerms: [{tags: {a: b}}]
";

const POD: &str = "{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: [{name: c, resources: {requests: {cpu: 1}}}]}}";

/// Adds the message of a command that must refuse its input.
#[track_caller]
fn refuse(all: &mut String, name: &str, arguments: &[&str], folder: &Path, stdin: &[u8]) {
    let output = muster(arguments, folder, stdin);
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{name}: {message}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "", "{name}");
    // Warnings about the rest of the input may come first.
    let message: String = message
        .lines()
        .skip_while(|line| line.starts_with("warning: "))
        .fold(String::new(), |all, line| all + line + "\n");
    assert!(message.starts_with("error: ") && message.contains("\n\nhint: "), "{name}: {message}");
    writeln!(all, "=== {name}\n{message}").unwrap();
}

#[test]
fn manifests() {
    let folder = tempfile::tempdir().unwrap();
    let pool = |from: &str, to: &str| POOL.replace(from, to);
    let class = |from: &str, to: &str| format!("{}---\n{POOL}", CLASS.replace(from, to));
    let kubelet = |settings: &str| class("spec:\n", &format!("spec:\n  kubelet: {settings}\n"));
    let cases = [
        ("malformed YAML", "a: [1\nb: }".to_owned()),
        ("a tab", "apiVersion: v1\nkind: Pod\nmetadata:\n\tname: x\n".to_owned()),
        ("a scalar", "hello".to_owned()),
        ("a comma too many in a map", r#"{"apiVersion":"v1","kind":"List","items":[],}"#.to_owned()),
        ("a comma too many in a list", r#"{"apiVersion":"v1","kind":"List","items":[1,]}"#.to_owned()),
        ("JSON that ends early", r#"{"apiVersion":"v1","kind":"List","items":[{"#.to_owned()),
        ("more than JSON", r#"{"apiVersion":"v1","kind":"List","items":[]} xx"#.to_owned()),
        ("items that are no list", r#"{"apiVersion":"v1","kind":"List","items":{}}"#.to_owned()),
        ("an item", format!("apiVersion: v1\nkind: List\nitems:\n- {POD}\n- {{apiVersion: v1, kind: Pod}}\n")),
        ("a key twice", "apiVersion: v1\nkind: Pod\nkind: Pod\n".to_owned()),
        ("an object twice", format!("{POD}\n---\n{POD}")),
        ("v1beta1", pool("karpenter.sh/v1\n", "karpenter.sh/v1beta1\n")),
        ("v1alpha5", "apiVersion: karpenter.sh/v1alpha5\nkind: Provisioner\nmetadata: {name: x}\n".to_owned()),
        ("a version to come", pool("karpenter.sh/v1\n", "karpenter.sh/v2\n")),
        ("a negative quantity", POD.replace("cpu: 1", "cpu: -1")),
        ("no quantity", POD.replace("cpu: 1", "cpu: 1Gb")),
        ("a quantity beyond all measure", POD.replace("cpu: 1", "cpu: 9e30")),
        ("a limit beyond all measure", format!("{POOL}  limits: {{memory: 16Ei}}\n")),
        ("no containers", "{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {}}".to_owned()),
        ("too many replicas", "{apiVersion: apps/v1, kind: Deployment, metadata: {name: w}, spec: {replicas: 2147483647, template: {spec: {containers: [{name: c}]}}}}".to_owned()),
        ("too many static nodes", pool("spec:\n  template", "spec:\n  replicas: 1000000\n  template")),
        ("an operator of a pod", "{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: [{name: c}], tolerations: [{operator: Foo}]}}".to_owned()),
        ("an operator of a pool", pool("operator: In", "operator: Inn")),
        ("a label of a pool", pool("karpenter.sh/capacity-type", "kubernetes.io/hostname")),
        ("no class", pool("      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}\n", "")),
        ("a limit", format!("{POOL}  limits: {{cpu: lots}}\n")),
        ("a negative limit", format!("{POOL}  limits: {{cpu: -5}}\n")),
        ("a budget", format!("{POOL}  disruption: {{consolidateAfter: 0s, budgets: [{{nodes: 200%}}]}}\n")),
        ("a duration", format!("{POOL}  disruption: {{consolidateAfter: soon}}\n")),
        ("no images", class("  amiSelectorTerms: [{alias: al2023@latest}]\n", "")),
        ("no role", class("  role: nodes\n", "")),
        ("a negative reservation", kubelet("{kubeReserved: {cpu: '-1'}}")),
        ("a threshold", kubelet("{evictionHard: {memory.available: 500%}}")),
        ("maxPods", kubelet("{maxPods: -1}")),
        ("a volume", class("spec:\n", "spec:\n  blockDeviceMappings: [{deviceName: /dev/xvda, ebs: {volumeSize: big}}]\n")),
        ("the annotation", class("name: default\n", "name: default\n  annotations: {muster.dev/prefix-delegation: maybe}\n")),
        ("a price", "{apiVersion: karpenter.sh/v1alpha1, kind: NodeOverlay, metadata: {name: o}, spec: {requirements: [], priceAdjustment: x%}}".to_owned()),
        ("two objects", format!("{}---\n{}", pool("operator: In", "operator: Inn"), POD.replace("cpu: 1", "cpu: -1"))),
    ];
    let mut all = String::new();
    for (name, text) in cases {
        refuse(&mut all, name, &["plan", "-f", "-"], folder.path(), text.as_bytes());
    }
    insta::assert_snapshot!(all);
}

/// `spec.kubelet` takes any field, as with Karpenter 1.15: the class says that it never becomes ready.
#[test]
fn kubelet_settings() {
    let folder = tempfile::tempdir().unwrap();
    let class = CLASS.replace("spec:\n", "spec:\n  kubelet: {kubeReserved: {cpu: -1}}\n");
    let output = muster(&["plan", "-f", "-"], folder.path(), format!("{class}---\n{POOL}").as_bytes());
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{message}");
    insta::assert_snapshot!(message);
}

#[test]
fn files() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let write = |name: &str, bytes: &[u8]| std::fs::write(at(name), bytes).unwrap();
    write("pool.yaml", POOL.as_bytes());
    write("latin.yaml", b"a: b\nc: \xe9\n");
    write("wide.yaml", b"\xff\xfea\0:\0");
    write("pool.yaml.gz", b"\x1f\x8b\x08\0\0\0\0\0\0\x03\x03\0\0\0\0\0\0\0\0\0");
    symlink("loop.yaml", at("loop.yaml")).unwrap();
    std::fs::create_dir(at("tree")).unwrap();
    symlink("../tree", at("tree/again")).unwrap();
    std::fs::create_dir(at("dangling")).unwrap();
    symlink("nowhere", at("dangling/a.yaml")).unwrap();
    let mut all = String::new();
    for path in ["nope.yaml", "latin.yaml", "wide.yaml", "pool.yaml.gz", "loop.yaml", "tree", "dangling"] {
        refuse(&mut all, path, &["plan", "-f", path], folder.path(), b"");
    }
    refuse(&mut all, "a file twice", &["plan", "-f", "pool.yaml", "-f", "pool.yaml"], folder.path(), b"");
    let named = ["--scheduler-config", "--catalog"].map(|option| ["plan", "-f", "pool.yaml", option]);
    for arguments in named {
        for path in ["nope.yaml", "latin.yaml", "tree", "pool.yaml"] {
            let name = format!("{} {path}", arguments[3]);
            refuse(&mut all, &name, &[&arguments[..], &[path]].concat(), folder.path(), b"");
        }
    }
    insta::assert_snapshot!(all);
}

#[test]
fn catalogues() {
    let folder = tempfile::tempdir().unwrap();
    let types =
        |types: &str| format!(r#"{{"apiVersion":"muster.dev/v1","kind":"InstanceCatalog","instanceTypes":[{types}]}}"#);
    let cases = [
        ("nothing", String::new()),
        ("another document", "foo: bar".to_owned()),
        ("malformed YAML", "a: [1\nb: }".to_owned()),
        ("a comma too many", types(r#"{"name":"a","capacity":{"cpu":"1"}},"#)),
        ("another kind", types("").replace("InstanceCatalog", "NodePool")),
        ("a negative quantity", types(r#"{"name":"a","capacity":{"cpu":"-1"}}"#)),
        ("a price in words", types(r#"{"name":"a","capacity":{"cpu":"1"},"offerings":[{"price":"x"}]}"#)),
        ("a price below zero", types(r#"{"name":"a","capacity":{"cpu":"1"},"offerings":[{"price":-1}]}"#)),
        ("an operator", types(r#"{"name":"a","capacity":{"cpu":"1"},"requirements":[{"key":"a","operator":"Is"}]}"#)),
        (
            "In without values",
            types(
                r#"{"name":"a","capacity":{"cpu":"1"},"offerings":[{"requirements":[{"key":"topology.kubernetes.io/zone","operator":"In","values":[]}]}]}"#,
            ),
        ),
        (
            "a value that is no text",
            types(r#"{"name":"a","capacity":{"cpu":"1"},"requirements":[{"key":"a","operator":"In","values":[5]}]}"#),
        ),
        ("a price out of range", types(r#"{"name":"a","capacity":{"cpu":"1"},"offerings":[{"price":1e999}]}"#)),
        (
            "a count below zero",
            types(r#"{"name":"a","capacity":{"cpu":"1"},"offerings":[{"reservationCapacity":-1}]}"#),
        ),
        ("no types", types("").replace("[]", "{}")),
        ("a type twice", types(r#"{"name":"a","capacity":{"cpu":"1"}},{"name":"a","capacity":{"cpu":"1"}}"#)),
    ];
    let mut all = String::new();
    for (name, text) in cases {
        refuse(&mut all, name, &["types", "--catalog", "-"], folder.path(), text.as_bytes());
    }
    insta::assert_snapshot!(all);
}

#[test]
fn options() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("pool.yaml"), POOL).unwrap();
    let mut all = String::new();
    std::fs::write(folder.path().join("refused.txt"), "# last hour\nm7g.large/us-east-1a/spot\nm7g.large/spot/x\n")
        .unwrap();
    let cases: [(&str, &[&str]); 14] = [
        ("a region", &["plan", "-f", "pool.yaml", "--region", "mars-1"]),
        ("a zone for a region", &["plan", "-f", "pool.yaml", "--region", "eu-west-1a"]),
        ("a gate", &["plan", "-f", "pool.yaml", "--feature-gates", "ReservedCapacity=maybe"]),
        ("a class that is not there", &["types", "-f", "pool.yaml"]),
        ("a pattern of no name", &["types", "--name", "m7g.*", "--name", "["]),
        ("an empty pattern", &["types", "--name", ""]),
        ("a node that is not there", &["explain", "node", "zz", "-f", "pool.yaml"]),
        ("a price of moves", &["disrupt", "-f", "pool.yaml", "--move-price", "cheap"]),
        ("a price of moves below zero", &["disrupt", "-f", "pool.yaml", "--move-price=-1"]),
        ("an offering without a type", &["disrupt", "-f", "pool.yaml", "--refused", "*/us-east-1a/spot"]),
        ("an offering of no kind", &["disrupt", "-f", "pool.yaml", "--refused", "m7g.large/us-east-1a/cheap"]),
        ("an offering of a type that is not there", &["disrupt", "-f", "pool.yaml", "--refused", "m7g.larg"]),
        ("a line of a file of offerings", &["disrupt", "-f", "pool.yaml", "--refused", "@refused.txt"]),
        ("a file of offerings that is not there", &["disrupt", "-f", "pool.yaml", "--refused", "@none.txt"]),
    ];
    for (name, arguments) in cases {
        refuse(&mut all, name, arguments, folder.path(), b"");
    }
    insta::assert_snapshot!(all);
}

#[test]
fn conversions() {
    let folder = tempfile::tempdir().unwrap();
    let of = |version: &str, kind: &str| format!("{{apiVersion: {version}, kind: {kind}, metadata: {{name: x}}}}\n");
    let cases = [
        ("a kind that there never was", of("karpenter.sh/v1alpha5", "Provisoner")),
        ("a kind of another group", of("karpenter.k8s.aws/v1beta1", "NodeOverlayClass")),
        ("a version that there never was", of("karpenter.sh/v1beta2", "NodePool")),
        ("an earlier name in a later version", of("karpenter.sh/v1beta1", "Provisioner")),
        ("the second document", format!("{POOL}---\n{}", of("karpenter.k8s.aws/v1alpha5", "AWSNodeTemplate"))),
        ("no kind", "{apiVersion: v1, metadata: {name: x}}\n".to_owned()),
        ("a scalar", "hello".to_owned()),
    ];
    let mut all = String::new();
    for (name, text) in cases {
        refuse(&mut all, name, &["convert", "-f", "-"], folder.path(), text.as_bytes());
    }
    insta::assert_snapshot!(all);
    let known =
        [POD.to_owned(), POOL.to_owned(), of("v1", "ConfigMap"), of("v1", "ConfigMap"), of("a.example/v1", "B")];
    let output = muster(&["convert", "-f", "-"], folder.path(), known.join("\n---\n").as_bytes());
    assert_eq!(output.status.code(), Some(0));
    let notes =
        "note: did not convert 1 object of kind B.a.example\nnote: did not convert 2 objects of kind ConfigMap\n";
    assert_eq!(String::from_utf8(output.stderr).unwrap(), notes);
    assert_eq!(String::from_utf8(output.stdout).unwrap().matches("kind: ").count(), 6, "five and a class reference");
}

#[test]
fn input_without_objects_is_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("zero.yaml"), "").unwrap();
    std::fs::create_dir(folder.path().join("empty")).unwrap();
    for (path, name) in [("-", "stdin"), ("zero.yaml", "`zero.yaml`"), ("empty", "`empty`")] {
        let output = muster(&["plan", "-f", path], folder.path(), b"# nothing\n---\n");
        assert_eq!(output.status.code(), Some(0));
        assert_eq!(String::from_utf8(output.stderr).unwrap(), format!("warning: there is no object in {name}\n"));
    }
}
