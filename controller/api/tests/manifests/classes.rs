//! EC2NodeClass: what it selects, role, family and tags.

use serde_json::{Value, json};

use crate::{OK, check_table};

pub(crate) fn class() -> Value {
    json!({
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": {"name": "default"},
        "spec": {
            "role": "node",
            "amiSelectorTerms": [{"alias": "al2023@latest"}],
            "subnetSelectorTerms": [{"tags": {"discovery": "c"}}],
            "securityGroupSelectorTerms": [{"tags": {"discovery": "c"}}],
        },
    })
}

pub(crate) fn spec(spec: Value) -> Value {
    json!({"spec": spec})
}

#[test]
fn subnets() {
    let terms = |terms: Value| spec(json!({"subnetSelectorTerms": terms}));
    let at = |rest: &str| format!("spec.subnetSelectorTerms{rest}");
    check_table(
        &class(),
        &[
            (terms(json!([{"id": "subnet-12345749"}])), OK, ""),
            (terms(json!([{"tags": {"a": "b", "c": "*"}}])), OK, ""),
            (terms(json!([{"tags": {"a": "b"}}, {"id": "subnet-1"}])), OK, ""),
            (terms(json!([])), &at(""), "may not be empty"),
            (terms(json!(null)), &at(""), "must be set"),
            (terms(json!([{}])), &at(""), "needs `tags` or `id`"),
            (terms(json!([{"tags": {"a": "b"}}, {}])), &at(""), "needs `tags` or `id`"),
            (terms(json!([{"tags": {}}])), &at(""), "selects nothing"),
            (terms(json!([{"tags": {}}, {"id": "subnet-1"}])), OK, ""),
            (terms(json!([{"id": "subnet-1", "tags": {"a": "b"}}])), &at(""), "may not be combined"),
            (terms(json!([{"id": "sub-1"}])), &at("[0].id"), "is malformed"),
            (terms(json!([{"tags": {"": "b"}}])), &at("[0].tags"), "empty key"),
            (terms(json!([{"tags": {"a": ""}}])), &at("[0].tags"), "empty value"),
            (terms(json!(vec![json!({"id": "subnet-1"}); 31])), &at(""), "at most 30"),
            (
                terms(
                    json!([{"tags": (0..21).map(|i| (i.to_string(), json!("x"))).collect::<serde_json::Map<_, _>>()}]),
                ),
                &at("[0].tags"),
                "at most 20",
            ),
        ],
    );
}

#[test]
fn security_groups() {
    let terms = |terms: Value| spec(json!({"securityGroupSelectorTerms": terms}));
    let at = |rest: &str| format!("spec.securityGroupSelectorTerms{rest}");
    check_table(
        &class(),
        &[
            (terms(json!([{"id": "sg-12345749"}])), OK, ""),
            (terms(json!([{"name": "nodes"}])), OK, ""),
            (terms(json!([{"tags": {"a": "*"}}, {"name": "nodes"}])), OK, ""),
            (terms(json!([])), &at(""), "may not be empty"),
            (terms(json!(null)), &at(""), "must be set"),
            (terms(json!([{}])), &at(""), "needs `tags`, `id` or `name`"),
            (terms(json!([{"name": ""}, {"tags": {}}])), &at(""), "selects nothing"),
            (terms(json!([{"name": ""}, {"id": "sg-1"}])), OK, ""),
            (terms(json!([{"id": "sg-1", "tags": {"a": "b"}}])), &at(""), "`id` may not be combined"),
            (terms(json!([{"id": "sg-1", "name": "b"}])), &at(""), "`id` may not be combined"),
            (terms(json!([{"name": "b", "tags": {"a": "b"}}])), &at(""), "`name` may not be combined"),
            (terms(json!([{"id": "grp-1"}])), &at("[0].id"), "is malformed"),
            (terms(json!([{"tags": {"": "b"}}])), &at("[0].tags"), "empty key"),
            (terms(json!([{"tags": {"a": ""}}])), &at("[0].tags"), "empty value"),
            (terms(json!(vec![json!({"name": "x"}); 31])), &at(""), "at most 30"),
        ],
    );
}

