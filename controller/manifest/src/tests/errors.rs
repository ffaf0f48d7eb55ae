//! The message of each error, whole.

use std::io::Cursor;
use std::path::PathBuf;

use super::super::*;

fn error(name: &str, text: &str) -> String {
    read_text(name, text).unwrap_err().to_string()
}

/// A pod with `spec` in the flow style of YAML.
fn pod_error(spec: &str) -> String {
    let text = format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: web, namespace: shop}}\nspec:\n  containers: [{{name: c}}]\n  {spec}\n"
    );
    error("pods.yaml", &text)
}

#[test]
fn what_is_no_yaml_or_json_is_named_with_its_line() {
    insta::assert_snapshot!(error("a.json", "{\"a\": 1,\n \"b\": }"), @r"
    a.json: document 1, line 2: not valid JSON: expected value

    hint: correct the text there, or write the file as YAML
    ");
    insta::assert_snapshot!(error("a.yaml", "apiVersion: v1\nkind: Secret\n---\na: [1, 2\nb: {"), @r"
    a.yaml: document 2, line 5: not valid YAML: illegal placement of ':' indicator

    hint: correct the text there; indent with spaces and quote odd values
    ");
}

#[test]
fn keys_stand_once() {
    insta::assert_snapshot!(error("a.yaml", "apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n  name: b\n"), @r"
    a.yaml: document 1, line 5: duplicate key `name`

    hint: keep one of the two entries; only one of them could count
    ");
    let json = "{\"apiVersion\":\"v1\",\"kind\":\"List\",\"items\":[\n{\"kind\":\"Pod\",\n\"metadata\":{\"name\":\"a\",\n\"name\":\"b\"}}]}";
    insta::assert_snapshot!(error("stdin", json), @r"
    stdin: document 1, item 1, line 4: duplicate key `name`

    hint: keep one of the two entries; only one of them could count
    ");
    let many: String = (0..40).map(|number| format!("\"k{}\":1,", number % 39)).collect();
    assert!(error("a.json", &format!("{{{many}\"kind\":\"x\"}}")).contains("duplicate key `k0`"));
    assert!(error("a.json", "{\"kind\":\"List\",\"kind\":\"List\",\"items\":[]}").contains("duplicate key `kind`"));
}

#[test]
fn objects_stand_once() {
    let pod = "{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: [{name: c}]}}";
    insta::assert_snapshot!(error("a.yaml", &format!("{pod}\n---\n{pod}\n")), @r"
    a.yaml: document 2, line 3: Pod `a` is already in a.yaml: document 1

    hint: keep one of the two; only one of them could count
    ");
    let folder = tempfile::tempdir().unwrap();
    let paths: Vec<PathBuf> = ["1.yaml", "2.yaml"].iter().map(|name| folder.path().join(name)).collect();
    paths.iter().for_each(|path| std::fs::write(path, pod).unwrap());
    let message = read(&paths, &mut Cursor::new("")).unwrap_err().to_string();
    assert!(message.contains("2.yaml: document 1, line 1: Pod `a` is already in"), "{message}");
    // To find a line is to read the text once more: done for those that are shown, not for a thousand.
    let many = folder.path().join("many.yaml");
    std::fs::write(&many, format!("{{apiVersion: v1, kind: List, items: [{}]}}", vec![pod; 1_000].join(",\n")))
        .unwrap();
    let message = read(&[many], &mut Cursor::new("")).unwrap_err().to_string();
    assert!(message.contains("document 1, item 21, line 21: Pod `a` is already in"), "{message}");
    assert!(message.ends_with("979 more errors like these\n\nhint: correct the first ones and try again"), "{message}");
    // Another namespace or another kind is another object.
    let other = pod.replace("name: a}", "name: a, namespace: b}");
    assert_eq!(read_text("a.yaml", &format!("{pod}\n---\n{other}\n")).unwrap().pods.len(), 2);
}

#[test]
fn old_versions_of_our_kinds_are_to_be_converted() {
    insta::assert_snapshot!(error("a.yaml", "apiVersion: karpenter.sh/v1beta1\nkind: NodePool\nmetadata: {name: x}\n"), @r"
    a.yaml: document 1, line 1: NodePool `x` has apiVersion `karpenter.sh/v1beta1`, which is not supported; `karpenter.sh/v1` is

    hint: `muster convert -f FILE` rewrites it as `karpenter.sh/v1`
    ");
    for (version, kind) in [
        ("karpenter.sh/v1alpha5", "Provisioner"),
        ("karpenter.sh/v1alpha5", "Machine"),
        ("karpenter.k8s.aws/v1alpha1", "AWSNodeTemplate"),
        ("karpenter.k8s.aws/v1beta1", "EC2NodeClass"),
        ("karpenter.sh/v1beta1", "NodeClaim"),
    ] {
        let message = error("a.yaml", &format!("apiVersion: {version}\nkind: {kind}\nmetadata: {{name: x}}\n"));
        assert!(message.contains("hint: `muster convert -f FILE`"), "{message}");
    }
    let message = error("a.yaml", "apiVersion: karpenter.sh/v2\nkind: NodePool\nmetadata: {name: x}\n");
    assert!(message.ends_with("hint: rewrite the object as `karpenter.sh/v1`"), "{message}");
}

#[test]
fn crds_have_their_say() {
    let text = "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: general}\nspec:\n  weight: 101\n  template:\n    spec:\n      \
                requirements: []\n      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}\n";
    let message = error("pools.yaml", text);
    assert!(
        message.starts_with("pools.yaml: document 1, line 5: NodePool `general`: field `spec.weight` "),
        "{message}"
    );
    let text = text.replace("weight: 101", "wieght: 1");
    let warnings = read_text("pools.yaml", &text).unwrap().warnings;
    assert_eq!(
        warnings,
        [
            "pools.yaml: document 1, line 5: NodePool `general`: unknown field `spec.wieght` is ignored (did you mean `weight`?)"
        ]
    );
}

#[test]
fn what_is_no_object_is_refused() {
    insta::assert_snapshot!(error("a.yaml", "- a\n- b\n"), @r"
    a.yaml: document 1, line 1: a Kubernetes object must be a map, not a list

    hint: write `apiVersion`, `kind` and `metadata`; several objects go into a `List`
    ");
    insta::assert_snapshot!(error("a.yaml", "kind: Pod\n"), @r"
    a.yaml: document 1, line 1: field `apiVersion` is missing

    hint: every object needs an `apiVersion` and a `kind`
    ");
    assert!(error("a.yaml", "apiVersion: 1\nkind: Pod\n").contains("field `apiVersion` is not text"));
    assert!(error("a.yaml", "apiVersion: v1\nkind: Pod\n").contains("Pod without a name: field `metadata` is missing"));
    let message = error("a.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {generateName: a-}\n");
    assert!(
        message.contains("field `metadata.name` is missing") && message.contains("replace `generateName`"),
        "{message}"
    );
}

#[test]
fn fields_are_named_with_object_and_line() {
    insta::assert_snapshot!(pod_error("overhead: {cpu: -1}"), @r"
    pods.yaml: document 1, line 6: Pod `shop/web`: field `spec.overhead.cpu` quantity `-1` is negative

    hint: write an amount of zero or more
    ");
    insta::assert_snapshot!(pod_error("initContainers: [{name: i, resources: {limits: {memory: 1GiB}}}]"), @r"
    pods.yaml: document 1, line 6: Pod `shop/web`: field `spec.initContainers[0].resources.limits.memory` `1GiB` is not a quantity

    hint: write a number with an optional suffix, such as `500m`, `2`, `1.5Gi` or `10M`
    ");
    insta::assert_snapshot!(pod_error("nodeSelector: {example.com/a: true}"), @r#"
    pods.yaml: document 1, line 6: Pod `shop/web`: field `spec.nodeSelector["example.com/a"]` must be text, not the boolean true

    hint: put the value in quotes
    "#);
}

#[test]
fn every_rule_of_a_pod_has_its_message() {
    let term = |term: &str| {
        let terms = format!("{{requiredDuringSchedulingIgnoredDuringExecution: {{nodeSelectorTerms: [{term}]}}}}");
        format!("affinity: {{nodeAffinity: {terms}}}")
    };
    let expression = |text: &str| term(&format!("{{matchExpressions: [{text}]}}"));
    let spread = |text: &str| format!("topologySpreadConstraints: [{{topologyKey: a, {text}}}]");
    for (spec, expected) in [
        (term(""), "nodeSelectorTerms` is empty"),
        (expression("{key: a, operator: Im, values: [b]}"), "operator` `Im` is not known here"),
        (expression("{key: a, operator: Gte, values: ['1']}"), "operator` `Gte` is not known here"),
        (expression("{key: a, operator: In}"), "values` is empty, which this operator does not allow"),
        (expression("{key: a, operator: Exists, values: [b]}"), "values` is not empty"),
        (
            expression("{key: a, operator: Gt, values: [b]}"),
            "values` must be exactly one whole number with operator Gt",
        ),
        (expression("{key: a, operator: Lt, values: ['1', '2']}"), "values` must be exactly one whole number"),
        (expression("{key: '', operator: Exists}"), "key` is empty"),
        (expression("{operator: Exists}"), "key` is missing"),
        (spread("maxSkew: 0, whenUnsatisfiable: DoNotSchedule"), "maxSkew` `0` is out of range"),
        (spread("maxSkew: 1, whenUnsatisfiable: Never"), "whenUnsatisfiable` `Never` is not known here"),
        (spread("maxSkew: 1"), "whenUnsatisfiable` is missing"),
        (
            spread("maxSkew: 1, whenUnsatisfiable: DoNotSchedule, nodeTaintsPolicy: Yes"),
            "nodeTaintsPolicy` `Yes` is not known",
        ),
        ("tolerations: [{operator: Equals, key: a}]".to_owned(), "operator` `Equals` is not known here"),
        ("tolerations: [{}]".to_owned(), "operator` must be Exists when `key` is empty"),
        ("tolerations: [{operator: Exists, value: a}]".to_owned(), "value` must be empty with operator Exists"),
        ("tolerations: [{operator: Exists, effect: Evict}]".to_owned(), "effect` `Evict` is not known here"),
        ("initContainers: [{ports: [{hostPort: 70000}]}]".to_owned(), "hostPort` `70000` is out of range"),
        ("initContainers: [{ports: [{hostPort: 1, protocol: ICMP}]}]".to_owned(), "protocol` `ICMP` is not known here"),
        (
            "initContainers: [{ports: [{hostPort: 1, hostIP: localhost}]}]".to_owned(),
            "hostIP` `localhost` is not an IP address",
        ),
        ("priority: 99999999999".to_owned(), "priority` `99999999999` is out of range"),
        ("priority: 1.5".to_owned(), "priority` `1.5` is out of range"),
        ("hostNetwork: 1".to_owned(), "hostNetwork` must be true or false, not the number 1"),
        ("volumes: {}".to_owned(), "volumes` must be a list, not a map"),
    ] {
        let message = pod_error(&spec);
        assert!(message.contains(expected), "{spec}\n{message}");
        assert!(
            message.contains(", line 6: Pod `shop/web`: field `spec.") && message.contains("\n\nhint: "),
            "{message}"
        );
    }
    let message = error("a.yaml", "{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: []}}");
    assert!(message.contains("field `spec.containers` is empty"), "{message}");
    let message = error("a.yaml", "{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {}}");
    assert!(message.contains("field `spec.containers` is missing"), "{message}");
}

#[test]
fn files_that_cannot_be_read_are_named() {
    let message = read(&["no/such/file.yaml".into()], &mut Cursor::new("")).unwrap_err().to_string();
    assert!(message.starts_with("cannot read `no/such/file.yaml`: "), "{message}");
    let message = read(&["-".into()], &mut Cursor::new(b"a: b\nc: \xff\n")).unwrap_err().to_string();
    assert_eq!(message, "cannot read `stdin`: line 2 is not UTF-8\n\nhint: save `stdin` as UTF-8");
}

#[test]
fn hostile_texts_are_errors() {
    let bomb: String = std::iter::once("a0: &a0 [x, x, x, x, x, x, x, x, x]\n".to_owned())
        .chain((1..12).map(|level| format!("a{level}: &a{level} [{}]\n", format!("*a{}, ", level - 1).repeat(9))))
        .collect();
    let message = error("a.yaml", &bomb);
    assert!(message.contains("too much nesting or too many aliases"), "{message}");
    assert!(error("a.yaml", "a: &a [*a]\n").contains("not valid YAML"));
    for (name, text) in [
        ("a.json", "[".repeat(100_000)),
        ("a.yaml", "[".repeat(100_000)),
        ("a.yaml", "- ".repeat(100_000)),
        ("a.json", format!("{}{}", "{\"a\":".repeat(100_000), "}".repeat(100_000))),
        ("a.json", format!("{{\"kind\":\"List\",\"items\":{}1{}}}", "[".repeat(10_000), "]".repeat(10_000))),
        ("a.yaml", "a: \0".to_owned()),
        ("a.json", "{\"a\":1e400}".to_owned()),
        ("a.yaml", "kind: !!binary x\n".to_owned()),
    ] {
        assert!(!error(name, &text).is_empty());
    }
    let huge =
        "{apiVersion: v1, kind: Node, metadata: {name: a}, status: {allocatable: {cpu: 1e400, memory: '1e400'}}}";
    assert!(read_text("a.yaml", huge).is_err());
    let huge = huge.replace("cpu: 1e400", "cpu: '1e400'");
    let node = &read_text("a.yaml", &huge).unwrap().nodes[0];
    assert!(node.allocatable.iter().all(|(_, amount)| amount == i64::MAX));
}
