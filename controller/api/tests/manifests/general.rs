//! What holds for every kind: recognition, metadata, unknown fields, defaults.

use muster_api::validation::{ErrorKind, UnknownField, check};
use muster_api::{CapacityBuffer, Ec2NodeClass, NodeClaim, NodeOverlay, NodePool};
use serde_json::{Value, json};

use crate::{OK, buffers::buffer, check_table, claims::claim, classes::class, merge, overlays::overlay, pools::pool};

#[test]
fn every_kind_is_recognized_and_decodes() {
    for (manifest, kind) in [
        (pool(), "NodePool"),
        (claim(), "NodeClaim"),
        (overlay(), "NodeOverlay"),
        (class(), "EC2NodeClass"),
        (buffer(), "CapacityBuffer"),
    ] {
        let checked = check(&manifest);
        assert_eq!(checked.kind, Some(kind));
        assert!(checked.is_ok() && checked.is_admitted(), "{:?}", checked.errors);
        assert_eq!(checked.warnings, []);
    }
    let pool: NodePool = serde_json::from_value(check(&pool()).defaulted).unwrap();
    assert_eq!(pool.spec.disruption, muster_api::nodepool::Disruption::default());
    let claim: NodeClaim = serde_json::from_value(check(&claim()).defaulted).unwrap();
    assert_eq!(claim.spec.expire_after.to_string(), "720h");
    let class: Ec2NodeClass = serde_json::from_value(check(&class()).defaulted).unwrap();
    assert_eq!(class.spec.resolved_ami_family(), Some(muster_api::nodeclass::AmiFamily::Al2023));
    let _: NodeOverlay = serde_json::from_value(check(&overlay()).defaulted).unwrap();
    let _: CapacityBuffer = serde_json::from_value(check(&buffer()).defaulted).unwrap();
}

#[test]
fn kinds_of_the_past_say_what_to_do() {
    for (api_version, kind, words) in [
        ("karpenter.sh/v1alpha5", "Provisioner", "`muster convert -f`"),
        ("karpenter.sh/v1alpha5", "Machine", "NodeClaim"),
        ("karpenter.k8s.aws/v1alpha1", "AWSNodeTemplate", "EC2NodeClass"),
        ("karpenter.sh/v1beta1", "NodePool", "`muster convert -f`"),
        ("karpenter.sh/v1beta1", "NodeClaim", "`muster convert -f`"),
        ("karpenter.k8s.aws/v1beta1", "EC2NodeClass", "`muster convert -f`"),
        ("karpenter.sh/v2", "NodePool", "`apiVersion: karpenter.sh/v1`"),
        ("karpenter.sh/v1", "NodeOverlay", "karpenter.sh/v1alpha1"),
        ("autoscaling.x-k8s.io/v1alpha1", "CapacityBuffer", "autoscaling.x-k8s.io/v1beta1"),
        ("karpenter.sh/v1", "NodePools", "did you mean `NodePool`"),
        ("karpenter.sh/v1", "EC2NodeClass", "`kind` is `EC2NodeClass`"),
        ("karpenter.sh/v1", "", "`kind` is ``"),
    ] {
        let checked = check(&json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "a"}}));
        assert_eq!(checked.kind, None);
        let [error] = checked.errors.as_slice() else { panic!("{api_version} {kind}: {:?}", checked.errors) };
        assert!(error.is_version() && error.message.contains(words), "{error}");
    }
}

#[test]
fn other_kinds_are_left_alone() {
    for manifest in [
        json!({"apiVersion": "v1", "kind": "Pod", "spec": {"x": 1}}),
        json!({"apiVersion": "autoscaling.x-k8s.io/v1", "kind": "ProvisioningRequest"}),
        json!({"kind": "NodePool"}),
        json!({"apiVersion": 1, "kind": []}),
        json!(null),
        json!("NodePool"),
        json!([]),
    ] {
        let checked = check(&manifest);
        assert_eq!((checked.kind, checked.errors.len(), checked.warnings.len()), (None, 0, 0), "{manifest}");
        assert_eq!(checked.defaulted, manifest);
    }
}

