//! Stored record of a node that failed to join the cluster.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use muster_api::{NodeClaim, annotations, labels};
use muster_bootstrap::is_printable;
use muster_bootstrap::secrets::clean;
use serde::{Deserialize, Serialize};

/// Number of slots. With bundles of the maximum size they take 4 MiB of the gigabytes that etcd can hold.
pub const SLOTS: usize = 20;
/// Key of the bundle in the ConfigMap.
pub const BUNDLE: &str = "bundle.txt";
/// Maximum size of a bundle, in bytes, as agents may send it. A ConfigMap holds up to 1 MiB.
pub const LONGEST_BUNDLE: usize = 192 * 1024;
/// Maximum length of a record's message, in bytes.
const LONGEST: usize = 1024;

/// Label by which the slots are selected.
#[derive(Debug, Clone, Copy)]
pub struct RecordLabel;

/// Data stored about a node, apart from its bundle.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Record {
    /// Name of the NodeClaim.
    pub claim: String,
    /// Its UID, because names are reused.
    pub uid: String,
    /// Name of the Node, if it existed.
    pub node: Option<String>,
    /// The NodePool.
    pub pool: Option<String>,
    /// The NodeClass.
    pub class: String,
    /// Instance type, such as `m7g.large`.
    pub instance_type: Option<String>,
    /// Availability zone.
    pub zone: Option<String>,
    /// Provider ID of the instance.
    #[serde(rename = "providerID")]
    pub provider_id: Option<String>,
    /// The machine image.
    #[serde(rename = "imageID")]
    pub image_id: Option<String>,
    /// A code of `docs/verdicts.md`, or of a newer agent.
    pub code: String,
    /// Message of the condition NodeVerdict.
    pub message: String,
    /// Time of the verdict; none if unknown.
    pub at: Option<Timestamp>,
    /// Size of the bundle, in bytes; 0 without a bundle.
    pub bundle_bytes: usize,
}

/// Name of a slot's ConfigMap.
#[must_use]
pub fn slot(index: usize) -> String {
    format!("muster-verdict-{index:02}")
}

/// Returns true if `name` is that of a slot's ConfigMap. Other ConfigMaps may also carry the label.
#[must_use]
pub fn is_slot(name: &str) -> bool {
    (0..SLOTS).any(|index| slot(index) == name)
}

/// Returns a bundle that is safe to store and show: text without control characters other than line ends, without
/// recognizable secrets, at most [`LONGEST_BUNDLE`] bytes. The agent has cleaned it already, but that is not relied on.
#[must_use]
pub fn cleaned(bundle: &[u8]) -> String {
    let mut text = String::with_capacity(bundle.len().min(LONGEST_BUNDLE));
    let mut is_private = false;
    for line in String::from_utf8_lossy(bundle).lines() {
        // A private key spans the lines between these two markers.
        is_private |= line.contains("-----BEGIN") && line.contains("PRIVATE KEY");
        let shown = if is_private { "[hidden]".to_owned() } else { clean(line) };
        is_private &= !line.contains("-----END");
        // `clean` also shortens long lines, which is fine for log lines.
        let shown: String = shown.chars().map(|letter| if is_printable(letter) { letter } else { ' ' }).collect();
        if text.len() + shown.len() + 1 > LONGEST_BUNDLE {
            break;
        }
        text.push_str(&shown);
        text.push('\n');
    }
    text
}

fn bounded(text: &str) -> String {
    text.get(..text.floor_char_boundary(LONGEST)).unwrap_or_default().to_owned()
}

// === impl RecordLabel ===

impl RecordLabel {
    /// Its key.
    pub const KEY: &'static str = labels::RECORD;
    /// Its value.
    pub const VALUE: &'static str = "verdict";
}

// === impl Record ===

impl Record {
    /// Creates the record of a claim whose node reported this verdict at `now`.
    #[must_use]
    pub fn new(claim: &NodeClaim, code: &str, message: &str, now: Timestamp) -> Self {
        let (meta, status) = (&claim.metadata, claim.status.as_ref());
        let label = |key: &str| meta.labels.as_ref()?.get(key).cloned();
        Self {
            claim: meta.name.clone().unwrap_or_default(),
            uid: meta.uid.clone().unwrap_or_default(),
            node: status.and_then(|status| status.node_name.clone()),
            pool: label(labels::NODEPOOL),
            class: claim.spec.node_class_ref.name.clone(),
            instance_type: label(labels::INSTANCE_TYPE),
            zone: label(labels::ZONE),
            provider_id: status.and_then(|status| status.provider_id.clone()),
            image_id: status.and_then(|status| status.image_id.clone()),
            code: code.to_owned(),
            message: bounded(message),
            at: Timestamp::from_second(now.as_second()).ok(),
            bundle_bytes: 0,
        }
    }

