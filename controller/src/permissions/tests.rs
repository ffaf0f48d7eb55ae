use super::*;

#[test]
fn every_kind_of_write_is_in_the_table_once() {
    let listed: BTreeSet<Kind> = Kind::ALL.into_iter().collect();
    assert_eq!(listed.len(), Kind::ALL.len());
    // `Kind::of` and `needed` are total; whoever adds a kind finds the third place here.
    assert_eq!(Kind::ALL.last(), Some(&Kind::Event));
    assert_eq!(Kind::ALL.len() - 1, Kind::Event as usize);
}

#[test]
fn nothing_is_allowed_that_is_not_needed() {
    let all = all();
    assert!(all.iter().all(|one| one.verb != "*" && one.resource != "*" && one.group != "*"));
    let of_others = |one: &&Permission| ["secrets", "configmaps"].contains(&one.resource);
    for one in all.iter().filter(of_others) {
        assert_eq!((one.by, one.place), (For::Agents, Place::LeaseNamespace), "{one:?}");
        assert!(one.verb == "create" || one.named != Named::Any, "of others' nothing is read: {one:?}");
    }
    let deleted: BTreeSet<&str> = all.iter().filter(|one| one.verb == "delete").map(|one| one.resource).collect();
    assert_eq!(deleted, BTreeSet::from(["nodeclaims", "nodes", "pods"]));
}

#[test]
fn agents_take_more_and_a_lease_too() {
    let of = |cloud, elects, serves_agents| -> BTreeSet<Permission> {
        let uses = Uses {
            cloud,
            elects,
            serves_agents,
            nominates: true,
            writes_deletion_costs: true,
            reads_selectors: true,
            overlays: true,
            buffers: true,
            devices: true,
        };
        needed_by(uses).into_iter().collect()
    };
    let alone = of(For::Aws, false, false);
    let by_agents: Vec<Permission> = of(For::Aws, false, true).difference(&alone).copied().collect();
    assert!(by_agents.len() > 5 && by_agents.iter().all(|one| one.by == For::Agents), "{by_agents:?}");
    let by_election: Vec<Permission> = of(For::Aws, true, false).difference(&alone).copied().collect();
    assert!(by_election.iter().all(|one| one.resource == "leases"), "{by_election:?}");
    assert_eq!(by_election.len(), 4);
    assert!(!of(For::Kwok, true, false).iter().any(|one| one.by == For::Aws || one.place == Place::KubeSystem));
    let all: BTreeSet<Permission> = all().into_iter().collect();
    assert_eq!(&of(For::Aws, true, true) | &of(For::Kwok, true, true), all);
}

#[test]
fn what_is_switched_off_needs_no_permission() {
    let nothing = Uses {
        cloud: For::Aws,
        elects: true,
        serves_agents: false,
        nominates: false,
        writes_deletion_costs: false,
        reads_selectors: false,
        overlays: false,
        buffers: false,
        devices: false,
    };
    let of = |uses: Uses| -> BTreeSet<Permission> { needed_by(uses).into_iter().collect() };
    let less = of(nothing);
    let more = |all: BTreeSet<Permission>| -> Vec<(&str, &str)> {
        all.difference(&less).map(|one| (one.resource, one.verb)).collect()
    };
    assert_eq!(more(of(Uses { nominates: true, ..nothing })), [("pods/status", "patch")]);
    let selecting = ["replicationcontrollers", "services", "replicasets", "statefulsets"];
    let selecting: Vec<(&str, &str)> =
        selecting.into_iter().flat_map(|kind| [(kind, "list"), (kind, "watch")]).collect();
    assert_eq!(more(of(Uses { reads_selectors: true, ..nothing })), selecting);
    assert_eq!(more(of(Uses { writes_deletion_costs: true, ..nothing })), [("pods", "patch")]);
    assert_eq!(more(of(Uses { overlays: true, ..nothing })), [("nodeoverlays/status", "patch")]);
    let of_buffers = more(of(Uses { buffers: true, ..nothing }));
    let read = ["podtemplates", "deployments", "replicasets", "statefulsets"];
    let read = read.into_iter().flat_map(|kind| [(kind, "list"), (kind, "watch")]);
    let expected: BTreeSet<(&str, &str)> = read.chain([("capacitybuffers/status", "patch")]).collect();
    assert_eq!(of_buffers.into_iter().collect::<BTreeSet<_>>(), expected);
    assert!(!less.iter().any(|one| one.resource == "kwoknodeclasses" && one.verb == "get"));
}

/// The admission policy cannot be generated from RBAC, so its names are compared.
#[test]
fn the_policy_of_the_chart_names_what_the_program_creates() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../charts/muster/templates/policy.yaml");
    let text = std::fs::read_to_string(path).unwrap();
    let quoted: Vec<&str> = text.split('\'').skip(1).step_by(2).collect();
    let (secrets, configmaps) = created();
    let names: Vec<&str> = quoted.into_iter().filter(|word| word.starts_with("muster-")).collect();
    let expected: Vec<&str> = secrets.iter().chain(&configmaps).map(String::as_str).collect();
    assert_eq!(names, expected);
}

