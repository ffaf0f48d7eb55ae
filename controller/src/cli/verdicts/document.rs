//! Verdicts as programs read them.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde::Serialize;

use super::super::nodes::FaultDocument;
use super::Kept;
use crate::archive::Record;
use crate::manifest::Manifests;
use crate::roster::{Fault, Member, members};
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

/// A verdict on a node.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct VerdictDocument {
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
    /// Part of its life of the node; none if its NodeClaim is gone.
    pub(super) phase: Option<&'static str>,
    /// Bytes of the bundle that is kept; 0 if there is none.
    pub(super) bundle_bytes: usize,
}

/// A class with which nothing is launched any more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct StoppedDocument {
    pub(super) kind: &'static str,
    pub(super) name: String,
    pub(super) reason: String,
    pub(super) message: String,
    pub(super) since: Option<String>,
}

/// How many there are of what.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Summary {
    pub(super) verdicts: usize,
    /// On nodes whose NodeClaims are there.
    pub(super) standing: usize,
    pub(super) bundles: usize,
    pub(super) stopped: usize,
}

/// `kind: Verdict`: one, with its bundle.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct VerdictDetails {
    api_version: &'static str,
    kind: &'static str,
    #[serde(flatten)]
    pub(super) verdict: VerdictDocument,
    pub(super) bundle: Option<String>,
}

// === impl VerdictsDocument ===

impl VerdictsDocument {
    /// Those that stand at NodeClaims, and those that are kept; the latest first.
    pub(super) fn new(manifests: &Manifests, kept: &[Kept]) -> Self {
        let standing: Vec<VerdictDocument> = members(manifests).iter().filter_map(VerdictDocument::standing).collect();
        let mut verdicts: Vec<VerdictDocument> =
            standing.into_iter().map(|verdict| verdict.with_record(kept.iter().map(|kept| &kept.record))).collect();
        let count_standing = verdicts.len();
        let gone = kept.iter().map(|kept| &kept.record).filter(|record| !verdicts.iter().any(|it| it.is_of(record)));
        let gone: Vec<VerdictDocument> = gone.map(VerdictDocument::kept).collect();
        verdicts.extend(gone);
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
            standing: count_standing,
            bundles: verdicts.iter().filter(|it| it.bundle_bytes > 0).count(),
            stopped: stopped.len(),
        };
        Self { api_version: API_VERSION, kind: "Verdicts", verdicts, stopped, summary }
    }

    /// The latest on a NodeClaim or node of that name.
    pub(super) fn named(&self, name: &str) -> Option<&VerdictDocument> {
        self.verdicts.iter().find(|it| it.node_claim == name || it.node.as_deref() == Some(name))
    }

    /// Every name that [`Self::named`] knows.
    pub(super) fn names(&self) -> BTreeSet<String> {
        self.verdicts.iter().flat_map(|it| [Some(it.node_claim.clone()), it.node.clone()]).flatten().collect()
    }
}

// === impl VerdictDocument ===

impl VerdictDocument {
    fn standing(member: &Member) -> Option<Self> {
        let text = |text: &Option<std::sync::Arc<str>>| text.as_ref().map(ToString::to_string);
        Some(Self {
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

    fn kept(record: &Record) -> Self {
        let Record {
            claim, uid: _, node, pool, class, instance_type, zone, provider_id, image_id, code, message, ..
        } = record;
        Self {
            node_claim: claim.clone(),
            node: node.clone(),
            node_pool: pool.clone(),
            node_class: Some(class.clone()).filter(|class| !class.is_empty()),
            instance_type: instance_type.clone(),
            zone: zone.clone(),
            provider_id: provider_id.clone(),
            image_id: image_id.clone(),
            fault: FaultDocument::new(&Fault::new(code, message, record.at)),
            phase: None,
            bundle_bytes: record.bundle_bytes,
        }
    }

    /// The same with what is kept of it.
    fn with_record<'r>(self, mut records: impl Iterator<Item = &'r Record>) -> Self {
        match records.find(|record| self.is_of(record)) {
            Some(record) => Self { bundle_bytes: record.bundle_bytes, image_id: record.image_id.clone(), ..self },
            None => self,
        }
    }

    /// Whether a record is about the same. Names of NodeClaims end in what chance has made.
    pub(super) fn is_of(&self, record: &Record) -> bool {
        self.node_claim == record.claim && self.fault.code == record.code
    }

    fn at(&self) -> Option<Timestamp> {
        self.fault.since.as_ref()?.parse().ok()
    }
}

// === impl StoppedDocument ===

impl StoppedDocument {
    fn of(class: &crate::manifest::NodeClass) -> Option<Self> {
        let is_stopped =
            |one: &&crate::manifest::Condition| &*one.kind == nodeclass::LAUNCHES_SUCCEED && &*one.status == "False";
        let stopped = class.conditions.iter().find(is_stopped)?;
        Some(Self {
            kind: class.kind,
            name: class.name.to_string(),
            reason: stopped.reason.to_string(),
            message: stopped.message.to_string(),
            since: stopped.since.as_ref().map(ToString::to_string),
        })
    }
}

// === impl VerdictDetails ===

impl VerdictDetails {
    pub(super) fn new(verdict: VerdictDocument, bundle: Option<String>) -> Self {
        Self { api_version: API_VERSION, kind: "Verdict", verdict, bundle }
    }
}