#[test]
fn capacity_reservations_and_placement() {
    let terms = |terms: Value| spec(json!({"capacityReservationSelectorTerms": terms}));
    let at = |rest: &str| format!("spec.capacityReservationSelectorTerms{rest}");
    let group = |group: Value| spec(json!({"placementGroupSelector": group}));
    let place = |rest: &str| format!("spec.placementGroupSelector{rest}");
    check_table(
        &class(),
        &[
            (terms(json!([{"id": "cr-12345749"}])), OK, ""),
            (terms(json!([{"tags": {"a": "b"}}])), OK, ""),
            (terms(json!([{"tags": {"a": "b"}, "ownerID": "012345678901"}])), OK, ""),
            (terms(json!([{"instanceMatchCriteria": "open"}])), OK, ""),
            (terms(json!([{"tags": {}}])), OK, ""),
            (terms(json!([{"instanceMatchCriteria": "targeted", "ownerID": "012345678901"}])), OK, ""),
            (terms(json!([{}])), &at(""), "needs `tags`, `id` or `instanceMatchCriteria`"),
            (terms(json!([{"ownerID": "012345678901"}])), &at(""), "needs `tags`"),
            (terms(json!([{"id": "cr-1", "tags": {"a": "b"}}])), &at(""), "may not be combined"),
            (terms(json!([{"id": "cr-1", "ownerID": "012345678901"}])), &at(""), "may not be combined"),
            (terms(json!([{"id": "cr-1", "instanceMatchCriteria": "open"}])), &at(""), "may not be combined"),
            (terms(json!([{"id": "xcr-1"}])), &at("[0].id"), "is malformed"),
            (terms(json!([{"tags": {"a": "b"}, "ownerID": "01234567890"}])), &at("[0].ownerID"), "is malformed"),
            (terms(json!([{"instanceMatchCriteria": "closed"}])), &at("[0].instanceMatchCriteria"), "`targeted`"),
            (terms(json!([{"tags": {"": "b"}}])), &at("[0].tags"), "empty key"),
            (terms(json!(vec![json!({"id": "cr-1"}); 31])), &at(""), "at most 30"),
            (group(json!({"name": "rack"})), OK, ""),
            (group(json!({"id": "pg-0a1"})), OK, ""),
            (group(json!({})), &place(""), "needs `name` or `id`"),
            (group(json!({"name": "rack", "id": "pg-0a1"})), &place(""), "may not both be set"),
            (group(json!({"name": ""})), &place(".name"), "at least 1"),
            (group(json!({"id": "rack"})), &place(".id"), "is malformed"),
        ],
    );
}

#[test]
fn images() {
    let terms = |family: &str, terms: Value| spec(json!({"amiFamily": family, "amiSelectorTerms": terms}));
    let custom = |term: Value| terms("Custom", json!([term]));
    let alias = |alias: &str| spec(json!({"amiSelectorTerms": [{"alias": alias}]}));
    let at = |rest: &str| format!("spec.amiSelectorTerms{rest}");
    check_table(
        &class(),
        &[
            (custom(json!({"id": "ami-12345749"})), OK, ""),
            (custom(json!({"tags": {"a": "*"}})), OK, ""),
            (custom(json!({"name": "mine-*"})), OK, ""),
            (custom(json!({"name": "mine-*", "owner": "self"})), OK, ""),
            (custom(json!({"tags": {"a": "b"}, "owner": "012345678901", "name": "x"})), OK, ""),
            (custom(json!({"ssmParameter": "/mine/ami"})), OK, ""),
            (terms("AL2023", json!([{"id": "ami-1"}, {"tags": {"a": "b"}}])), OK, ""),
            (custom(json!({})), &at(""), "needs `tags`, `id`, `name`, `alias` or `ssmParameter`"),
            (custom(json!({"owner": "self"})), &at(""), "needs `tags`"),
            (custom(json!({"id": "ami-1", "tags": {"a": "b"}})), &at(""), "`id` may not be combined"),
            (custom(json!({"id": "ami-1", "name": "x"})), &at(""), "`id` may not be combined"),
            (custom(json!({"id": "ami-1", "owner": "self"})), &at(""), "`id` may not be combined"),
            (custom(json!({"id": "ami-1", "alias": "al2023@latest"})), &at(""), "may not be combined"),
            (
                terms("Custom", json!([{"name": "x"}, {"id": "ami-1", "name": "x"}])),
                &at(""),
                "`id` may not be combined",
            ),
            (custom(json!({"alias": "al2023@latest", "tags": {"a": "b"}})), &at(""), "`alias` may not be combined"),
            (custom(json!({"alias": "al2023@latest", "name": "x"})), &at(""), "`alias` may not be combined"),
            (custom(json!({"alias": "al2023@latest", "owner": "self"})), &at(""), "`alias` may not be combined"),
            (terms("AL2023", json!([{"alias": "al2023@latest"}, {"id": "ami-1"}])), &at(""), "the only one"),
            (terms("AL2023", json!([{"alias": "al2023@latest"}, {"alias": "al2023@v1"}])), &at(""), "the only one"),
            (custom(json!({"id": "image-1"})), &at("[0].id"), "is malformed"),
            (custom(json!({"tags": {"": "b"}})), &at("[0].tags"), "empty key"),
            (custom(json!({"tags": {"a": ""}})), &at("[0].tags"), "empty value"),
            (spec(json!({"amiSelectorTerms": []})), &at(""), "at least 1"),
            (spec(json!({"amiSelectorTerms": null})), &at(""), "must be set"),
            (terms("Custom", json!(vec![json!({"name": "x"}); 31])), &at(""), "at most 30"),
            (alias("al2@latest"), OK, ""),
            (alias("al2023@v20240807"), OK, ""),
            (alias("bottlerocket@v1.20.4"), OK, ""),
            (alias("bottlerocket@1.20.4"), OK, ""),
            (alias("windows2019@latest"), OK, ""),
            (alias("windows2022@latest"), OK, ""),
            (alias("windows2025@latest"), OK, ""),
            (alias("windows2025@v1"), &at("[0].alias"), "version latest"),
            (alias("windows2019@v1.2"), &at("[0].alias"), "version latest"),
            (alias("al2023"), &at("[0].alias"), "form family@version"),
            (alias("al2023@"), &at("[0].alias"), "form family@version"),
            (alias("@latest"), &at("[0].alias"), "form family@version"),
            (alias("ubuntu@latest"), &at("[0].alias"), "of the family"),
            (alias("AL2023@latest"), &at("[0].alias"), "of the family"),
            (alias("custom@latest"), &at("[0].alias"), "of the family"),
            (alias(&format!("al2023@{}", "1".repeat(24))), &at("[0].alias"), "at most 30"),
        ],
    );
}

