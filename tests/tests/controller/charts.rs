//! The charts: what they render is what the API server knows and takes, and their roles let the program do its work.

use std::path::{Path, PathBuf};

use muster_tests::world::Part;
use muster_tests::{Case, case, programs};
use serde_json::{Value, json};

use super::muster;

fn chart(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../charts").join(name)
}

/// What a program wrote, if it ended with success.
async fn output(program: &str, folder: &Path, arguments: &[&str]) -> Result<String, String> {
    let mut command = tokio::process::Command::new(programs::path(program).unwrap());
    // What helm keeps for itself stays in the folder.
    let own = ["HOME", "HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"].map(|name| (name, folder));
    let output = command.env_clear().envs(own).args(arguments).kill_on_drop(true).output().await.unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    if output.status.success() {
        Ok(text(output.stdout))
    } else {
        Err(format!("{}{}", text(output.stdout), text(output.stderr)))
    }
}

/// The manifests of a chart as a release of the case's own.
async fn rendered(case: &Case, name: &str, folder: &Path, values: &[&str]) -> Result<String, String> {
    let (chart, release) = (chart(name), case.named("muster"));
    let mut arguments = vec!["template", &release, chart.to_str().unwrap(), "--namespace", case.namespace()];
    arguments.extend(["--kube-version", "1.37.1"]);
    arguments.extend(values.iter().flat_map(|value| ["--set", value]));
    output("helm", folder, &arguments).await
}

/// The schemas of all kinds that the API server knows, as kubeconform reads them. It brings none, and would ask for them
/// elsewhere.
async fn schemas(case: &Case, folder: &Path) -> String {
    let document = case.cluster().kubectl(&["get", "--raw", "/openapi/v2"]).await.unwrap();
    let mut document: Value = serde_json::from_str(&document).unwrap();
    let definitions = document["definitions"].as_object_mut().unwrap();
    // What the document calls a string may be a number as well.
    definitions["io.k8s.apimachinery.pkg.util.intstr.IntOrString"] = json!({"type": ["string", "integer"]});
    definitions["io.k8s.apimachinery.pkg.api.resource.Quantity"] = json!({"type": ["string", "number"]});
    let mut kinds = Vec::new();
    for (name, definition) in definitions.iter_mut() {
        for kind in definition["x-kubernetes-group-version-kind"].as_array().into_iter().flatten() {
            let text = |key: &str| kind[key].as_str().unwrap().to_owned();
            kinds.push((name.clone(), text("kind"), text("group"), text("version")));
        }
        let fields = definition.as_object_mut().unwrap();
        if fields.contains_key("properties") {
            fields.entry("additionalProperties").or_insert(json!(false));
        }
    }
    std::fs::write(folder.join("_definitions.json"), json!({"definitions": definitions}).to_string()).unwrap();
    for (name, kind, group, version) in kinds {
        let group = group.split('.').next().filter(|group| !group.is_empty()).map(|group| format!("-{group}"));
        let file = format!("{}{}-{version}.json", kind.to_lowercase(), group.unwrap_or_default());
        let schema = json!({"$ref": format!("_definitions.json#/definitions/{name}")});
        std::fs::write(folder.join(file), schema.to_string()).unwrap();
    }
    format!("{}/{{{{ .ResourceKind }}}}{{{{ .KindSuffix }}}}.json", folder.display())
}

/// Values that reach every line of the templates.
const EVERYTHING: [&str; 14] = [
    "settings.cloud=kwok",
    "settings.leaderElectionNamespace=kube-system",
    "settings.maxLaunchesPerMinute=10",
    "additionalAnnotations.a=b",
    "additionalLabels.c=d",
    "podAnnotations.e=f",
    "hostNetwork=true",
    "terminationGracePeriodSeconds=30",
    "controller.resources.requests.cpu=1",
    "controller.image.digest=sha256:0000000000000000000000000000000000000000000000000000000000000000",
    "controller.sidecarContainer[0].name=side",
    "controller.sidecarContainer[0].image=none",
    "serviceAccount.annotations.g=h",
    "additionalClusterRoleRules[0].apiGroups[0]=example.com,additionalClusterRoleRules[0].resources[0]=things,\
     additionalClusterRoleRules[0].verbs[0]=get",
];

