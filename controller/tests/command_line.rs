//! The program as its users start it: exit codes, streams, and the documents that others parse.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod fleet;
mod process;

use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::Value;

/// A pool on demand.
const POOL: &str = r"
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: general}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      requirements:
        - {key: karpenter.k8s.aws/instance-category, operator: In, values: [c, m, r]}
        - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
";

fn pod(name: &str, cpu: &str) -> String {
    format!(
        "---\napiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec:\n  containers:\n    - name: main\n      \
         image: example.com/main:1\n      resources: {{requests: {{cpu: {cpu:?}, memory: 1Gi}}}}\n"
    )
}

fn shop() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/shop")
}

fn muster(arguments: &[&str], stdin: &str) -> Output {
    process::muster(arguments, Path::new(env!("CARGO_MANIFEST_DIR")), stdin.as_bytes())
}

#[track_caller]
fn succeeds(arguments: &[&str], stdin: &str) -> String {
    let output = muster(arguments, stdin);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The message of a command that ends with `code` and prints no result.
#[track_caller]
fn fails(code: i32, arguments: &[&str], stdin: &str) -> String {
    let output = muster(arguments, stdin);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{stderr}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "");
    stderr
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

/// A plan without its times.
fn timeless(text: &str) -> String {
    let lines = text.lines().filter(|line| !line.contains("Seconds\":"));
    lines.collect::<Vec<_>>().join("\n")
}

// === usage ===

#[test]
fn help_and_version_succeed() {
    for arguments in [["--help"], ["--version"]] {
        assert!(succeeds(&arguments, "").contains("muster"));
    }
}

#[test]
fn wrong_usage_exits_with_2() {
    let cases: [&[&str]; 6] = [
        &[],
        &["pack"],
        &["plan"],
        &["plan", "-f", "-", "--preference-policy", "sometimes"],
        &["explain", "cluster", "x", "-f", "-"],
        &["completions", "cobol"],
    ];
    for arguments in cases {
        fails(2, arguments, "");
    }
}

#[test]
fn a_missing_file_is_named() {
    let message = fails(2, &["plan", "-f", "no/such/file.yaml"], "");
    assert!(message.starts_with("error: ") && message.contains("no/such/file.yaml"), "{message}");
}

#[test]
fn an_unknown_region_is_answered_with_the_known_ones() {
    let message = fails(2, &["types", "--region", "us-east-9"], "");
    assert!(message.contains("us-east-9") && message.contains("eu-west-1"), "{message}");
}

#[test]
fn an_unknown_feature_gate_is_a_warning() {
    let output = muster(&["plan", "-f", "-", "--feature-gates", "Magic=true"], POOL);
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{message}");
    assert!(message.contains("warning: `--feature-gates`: gate `Magic` is not known"), "{message}");
}

// === crds, completions, types ===

#[test]
fn definitions_go_into_a_pipe_as_yaml() {
    let text = succeeds(&["crds"], "");
    assert!(text.starts_with("---\n"));
    assert!(text.contains("nodepools.karpenter.sh") && text.contains("ec2nodeclasses.karpenter.k8s.aws"));
    let list = json(&succeeds(&["crds", "-o", "json"], ""));
    assert_eq!(list["kind"], "List");
    assert_eq!(list["items"].as_array().unwrap().len(), text.matches("kind: CustomResourceDefinition").count());
    assert!(succeeds(&["crds", "-o", "table"], "").contains("NodePool"));
}

#[test]
fn every_shell_has_completions() {
    for shell in ["bash", "zsh", "fish", "elvish", "PowerShell"] {
        assert!(succeeds(&["completions", shell], "").contains("preference-policy"), "{shell}");
    }
}

#[test]
fn types_are_read_back_as_they_were_written() {
    for format in ["json", "yaml"] {
        let written = succeeds(&["types", "--name", "M7G.*", "--name", "g5.xlarge", "-o", format], "");
        assert!(written.contains("m7g.large") && written.contains("g5.xlarge") && !written.contains("m6g.large"));
        let read = succeeds(&["types", "--catalog", "-", "-o", format], &written);
        assert!(written == read, "{format}");
    }
}

#[test]
fn a_broken_catalogue_is_named() {
    let message = fails(
        2,
        &["types", "--catalog", "-"],
        r#"{"apiVersion":"muster.dev/v1","kind":"Catalogue","instanceTypes":[]}"#,
    );
    assert!(message.contains("stdin") && message.contains("InstanceCatalog"), "{message}");
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let mut child = process::command(&["types", "-o", "json"]).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

// === plan, explain ===

#[test]
fn the_shop_is_planned_alike_twice() {
    let shop = shop();
    let arguments = ["plan", "-f", shop.to_str().unwrap(), "-o", "json"];
    let first = succeeds(&arguments, "");
    let second = succeeds(&arguments, "");
    assert_eq!(timeless(&first), timeless(&second));
    let plan = json(&first);
    assert_eq!(plan["kind"], "Plan");
    let summary = &plan["summary"];
    assert_eq!(summary["unschedulable"], 0, "{:#}", plan["unschedulable"]);
    assert_eq!(summary["pods"], summary["scheduled"]);
    let (price, bound) = (summary["hourlyPrice"].as_f64().unwrap(), summary["lowerBoundHourlyPrice"].as_f64().unwrap());
    assert!(price >= bound && bound > 0.0, "{summary:#}");
    for field in ["expectedHourlyPrice", "solveSeconds", "boundSeconds", "validateSeconds"] {
        assert!(summary[field].is_f64(), "{field}");
    }
    let nodes = plan["newNodes"].as_array().unwrap();
    let names: std::collections::BTreeSet<&str> = nodes.iter().map(|node| node["name"].as_str().unwrap()).collect();
    assert_eq!(names.len(), nodes.len());
    for node in nodes {
        assert_eq!(node["instanceType"], node["instanceTypes"][0]);
        assert!(node["requests"]["cpu"].is_string());
    }
}

#[test]
fn the_shop_reads_well() {
    let shop = shop();
    let text = succeeds(&["plan", "-f", shop.to_str().unwrap()], "");
    for words in ["New nodes", "general", "gpu", "shop/orders-db", "/h on ", "33 of 33 pending pods placed"] {
        assert!(text.contains(words), "{words}\n{text}");
    }
}

#[test]
fn yaml_says_what_json_says() {
    let input = format!("{POOL}{}", pod("small", "1"));
    let from_json = json(&succeeds(&["plan", "-f", "-", "-o", "json"], &input));
    let yaml = succeeds(&["plan", "-f", "-", "-o", "yaml"], &input);
    let from_yaml: Value = serde_saphyr::from_str(&yaml).unwrap();
    assert_eq!(from_json["newNodes"], from_yaml["newNodes"]);
}

#[test]
fn a_planned_claim_asks_for_no_more_values_than_it_lists() {
    let zones = "        - {key: topology.kubernetes.io/zone, operator: Exists, minValues: 3}\n";
    let pinned = pod("small", "1") + "  nodeSelector: {topology.kubernetes.io/zone: us-east-1a}\n";
    let plan = json(&succeeds(&["plan", "-f", "-", "-o", "json"], &format!("{POOL}{zones}{pinned}")));
    let requirements = plan["newNodes"][0]["requirements"].as_array().unwrap();
    let zone = requirements.iter().find(|one| one["key"] == "topology.kubernetes.io/zone").unwrap();
    assert_eq!((&zone["values"][0], &zone["minValues"]), (&"us-east-1a".into(), &1.into()), "{zone:#}");
}

#[test]
fn kubelet_expressions_need_their_gate() {
    let class = "---\napiVersion: karpenter.k8s.aws/v1\nkind: EC2NodeClass\nmetadata: {name: default}\nspec:\n  role: r\n  \
                 amiSelectorTerms: [{alias: al2023@latest}]\n  subnetSelectorTerms: [{tags: {a: b}}]\n  \
                 securityGroupSelectorTerms: [{tags: {a: b}}]\n  kubelet: {maxPods: max_pods - 2}\n";
    let input = format!("{POOL}{}{class}", pod("small", "1"));
    let plan = |gates: &str| json(&succeeds(&["plan", "-f", "-", "-o", "json", "--aws-feature-gates", gates], &input));
    let refused = plan("NodeClassCEL=false");
    let message = refused["unschedulable"][0]["message"].as_str().unwrap();
    assert!(message.contains("`default` never becomes ready: KubeletExpressionsDisabled"), "{message}");
    assert_eq!(plan("NodeClassCEL=true")["summary"]["scheduled"], 1);
}

/// The CRD counts only the values of `In`, and those of the operators with a number.
#[test]
fn requirements_of_pools_are_those_of_the_crd() {
    for (requirement, expected) in [
        ("{key: karpenter.k8s.aws/instance-family, operator: NotIn, values: []}", 1),
        ("{key: karpenter.k8s.aws/instance-family, operator: Exists, values: [m5]}", 1),
        ("{key: karpenter.k8s.aws/instance-family, operator: DoesNotExist, values: [m5]}", 0),
    ] {
        let input = format!("{POOL}        - {requirement}\n{}", pod("small", "1"));
        let plan = json(&succeeds(&["plan", "-f", "-", "-o", "json"], &input));
        assert_eq!(plan["summary"]["scheduled"], expected, "{requirement}");
    }
    let affinity = "  affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: \
                    [{matchExpressions: [{key: a, operator: NotIn, values: []}]}]}}}\n";
    let message = fails(2, &["plan", "-f", "-"], &format!("{POOL}{}{affinity}", pod("small", "1")));
    assert!(message.contains("values` is empty, which this operator does not allow"), "{message}");
}

#[test]
fn strict_turns_a_pending_pod_into_a_no() {
    let input = format!("{POOL}{}{}", pod("small", "1"), pod("huge", "4000"));
    let lenient = muster(&["plan", "-f", "-", "-o", "json"], &input);
    assert_eq!(lenient.status.code(), Some(0));
    let strict = muster(&["plan", "-f", "-", "-o", "json", "--strict"], &input);
    assert_eq!(strict.status.code(), Some(1));
    let plan = json(&String::from_utf8(strict.stdout).unwrap());
    assert_eq!(plan["summary"]["scheduled"], 1);
    assert_eq!(plan["unschedulable"][0]["pod"], "default/huge");
    assert_eq!(plan["unschedulable"][0]["reason"], "Resources");
    assert_eq!(plan["unschedulable"][0]["nodePools"][0]["nodePool"], "general");
    let stderr = String::from_utf8(strict.stderr).unwrap();
    assert!(stderr.starts_with("warning: NodePool `general` refers to EC2NodeClass `"), "{stderr}");
    assert!(stderr.ends_with("\nerror: 1 pod cannot be scheduled\n"), "{stderr}");
}

#[test]
fn pods_and_nodes_are_explained() {
    let input = format!("{POOL}{}{}", pod("small", "1"), pod("huge", "4000"));
    let huge = json(&succeeds(&["explain", "pod", "huge", "-f", "-", "-o", "json"], &input));
    assert_eq!((&huge["state"], &huge["reason"]), (&"Unschedulable".into(), &"Resources".into()));
    let small = json(&succeeds(&["explain", "POD", "default/small", "-f", "-", "-o", "json"], &input));
    assert_eq!((&small["state"], &small["node"]), (&"NewNode".into(), &"general-0".into()));
    let node = json(&succeeds(&["explain", "node", "general-0", "-f", "-", "-o", "json"], &input));
    assert_eq!((&node["state"], &node["pods"][0]["pod"]), (&"New".into(), &"default/small".into()));
    for arguments in [["explain", "pod", "huge"], ["explain", "pod", "small"], ["explain", "node", "general-0"]] {
        let text = succeeds(&[arguments.as_slice(), &["-f", "-"]].concat(), &input);
        assert!(text.contains("general"), "{text}");
    }
    let elsewhere = input.replace("name: small", "name: small, namespace: shop");
    assert_ne!(elsewhere, input);
    let small = json(&succeeds(&["explain", "pod", "small", "-f", "-", "-o", "json"], &elsewhere));
    assert_eq!(small["pod"], "shop/small");
    let message = fails(2, &["explain", "pod", "smal", "-f", "-"], &input);
    assert!(message.contains("did you mean `default/small`"), "{message}");
}

#[test]
fn new_names_avoid_those_of_nodes_that_exist() {
    let node = "---\napiVersion: v1\nkind: Node\nmetadata: {name: general-0}\nspec:\n  taints: [{key: full, effect: NoSchedule}]\nstatus:\n  \
                capacity: {cpu: '1', memory: 1Gi, pods: '10'}\n  allocatable: {cpu: '1', memory: 1Gi, pods: '10'}\n";
    let input = format!("{POOL}{node}{}", pod("small", "1"));
    let plan = json(&succeeds(&["plan", "-f", "-", "-o", "json"], &input));
    assert_eq!(plan["newNodes"][0]["name"], "general-1");
}

#[test]
fn input_that_changes_a_plan_is_warned_of() {
    let autoscaler = "---\napiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: web}\nspec: {minReplicas: 3, \
                      maxReplicas: 9, scaleTargetRef: {kind: Deployment, name: web}}\n";
    let tiny = pod("small", "1").replace("memory: 1Gi", "memory: 512m");
    let plan = muster(&["plan", "-f", "-"], &format!("{POOL}{tiny}{autoscaler}"));
    let stderr = String::from_utf8(plan.stderr).unwrap();
    for words in [
        "Pod `default/small`: the pod requests 1 byte of memory: write memory with `Mi` or `Gi`",
        "Deployment `web` is planned with its own `replicas` (1 if absent), not with 3 to 9",
        "NodePool `general` refers to EC2NodeClass `default`, which is not in the input",
    ] {
        assert!(stderr.contains(words), "{words}: {stderr}");
    }
    let plan = muster(&["plan", "-f", "-"], pod("small", "1").trim_start_matches("---\n"));
    let stderr = String::from_utf8(plan.stderr).unwrap();
    assert!(stderr.contains("warning: there is no NodePool in the input"), "{stderr}");
}

#[test]
fn what_surprises_is_said_of_placed_and_of_pending_pods() {
    let windows = |pod: String| pod.replace("example.com/main:1", "mcr.microsoft.com/windows/servercore/iis:ltsc2022");
    let input = format!("{POOL}{}{}", windows(pod("small", "1")), windows(pod("huge", "4000")));
    let plan = muster(&["plan", "-f", "-", "-o", "json"], &input);
    let stderr = String::from_utf8(plan.stderr).unwrap();
    assert!(stderr.starts_with("warning: Pod `default/small` and 1 more: image `mcr"), "{stderr}");
    let plan = json(&String::from_utf8(plan.stdout).unwrap());
    assert_eq!(plan["unschedulable"][0]["warnings"][0]["reason"], "WindowsImage");
    for (name, state) in [("small", "NewNode"), ("huge", "Unschedulable")] {
        let pod = json(&succeeds(&["explain", "pod", name, "-f", "-", "-o", "json"], &input));
        assert_eq!((&pod["state"], &pod["warnings"][0]["reason"]), (&state.into(), &"WindowsImage".into()));
        assert!(pod["warnings"][0]["hint"].as_str().unwrap().contains("kubernetes.io/os: windows"), "{pod:#}");
    }
}

#[test]
fn a_legacy_manifest_is_refused_by_name() {
    let message = fails(2, &["plan", "-f", "-"], &POOL.replace("karpenter.sh/v1", "karpenter.sh/v1beta1"));
    assert!(message.contains("v1beta1") && message.contains("stdin"), "{message}");
}

/// All but its times.
#[test]
fn the_picture_in_the_readme_is_what_is_printed() {
    let readme = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../README.md")).unwrap();
    let shown = readme.split("$ muster plan -f examples/shop\n").nth(1).unwrap().split("```").next().unwrap();
    let timeless = |text: &str| -> Vec<String> {
        let lines = text.lines().map(|line| line.split(" Packed in ").next().unwrap_or_default().trim_end().to_owned());
        lines.collect()
    };
    let printed = succeeds(&["plan", "-f", shop().to_str().unwrap()], "");
    assert_eq!(timeless(shown.trim_end()), timeless(printed.trim_end()));
}

/// Of the day only some lines are shown there, with a line of dots for what is left out.
#[test]
fn the_day_in_the_readme_is_what_is_played() {
    let readme = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../README.md")).unwrap();
    let timeline = readme.split("$ muster simulate -f examples/shop\n").nth(1).unwrap().split("```").next().unwrap();
    let played = succeeds(&["simulate", "-f", shop().to_str().unwrap()], "");
    let mut left = played.lines();
    for line in timeline.lines().filter(|line| *line != "…") {
        // A long line is cut in the picture.
        let shown = line.strip_suffix('…').unwrap_or(line);
        assert!(left.any(|there| there.starts_with(shown)), "`{line}` is not played, or not then:\n{played}");
    }
}

/// The example of the document is of the same day. What the rival pays stands in the picture of the README, too.
#[test]
fn the_day_in_the_reference_is_what_is_played() {
    let text = |file: &str| std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap();
    let (reference, readme) = (text("../docs/cli.md"), text("../README.md"));
    let part = reference.split("### `SimulatedDay`").nth(1).unwrap();
    let mut example = json(part.split("```json\n").nth(1).unwrap().split("```").next().unwrap());
    let mut played =
        json(&succeeds(&["simulate", "-f", shop().to_str().unwrap(), "--no-comparison", "-o", "json"], ""));
    for list in ["trace", "nodes"] {
        let shown = example[list].as_array().unwrap();
        let all = played[list].as_array().unwrap();
        assert!(!shown.is_empty() && shown.iter().all(|one| all.contains(one)), "{list}:\n{shown:#?}\n{all:#?}");
    }
    let rival = example["bill"]["karpenterLike"].as_f64().unwrap();
    assert!(readme.contains(&format!("${rival:.2} is what a Karpenter-like policy pays")), "{rival}");
    for document in [&mut example, &mut played] {
        let fields = document.as_object_mut().unwrap();
        fields.retain(|key, _| key != "trace" && key != "nodes");
        fields["bill"].as_object_mut().unwrap().retain(|key, _| key != "karpenterLike" && key != "priceSource");
    }
    assert_eq!(example, played);
}

#[test]
fn a_decision_names_each_managed_node_once_and_is_the_same_twice() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/disruption");
    let file = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let (cluster, catalogue) = (file("several-commands.yaml"), file("../scenarios/catalogue.yaml"));
    let arguments = ["disrupt", "-f", &cluster, "--catalog", &catalogue, "--now", "2026-11-21T12:00:00Z", "-o", "json"];
    let timeless = |text: String| {
        let mut document = json(&text);
        for field in ["decideSeconds", "validateSeconds"] {
            assert!(
                document["summary"].as_object_mut().unwrap().remove(field).is_some_and(|it| it.is_f64()),
                "{field}"
            );
        }
        document
    };
    let document = timeless(succeeds(&arguments, ""));
    assert_eq!(document, timeless(succeeds(&arguments, "")));
    assert_eq!((&document["apiVersion"], &document["kind"]), (&"muster.dev/v1".into(), &"DisruptionPlan".into()));
    let going = document["commands"].as_array().unwrap().iter().flat_map(|it| it["candidates"].as_array().unwrap());
    let staying = document["blocked"].as_array().unwrap().iter().map(|it| &it["node"]);
    let mut named: Vec<&str> = going.chain(staying).map(|name| name.as_str().unwrap()).collect();
    named.sort_unstable();
    assert_eq!(named, ["huge", "idle-a", "idle-b", "left", "right"]);
}

#[test]
fn what_others_wrote_commands_no_terminal() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/disruption");
    let catalogue = folder.join("../scenarios/catalogue.yaml").to_str().unwrap().to_owned();
    let cluster = std::fs::read_to_string(folder.join("drift.yaml")).unwrap();
    let cluster = cluster.replace("AMIDrift", r#"AMIDrift, message: "an image\e[31m\nall is well""#);
    let arguments = ["disrupt", "-f", "-", "--catalog", &catalogue, "--now", "2026-11-21T12:00:00Z"];
    let text = succeeds(&arguments, &cluster);
    assert!(text.contains("  old: AMIDrift: an image\u{fffd}[31m\u{fffd}all is well\n"), "{text}");

    let input = format!("{POOL}{}{}", pod(r#""a\e[2J""#, "1"), pod(r#""b\e[2J""#, "4000"));
    let name = "a\u{1b}[2J";
    for arguments in [&["plan", "-f", "-"][..], &["explain", "pod", name, "-f", "-"]] {
        let text = succeeds(arguments, &input);
        assert!(!text.contains('\u{1b}') && text.contains("a\u{fffd}[2J"), "{text}");
    }
    let message = fails(2, &["explain", "pod", "c\u{1b}[2J", "-f", "-"], &input);
    assert!(!message.contains('\u{1b}') && message.contains("`default/c\u{fffd}[2J`"), "{message}");
}

#[test]
fn a_moment_must_be_one_and_only_nodes_can_be_gone() {
    let message = fails(2, &["disrupt", "-f", "-", "--now", "yesterday"], POOL);
    insta::assert_snapshot!(message, @r"
    error: `--now`: `yesterday` is not a time

    hint: write it in RFC 3339 with its zone, such as `2026-11-21T09:30:00Z`
    ");
    let message = fails(2, &["explain", "pod", "web-0", "-f", "-", "--if-removed"], POOL);
    insta::assert_snapshot!(message, @r"
    error: `--if-removed` applies to nodes, not to pods

    hint: name the node: `muster explain node NAME --if-removed`
    ");
    let input = format!("{POOL}{}", pod("web-0", "1"));
    let message = fails(2, &["explain", "node", "general-0", "-f", "-", "--if-removed"], &input);
    insta::assert_snapshot!(message, @r"
    warning: NodePool `general` refers to EC2NodeClass `default`, which is not in the input; default settings and every zone of us-east-1 are assumed: add it with `-f`
    error: node `general-0` would only be launched

    hint: `--if-removed` applies to existing nodes only
    ");
}