#[test]
fn the_api_server_is_asked_about_each_name() {
    let one = |resource: &str, verb: &str| {
        let one = all().into_iter().find(|one| (one.resource, one.verb) == (resource, verb)).unwrap();
        let asked = one.questions("karpenter", Some("mine"));
        let told = |it: ResourceAttributes| (it.namespace.unwrap_or_default(), it.name.unwrap_or_default());
        asked.into_iter().map(told).collect::<Vec<_>>()
    };
    let pair = |namespace: &str, name: &str| (namespace.to_owned(), name.to_owned());
    assert_eq!(one("leases", "update"), [pair("karpenter", "mine")]);
    assert_eq!(one("secrets", "create"), [pair("karpenter", "")]);
    assert_eq!(one("secrets", "update"), [pair("karpenter", "muster-agents")]);
    assert_eq!(one("services", "get"), [pair("kube-system", "kube-dns")]);
    let slots = one("configmaps", "update");
    assert_eq!((slots.len(), &slots[SLOTS - 1]), (SLOTS, &pair("karpenter", "muster-verdict-19")));
}

#[test]
fn whoever_may_call_a_service_may_ask_how() {
    let roles = of_operators();
    assert_eq!(roles.keys().collect::<Vec<_>>(), ["diagnosis", "fleet"]);
    for (service, rules) in roles {
        let mut paths: Vec<(String, String)> = Vec::new();
        for rule in rules {
            paths.extend(rule.non_resource_urls.unwrap().into_iter().map(|path| (path, rule.verbs[0].clone())));
        }
        paths.sort_unstable();
        let own = format!("/muster.v1.{service}/").to_ascii_lowercase();
        let expected = muster_gateway::rules().filter_map(|(path, rule)| match rule {
            Rule::Operator(verb) if path.starts_with("/grpc.reflection.") => Some((path, verb)),
            Rule::Operator(verb) if path.to_ascii_lowercase().starts_with(&own) => Some((path, verb)),
            _ => None,
        });
        let expected = expected.map(|(path, verb)| (path.to_owned(), verb.name().to_owned()));
        assert_eq!(paths, expected.collect::<Vec<_>>());
    }
}

#[test]
fn the_roles_of_the_chart_are_those_of_the_table() {
    let text = |rules: &[PolicyRule]| -> String {
        let text = serde_saphyr::to_string(&rules).unwrap();
        text.lines().map(|line| format!("  {line}\n")).collect()
    };
    let block = |place, by| text(&rules(place, by));
    let head = |kind: &str, suffix: &str, namespace: &str| {
        let namespace = if namespace.is_empty() { String::new() } else { format!("  namespace: {namespace}\n") };
        let api = "apiVersion: rbac.authorization.k8s.io/v1";
        let metadata = format!("{{{{- include \"muster.metadata\" (list \"{suffix}\" .) | nindent 2 }}}}");
        format!("{api}\nkind: {kind}\nmetadata:\n{namespace}  {metadata}\nrules:\n")
    };
    let of_operators: String = of_operators()
        .into_iter()
        .map(|(service, rules)| {
            let why = "# For whoever is to call it over gRPC: nobody is bound to it.";
            format!("---\n{why}\n{}{}", head("ClusterRole", &format!("-{service}"), ""), text(&rules))
        })
        .collect();
    let current = [
        "# Written by a test of muster-controller from src/permissions.rs. Edit that.\n".to_owned(),
        head("ClusterRole", "", ""),
        block(Place::Cluster, For::Any),
        "  {{- if eq .Values.settings.cloud \"aws\" }}\n".to_owned(),
        block(Place::Cluster, For::Aws),
        "  {{- else }}\n".to_owned(),
        block(Place::Cluster, For::Kwok),
        "  {{- end }}\n  {{- if not .Values.settings.disableNominations }}\n".to_owned(),
        block(Place::Cluster, For::Nominations),
        "  {{- end }}\n  {{- if .Values.settings.featureGates.podDeletionCostManagement }}\n".to_owned(),
        block(Place::Cluster, For::DeletionCosts),
        "  {{- end }}\n  {{- if .Values.settings.schedulerConfig }}\n".to_owned(),
        block(Place::Cluster, For::DefaultSpread),
        "  {{- end }}\n  {{- if .Values.settings.featureGates.nodeOverlay }}\n".to_owned(),
        block(Place::Cluster, For::Overlays),
        "  {{- end }}\n  {{- if .Values.settings.featureGates.capacityBuffer }}\n".to_owned(),
        block(Place::Cluster, For::Buffers),
        "  {{- end }}\n  {{- if eq (include \"muster.dra\" .) \"true\" }}\n".to_owned(),
        block(Place::Cluster, For::Devices),
        "  {{- end }}\n  {{- with .Values.additionalClusterRoleRules }}\n  {{- toYaml . | nindent 2 }}\n  {{- end }}\n"
            .to_owned(),
        format!("---\n{}", head("Role", "-lease", "{{ include \"muster.leaseNamespace\" . }}")),
        block(Place::LeaseNamespace, For::Any),
        format!("---\n{}", head("Role", "-dns", "kube-system")),
        block(Place::KubeSystem, For::Any),
        format!(
            "{{{{- if .Values.agents.port }}}}\n---\n{}",
            head("Role", "-agents", "{{ include \"muster.leaseNamespace\" . }}")
        ),
        block(Place::LeaseNamespace, For::Agents),
        format!("---\n{}", head("ClusterRole", "-reviews", "")),
        block(Place::Cluster, For::Agents),
        of_operators,
        "{{- end }}\n".to_owned(),
    ]
    .concat();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../charts/muster/templates/roles.yaml");
    if std::fs::read_to_string(path).unwrap_or_default() != current {
        std::fs::write(path, current).unwrap();
        panic!(
            "the roles of the chart were out of date and have been written anew: look at the difference and commit it"
        );
    }
}