#[test]
fn what_is_rendered_is_known_and_taken() {
    case("rendered", &[Part::Cluster], async |case| {
        let folder = tempfile::tempdir().unwrap();
        let location = schemas(case, folder.path()).await;
        let plain = &["settings.clusterName=c", "controller.resources.limits.memory=1Gi"][..];
        let agents = &["settings.clusterName=c", "agents.port=9443", "agents.address=muster.example.com:9443"][..];
        for (name, values) in [("muster", plain), ("muster", agents), ("muster", &EVERYTHING[..]), ("muster-crds", &[])]
        {
            let text = rendered(case, name, folder.path(), values).await.unwrap();
            let file = folder.path().join("rendered.yaml");
            std::fs::write(&file, text).unwrap();
            let file = file.to_str().unwrap();
            // The schema of schemas refers to itself in ways that kubeconform does not follow; the API server checks these.
            if name != "muster-crds" {
                let checks = ["-strict", "-summary", "-schema-location", &location, file];
                let found = output("kubeconform", folder.path(), &checks).await;
                let found = found.unwrap_or_else(|found| panic!("{found}"));
                assert!(found.contains("Invalid: 0, Errors: 0, Skipped: 0"), "{found}");
            }
            let dry = ["apply", "--server-side", "--force-conflicts", "--dry-run=server", "-f", file];
            case.cluster().kubectl(&dry).await.unwrap();
        }
        // As people install it, but that nothing is kept.
        let (chart, release) = (chart("muster"), case.named("muster"));
        let kubeconfig = case.cluster().kubeconfig().to_str().unwrap();
        let mut install = vec!["install", &release, chart.to_str().unwrap(), "--namespace", case.namespace()];
        install.extend(["--kubeconfig", kubeconfig, "--dry-run=server"]);
        install.extend(plain.iter().flat_map(|value| ["--set", value]));
        let told = output("helm", folder.path(), &install).await.unwrap_or_else(|told| panic!("{told}"));
        assert!(told.contains("STATUS: pending-install"), "{told}");
    });
}

#[test]
fn what_makes_no_sense_is_refused_with_the_value_at_fault() {
    case("refusals", &[Part::Cluster], async |case| {
        let folder = tempfile::tempdir().unwrap();
        for (value, expected) in [
            ("settings.cloud=aws", "settings.clusterName is required: the name of the EKS cluster"),
            ("settings.clusterName=c,agents.port=9443", "agents.address is required with agents.port"),
            ("settings.cloud=kwok,agents.port=9443", "agents.port is set, and nothing says of a node of `kwok`"),
            ("settings.cloud=gcp", "settings.cloud is `gcp`, and must be `aws` or `kwok`"),
            (
                "settings.clusterName=c,settings.interruptionQueue=q",
                "settings.interruptionQueue is set, and notices of interruption are not read",
            ),
        ] {
            let refused = rendered(case, "muster", folder.path(), &[value]).await.unwrap_err();
            assert!(refused.contains(expected), "{refused}");
        }
    });
}

#[test]
fn the_roles_let_the_program_read_a_cluster() {
    case("roles", &[Part::Cluster], async |case| {
        let definitions = concat!(env!("CARGO_MANIFEST_DIR"), "/../controller/api/crds");
        case.cluster().kubectl(&["apply", "--server-side", "--force-conflicts", "-f", definitions]).await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        let text = rendered(case, "muster", folder.path(), &["settings.clusterName=c"]).await.unwrap();
        let rights: Vec<&str> = text.split("\n---\n").filter(|one| one.contains("kind: ClusterRole")).collect();
        assert_eq!(rights.len(), 3, "the role, that of admins, and a binding");
        let file = folder.path().join("rights.yaml");
        std::fs::write(&file, rights.join("\n---\n")).unwrap();
        let file = file.to_str().unwrap();
        case.cluster().kubectl(&["apply", "-f", file]).await.unwrap();
        let account = case.cluster().service_account(case.namespace(), &case.named("muster")).await.unwrap();
        let plan = muster(&account.kubeconfig, &["plan", "--cluster", "-o", "json"]).await;
        assert_eq!(plan.code, 0, "{plan:?}");
        let name = format!("--as=system:serviceaccount:{}:{}", case.namespace(), case.named("muster"));
        for (verb, resource, subresource, expected) in [
            ("patch", "nodeclaims.karpenter.sh", "status", true),
            ("create", "pods", "eviction", true),
            ("delete", "nodes", "", true),
            ("create", "nodes", "", false),
            ("list", "secrets", "", false),
            ("create", "pods", "", false),
            ("delete", "nodepools.karpenter.sh", "", false),
        ] {
            let subresource = format!("--subresource={subresource}");
            let question = ["auth", "can-i", verb, resource, &subresource, &name, "--all-namespaces"];
            let may = case.cluster().kubectl(&question).await.is_ok();
            assert_eq!(may, expected, "{question:?}");
        }
        case.cluster().kubectl(&["delete", "-f", file]).await.unwrap();
    });
}
