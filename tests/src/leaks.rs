//! What a test has left behind.
//!
//! ```text
//!  before ──┐
//!           ├──► left ──► items with the mark of this test, and items that no test has marked
//!  now ─────┘            (those with the mark of another test are the other test's business)
//! ```
//!
//! Tests share a world and run at once, so a list from before and one from after are not enough to say whose a thing is.
//! Everything that a test makes carries its mark in a name, a label or a tag.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Namespace, Node};
use kube::api::ListParams;
use kube::core::ObjectMeta;
use kube::{Api, ResourceExt};

use crate::cluster::Cluster;
use crate::ec2::Ec2;
use crate::error::{Error, Result};
pub use crate::item::Item;
use crate::ledger::Ledger;

/// The items of `now` that the test with the mark `id` has to answer for.
pub fn left<'a>(id: &str, before: &[Item], now: &'a [Item]) -> Vec<&'a Item> {
    now.iter()
        .filter(|item| !before.iter().any(|known| known.kind == item.kind && known.name == item.name))
        .filter(|item| {
            let texts = || item.marks.iter().map(String::as_str).chain([item.name.as_str()]);
            texts().any(|text| text.contains(id)) || !texts().any(has_mark)
        })
        .collect()
}

/// Whether a text holds the mark of any test: `t` and six hexadecimal digits, as a word.
fn has_mark(text: &str) -> bool {
    text.split(|letter: char| !letter.is_ascii_alphanumeric())
        .any(|word| word.len() == 7 && word.starts_with('t') && word[1..].bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// Says what was left, all of it.
///
/// # Errors
/// [`Error::Leaked`] when there is anything.
pub fn none(test: &str, id: &str, before: &[Item], now: &[Item]) -> Result<()> {
    let left = left(id, before, now);
    if left.is_empty() {
        return Ok(());
    }
    Err(Error::Leaked { test: test.to_owned(), what: left.iter().map(|item| item.to_string()).collect() })
}

/// Nodes and namespaces of a cluster, but for those that are being removed.
///
/// # Errors
/// When the API server cannot be asked.
pub async fn of_cluster(cluster: &Cluster) -> Result<Vec<Item>> {
    let all = ListParams::default();
    let nodes: Api<Node> = Api::all(cluster.client());
    let namespaces: Api<Namespace> = Api::all(cluster.client());
    let mut items: Vec<Item> =
        nodes.list(&all).await?.iter().filter_map(|node| item("Node", node.name_any(), &node.metadata)).collect();
    let namespaces = namespaces.list(&all).await?;
    items.extend(namespaces.iter().filter_map(|space| item("Namespace", space.name_any(), &space.metadata)));
    Ok(items)
}

/// Instances, launch templates and volumes of an account.
///
/// # Errors
/// [`Error::Command`] with EC2's answer when it refuses to list them.
pub async fn of_ec2(ec2: &Ec2) -> Result<Vec<Item>> {
    ec2.items().await.map_err(|refused| Error::Command { command: refused.action.to_owned(), answer: refused.message })
}

/// What a world has made on this machine: processes, network namespaces, mounts, control groups, folders.
pub fn of_ledger(ledger: &Ledger) -> Vec<Item> {
    let entries = ledger.entries();
    entries
        .iter()
        .map(|entry| Item { kind: "thing".to_owned(), name: entry.thing.to_string(), marks: BTreeSet::new() })
        .collect()
}

fn item(kind: &str, name: String, metadata: &ObjectMeta) -> Option<Item> {
    if metadata.deletion_timestamp.is_some() {
        return None;
    }
    let labels = metadata.labels.iter().flatten();
    Some(Item { kind: kind.to_owned(), name, marks: labels.map(|(_, value)| value.clone()).collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(kind: &str, name: &str, marks: &[&str]) -> Item {
        Item { kind: kind.into(), name: name.into(), marks: marks.iter().map(|mark| (*mark).into()).collect() }
    }

    #[test]
    fn a_test_answers_for_its_own_and_for_what_nobody_marked() {
        let before = [item("Namespace", "kube-system", &[])];
        let now = [
            item("Namespace", "kube-system", &[]),
            item("Node", "web-t00ff00", &[]),
            item("instance", "i-0123", &["pool-t00ff00"]),
            item("instance", "i-0456", &["pool-tabcdef"]),
            item("launch template", "lt-1", &[]),
        ];
        let names: Vec<&str> = left("t00ff00", &before, &now).iter().map(|item| item.name.as_str()).collect();
        assert_eq!(names, ["web-t00ff00", "i-0123", "lt-1"]);
        insta::assert_snapshot!(none("nodes", "t00ff00", &before, &now).unwrap_err());
        none("others", "tabcde0", &before, &before).unwrap();
    }

    #[test]
    fn a_word_like_a_mark_is_not_one() {
        assert!(has_mark("web-t12ab34"));
        assert!(!has_mark("t12ab3"), "too short");
        assert!(!has_mark("web-trusted"), "no digits");
    }
}
