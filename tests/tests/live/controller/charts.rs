//! The charts: what they render is what the API server knows and takes, and their roles let the program do its work.

use std::path::{Path, PathBuf};
use std::time::Duration;

use k8s_openapi::api::authorization::v1::{ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec};
use kube::Api;
use kube::api::PostParams;
use muster_controller::permissions::{For, Permission, Uses, needed_by};
use muster_tests::world::Part;
use muster_tests::{Case, case, programs, wait};
use serde_json::{Value, json};

use super::muster;

/// How long the API server may take to see a role. Moments on an idle machine; this is for one that builds on all cores.
const SOON: Duration = Duration::from_secs(60);

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
const EVERYTHING: [&str; 21] = [
    "dashboards.enabled=true",
    "settings.cloud=kwok",
    "settings.leaderElectionNamespace=kube-system",
    "settings.maxLaunchesPerMinute=10",
    "additionalAnnotations.a=b",
    "additionalLabels.c=d",
    "podAnnotations.e=f",
    "hostNetwork=true",
    "terminationGracePeriodSeconds=30",
    "controller.resources.requests.cpu=1",
    "settings.movePrice=0.001",
    "settings.consolidationPayback=30m",
    "settings.schedulerConfig=/etc/muster/scheduler.yaml",
    "settings.disableNominations=true",
    "networkPolicy.metricsFrom[0].namespaceSelector.matchLabels.name=monitoring",
    "networkPolicy.egress[0].to[0].ipBlock.cidr=10.0.0.0/8",
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
        let agents = &[
            "settings.clusterName=c",
            "agents.port=9443",
            "agents.address=muster.example.com:9443",
            "networkPolicy.agentsFrom[0].ipBlock.cidr=10.0.0.0/16",
            "networkPolicy.healthFrom[0].ipBlock.cidr=10.0.0.0/16",
        ][..];
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

/// The values of Karpenter's chart, and the installation command of its getting-started page.
#[test]
fn karpenters_values_are_taken() {
    case("karpenters", &[Part::Cluster], async |case| {
        let folder = tempfile::tempdir().unwrap();
        let location = schemas(case, folder.path()).await;
        let command = [
            "settings.clusterName=shop",
            "settings.interruptionQueue=shop",
            "settings.enableZonalShift=true",
            "controller.resources.requests.cpu=1",
            "controller.resources.requests.memory=1Gi",
            "controller.resources.limits.cpu=1",
            "controller.resources.limits.memory=1Gi",
        ];
        let installed = rendered(case, "muster", folder.path(), &command).await.unwrap();
        let (chart, release) = (chart("muster"), case.named("muster"));
        let values = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/live/controller/karpenter-values.yaml");
        let mut arguments = vec!["template", &release, chart.to_str().unwrap(), "--namespace", case.namespace()];
        arguments.extend(["--kube-version", "1.37.1", "--values", values]);
        let whole = output("helm", folder.path(), &arguments).await.unwrap();
        for text in [installed, whole] {
            for (name, value) in [
                ("CLUSTER_NAME", "shop"),
                ("INTERRUPTION_QUEUE", "shop"),
                ("ENABLE_ZONAL_SHIFT", "true"),
                ("AWS_FEATURE_GATES", "NodeClassCEL=false,DRANVIDIAGPU=false,DRAEFA=false,RebootForRepair=false"),
            ] {
                let line = format!("- name: {name}\n              value: \"{value}\"");
                assert!(text.contains(&line), "{line}: {text}");
            }
            assert!(text.contains("TerminateFirstDrift=false,TerminateFirstRepair=false"), "{text}");
            let file = folder.path().join("rendered.yaml");
            std::fs::write(&file, text).unwrap();
            let file = file.to_str().unwrap();
            let checks = ["-strict", "-summary", "-schema-location", &location, file];
            let found = output("kubeconform", folder.path(), &checks).await.unwrap_or_else(|found| panic!("{found}"));
            assert!(found.contains("Invalid: 0, Errors: 0, Skipped: 0"), "{found}");
            let dry = ["apply", "--server-side", "--force-conflicts", "--dry-run=server", "-f", file];
            case.cluster().kubectl(&dry).await.unwrap();
        }
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
                "settings.cloud=kwok,settings.enableZonalShift=true",
                "settings.enableZonalShift is set, and nodes of `kwok` have no zonal shifts",
            ),
            (
                "settings.clusterName=c,settings.enableDRA=true,settings.ignoreDRARequests=false",
                "settings.enableDRA is set, and so is settings.ignoreDRARequests",
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

/// The document of a kind.
fn of_kind<'t>(text: &'t str, kind: &str) -> &'t str {
    let is_it = |one: &&str| one.lines().any(|line| line == format!("kind: {kind}"));
    text.split("\n---\n").find(is_it).unwrap_or_else(|| panic!("no {kind} in {text}"))
}

/// The API server judges by the standard: the namespace enforces it.
#[test]
fn the_pods_pass_the_restricted_standard() {
    case("restricted", &[Part::Cluster], async |case| {
        let folder = tempfile::tempdir().unwrap();
        let (cluster, namespace) = (case.cluster(), case.named("standard"));
        cluster.kubectl(&["create", "namespace", &namespace]).await.unwrap();
        let label = "pod-security.kubernetes.io/enforce=restricted";
        cluster.kubectl(&["label", "namespace", &namespace, label]).await.unwrap();
        cluster.service_account(&namespace, "default").await.unwrap();
        let agents = ["settings.clusterName=c", "agents.port=9443", "agents.address=muster.example.com:9443"];
        for (values, passes) in [
            (&["settings.clusterName=c"][..], true),
            (&agents[..], true),
            (&["settings.cloud=kwok"][..], true),
            // The node's network is not part of the standard.
            (&["settings.clusterName=c", "hostNetwork=true"][..], false),
        ] {
            let text = rendered(case, "muster", folder.path(), values).await.unwrap();
            let file = folder.path().join("deployment.yaml");
            std::fs::write(&file, of_kind(&text, "Deployment")).unwrap();
            let read = ["create", "--dry-run=client", "-o", "json", "-f", file.to_str().unwrap()];
            let deployment: Value = serde_json::from_str(&cluster.kubectl(&read).await.unwrap()).unwrap();
            let mut spec = deployment["spec"]["template"]["spec"].clone();
            spec["serviceAccountName"] = json!("default");
            let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "muster"}, "spec": spec});
            std::fs::write(&file, pod.to_string()).unwrap();
            let create = ["create", "--dry-run=server", "--namespace", &namespace, "-f", file.to_str().unwrap()];
            let answer = cluster.kubectl(&create).await;
            assert_eq!(answer.is_ok(), passes, "{values:?}: {answer:?}");
            let told = answer.map_or_else(|error| error.to_string(), |_| "violates PodSecurity".to_owned());
            assert!(told.contains("violates PodSecurity"), "{told}");
        }
        cluster.kubectl(&["delete", "namespace", &namespace, "--wait=false"]).await.unwrap();
    });
}