#[test]
fn metadata() {
    let with = |metadata: Value| json!({"metadata": metadata});
    check_table(
        &pool(),
        &[
            (with(json!({"name": "a.b-c"})), OK, ""),
            (with(json!({"name": null, "generateName": "a-"})), OK, ""),
            (with(json!({"labels": {"a.b/c": "x"}, "annotations": {"a.b/C": "any thing"}})), OK, ""),
            (with(json!({"creationTimestamp": null})), OK, ""),
            (with(json!({"name": null})), "metadata.name", "must be set"),
            (with(json!({"name": ""})), "metadata.name", "must be set"),
            (with(json!({"name": "Upper"})), "metadata.name", "lower-case"),
            (with(json!({"name": "a_b"})), "metadata.name", "lower-case"),
            (with(json!({"name": "a".repeat(254)})), "metadata.name", "at most 253"),
            (with(json!({"name": 5})), "metadata.name", "must be a string"),
            (with(json!({"namespace": "default"})), "metadata.namespace", "whole cluster"),
            (with(json!({"labels": {"a b": "x"}})), "metadata.labels[a b]", "must be a name"),
            (with(json!({"labels": {"a": "x y"}})), "metadata.labels[a]", "has the value `x y`"),
            (with(json!({"labels": {"a": 1}})), "metadata.labels[a]", "must be a string"),
            (with(json!({"labels": []})), "metadata.labels", "must be an object"),
            (with(json!({"annotations": {"a": true}})), "metadata.annotations[a]", "must be a string"),
            (json!({"metadata": null}), "metadata", "must be set"),
            (json!({"metadata": []}), "metadata", "must be an object"),
        ],
    );
    check_table(&buffer(), &[(with(json!({"namespace": "other"})), OK, "")]);
}

#[test]
fn unknown_fields_are_dropped_with_a_warning() {
    for (base, patch, path, nearest) in [
        (pool(), json!({"spec": {"wieght": 5}}), "spec.wieght", Some("weight")),
        (pool(), json!({"spec": {"Weight": 5}}), "spec.Weight", Some("weight")),
        (pool(), json!({"spec": {"requirements": []}}), "spec.requirements", Some("spec.template.spec.requirements")),
        (
            pool(),
            json!({"spec": {"consolidateAfter": "1m"}}),
            "spec.consolidateAfter",
            Some("spec.disruption.consolidateAfter"),
        ),
        (pool(), json!({"spec": {"template": {"spec": {"taint": []}}}}), "spec.template.spec.taint", Some("taints")),
        (pool(), json!({"spec": {"template": {"spec": {"kubelet": {}}}}}), "spec.template.spec.kubelet", None),
        (pool(), json!({"metadata": {"lables": {}}}), "metadata.lables", Some("labels")),
        (pool(), json!({"sepc": {}}), "sepc", Some("spec")),
        (class(), json!({"spec": {"subnetSelector": {}}}), "spec.subnetSelector", Some("subnetSelectorTerms")),
        (class(), json!({"spec": {"maxPods": 5}}), "spec.maxPods", None),
        (class(), json!({"spec": {"zzzzzzzz": 5}}), "spec.zzzzzzzz", None),
        (
            overlay(),
            json!({"spec": {"requirements": [{"key": "a", "operator": "Exists", "minValues": 2}]}}),
            "spec.requirements[0].minValues",
            None,
        ),
    ] {
        let mut manifest = base.clone();
        merge(&mut manifest, &patch);
        let checked = check(&manifest);
        assert_eq!(checked.errors, [], "{patch}");
        let expected = UnknownField { path: path.to_owned(), nearest: nearest.map(str::to_owned) };
        assert_eq!(checked.warnings, [expected], "{patch}");
        assert!(checked.warnings[0].to_string().contains(path));
        let without = check(&checked.defaulted);
        assert_eq!((without.errors, without.warnings), (vec![], vec![]), "{patch}");
    }
}

