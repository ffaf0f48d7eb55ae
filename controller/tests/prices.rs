//! `--prices`: what a file says decides what is launched, and where prices come from is told.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod process;

use std::fmt::Write as _;
#[cfg(not(feature = "ec2"))]
use std::path::Path;

use serde_json::{Value, json};

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
        - {key: kubernetes.io/arch, operator: In, values: [amd64]}
        - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
---
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: default}
spec:
  role: nodes
  amiSelectorTerms: [{alias: al2023@latest}]
  subnetSelectorTerms: [{id: subnet-1}]
  securityGroupSelectorTerms: [{id: sg-1}]
status: {subnets: [{id: subnet-1, zone: us-east-1a}, {id: subnet-2, zone: us-east-1b}]}
---
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  containers: [{name: main, image: 'example.com/main:1', resources: {requests: {cpu: '1', memory: 1Gi}}}]
";

/// Prices of two types, 2026-11-20.
const OWN: &str = r"
apiVersion: muster.dev/v1
kind: PriceList
region: us-east-1
at: 2026-11-20T00:00:00Z
onDemand: {r5.large: 0.0101, m5.xlarge: 0.02}
spot:
  r5.large: {us-east-1a: 0.0202, us-east-1b: 0.0033}
windows:
  onDemand: {r5.large: 0.09}
";

/// A folder of files, which `muster` is asked about.
struct Desk(tempfile::TempDir);

impl Desk {
    fn with(files: &[(&str, &str)]) -> Self {
        let desk = Self(tempfile::tempdir().unwrap());
        files.iter().for_each(|(name, text)| std::fs::write(desk.0.path().join(name), text).unwrap());
        desk
    }

    #[track_caller]
    fn says(&self, arguments: &[&str]) -> (String, String) {
        let output = process::muster(arguments, self.0.path(), b"");
        let [stdout, stderr] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
        assert_eq!(output.status.code(), Some(0), "{stderr}");
        (stdout, stderr)
    }

    #[track_caller]
    fn document(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.says(&[arguments, &["-o", "json"]].concat()).0).unwrap()
    }
}

#[track_caller]
fn only_node(plan: &Value) -> &Value {
    assert_eq!(plan["newNodes"].as_array().unwrap().len(), 1, "{plan:#}");
    &plan["newNodes"][0]
}

#[test]
fn a_file_decides_which_type_is_bought() {
    let desk = Desk::with(&[("cluster.yaml", POOL), ("prices.yaml", OWN)]);
    let plain = desk.document(&["plan", "-f", "cluster.yaml"]);
    assert_ne!(only_node(&plain)["instanceType"], "r5.large");
    let arguments = ["plan", "-f", "cluster.yaml", "--prices", "prices.yaml"];
    let plan = desk.document(&arguments);
    let node = only_node(&plan);
    assert_eq!((&node["instanceType"], &node["price"]), (&json!("r5.large"), &json!(0.0101)), "{node:#}");
    assert_eq!(
        plan["summary"]["priceSource"],
        "us-east-1: prices of prices.yaml from 2026-11-20T00:00:00Z; else on-demand prices of 2026-07-20, also for spot"
    );
    assert_eq!(desk.document(&arguments)["summary"]["priceSource"], plan["summary"]["priceSource"]);
}

#[test]
fn ages_are_told_to_people() {
    let prices = OWN.replace("2026-11-20", "2020-01-01");
    let node = "---\napiVersion: v1\nkind: Node\nmetadata: {name: old}\n";
    let desk = Desk::with(&[("cluster.yaml", &format!("{POOL}{node}")), ("old.yaml", &prices), ("prices.yaml", OWN)]);
    for command in ["plan", "simulate"] {
        let (text, _) = desk.says(&[command, "-f", "cluster.yaml", "--prices", "old.yaml"]);
        let line = text.lines().find(|line| line.starts_with("Prices: ")).unwrap();
        let told = "Prices: us-east-1: prices of old.yaml from 2020-01-01T00:00:00Z (";
        assert!(line.starts_with(told) && line.contains(" old); else on-demand prices of 2026-07-20"), "{line}");
    }
    let (text, _) = desk.says(&["types", "--name", "r5.large", "--prices", "old.yaml"]);
    assert!(text.contains("prices of old.yaml from 2020-01-01T00:00:00Z (") && text.contains("0.0033"), "{text}");
    let at = ["-f", "cluster.yaml", "--prices", "prices.yaml", "--now", "2026-11-26T03:00:00Z"];
    let aged = "Prices: us-east-1: prices of prices.yaml from 2026-11-20T00:00:00Z (6d3h old); else on-demand";
    for command in [&["disrupt"][..], &["explain", "node", "old"], &["explain", "pod", "web"]] {
        let (text, _) = desk.says(&[command, &at].concat());
        let line = text.lines().last().unwrap();
        assert!(line.starts_with(aged), "{command:?}: {text}");
    }
    let decision = desk.document(&[&["disrupt"][..], &at].concat());
    let source = decision["summary"]["priceSource"].as_str().unwrap();
    assert!(source.contains("from 2026-11-20T00:00:00Z; else"), "{source}");
}