#[test]
fn families() {
    let with = |family: Value, alias: &str| spec(json!({"amiFamily": family, "amiSelectorTerms": [{"alias": alias}]}));
    let families = [
        ("AL2", "al2"),
        ("AL2023", "al2023"),
        ("Bottlerocket", "bottlerocket"),
        ("Windows2019", "windows2019"),
        ("Windows2022", "windows2022"),
        ("Windows2025", "windows2025"),
    ];
    for (family, alias) in families {
        let alias = format!("{alias}@latest");
        let other = families.iter().map(|(other, _)| *other).filter(|other| *other != family);
        check_table(
            &class(),
            &[
                (with(json!(family), &alias), OK, ""),
                (with(json!("Custom"), &alias), OK, ""),
                (with(json!(null), &alias), OK, ""),
            ],
        );
        for other in other {
            check_table(&class(), &[(with(json!(other), &alias), "spec", &format!("must be `{family}` or `Custom`"))]);
        }
    }
    check_table(
        &class(),
        &[
            (with(json!("Ubuntu"), "al2@latest"), "spec.amiFamily", "`Windows2025`"),
            (with(json!(""), "al2@latest"), "spec.amiFamily", "one of"),
            (spec(json!({"amiSelectorTerms": [{"id": "ami-1"}]})), "spec", "`amiFamily` must be set"),
        ],
    );
}

#[test]
fn role_and_tags() {
    let tag = |key: &str| spec(json!({"tags": {key: "v"}}));
    check_table(
        &class(),
        &[
            (spec(json!({"role": null, "instanceProfile": "p"})), OK, ""),
            (spec(json!({"instanceProfile": "p"})), "spec", "exactly one"),
            (spec(json!({"role": null})), "spec", "exactly one"),
            (spec(json!({"role": ""})), "spec.role", "may not be empty"),
            (spec(json!({"role": null, "instanceProfile": ""})), "spec.instanceProfile", "may not be empty"),
            (tag("Name"), OK, ""),
            (tag("team"), OK, ""),
            (spec(json!({"tags": {"team": ""}})), OK, ""),
            (tag("karpenter.sh/discovery"), OK, ""),
            (tag(""), "spec.tags", "empty key"),
            (tag("eks:eks-cluster-name"), "spec.tags", "eks:eks-cluster-name"),
            (tag("kubernetes.io/cluster/c"), "spec.tags", "kubernetes.io/cluster"),
            (tag("kubernetes.io/cluster"), "spec.tags", "kubernetes.io/cluster"),
            (tag("karpenter.sh/nodepool"), "spec.tags", "karpenter.sh/nodepool"),
            (tag("karpenter.sh/nodeclaim"), "spec.tags", "karpenter.sh/nodeclaim"),
            (tag("karpenter.k8s.aws/ec2nodeclass"), "spec.tags", "ec2nodeclass"),
            (spec(json!({"tags": {"a": 1}})), "spec.tags[a]", "must be a string"),
        ],
    );
}
