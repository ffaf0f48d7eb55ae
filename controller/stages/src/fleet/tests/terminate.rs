//! Which NodeClaim ends, and which does not.

use muster_api::NodeClaim;
use serde_json::{Value, json};

use super::super::{Refusal, Termination, terminate};
use crate::provision::tests::fixture::at;
use crate::step::Write;

fn claim(change: fn(&mut Value)) -> NodeClaim {
    let mut claim = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": {"name": "general-abc", "uid": "u-1"},
        "spec": {"requirements": [], "nodeClassRef":
            {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}},
    });
    change(&mut claim);
    serde_json::from_value(claim).unwrap()
}

fn ended(change: fn(&mut Value), name: &str, uid: Option<&str>) -> String {
    let claim = claim(change);
    let wanted = Termination { by: "ann".to_owned(), claim: name.to_owned(), uid: uid.map(str::to_owned) };
    match terminate(&[&claim], "EC2NodeClass", &wanted) {
        Ok(ending) => match ending.write {
            Some(Write::DeleteClaim { name, uid, cause }) => format!("delete {name} {uid}: {cause}"),
            None if ending.ended.was_ending => format!("{} goes", ending.ended.uid),
            other => panic!("{other:?}"),
        },
        Err(Refusal { kind, message }) => format!("{}: {}", kind.code(), message.replace("\n\n", " | ")),
    }
}

#[test]
fn what_is_meant_ends_and_nothing_else() {
    let same = |_: &mut Value| {};
    assert_eq!(ended(same, "general-abc", None), "delete general-abc u-1: ordered");
    assert_eq!(ended(same, "general-abc", Some("u-1")), "delete general-abc u-1: ordered");
    assert_eq!(
        ended(same, "general-abc", Some("u-0")),
        "FAILED_PRECONDITION: NodeClaim `general-abc` was replaced: its UID is u-1, not u-0 | hint: List shows \
         those that there are"
    );
    assert_eq!(
        ended(same, "general-abd", None),
        "NOT_FOUND: there is no NodeClaim `general-abd` | hint: did you mean `general-abc`?"
    );
    let leaving = |claim: &mut Value| claim["metadata"]["deletionTimestamp"] = json!(at(1).to_string());
    assert_eq!(ended(leaving, "general-abc", None), "u-1 goes");
    let others = |claim: &mut Value| claim["spec"]["nodeClassRef"]["kind"] = json!("OtherNodeClass");
    assert_eq!(
        ended(others, "general-abc", None),
        "FAILED_PRECONDITION: NodeClaim `general-abc` is of the kind `OtherNodeClass`, and this controller launches with \
         `EC2NodeClass` | hint: ask the controller that has launched it"
    );
}