#[test]
fn several_files_add_up_and_the_later_one_counts() {
    let spot = POOL.replace("[on-demand]", "[spot]");
    let entry = |zone: &str, price: &str| {
        json!({
            "AvailabilityZone": zone, "InstanceType": "m5.large", "ProductDescription": "Linux/UNIX", "SpotPrice": price,
            "Timestamp": "2026-11-26T13:20:00+00:00",
        })
    };
    let history = json!({"SpotPriceHistory": [entry("us-east-1a", "0.0009"), entry("us-east-1f", "0.0001")]});
    let desk = Desk::with(&[
        ("cluster.yaml", &spot),
        ("prices.yaml", OWN),
        ("history.json", &history.to_string()),
        ("dear.yaml", &OWN.replace("us-east-1b: 0.0033", "us-east-1b: 5")),
    ]);
    let plan = |files: &[&str]| {
        let prices = files.iter().flat_map(|file| ["--prices", file]);
        desk.document(&["plan", "-f", "cluster.yaml"].into_iter().chain(prices).collect::<Vec<_>>())
    };
    let bought = |plan: &Value| {
        let node = only_node(plan);
        format!("{} in {} for {}", node["instanceType"], node["zone"], node["price"]).replace('"', "")
    };
    assert_eq!(bought(&plan(&["prices.yaml"])), "r5.large in us-east-1b for 0.0033");
    assert_eq!(bought(&plan(&["prices.yaml", "dear.yaml"])), "m5.xlarge in us-east-1a for 0.02", "its price on demand");
    assert_eq!(bought(&plan(&["dear.yaml", "prices.yaml"])), "r5.large in us-east-1b for 0.0033");
    let both = plan(&["prices.yaml", "history.json"]);
    assert_eq!(bought(&both), "m5.large in us-east-1a for 0.0009", "the pool has no subnet in us-east-1f");
    insta::assert_snapshot!(both["summary"]["priceSource"].as_str().unwrap(), @"us-east-1: on-demand prices of prices.yaml from 2026-11-20T00:00:00Z, spot prices of prices.yaml from 2026-11-20T00:00:00Z and history.json from 2026-11-26T13:20:00Z; else on-demand prices of 2026-07-20, also for spot");
}

#[test]
fn windows_has_prices_of_its_own() {
    let windows = POOL.replace("al2023@latest", "windows2022@latest");
    let windows =
        windows.replace("spec:\n  containers", "spec:\n  nodeSelector: {kubernetes.io/os: windows}\n  containers");
    let linux = only_node(&Desk::with(&[("a.yaml", POOL)]).document(&["plan", "-f", "a.yaml"])).clone();
    let desk = Desk::with(&[("cluster.yaml", &windows), ("prices.yaml", OWN)]);
    let plan = desk.document(&["plan", "-f", "cluster.yaml"]);
    let node = only_node(&plan);
    let (of_linux, of_windows) = (linux["price"].as_f64().unwrap(), node["price"].as_f64().unwrap());
    assert_eq!(node["instanceType"], linux["instanceType"], "both have two vCPUs");
    assert!((of_windows - of_linux - 2.0 * 0.046).abs() < 1e-9, "{of_windows} and {of_linux}");
    insta::assert_snapshot!(plan["summary"]["priceSource"].as_str().unwrap(), @"us-east-1: on-demand prices of 2026-07-20, also for spot; for Windows, where its price is not known, that of Linux and $0.046 for each vCPU (burstable types: less)");
    let plan = desk.document(&["plan", "-f", "cluster.yaml", "--prices", "prices.yaml"]);
    let node = only_node(&plan);
    assert_eq!((&node["instanceType"], &node["price"]), (&json!("r5.large"), &json!(0.09)), "{node:#}");
}