    /// Returns true if both records are the same verdict on the same NodeClaim, compared by UID because names are
    /// reused.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        (&self.uid, &self.code) == (&other.uid, &other.code)
    }

    /// Returns true if its NodeClaim or its Node has this name.
    #[must_use]
    pub fn is_on(&self, name: &str) -> bool {
        self.claim == name || self.node.as_deref() == Some(name)
    }

    /// Returns the record in an object's annotation; none if it is missing or cannot be parsed.
    #[must_use]
    pub fn read(meta: &ObjectMeta) -> Option<Self> {
        serde_json::from_str(meta.annotations.as_ref()?.get(annotations::VERDICT)?).ok()
    }

    /// Returns the ConfigMap for the record, with the bundle if given. `version` is the resource version of the one
    /// replaced.
    #[must_use]
    pub fn written(&self, index: usize, bundle: Option<String>, version: Option<String>) -> ConfigMap {
        let record = Self { bundle_bytes: bundle.as_ref().map_or(0, String::len), ..self.clone() };
        // Serializing a map with string keys never fails.
        let text = serde_json::to_string(&record).unwrap_or_default();
        let labels = [("app.kubernetes.io/managed-by", "muster"), (RecordLabel::KEY, RecordLabel::VALUE)];
        ConfigMap {
            metadata: ObjectMeta {
                name: Some(slot(index)),
                labels: Some(labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into()),
                annotations: Some([(annotations::VERDICT.to_owned(), text)].into()),
                resource_version: version,
                ..ObjectMeta::default()
            },
            data: bundle.map(|bundle| BTreeMap::from([(BUNDLE.to_owned(), bundle)])),
            ..ConfigMap::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_known_by_its_name() {
        assert!((0..SLOTS).all(|index| is_slot(&slot(index))));
        for other in
            ["", "muster-verdict-", "muster-verdict-0", "muster-verdict-20", "muster-verdict-000", "verdict-00"]
        {
            assert!(!is_slot(other), "{other}");
        }
    }

    #[test]
    fn a_record_is_read_as_it_is_written() {
        let at = "2026-11-23T06:00:00.5Z".parse().unwrap();
        let mut claim = NodeClaim::default();
        claim.metadata.name = Some("general-x".to_owned());
        claim.metadata.uid = Some("uid".to_owned());
        let record = Record::new(&claim, "KA07", &"é".repeat(1000), at);
        assert_eq!((record.message.len(), record.at.unwrap().to_string()), (1024, "2026-11-23T06:00:00Z".to_owned()));
        let bare = record.written(3, None, None);
        assert_eq!(bare.metadata.name.as_deref(), Some("muster-verdict-03"));
        assert_eq!(Record::read(&bare.metadata), Some(record.clone()));
        let full = record.written(3, Some("lines\n".to_owned()), Some("7".to_owned()));
        assert_eq!(Record::read(&full.metadata).unwrap().bundle_bytes, 6);
        assert_eq!(full.data.unwrap()[BUNDLE], "lines\n");
        assert_eq!(Record::read(&ObjectMeta::default()), None);
        let newer = r#"{"claim": "x", "code": "ZZ99", "more": 1}"#.to_owned();
        let meta = ObjectMeta { annotations: Some([(annotations::VERDICT.to_owned(), newer)].into()), ..bare.metadata };
        assert_eq!(Record::read(&meta).unwrap().code, "ZZ99", "what a newer replica says besides is passed over");
    }

    #[test]
    fn a_bundle_is_text_without_secrets_or_escapes_and_bounded() {
        let text = "plain \u{1b}[31mwords\r\n-----BEGIN RSA PRIVATE KEY-----\nMIIEabc\n-----END RSA PRIVATE KEY-----\n\
                    launchToken: mlt-4f9aQ2secret\nlast\n";
        let told = cleaned(&[text.as_bytes(), &[0xff, 0xfe]].concat());
        assert!(told.contains("plain") && told.contains("\nlast\n"), "{told}");
        assert!(!told.contains('\u{1b}') && !told.contains("MIIEabc") && !told.contains("4f9aQ2"), "{told}");
        let much = cleaned("many words of a log line\n".repeat(20_000).as_bytes());
        assert!(much.len() <= LONGEST_BUNDLE && much.len() > LONGEST_BUNDLE - 100);
        assert!(much.ends_with('\n'));
    }
}
