//! `muster --prices` with the prices of the test EC2: asked of it, and as the AWS command line prints them.

use std::path::Path;

use muster_tests::ec2::{Calls, Ec2};
use muster_tests::replica::built;
use muster_tests::world::Shared;
use serde_json::{Value, json};

const WINDOWS: &str = r"
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: windows}
spec:
  role: nodes
  amiSelectorTerms: [{alias: windows2022@latest}]
  subnetSelectorTerms: [{id: subnet-1}]
  securityGroupSelectorTerms: [{id: sg-1}]
";

const CLUSTER: &str = r"
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: general}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [spot, on-demand]}]
---
apiVersion: v1
kind: Pod
metadata: {name: web}
spec: {containers: [{name: main, resources: {requests: {cpu: '1', memory: 1Gi}}}]}
";

struct Outcome {
    code: i32,
    stdout: String,
    stderr: String,
}

/// Output of `muster` in `folder`, with these variables and no others.
async fn muster(folder: &Path, variables: Vec<(&'static str, String)>, arguments: &[&str]) -> Outcome {
    let mut command = tokio::process::Command::new(built().unwrap());
    command.env_clear().envs(variables).args(arguments).current_dir(folder).kill_on_drop(true);
    let output = command.output().await.unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Outcome { code: output.status.code().unwrap(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

async fn start() -> (Ec2, tempfile::TempDir) {
    let ec2 = Shared::ec2().await.unwrap_or_else(|error| panic!("{error}"));
    ec2.spot().set_price("m5.large", "us-east-1a", 0.0021);
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [("windows.yaml", WINDOWS), ("cluster.yaml", CLUSTER)] {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    (ec2, folder)
}

/// The prices of m5.large in us-east-1a, on demand and as spot, of a catalogue.
fn prices_of_m5(outcome: &Outcome) -> (f64, f64) {
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let catalogue: Value = serde_json::from_str(&outcome.stdout).unwrap();
    let offerings = catalogue["instanceTypes"][0]["offerings"].as_array().unwrap();
    let price = |capacity_type: &str| {
        let has = |one: &Value, value: &str| {
            let mut all = one["requirements"].as_array().unwrap().iter();
            all.any(|it| it["values"] == json!([value]))
        };
        let one = offerings.iter().find(|one| has(one, "us-east-1a") && has(one, capacity_type)).unwrap();
        one["price"].as_f64().unwrap()
    };
    (price("on-demand"), price("spot"))
}

fn alike((a, b): (f64, f64), (c, d): (f64, f64)) -> bool {
    (a - c).abs() < 1e-6 && (b - d).abs() < 1e-6
}

#[tokio::test]
async fn prices_are_asked_of_aws() {
    let (ec2, folder) = start().await;
    let who = || ec2.environment(&ec2.credentials("somebody"));
    let arguments = ["types", "--name", "m5.large", "--prices", "live", "-o", "json"];
    let linux = prices_of_m5(&muster(folder.path(), who(), &arguments).await);
    assert!(alike(linux, (0.096, 0.0021)), "{linux:?}");
    let windows = [&arguments[..], &["-f", "windows.yaml"]].concat();
    let windows = prices_of_m5(&muster(folder.path(), who(), &windows).await);
    assert!(alike(windows, (0.196, 0.1021)), "{windows:?}");

    let plan = ["plan", "-f", "cluster.yaml", "--prices", "live", "-o", "json"];
    let plan = muster(folder.path(), who(), &plan).await;
    let plan: Value = serde_json::from_str(&plan.stdout).unwrap();
    let node = &plan["newNodes"][0];
    let bought = [&node["instanceType"], &node["zone"], &node["capacityType"]];
    assert_eq!(bought, ["m5.large", "us-east-1a", "spot"], "{node:#}");
    let source = plan["summary"]["priceSource"].as_str().unwrap();
    assert!(source.starts_with("us-east-1: prices of AWS from 2") && !source.contains("old"), "{source}");
    for action in ["GetProducts", "DescribeSpotPriceHistory"] {
        assert!(!ec2.calls().by("somebody").of(action).is_empty(), "{action}");
    }
}

#[tokio::test]
async fn what_the_command_line_of_aws_prints_is_read() {
    let (ec2, folder) = start().await;
    let operator = ec2.credentials("operator");
    let filters: Vec<String> = [
        ("regionCode", "us-east-1"),
        ("instanceType", "m5.large"),
        ("tenancy", "Shared"),
        ("preInstalledSw", "NA"),
        ("capacitystatus", "Used"),
        ("marketoption", "OnDemand"),
    ]
    .into_iter()
    .map(|(field, value)| format!("Type=TERM_MATCH,Field={field},Value={value}"))
    .collect();
    let filters: Vec<&str> = filters.iter().map(String::as_str).collect();
    let products = ["pricing", "get-products", "--service-code", "AmazonEC2", "--filters"];
    let products = ec2.aws(&operator, &[&products[..], &filters].concat()).await.unwrap();
    assert_eq!(products["PriceList"].as_array().unwrap().len(), 3, "Linux, Windows, and Windows without its licence");
    let history = ["ec2", "describe-spot-price-history", "--instance-types", "m5.large", "--start-time"];
    let now = ec2.clock().now().to_string();
    let history = ec2.aws(&operator, &[&history[..], &[now.as_str()]].concat()).await.unwrap();
    for (name, document) in [("products.json", &products), ("history.json", &history)] {
        std::fs::write(folder.path().join(name), document.to_string()).unwrap();
    }
    let arguments =
        ["types", "--name", "m5.large", "-o", "json", "--prices", "products.json", "--prices", "history.json"];
    let linux = muster(folder.path(), Vec::new(), &arguments).await;
    assert_eq!(linux.stderr, "");
    assert!(alike(prices_of_m5(&linux), (0.096, 0.0021)), "{}", linux.stdout);
    let windows = [&arguments[..], &["-f", "windows.yaml"]].concat();
    let windows = prices_of_m5(&muster(folder.path(), Vec::new(), &windows).await);
    assert!(alike(windows, (0.196, 0.1021)), "{windows:?}");
}

#[tokio::test]
async fn without_rights_or_credentials_it_says_what_to_do() {
    let (ec2, folder) = start().await;
    ec2.faults().unauthorized(Calls::any().by("nobody"));
    let arguments = ["types", "--prices", "live"];
    let denied = muster(folder.path(), ec2.environment(&ec2.credentials("nobody")), &arguments).await;
    assert_eq!((denied.code, denied.stdout.as_str()), (3, ""), "{}", denied.stderr);
    let told = denied
        .stderr
        .starts_with("error: the prices of us-east-1 cannot be read: not authorized to perform pricing:GetProducts");
    assert!(
        told && denied.stderr.contains("\n\nhint: allow pricing:GetProducts and ec2:Describe"),
        "{}",
        denied.stderr
    );
    let is_secret = |(name, _): &(&str, String)| matches!(*name, "AWS_ACCESS_KEY_ID" | "AWS_SECRET_ACCESS_KEY");
    let mut variables = ec2.environment(&ec2.credentials("nobody"));
    variables.retain(|variable| !is_secret(variable));
    let unknown = muster(folder.path(), variables, &arguments).await;
    assert_eq!((unknown.code, unknown.stdout.as_str()), (3, ""), "{}", unknown.stderr);
    let told = unknown.stderr.starts_with("error: there are no AWS credentials: ");
    assert!(told && unknown.stderr.contains("\n\nhint: set AWS_PROFILE"), "{}", unknown.stderr);
}
