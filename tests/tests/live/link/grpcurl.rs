//! What an operator sees who has a token and the real grpcurl, and no file of ours.

use std::process::Stdio;

use kube::core::DynamicObject;
use muster_controller::permissions::of_operators;
use muster_tests::{programs, wait};
use serde_json::{Value, json};
use tokio::process::Command;

use super::MOST;
use super::ground::{AGENTS, Ground, apply};

/// Who asks by hand.
pub(crate) struct ByHand<'g> {
    ground: &'g Ground<'g>,
    /// With the authority's certificate.
    folder: tempfile::TempDir,
    /// Of somebody who has the chart's roles for operators.
    token: String,
    /// Of somebody who has none.
    stranger: String,
}

/// What grpcurl says, and how it ends.
struct Said {
    stdout: String,
    stderr: String,
    code: i32,
}

impl<'g> ByHand<'g> {
    /// Waits until the roles count.
    pub(crate) async fn new(ground: &'g Ground<'g>, authority: &str) -> Self {
        let cluster = ground.cluster();
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("ca.crt"), authority).unwrap();
        let rbac = "rbac.authorization.k8s.io";
        let mut objects = Vec::new();
        for (service, rules) in of_operators() {
            let (api, metadata) = (format!("{rbac}/v1"), json!({"name": format!("by-hand-{service}")}));
            objects.push(json!({"apiVersion": api, "kind": "ClusterRole", "metadata": metadata, "rules": rules}));
            let role = json!({"apiGroup": rbac, "kind": "ClusterRole", "name": metadata["name"]});
            let subjects = json!([{"kind": "ServiceAccount", "name": "by-hand", "namespace": "default"}]);
            objects.push(json!({
                "apiVersion": api, "kind": "ClusterRoleBinding", "metadata": metadata, "roleRef": role, "subjects": subjects,
            }));
        }
        apply(cluster, &objects).await;
        let token = async |name: &str| {
            cluster.kubectl(&["create", "serviceaccount", name, "-n", "default"]).await.unwrap();
            let token = ["create", "token", name, "-n", "default", "--audience=muster.dev"];
            cluster.kubectl(&token).await.unwrap().trim().to_owned()
        };
        let (token, stranger) = (token("by-hand").await, token("stranger").await);
        let by_hand = Self { ground, folder, token, stranger };
        // RBAC sees bindings by its own watch.
        let told = wait::until_some("what there is is told", MOST, || async {
            Ok((by_hand.grpcurl(Some(&by_hand.token), &[], &["list"]).await.code == 0).then_some(()))
        });
        told.await.unwrap();
        by_hand
    }

    /// What it says of the port for agents with a token, with these options, and these words behind the address.
    async fn grpcurl(&self, token: Option<&str>, options: &[&str], words: &[&str]) -> Said {
        let fabric = self.ground.case.site().fabric();
        let mut command = Command::new("nsenter");
        command.arg(format!("--net={}", fabric.path().display())).arg("--").arg(programs::path("grpcurl").unwrap());
        command.args(["-max-time", "60", "-authority", "gateway.muster.dev", "-cacert"]);
        command.arg(self.folder.path().join("ca.crt"));
        if let Some(token) = token {
            command.args(["-H", &format!("authorization: Bearer {token}")]);
        }
        command.args(options).arg(AGENTS.to_string()).args(words);
        run(command).await
    }

    /// The answer to a call.
    async fn asked(&self, message: &Value, rpc: &str) -> Value {
        let Said { stdout, stderr, code } =
            self.grpcurl(Some(&self.token), &["-d", &message.to_string()], &[rpc]).await;
        assert_eq!(code, 0, "{rpc}: {stderr}");
        serde_json::from_str(&stdout).unwrap()
    }

    /// What there is, how it is called, what a plan comes to; and what somebody is told who may not.
    pub(crate) async fn is_told_what_there_is_if_they_may(&self) {
        let mut told = Vec::new();
        let files = concat!(env!("CARGO_MANIFEST_DIR"), "/../proto");
        let with_files = ["-import-path", files, "-proto", "muster/v1/fleet.proto"];
        let fleet = "muster.v1.Fleet/List";
        for (who, token) in [("may", Some(&self.token)), ("may not", Some(&self.stranger)), ("has no token", None)] {
            for (what, options, words) in [
                ("list", &[][..], &["list"][..]),
                (fleet, &[], &[fleet]),
                ("muster.v1.Fleet/List, with -proto", &with_files, &[fleet]),
            ] {
                let Said { stdout, stderr, code } = self.grpcurl(token.map(String::as_str), options, words).await;
                for token in [&self.token, &self.stranger] {
                    assert!(!stderr.contains(token), "{stderr}");
                }
                // What it lists of nodes is looked at when there are some.
                let stdout = if what == "list" { stdout } else { String::new() };
                told.push(format!("# {what}, by somebody who {who}: {code}\n{stdout}{stderr}"));
            }
        }
        insta::assert_snapshot!(told.join("\n"));

        let described = self.grpcurl(Some(&self.token), &[], &["describe", "muster.v1.Fleet"]).await;
        for line in ["service Fleet {", "rpc Plan ( .muster.v1.PlanRequest ) returns ( .muster.v1.PlanResponse );"] {
            assert!(described.stdout.contains(line), "{}", described.stdout);
        }
        let order = json!({"node_pool": "ordered", "count": 2, "requests": {"cpu": "1", "memory": "2Gi"}});
        let plan = self.asked(&json!({ "order": order }), "muster.v1.Fleet/Plan").await;
        assert!(plan["refusal"].is_null(), "{plan:#}");
        assert_eq!(plan["nodes"].as_array().unwrap().len(), 2, "{plan:#}");
        assert_eq!(plan["nodes"][0]["offerings"][0]["instanceType"], "m5.large", "{plan:#}");
    }

    /// The same nodes as anybody sees them.
    pub(crate) async fn sees_nodes(&self, claims: &[DynamicObject]) {
        let listed = self.asked(&json!({"node_pool": "ordered"}), "muster.v1.Fleet/List").await;
        assert_eq!(listed["document"]["kind"], "Nodes", "{listed:#}");
        assert_eq!(listed["document"]["nodes"].as_array().unwrap().len(), claims.len(), "{listed:#}");
        let node = &claims[0].data["status"]["nodeName"];
        let explained = self.asked(&json!({ "node": node }), "muster.v1.Diagnosis/ExplainNode").await;
        assert_eq!((&explained["document"]["node"], &explained["document"]["phase"]), (node, &json!("Ready")));
    }
}

async fn run(mut command: Command) -> Said {
    let output = command.env_clear().stdin(Stdio::null()).kill_on_drop(true).output().await.unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Said { stdout: text(output.stdout), stderr: text(output.stderr), code: output.status.code().unwrap() }
}

/// What a plaintext port says of health once agents are served: a line for each name.
pub(crate) async fn health(port: u16) -> String {
    let served = wait::until_some("agents are served", MOST, || async {
        let told = told_of_health(port).await;
        Ok(told.lines().any(|line| line == "SERVING     `controller.AgentGateway`").then_some(told))
    });
    served.await.unwrap()
}

async fn told_of_health(port: u16) -> String {
    let mut command = Command::new(programs::path("grpcurl").unwrap());
    command.args(["-plaintext", &format!("127.0.0.1:{port}"), "grpc.health.v1.Health/List"]);
    let Said { stdout, stderr, code } = run(command).await;
    assert_eq!(code, 0, "{stderr}");
    let all: Value = serde_json::from_str(&stdout).unwrap();
    let lines = all["statuses"].as_object().unwrap().iter().map(|(name, one)| {
        let status = one["status"].as_str().unwrap();
        format!("{status:<12}`{name}`\n")
    });
    lines.collect()
}