/// Names of the options in the values; options that are set without being asked for.
#[test]
fn options_have_values_and_what_is_empty_is_left_to_the_program() {
    case("options", &[Part::Cluster], async |case| {
        let folder = tempfile::tempdir().unwrap();
        let plain = rendered(case, "muster", folder.path(), &["settings.clusterName=c"]).await.unwrap();
        let env = |text: &str, name: &str| {
            let mut lines = of_kind(text, "Deployment").lines();
            lines.find(|line| line.trim() == format!("- name: {name}"))?;
            lines.next()?.trim().strip_prefix("value: ").map(|value| value.trim_matches('"').to_owned())
        };
        let set = rendered(
            case,
            "muster",
            folder.path(),
            &[
                "settings.clusterName=c",
                "settings.movePrice=0.0005",
                "settings.preferencePrice=0.001",
                "settings.consolidationPayback=30m",
                "settings.schedulerConfig=/etc/scheduler.yaml",
                "settings.kubeClientQPS=50",
                "settings.kubeClientBurst=80",
                "settings.amiRefreshInterval=5m",
            ],
        );
        let set = set.await.unwrap();
        for (name, expected) in [
            ("MOVE_PRICE", "0.0005"),
            ("PREFERENCE_PRICE", "0.001"),
            ("CONSOLIDATION_PAYBACK", "30m"),
            ("SCHEDULER_CONFIG", "/etc/scheduler.yaml"),
            ("KUBE_CLIENT_QPS", "50"),
            ("KUBE_CLIENT_BURST", "80"),
        ] {
            assert_eq!(env(&plain, name), None, "{name}");
            assert_eq!(env(&set, name).as_deref(), Some(expected), "{name}");
        }
        assert_eq!(env(&set, "AMI_REFRESH_INTERVAL").as_deref(), Some("5m"));
        for part in ["memory: 1Gi", "memory: 256Mi", "cpu: 250m"] {
            assert!(of_kind(&plain, "Deployment").contains(part), "{part}");
        }
        // Options without effect would be warned of at each start.
        for name in ["MEMORY_LIMIT", "CPU_REQUESTS", "KARPENTER_SERVICE"] {
            assert!(!plain.contains(name), "{name}");
        }
        let policy = of_kind(&plain, "NetworkPolicy");
        assert!(policy.contains("http-metrics") && !policy.contains("Egress"), "{policy}");
        let off = ["settings.clusterName=c", "networkPolicy.enabled=false"];
        let off = rendered(case, "muster", folder.path(), &off).await.unwrap();
        assert!(!off.contains("kind: NetworkPolicy"), "{off}");
    });
}