#[test]
fn given_prices_are_kept_in_a_catalogue() {
    let desk = Desk::with(&[("cluster.yaml", POOL), ("prices.yaml", OWN)]);
    let (catalogue, _) = desk.says(&["types", "-f", "cluster.yaml", "--prices", "prices.yaml", "-o", "yaml"]);
    std::fs::write(desk.0.path().join("catalogue.yaml"), catalogue).unwrap();
    let kept = desk.document(&["plan", "-f", "cluster.yaml", "--catalog", "catalogue.yaml"]);
    let given = desk.document(&["plan", "-f", "cluster.yaml", "--prices", "prices.yaml"]);
    assert_eq!(kept["newNodes"], given["newNodes"]);
}

#[test]
fn what_is_not_used_is_a_warning() {
    let more = "{r5.large: 0.0101, m99.large: 1, m99.xlarge: 2, m99.2xlarge: 4, m99.4xlarge: 8, x99.metal: 9}";
    let prices = OWN.replace("{r5.large: 0.0101, m5.xlarge: 0.02}", more).replace("us-east-1b", "us-east-1z");
    let entry = |zone: &str| {
        json!({
            "AvailabilityZone": zone, "InstanceType": "m5.large", "ProductDescription": "Linux/UNIX", "SpotPrice": "0.03",
            "Timestamp": "2026-11-26T13:20:00Z",
        })
    };
    let history = json!({
        "SpotPriceHistory": [entry("us-east-1a"), entry("eu-west-1a"), entry("eu-west-1b")], "NextToken": "more",
    });
    let desk = Desk::with(&[("cluster.yaml", POOL), ("prices.yaml", &prices), ("history.json", &history.to_string())]);
    let arguments = ["-f", "cluster.yaml", "--prices", "prices.yaml", "--prices", "history.json"];
    let (_, plan) = desk.says(&[&["plan"][..], &arguments].concat());
    insta::assert_snapshot!(plan);
    for command in ["types", "simulate", "disrupt"] {
        let (_, told) = desk.says(&[&[command][..], &arguments].concat());
        assert!(plan.lines().all(|line| told.contains(line)), "{command}: {told}");
    }
}

#[test]
fn bad_prices_are_refused() {
    let desk = Desk::with(&[
        ("cluster.yaml", POOL),
        ("prices.yaml", OWN),
        ("negative.yaml", &OWN.replace("0.0101", "-0.0101")),
        ("elsewhere.yaml", &OWN.replace("us-east-1", "eu-west-1")),
        ("history.json", r#"{"SpotPriceHistory": [{"InstanceType": "m5.large"}]}"#),
        ("other.json", r#"{"Reservations": []}"#),
    ]);
    let mut all = String::new();
    for prices in ["negative.yaml", "elsewhere.yaml", "history.json", "other.json", "nope.yaml", "cluster.yaml"] {
        let output = process::muster(&["plan", "-f", "cluster.yaml", "--prices", prices], desk.0.path(), b"");
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{prices}: {message}");
        assert!(output.stdout.is_empty() && message.contains("\n\nhint: "), "{prices}: {message}");
        writeln!(all, "=== {prices}\n{message}").unwrap();
    }
    insta::assert_snapshot!(all);
}

#[test]
fn prices_come_from_stdin_too() {
    let desk = Desk::with(&[("cluster.yaml", POOL)]);
    let arguments = ["plan", "-f", "cluster.yaml", "--prices", "-", "-o", "json"];
    let output = process::muster(&arguments, desk.0.path(), OWN.as_bytes());
    let plan: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(only_node(&plan)["instanceType"], "r5.large");
    let source = plan["summary"]["priceSource"].as_str().unwrap();
    assert!(source.starts_with("us-east-1: prices of stdin from "), "{source}");
}

#[cfg(not(feature = "ec2"))]
#[test]
fn a_build_for_files_says_how_to_ask_aws() {
    let output = process::muster(&["types", "--prices", "live"], Path::new("."), b"");
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(message.contains("it has no `--prices live`") && message.contains("--features ec2"), "{message}");
}