#[test]
fn defaults_are_those_of_the_api_server() {
    let defaulted = |manifest: Value| check(&manifest).defaulted;
    assert_eq!(
        defaulted(pool())["spec"]["disruption"],
        json!({"consolidateAfter": "0s", "consolidationPolicy": "WhenEmptyOrUnderutilized", "budgets": [{"nodes": "10%"}]})
    );
    assert_eq!(defaulted(pool())["spec"]["template"]["spec"]["expireAfter"], "720h");
    assert_eq!(defaulted(claim())["spec"]["expireAfter"], "720h");
    assert_eq!(
        defaulted(class())["spec"]["metadataOptions"],
        json!({"httpEndpoint": "enabled", "httpProtocolIPv6": "disabled", "httpPutResponseHopLimit": 1, "httpTokens": "required"})
    );
    assert_eq!(defaulted(buffer())["spec"]["provisioningStrategy"], "buffer.x-k8s.io/active-capacity");

    let mut partial = class();
    merge(&mut partial, &json!({"spec": {"metadataOptions": {"httpTokens": "optional"}}}));
    assert_eq!(defaulted(partial)["spec"]["metadataOptions"]["httpPutResponseHopLimit"], 1);

    let mut explicit_null = pool();
    explicit_null["spec"]["disruption"] = Value::Null;
    explicit_null["spec"]["weight"] = Value::Null;
    let checked = check(&explicit_null);
    assert_eq!(checked.errors, []);
    assert_eq!(checked.defaulted["spec"]["disruption"]["consolidateAfter"], "0s");
    assert_eq!(checked.defaulted["spec"].get("weight"), None);

    let mut unset_status = pool();
    unset_status["status"] = json!({});
    assert_eq!(defaulted(unset_status)["status"]["nodes"], 0);
}

#[test]
fn rules_wait_until_the_shape_is_right() {
    let mut manifest = class();
    merge(&mut manifest, &json!({"spec": {"role": null, "amiFamily": "Ubuntu"}}));
    let kinds: Vec<ErrorKind> = check(&manifest).errors.iter().map(|error| error.kind).collect();
    assert_eq!(kinds, [ErrorKind::Choice]);
    merge(&mut manifest, &json!({"spec": {"amiFamily": "AL2023", "context": "c"}}));
    let kinds: Vec<ErrorKind> = check(&manifest).errors.iter().map(|error| error.kind).collect();
    assert_eq!(kinds, [ErrorKind::Rule]);
}

#[test]
fn every_error_is_one_clean_line_before_its_hint() {
    let mut manifest = pool();
    merge(&mut manifest, &json!({"spec": {"weight": 500, "limits": {"cpu": "x"}, "replicas": 1}}));
    let lines: Vec<String> = check(&manifest).errors.iter().map(ToString::to_string).collect();
    assert_eq!(lines.len(), 4, "{lines:#?}");
    for line in lines {
        let (line, hint) = line.split_once("\n\nhint: ").unwrap_or((&line, ""));
        assert!(!hint.contains('\n') && !hint.ends_with('.'), "{hint}");
        assert!(
            line.starts_with("spec") && line.contains('`') && !line.ends_with('.') && !line.contains('\n'),
            "{line}"
        );
    }
}

#[test]
fn a_class_of_kwok_is_ready_from_the_start() {
    let class = |delay: &str| {
        json!({
            "apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass", "metadata": {"name": "default"},
            "spec": {"nodeRegistrationDelay": delay},
        })
    };
    let checked = check(&class("1m30s"));
    assert_eq!((checked.kind, checked.errors.len()), (Some("KWOKNodeClass"), 0), "{:?}", checked.errors);
    assert_eq!(checked.defaulted["status"]["conditions"][0]["type"], "Ready");
    assert_eq!(check(&class("soon")).errors.len(), 1, "no duration");
}