/// A Secret or a ConfigMap, of a type if one is given.
fn made(kind: &str, name: &str, kind_of_secret: Option<&str>) -> Value {
    let mut object = json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}});
    if let Some(kind_of_secret) = kind_of_secret {
        object["type"] = json!(kind_of_secret);
        object["metadata"]["annotations"] = json!({"kubernetes.io/service-account.name": "default"});
    }
    object
}

/// RBAC knows no names for `create`, so the chart's admission policy does: a controller that was taken over makes
/// neither `aws-auth` nor a token of another ServiceAccount, also where its lease is in kube-system.
#[test]
fn only_objects_of_its_own_are_created() {
    case("creates", &[Part::Cluster], async |case| {
        let folder = tempfile::tempdir().unwrap();
        let values = [
            "settings.clusterName=c",
            "agents.port=9443",
            "agents.address=muster.example.com:9443",
            "settings.leaderElectionNamespace=kube-system",
        ];
        let text = rendered(case, "muster", folder.path(), &values).await.unwrap();
        let is_part = |one: &&str| {
            let kind = one.lines().find_map(|line| line.strip_prefix("kind: ")).unwrap_or_default();
            kind.contains("Role") || kind.starts_with("ValidatingAdmissionPolicy")
        };
        let parts: Vec<&str> = text.split("\n---\n").filter(is_part).collect();
        let file = folder.path().join("creates.yaml");
        std::fs::write(&file, parts.join("\n---\n")).unwrap();
        let (cluster, file, release) = (case.cluster(), file.to_str().unwrap(), case.named("muster"));
        cluster.kubectl(&["apply", "-f", file]).await.unwrap();
        let account = cluster.service_account(case.namespace(), &release).await.unwrap();
        // Nothing is kept: admission sees a dry run as it sees anything else.
        let make = async |object: &Value| {
            let file = tempfile::Builder::new().suffix(".json").tempfile().unwrap();
            std::fs::write(file.path(), object.to_string()).unwrap();
            let file = file.path().to_str().unwrap();
            let create = ["create", "--dry-run=server", "--namespace=kube-system", "-f", file];
            account.kubectl(&create).await.map_err(|error| error.to_string())
        };
        // RBAC and the policy are seen by watches of the API server.
        let (own, others) = (made("Secret", "muster-agents", None), made("ConfigMap", "aws-auth", None));
        wait::until_some("the policy is in force", SOON, || async {
            let (own, others) = (make(&own).await, make(&others).await);
            let is_denied = others.is_err_and(|told| told.contains("only those with records of nodes are created"));
            Ok((own.is_ok() && is_denied).then_some(()))
        })
        .await
        .unwrap();
        for (object, expected) in [
            (made("ConfigMap", "muster-verdict-00", None), None),
            (made("ConfigMap", "muster-verdict-19", None), None),
            (made("ConfigMap", "muster-verdict-20", None), Some("only those with records of nodes")),
            (made("Secret", "others", None), Some("only muster-agents is created")),
            (
                made("Secret", "bootstrap-token-abcdef", Some("bootstrap.kubernetes.io/token")),
                Some("only muster-agents"),
            ),
            // The API server would fill in the token of that account.
            (made("Secret", "muster-agents", Some("kubernetes.io/service-account-token")), Some("of type Opaque")),
        ] {
            let answer = make(&object).await;
            match expected {
                None => assert!(answer.is_ok(), "{object}: {answer:?}"),
                Some(part) => assert!(answer.as_ref().is_err_and(|told| told.contains(part)), "{object}: {answer:?}"),
            }
        }
        // Others are not concerned.
        let file_of_others = folder.path().join("others.json");
        std::fs::write(&file_of_others, others.to_string()).unwrap();
        let of_admin =
            ["create", "--dry-run=server", "--namespace=kube-system", "-f", file_of_others.to_str().unwrap()];
        cluster.kubectl(&of_admin).await.unwrap();
        cluster.kubectl(&["delete", "-f", file]).await.unwrap();
    });
}

/// What the program asks of the API server if it serves agents.
fn needed_with_agents() -> Vec<Permission> {
    needed_by(Uses {
        cloud: For::Aws,
        elects: true,
        serves_agents: true,
        nominates: true,
        writes_deletion_costs: false,
        reads_selectors: false,
        overlays: true,
        buffers: true,
        devices: false,
    })
}

