//! Whole manifests, as people had them.

use serde_json::Value;

use super::*;

fn objects(text: &str) -> Vec<Value> {
    let documents = text.split("\n---\n");
    documents.map(|document| serde_saphyr::from_str::<Value>(document).unwrap()).collect()
}

/// What comes of a text: the objects and the notes, and what v1 would refuse of them.
fn shown(text: &str) -> String {
    let Conversion { objects, notes, .. } = convert(objects(text));
    let mut shown = String::new();
    for object in &objects {
        shown.push_str("---\n");
        shown.push_str(&serde_saphyr::to_string(object).unwrap());
    }
    for Note { object, field, message } in notes {
        shown.push_str(&format!("\nnote: {object}, `{field}`: {message}"));
    }
    for object in &objects {
        let checked = muster_api::validation::check(object);
        for error in checked.errors {
            shown.push_str(&format!("\nrefused: {}: {}", error.path, error.message));
        }
        for unknown in checked.warnings {
            shown.push_str(&format!("\nunknown: {}", unknown.path));
        }
    }
    shown
}

#[test]
fn a_provisioner_and_its_template_become_a_pool_and_its_class() {
    insta::assert_snapshot!(shown(include_str!("tests/alpha.yaml")));
}

#[test]
fn pools_of_v1beta1_share_a_class_where_their_kubelets_agree() {
    insta::assert_snapshot!(shown(include_str!("tests/beta.yaml")));
}

#[test]
fn a_copy_of_a_class_takes_no_name_of_another() {
    let class =
        |name: &str| format!("apiVersion: karpenter.k8s.aws/v1\nkind: EC2NodeClass\nmetadata: {{name: {name}}}");
    let pool = |name: &str, pods: u32| {
        format!(
            "apiVersion: karpenter.sh/v1beta1\nkind: NodePool\nmetadata: {{name: {name}}}\nspec: {{template: {{spec: \
             {{nodeClassRef: {{name: shared}}, kubelet: {{maxPods: {pods}}}}}}}}}"
        )
    };
    let text = [pool("a", 10), pool("b", 20), class("shared"), class("shared-b"), class("shared-b-2")].join("\n---\n");
    let Conversion { objects, .. } = convert(objects(&text));
    let class_of = |pool: usize| objects[pool]["spec"]["template"]["spec"]["nodeClassRef"]["name"].clone();
    assert_eq!([class_of(0), class_of(1)], ["shared", "shared-b-3"]);
    let named = |name: &str| objects.iter().filter(|it| it["metadata"]["name"] == name).collect::<Vec<_>>();
    assert_eq!(named("shared-b-3")[0]["spec"]["kubelet"]["maxPods"], 20);
    for unchanged in ["shared-b", "shared-b-2"] {
        assert_eq!(named(unchanged), [&serde_saphyr::from_str::<Value>(&class(unchanged)).unwrap()]);
    }
}

#[test]
fn the_hop_limit_that_earlier_versions_took_is_written_down() {
    for (version, kind, options, expected) in [
        ("v1alpha1", "AWSNodeTemplate", "", Some(2)),
        ("v1alpha1", "AWSNodeTemplate", "metadataOptions: {httpTokens: optional}", None),
        ("v1beta1", "EC2NodeClass", "", Some(2)),
        ("v1beta1", "EC2NodeClass", "metadataOptions: {httpTokens: optional}", Some(2)),
        ("v1beta1", "EC2NodeClass", "metadataOptions: {httpPutResponseHopLimit: 1}", Some(1)),
    ] {
        let text = format!(
            "apiVersion: karpenter.k8s.aws/{version}\nkind: {kind}\nmetadata: {{name: a}}\nspec: {{{options}}}"
        );
        let Conversion { objects, notes, .. } = convert(objects(&text));
        let limit = objects[0].pointer("/spec/metadataOptions/httpPutResponseHopLimit").and_then(Value::as_i64);
        assert_eq!(limit, expected, "{text}");
        let is_noted = notes.iter().any(|note| note.field == "spec.metadataOptions");
        assert_eq!(is_noted, limit == Some(2), "{text}");
    }
}

#[test]
fn records_of_nodes_keep_what_they_say() {
    insta::assert_snapshot!(shown(include_str!("tests/records.yaml")));
}

#[test]
fn what_is_of_v1_or_of_others_stays_as_it_is() {
    let text = "apiVersion: v1\nkind: Pod\nmetadata: {name: a, uid: b}\n---\napiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: c, annotations: {karpenter.sh/do-not-evict: 'true'}}\n";
    let before = objects(text);
    let Conversion { objects, notes, converted } = convert(before.clone());
    assert_eq!((objects, notes.len(), converted), (before, 0, 0));
}

#[test]
fn what_is_of_another_type_than_expected_is_noted_and_never_ends_it() {
    for spec in
        ["spec: text", "spec: {labels: 1, requirements: {}, providerRef: [], limits: 3}", "spec: null", "metadata: 7"]
    {
        for (version, kind) in [
            ("karpenter.sh/v1alpha5", "Provisioner"),
            ("karpenter.k8s.aws/v1alpha1", "AWSNodeTemplate"),
            ("karpenter.sh/v1beta1", "NodePool"),
            ("karpenter.k8s.aws/v1beta1", "EC2NodeClass"),
            ("karpenter.sh/v1alpha5", "Machine"),
            ("karpenter.sh/v1beta1", "NodeClaim"),
        ] {
            let text = format!("apiVersion: {version}\nkind: {kind}\n{spec}\n");
            let conversion = convert(objects(&text));
            assert_eq!((conversion.objects.len(), conversion.converted), (1, 1), "{text}");
        }
    }
}
