//! The document of Muster's own names has them all, and no others.

use std::collections::BTreeSet;

const DOCUMENT: &str = include_str!("../../../docs/annotations.md");
/// Where each of our annotations and labels is named.
const SOURCES: [&str; 4] = [
    include_str!("../src/annotations.rs"),
    include_str!("../src/labels.rs"),
    include_str!("../../aws/src/launch/tags.rs"),
    include_str!("../../aws/src/nodeclass.rs"),
];

fn names(text: &str) -> BTreeSet<&str> {
    let end = |c: char| !c.is_ascii_lowercase() && c != '-' && c != '.' && c != '/';
    text.match_indices("muster.dev/")
        .filter_map(|(at, _)| text[at..].split(end).next())
        .map(|name| name.trim_end_matches(['-', '.', '/']))
        .filter(|name| name.len() > "muster.dev/".len())
        .collect()
}

#[test]
fn every_annotation_is_documented() {
    let coded: BTreeSet<&str> = SOURCES.iter().flat_map(|source| names(source)).collect();
    assert!(coded.len() >= 7, "{coded:?}");
    assert_eq!(names(DOCUMENT), coded);
}

#[test]
fn every_condition_reason_and_event_of_ours_is_documented() {
    use muster_api::conditions::{nodeclaim, nodeclass, reason};
    use muster_api::events;
    let ours = [
        nodeclass::BOOTSTRAP_VALID,
        nodeclass::LAUNCHES_SUCCEED,
        reason::LAUNCHES_PAUSED,
        reason::LAUNCHES_STOPPED,
        reason::BOOTSTRAP_INVALID,
        reason::LAUNCH_TIMEOUT,
        reason::REGISTRATION_TIMEOUT,
        reason::INITIALIZATION_TIMEOUT,
        reason::INSTANCE_ENDED,
        nodeclaim::INTERRUPTED,
        events::DISRUPTION_TAKEN_BACK,
        events::LAUNCH_FAILED,
        events::LAUNCHES_RESUMED,
    ];
    for name in ours {
        assert!(DOCUMENT.contains(&format!("`{name}`")), "{name}");
    }
}