/// The API server's answer about the client's own account.
async fn may(reviews: &Api<SelfSubjectAccessReview>, attributes: ResourceAttributes) -> bool {
    let spec = SelfSubjectAccessReviewSpec { resource_attributes: Some(attributes), ..Default::default() };
    let review = SelfSubjectAccessReview { spec, ..Default::default() };
    reviews.create(&PostParams::default(), &review).await.unwrap().status.unwrap().allowed
}

/// The program has no right to Secrets and ConfigMaps that are not its own, or to all of them.
async fn the_rest_is_denied(case: &Case, reviews: &Api<SelfSubjectAccessReview>) {
    for (verb, resource, name) in [
        ("get", "secrets", "others"),
        ("list", "secrets", ""),
        ("delete", "secrets", "muster-agents"),
        ("get", "configmaps", "muster-verdict-20"),
        ("list", "configmaps", ""),
    ] {
        let attributes = ResourceAttributes {
            namespace: Some(case.namespace().to_owned()),
            verb: Some(verb.to_owned()),
            resource: Some(resource.to_owned()),
            name: Some(name.to_owned()).filter(|name| !name.is_empty()),
            ..ResourceAttributes::default()
        };
        assert!(!may(reviews, attributes).await, "{verb} {resource} {name}");
    }
}

/// Whom an administrator binds to a role for operators calls the RPCs of that role, and no others.
async fn operators_may_call(case: &Case, release: &str) {
    let cluster = case.cluster();
    let reflection = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
    for (role, allowed, denied) in [
        ("diagnosis", ("get", "/muster.v1.Diagnosis/ExplainNode"), ("get", "/muster.v1.Fleet/List")),
        ("fleet", ("post", "/muster.v1.Fleet/Launch"), ("get", "/muster.v1.Diagnosis/Verdicts")),
    ] {
        let (account, binding) = (case.named(role), case.named(&format!("is-{role}")));
        let user = format!("--as=system:serviceaccount:{}:{account}", case.namespace());
        let role = format!("--clusterrole={release}-{role}");
        let subject = format!("--serviceaccount={}:{account}", case.namespace());
        cluster.kubectl(&["create", "clusterrolebinding", &binding, &role, &subject]).await.unwrap();
        for (verb, path) in [("get", reflection), allowed] {
            let what = format!("{role} may {verb} {path}");
            let may = wait::until_some(&what, SOON, || async {
                Ok(cluster.kubectl(&["auth", "can-i", verb, path, &user]).await.ok())
            });
            may.await.unwrap();
        }
        assert!(cluster.kubectl(&["auth", "can-i", denied.0, denied.1, &user]).await.is_err(), "{role}: {denied:?}");
        cluster.kubectl(&["delete", "clusterrolebinding", &binding]).await.unwrap();
    }
}

/// With agents: what the program asks itself about at its start, and what those may whom an administrator binds to the roles for
/// operators.
#[test]
fn the_roles_let_the_program_serve_agents_and_operators_call_it() {
    case("agents-roles", &[Part::Cluster], async |case| {
        let folder = tempfile::tempdir().unwrap();
        let values = [
            "settings.clusterName=c",
            "agents.port=9443",
            "agents.address=muster.example.com:9443",
            "settings.featureGates.nodeOverlay=true",
            "settings.featureGates.capacityBuffer=true",
        ];
        let text = rendered(case, "muster", folder.path(), &values).await.unwrap();
        let is_right = |one: &&str| one.lines().any(|line| line.starts_with("kind: ") && line.contains("Role"));
        let rights: Vec<&str> = text.split("\n---\n").filter(is_right).collect();
        let file = folder.path().join("rights.yaml");
        std::fs::write(&file, rights.join("\n---\n")).unwrap();
        let (cluster, file, release) = (case.cluster(), file.to_str().unwrap(), case.named("muster"));
        cluster.kubectl(&["apply", "-f", file]).await.unwrap();
        let account = cluster.service_account(case.namespace(), &release).await.unwrap();
        let needed = needed_with_agents();
        assert!(needed.iter().any(|one| one.by == For::Agents));
        let reviews: Api<SelfSubjectAccessReview> = Api::all(account.client);
        // RBAC sees bindings by its own watch.
        let attributes = |one: &Permission| one.questions(case.namespace(), None);
        for one in needed.iter().flat_map(attributes) {
            let what = format!("{one:?} is allowed");
            let allowed = wait::until_some(&what, SOON, || {
                let (reviews, one) = (&reviews, one.clone());
                async move { Ok(may(reviews, one).await.then_some(())) }
            });
            allowed.await.unwrap();
        }
        the_rest_is_denied(case, &reviews).await;
        operators_may_call(case, &release).await;
        cluster.kubectl(&["delete", "-f", file]).await.unwrap();
    });
}
