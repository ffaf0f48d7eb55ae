//! Everything around one NodeClaim.

use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::sync::Arc;

use muster_api::{NodeClaim, NodePool};
use muster_cloud::Alternative;

use super::cluster::Cluster;
use super::devices::published;
use super::pod::LivePod;
use crate::lifecycle::pause::Pause;
use crate::lifecycle::{Answers, Attachment, Class, Listing, Resident, Seen, Subject};
use crate::node::Node;

/// What the picture shows of one NodeClaim, found by index.
#[derive(Debug, Clone)]
pub struct Surroundings<'c> {
    cluster: &'c Cluster,
    /// The claim.
    pub claim: &'c NodeClaim,
    /// Its NodePool, if it has one that exists.
    pub pool: Option<&'c NodePool>,
    /// Every Node with its provider ID, by name.
    pub nodes: Vec<&'c Node>,
    /// Volumes that are attached to these Nodes.
    pub attachments: Vec<Attachment>,
    /// Drivers that have published their devices of these Nodes.
    pub device_drivers: BTreeSet<String>,
    names: Vec<&'c Arc<str>>,
    /// Found once somebody asks.
    residents: OnceCell<Vec<Resident>>,
}

/// What the picture does not show of it, and whoever looks at it holds.
#[derive(Debug, Clone)]
pub struct Held<'a> {
    /// Its NodeClass, as the controller of the cloud judges it.
    pub class: &'a Class,
    /// What is paused in the whole cluster ([`Cluster::pause`]).
    pub pause: Pause,
    /// What holds the registration of its Node back.
    pub registration_hold: Option<&'a str>,
    /// Pods that wait for its Node.
    pub expected: &'a [Subject],
    /// What it may be launched as.
    pub alternatives: &'a [Alternative],
    /// What the last list of instances says about its instance.
    pub listing: Option<Listing>,
    /// What came of the questions of the steps before.
    pub answers: Answers,
}

impl Cluster {
    /// What is around a NodeClaim; nothing if there is no claim of that name.
    #[must_use]
    pub fn around(&self, claim: &str) -> Option<Surroundings<'_>> {
        let live = self.claims.get(claim)?;
        let names: Vec<_> = live.provider.iter().flat_map(|id| self.nodes_by_provider.get(id)).collect();
        let mut attachments = Vec::new();
        for name in &names {
            let here = self.attachments_by_node.get(name).filter_map(|path| self.attachments.get(path));
            attachments.extend(here.filter_map(|attachment| {
                let volume = attachment.volume.as_ref()?.to_string();
                Some(Attachment { node: attachment.node.to_string(), volume })
            }));
        }
        let slices = names.iter().flat_map(|name| self.slices_by_node.get(name));
        Some(Surroundings {
            cluster: self,
            claim: &live.typed,
            pool: live.pool.as_ref().and_then(|pool| self.pool(pool)),
            nodes: names.iter().filter_map(|name| self.node(name)).collect(),
            attachments,
            device_drivers: published(slices.filter_map(|name| self.slices.get(name))),
            names,
            residents: OnceCell::new(),
        })
    }

    /// PersistentVolumes that the claims of `pod` are bound to.
    fn volumes_of(&self, pod: &LivePod) -> Vec<String> {
        let bound = |claim: String| Some(self.volume_claims.get(&*claim)?.volume.as_ref()?.to_string());
        pod.volume_claims().filter_map(bound).collect()
    }
}

// === impl Surroundings ===

impl Surroundings<'_> {
    /// Pods that are bound to its Nodes, by path.
    #[must_use]
    pub fn residents(&self) -> &[Resident] {
        self.residents.get_or_init(|| {
            let pods = self.names.iter().flat_map(|name| self.cluster.pods_on(name));
            let mut residents: Vec<Resident> =
                pods.filter_map(|pod| pod.resident(self.cluster.volumes_of(pod))).collect();
            if self.names.len() > 1 {
                residents.sort_by(|a, b| (&a.pod.namespace, &a.pod.name).cmp(&(&b.pod.namespace, &b.pod.name)));
            }
            residents
        })
    }

    /// Whether the claim, or a Node of it, is being deleted.
    fn is_ending(&self) -> bool {
        let nodes = self.nodes.iter().map(|node| &node.metadata);
        [&self.claim.metadata].into_iter().chain(nodes).any(|meta| meta.deletion_timestamp.is_some())
    }

    /// With what is held, what the stages look at.
    #[must_use]
    pub fn seen<'a>(&'a self, held: Held<'a>) -> Seen<'a> {
        let Held { class, pause, registration_hold, expected, alternatives, listing, answers } = held;
        // Only the instance knows which name its Node would have chosen.
        let host_name = answers.instance.as_ref().and_then(|answer| answer.as_ref().ok()?.host_name.clone());
        let namesake = host_name.and_then(|name| self.cluster.node(&name));
        let is_own = |node: &Node| self.nodes.iter().any(|own| std::ptr::eq(*own, node));
        Seen {
            claim: self.claim,
            pool: self.pool,
            class,
            pause,
            nodes: self.nodes.clone(),
            namesakes: namesake.into_iter().filter(|node| !is_own(node)).collect(),
            registration_hold,
            expected,
            device_drivers: &self.device_drivers,
            // Nobody asks for those of a node that stays, and pods come and go there all the time.
            residents: if self.is_ending() { self.residents() } else { &[] },
            attachments: &self.attachments,
            alternatives,
            listing,
            answers,
        }
    }
}
