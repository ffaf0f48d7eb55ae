//! Verdicts for programs.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use muster_manifest::Manifests;
use muster_stages::archive::Record;
use muster_stages::roster::{Fault, Member, members};
use serde::Serialize;

use super::super::nodes::FaultDocument;
use super::super::printable::{plain, plain_name};
use super::Kept;
use muster_api::conditions::nodeclass;

const API_VERSION: &str = "muster.dev/v1";

/// `kind: Verdicts`.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct VerdictsDocument {
    api_version: &'static str,
    kind: &'static str,
    pub(super) verdicts: Vec<VerdictDocument>,
    pub(super) stopped: Vec<StoppedDocument>,
    pub(super) summary: Summary,
}

/// Verdict on a node.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct VerdictDocument {
    /// UID of its NodeClaim: by name alone, the logs could be those of an earlier instance.
    #[serde(skip)]
    pub(super) uid: Option<String>,
    /// Index of its record among all records.
    #[serde(skip)]
    pub(super) kept: Option<usize>,
    pub(super) node_claim: String,
    pub(super) node: Option<String>,
    pub(super) node_pool: Option<String>,
    pub(super) node_class: Option<String>,
    pub(super) instance_type: Option<String>,
    pub(super) zone: Option<String>,
    #[serde(rename = "providerID")]
    pub(super) provider_id: Option<String>,
    #[serde(rename = "imageID")]
    pub(super) image_id: Option<String>,
    #[serde(flatten)]
    pub(super) fault: FaultDocument,
    /// Lifecycle phase of the node; `None` if its NodeClaim is gone.
    pub(super) phase: Option<&'static str>,
    /// Size of the stored logs in bytes; 0 if there are none.
    pub(super) bundle_bytes: usize,
}

/// NodeClass with which launches have stopped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct StoppedDocument {
    pub(super) kind: &'static str,
    pub(super) name: String,
    pub(super) reason: String,
    pub(super) message: String,
    pub(super) since: Option<String>,
}

/// Summary of counts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Summary {
    pub(super) verdicts: usize,
    /// Number of verdicts on nodes whose NodeClaims exist.
    pub(super) standing: usize,
    pub(super) bundles: usize,
    pub(super) stopped: usize,
}

/// `kind: Verdict`: one verdict, with its logs.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct VerdictDetails {
    api_version: &'static str,
    kind: &'static str,
    #[serde(flatten)]
    pub(super) verdict: VerdictDocument,
    /// Number of other verdicts on that name, none of them later.
    pub(super) namesakes: usize,
    pub(super) bundle: Option<String>,
}

// === impl VerdictsDocument ===

impl VerdictsDocument {
    /// Builds the document from the verdicts of NodeClaims and of records, latest first.
    pub(super) fn new(manifests: &Manifests, kept: &[Kept]) -> Self {
        let members = members(manifests);
        let standing = members.iter().filter_map(VerdictDocument::standing);
        let mut verdicts: Vec<VerdictDocument> = standing.map(|verdict| verdict.with_record(kept)).collect();
        // A verdict may be lifted or replaced while its NodeClaim exists.
        let phase_of: BTreeMap<&str, &'static str> =
            members.iter().filter_map(|member| Some((member.uid.as_deref()?, member.stand.phase.name()))).collect();
        let others = kept.iter().enumerate().filter(|(_, one)| !verdicts.iter().any(|it| it.is_of(&one.record)));
        let others = others.map(|(index, Kept { record, .. })| {
            VerdictDocument::kept(index, record, phase_of.get(record.uid.as_str()).copied())
        });
        let others: Vec<VerdictDocument> = others.collect();
        verdicts.extend(others);
        verdicts.sort_by(|a, b| {
            let key = |it: &VerdictDocument| std::cmp::Reverse(it.at());
            key(a)
                .cmp(&key(b))
                .then_with(|| a.node_claim.cmp(&b.node_claim))
                .then_with(|| a.fault.code.cmp(&b.fault.code))
        });
        let mut stopped: Vec<StoppedDocument> = manifests.node_classes.iter().filter_map(StoppedDocument::of).collect();
        stopped.sort_by(|a, b| (a.kind, &a.name).cmp(&(b.kind, &b.name)));
        let summary = Summary {
            verdicts: verdicts.len(),
            standing: verdicts.iter().filter(|it| it.phase.is_some()).count(),
            bundles: verdicts.iter().filter(|it| it.bundle_bytes > 0).count(),
            stopped: stopped.len(),
        };
        Self { api_version: API_VERSION, kind: "Verdicts", verdicts, stopped, summary }
    }

