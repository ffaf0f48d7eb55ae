//! Objects related to one NodeClaim.

use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::sync::Arc;

use muster_api::conditions::nodeclaim;
use muster_api::{NodeClaim, NodePool};
use muster_cloud::{Alternative, Overlaid};

use super::cluster::Cluster;
use super::pod::LivePod;
use crate::lifecycle::pause::Pause;
use crate::lifecycle::{Answers, Attachment, Class, Listing, Resident, Seen, Subject, is_true};
use crate::node::Node;

/// A NodeClaim and its related objects, found with indexes.
#[derive(Debug, Clone)]
pub struct Surroundings<'c> {
    cluster: &'c Cluster,
    /// The claim.
    pub claim: &'c NodeClaim,
    /// Its NodePool, if it has one that exists.
    pub pool: Option<&'c NodePool>,
    /// Nodes with its provider ID, by name. Once it is registered, only the one that it was registered with, as long as
    /// that exists: another Node with the ID of its instance decides nothing about it.
    pub nodes: Vec<&'c Node>,
    /// Volumes attached to these Nodes.
    pub attachments: Vec<Attachment>,
    /// Drivers that have published all their devices of these Nodes.
    pub device_drivers: BTreeSet<String>,
    names: Vec<&'c Arc<str>>,
    /// Computed on first use.
    residents: OnceCell<Vec<Resident>>,
}

/// Inputs about a NodeClaim that the cluster state does not contain.
#[derive(Debug, Clone)]
pub struct ClaimInputs<'a> {
    /// Its NodeClass, as judged by the cloud provider.
    pub class: &'a Class,
    /// Cluster-wide pause ([`Cluster::pause`]).
    pub pause: Pause,
    /// Reason to delay the registration of its Node.
    pub registration_hold: Option<&'a str>,
    /// Pods nominated for its Node.
    pub expected: &'a [Subject],
    /// Offerings that it may be launched as.
    pub alternatives: &'a [Alternative],
    /// Changes of NodeOverlays to these.
    pub overlaid: &'a Overlaid,
    /// State of its instance in the last list of instances.
    pub listing: Option<Listing>,
    /// Results of the calls that earlier steps requested.
    pub answers: Answers,
}

impl Cluster {
    /// Returns a NodeClaim with its related objects; none if the claim does not exist.
    #[must_use]
    pub fn around(&self, claim: &str) -> Option<Surroundings<'_>> {
        let live = self.claims.get(claim)?;
        let mut names: Vec<_> = live.provider.iter().flat_map(|id| self.nodes_by_provider.get(id)).collect();
        let registered = live.typed.status.as_ref().and_then(|status| status.node_name.as_deref());
        if names.iter().any(|name| Some(&***name) == registered) {
            names.retain(|name| Some(&***name) == registered);
        }
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
            device_drivers: muster_manifest::published(
                slices.filter_map(|name| self.slices.get(name).map(|slice| &**slice)),
            )
            .into_keys()
            .map(|driver| driver.to_string())
            .collect(),
            names,
            residents: OnceCell::new(),
        })
    }

    /// Returns the names of the PersistentVolumes that the volume claims of `pod` are bound to.
    fn volumes_of(&self, pod: &LivePod) -> Vec<String> {
        let bound = |claim: String| Some(self.volume_claims.get(&*claim)?.volume.as_ref()?.to_string());
        pod.volume_claims().filter_map(bound).collect()
    }
}

// === impl Surroundings ===

impl Surroundings<'_> {
    /// Returns the pods bound to its Nodes, by path.
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

    /// Returns true if the claim or one of its Nodes is being deleted, or rebooted.
    fn is_drained(&self) -> bool {
        let nodes = self.nodes.iter().map(|node| &node.metadata);
        let mut all = [&self.claim.metadata].into_iter().chain(nodes);
        is_true(self.claim, nodeclaim::REBOOTING) || all.any(|meta| meta.deletion_timestamp.is_some())
    }

    /// Returns the input of the lifecycle stages.
    #[must_use]
    pub fn seen<'a>(&'a self, held: ClaimInputs<'a>) -> Seen<'a> {
        let ClaimInputs { class, pause, registration_hold, expected, alternatives, overlaid, listing, answers } = held;
        // Only the cloud knows the host name of the instance, under which its Node registers by default.
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
            // Residents matter only for nodes that are being drained; on others, they change all the time.
            residents: if self.is_drained() { self.residents() } else { &[] },
            attachments: &self.attachments,
            alternatives,
            overlaid,
            listing,
            answers,
        }
    }
}
