//! What the reader takes, and what it says about what it does not take.

use std::io::Cursor;
use std::path::{Path, PathBuf};

use super::*;

mod errors;

fn pods_of(text: &str) -> Vec<String> {
    read_text("input", text).unwrap().pods.iter().map(|pod| pod.path.to_string()).collect()
}

fn pod(name: &str) -> String {
    format!(
        r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"{name}"}},"spec":{{"containers":[{{"name":"c"}}]}}}}"#
    )
}

#[test]
fn every_way_to_write_several_objects_is_read() {
    let (a, b) = (pod("a"), pod("b"));
    for text in [
        format!("{a}\n---\n{b}\n"),
        format!("---\n{a}\n---\n---\n# nothing\n---\n{b}\n...\n"),
        format!("--- # first\n{a}\n...\n{b}"),
        format!("%YAML 1.2\n---\n{a}\n---\n{b}"),
        format!("{a}{b}"),
        format!("{a}\n{b}\n"),
        format!("\n{{\"apiVersion\":\"v1\",\"kind\":\"List\",\"items\":[{a},{b}]}}"),
        format!("{{\"kind\":\"List\",\"items\":[{{\"kind\":\"List\",\"items\":[{a}]}},{b}],\"apiVersion\":\"v1\"}}"),
        format!("kind: List\napiVersion: v1\nitems:\n- {a}\n- {b}\n"),
        format!("{{kind: List, apiVersion: v1, items: [{a}, {b}]}}"),
        format!("{a}\r\n---\r\n{b}\r\n"),
    ] {
        assert_eq!(pods_of(&text), ["default/a", "default/b"], "{text}");
    }
}

#[test]
fn items_of_a_typed_list_need_no_kind() {
    let item = r#"{"metadata":{"name":"a","namespace":"n"},"spec":{"containers":[{"name":"c"}]}}"#;
    let json = format!(r#"{{"kind":"PodList","apiVersion":"v1","items":[{item}]}}"#);
    assert_eq!(pods_of(&json), ["n/a"]);
    assert_eq!(pods_of(&format!("kind: PodList\napiVersion: v1\nitems:\n- {item}\n")), ["n/a"]);
    assert_eq!(pods_of(r#"{"kind":"PodList","apiVersion":"v1","items":null}"#), [""; 0]);
}

#[test]
fn folders_are_read_in_order_and_all_below_them() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write("b.yaml", &pod("b"));
    write("a.yml", &pod("a"));
    write("c/d/c.JSON", &pod("c"));
    write("d.txt", "not: [a manifest");
    write("..data/a.yml", &pod("a"));
    let mut stdin = Cursor::new(pod("z"));
    let manifests = read(&[folder.path().to_owned(), PathBuf::from("-")], &mut stdin).unwrap();
    let names: Vec<&str> = manifests.pods.iter().map(|pod| &*pod.name).collect();
    assert_eq!(names, ["a", "b", "c", "z"]);
}

#[test]
fn a_byte_order_mark_is_no_text() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.json");
    std::fs::write(&path, format!("\u{feff}{}", pod("a"))).unwrap();
    assert_eq!(read(&[path], &mut Cursor::new("")).unwrap().pods.len(), 1);
}

#[test]
fn other_kinds_are_counted() {
    let text = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n---\n\
        {apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n---\n\
        {apiVersion: serving.knative.dev/v1, kind: Service, metadata: {name: a}}\n---\n\
        {apiVersion: batch.volcano.sh/v1alpha1, kind: Job, metadata: {name: a}}";
    assert_eq!(
        read_text("input", text).unwrap().notes(),
        [
            "ignored 2 objects of kind ConfigMap",
            "ignored 1 object of kind Job.batch.volcano.sh",
            "ignored 1 object of kind Service.serving.knative.dev",
        ]
    );
}

#[test]
fn unknown_fields_are_warnings_with_the_nearest_name() {
    let text = "apiVersion: v1\nkind: Pod\nmetadata: {name: a, label: {}}\nspec:\n  nodeSelectors: {a: b}\n  containers:\n  \
                - {name: c, resources: {request: {cpu: 1}}}\n  zzz: 1\n";
    assert_eq!(
        read_text("p.yaml", text).unwrap().warnings,
        [
            "p.yaml: document 1, line 3: Pod `a`: unknown field `metadata.label` is ignored (did you mean `labels`?)",
            "p.yaml: document 1, line 5: Pod `a`: unknown field `spec.nodeSelectors` is ignored (did you mean `nodeSelector`?)",
            "p.yaml: document 1, line 8: Pod `a`: unknown field `spec.zzz` is ignored",
            "p.yaml: document 1, line 7: Pod `a`: unknown field `spec.containers[0].resources.request` is ignored (did you mean `requests`?)",
        ]
    );
}

#[test]
fn an_empty_selector_term_is_a_warning_with_its_field() {
    let class = |subnets: &str| {
        format!(
            "apiVersion: karpenter.k8s.aws/v1\nkind: EC2NodeClass\nmetadata: {{name: a}}\nspec:\n  role: r\n  \
             amiSelectorTerms: [{{alias: al2023@latest}}]\n  securityGroupSelectorTerms: [{{id: sg-1}}]\n  \
             subnetSelectorTerms:\n{subnets}"
        )
    };
    let read = |subnets: &str| read_text("c.yaml", &class(subnets)).unwrap();
    let ignored = "is empty: the term selects nothing and is ignored";
    let beside = read("  - {id: subnet-1}\n  - tags: {}\n");
    let warning =
        format!("c.yaml: document 1, line 10: EC2NodeClass `a`: `spec.subnetSelectorTerms[1].tags` {ignored}");
    assert_eq!(beside.warnings, [warning]);
    assert_eq!(beside.node_classes[0].never_ready, None);
    let alone = read("  - tags: {}\n");
    let reason = "field `spec.subnetSelectorTerms` selects nothing, because every term of it is empty";
    assert_eq!(alone.node_classes[0].never_ready.as_deref(), Some(reason));
    assert_eq!(alone.warnings.len(), 2, "{:?}", alone.warnings);
    assert!(alone.warnings[0].ends_with(&format!("will never become ready: {reason}")), "{:?}", alone.warnings);
}

#[test]
fn many_unknown_fields_are_counted() {
    let text: String =
        (0..30).map(|number| pod(&format!("p{number}")).replace("\"spec\"", "\"zzz\":1,\"spec\"")).collect();
    let warnings = read_text("p.json", &text).unwrap().warnings;
    assert_eq!(warnings.len(), 21);
    assert_eq!(warnings[20], "10 more warnings like these");
}

#[test]
fn pods_that_differ_in_nothing_share_their_template() {
    let manifests = read_text("input", &[pod("a"), pod("b")].concat()).unwrap();
    assert!(std::sync::Arc::ptr_eq(&manifests.pods[0].template, &manifests.pods[1].template));
}

#[test]
fn the_owner_is_the_one_that_controls_or_a_lone_one_that_does_not_say() {
    let owner = |references: &str| {
        let text = format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{name: a, ownerReferences: [{references}]}}, \
             spec: {{containers: [{{name: c}}]}}}}"
        );
        let manifests = read_text("input", &text).unwrap();
        manifests.pods[0].owner.as_ref().map(|owner| owner.name.to_string())
    };
    let one = |name: &str, controller: &str| format!("{{kind: ReplicaSet, name: {name}{controller}}}");
    let (yes, no) = (", controller: true", ", controller: false");
    assert_eq!(owner(&one("x", "")).as_deref(), Some("x"));
    assert_eq!(owner(&one("x", yes)).as_deref(), Some("x"));
    assert_eq!(owner(&one("x", no)), None);
    assert_eq!(owner(&[one("x", ""), one("y", yes)].join(", ")).as_deref(), Some("y"));
    assert_eq!(owner(&[one("x", ""), one("y", "")].join(", ")), None);
}