    /// Returns the verdicts on NodeClaims and nodes of that name, latest first.
    pub(super) fn named(&self, name: &str) -> impl Iterator<Item = &VerdictDocument> {
        self.verdicts.iter().filter(move |it| it.node_claim == name || it.node.as_deref() == Some(name))
    }

    /// Returns every name that [`Self::named`] finds.
    pub(super) fn names(&self) -> BTreeSet<String> {
        self.verdicts.iter().flat_map(|it| [Some(it.node_claim.clone()), it.node.clone()]).flatten().collect()
    }
}

// === impl VerdictDocument ===

impl VerdictDocument {
    fn standing(member: &Member) -> Option<Self> {
        let text = |text: &Option<std::sync::Arc<str>>| text.as_deref().map(plain_name);
        Some(Self {
            uid: member.uid.as_ref().map(ToString::to_string),
            kept: None,
            node_claim: text(&member.claim)?,
            node: text(&member.node),
            node_pool: text(&member.pool),
            node_class: text(&member.class),
            instance_type: text(&member.instance_type),
            zone: text(&member.zone),
            provider_id: text(&member.provider_id),
            image_id: None,
            fault: FaultDocument::new(member.fault.as_ref()?),
            phase: Some(member.stand.phase.name()),
            bundle_bytes: 0,
        })
    }

    /// Builds the verdict of the record at `index` among all records.
    fn kept(index: usize, record: &Record, phase: Option<&'static str>) -> Self {
        let Record { claim, uid, node, pool, class, instance_type, zone, provider_id, image_id, code, message, .. } =
            record;
        let text = |text: &Option<String>| text.as_deref().map(plain_name);
        Self {
            uid: Some(uid.clone()),
            kept: Some(index),
            node_claim: plain_name(claim),
            node: text(node),
            node_pool: text(pool),
            node_class: Some(plain_name(class)).filter(|class| !class.is_empty()),
            instance_type: text(instance_type),
            zone: text(zone),
            provider_id: text(provider_id),
            image_id: text(image_id),
            fault: FaultDocument::new(&Fault::new(code, message, record.at)),
            phase,
            bundle_bytes: record.bundle_bytes,
        }
    }

    /// Adds the data of its record.
    fn with_record(self, all: &[Kept]) -> Self {
        match all.iter().enumerate().find(|(_, kept)| self.is_of(&kept.record)) {
            Some((index, Kept { record, .. })) => Self {
                kept: Some(index),
                bundle_bytes: record.bundle_bytes,
                image_id: record.image_id.as_deref().map(plain_name),
                ..self
            },
            None => self,
        }
    }

    /// Returns true if a record is of the same verdict, like [`Record::is_same`], because names are reused.
    fn is_of(&self, record: &Record) -> bool {
        self.uid.as_deref() == Some(record.uid.as_str()) && self.fault.code == record.code
    }

    fn at(&self) -> Option<Timestamp> {
        self.fault.since.as_ref()?.parse().ok()
    }
}

// === impl StoppedDocument ===

impl StoppedDocument {
    fn of(class: &muster_manifest::NodeClass) -> Option<Self> {
        let is_stopped =
            |one: &&muster_manifest::Condition| &*one.kind == nodeclass::LAUNCHES_SUCCEED && &*one.status == "False";
        let stopped = class.conditions.iter().find(is_stopped)?;
        Some(Self {
            kind: class.kind,
            name: class.name.to_string(),
            reason: plain_name(&stopped.reason),
            message: plain(&stopped.message),
            since: stopped.since.as_ref().map(ToString::to_string),
        })
    }
}

// === impl VerdictDetails ===

impl VerdictDetails {
    pub(super) fn new(verdict: VerdictDocument, namesakes: usize, bundle: Option<&str>) -> Self {
        Self { api_version: API_VERSION, kind: "Verdict", verdict, namesakes, bundle: bundle.map(plain) }
    }
}