#[test]
fn the_default_spread_is_read_from_the_configuration_of_the_scheduler() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("scheduler.yaml");
    let head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n";
    let read = |profiles: &str| {
        std::fs::write(&path, format!("{head}{profiles}")).unwrap();
        read_scheduler_config(&path)
    };
    let args = |args: &str| {
        format!(
            "profiles:\n- pluginConfig:\n  - name: NodeResourcesFit\n    args: {{}}\n  - name: PodTopologySpread\n    args: {args}\n"
        )
    };
    let system = read(&args("{defaultingType: System}")).unwrap();
    assert_eq!(system.constraints.len(), 2);
    let elsewhere = "profiles: [{pluginConfig: [{name: NodeResourcesFit}]}]";
    let of_another = "profiles: [{schedulerName: other, pluginConfig: [{name: PodTopologySpread, args: \
                      {defaultingType: List}}]}, {schedulerName: default-scheduler}]";
    for unsaid in ["", "profiles: [{}]", elsewhere, of_another, &args("{}"), &args("{defaultConstraints: []}")] {
        assert_eq!(read(unsaid).unwrap(), system, "kube-scheduler takes `System`: {unsaid}");
    }
    assert_eq!(read(&args("{defaultingType: List}")).unwrap().constraints.len(), 0);
    let constraint = "{maxSkew: 2, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule}";
    let spread = read(&args(&format!("{{defaultingType: List, defaultConstraints: [{constraint}]}}"))).unwrap();
    assert_eq!(spread.constraints.len(), 1);
    assert_eq!((spread.constraints[0].max_skew, spread.constraints[0].required), (2, true));
    let error = read(&args("{defaultConstraints: [{labelSelector: {}}]}")).unwrap_err().to_string();
    assert!(
        error.contains("`profiles[0].pluginConfig[1].args.defaultConstraints[0].labelSelector` is not allowed"),
        "{error}"
    );
    std::fs::write(&path, "kind: Pod\napiVersion: v1\n").unwrap();
    let error = read_scheduler_config(&path).unwrap_err().to_string();
    assert!(error.contains("holds no KubeSchedulerConfiguration"), "{error}");
    assert!(read_scheduler_config(Path::new("no/such/file")).is_err());
}
