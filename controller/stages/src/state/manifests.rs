//! Cluster state in the format that the engine also reads from files.

use std::collections::BTreeSet;
use std::sync::Arc;

use muster_manifest::{BufferSource, Manifests, Owning, Pod};

use super::cluster::Cluster;
use super::kind::Kind;

impl Cluster {
    /// Returns only NodePools, NodeClaims and Nodes, which is all that [`crate::roster`] needs.
    #[must_use]
    pub fn nodes_and_claims(&self) -> Manifests {
        Manifests {
            nodes: self.nodes.values().filter_map(|node| node.compact.clone()).collect(),
            node_claims: self.claims.values().filter_map(|claim| claim.compact.clone()).collect(),
            node_pools: self.pools.values().filter_map(|pool| pool.compact.clone()).collect(),
            ..Manifests::default()
        }
    }

    /// Returns only NodePools, NodeClasses and NodeOverlays, which is all that
    /// [`muster_manifest::snapshot::OverlaidTypes`] needs.
    #[must_use]
    pub fn pools_and_overlays(&self) -> Manifests {
        Manifests {
            node_pools: self.pools.values().filter_map(|pool| pool.compact.clone()).collect(),
            node_classes: self.classes.values().filter_map(|class| class.manifest.clone()).collect(),
            node_overlays: self.overlays.values().filter_map(|overlay| overlay.compact.clone()).collect(),
            ..Manifests::default()
        }
    }

    /// Returns all objects as input of [`muster_manifest::snapshot::assemble`], each kind sorted by path, as an API
    /// server lists them. Notes are not repeated as warnings.
    ///
    /// This copies the per-object data of pods, nodes and claims, but not the data that they share: some milliseconds
    /// for 20,000 pods.
    #[must_use]
    pub fn manifests(&self) -> Manifests {
        let mut manifests = Manifests {
            pods: Vec::with_capacity(self.pods.len()),
            node_classes: self.classes.values().filter_map(|class| class.manifest.clone()).collect(),
            node_overlays: self.overlays.values().filter_map(|overlay| overlay.compact.clone()).collect(),
            capacity_buffers: self.buffers.values().filter_map(|buffer| buffer.compact.clone()).collect(),
            daemon_sets: self.daemon_sets.values().cloned().collect(),
            limit_ranges: self.limit_ranges.values().cloned().collect(),
            claims: self.volume_claims.clone(),
            volumes: self.volumes.clone(),
            storage_classes: self.storage_classes.clone(),
            csi_nodes: self.csi_nodes.values().cloned().collect(),
            volume_attachments: self.attachments.values().cloned().collect(),
            namespaces: self.namespaces.values().cloned().collect(),
            runtime_classes: self.runtime_classes.clone(),
            priority_classes: self.priority_classes.clone(),
            disruption_budgets: self.budgets.values().cloned().collect(),
            services: self.services.values().cloned().collect(),
            device_classes: self.device_classes.clone(),
            resource_claims: self.resource_claims.clone(),
            resource_claim_templates: self.resource_claim_templates.clone(),
            resource_slices: self.slices.values().cloned().collect(),
            ..self.nodes_and_claims()
        };
        self.add_templates(&mut manifests);
        // The sequence orders pods relative to workloads, which are absent here.
        let numbered = self.pods.values().zip(1..).map(|(pod, sequence)| Pod { sequence, ..pod.pod.clone() });
        manifests.pods.extend(numbered);
        self.add_owners(&mut manifests);
        manifests
    }

    /// Adds the selectors of the owners of the pods, if workloads are watched.
    fn add_owners(&self, manifests: &mut Manifests) {
        if self.scaled.is_empty() {
            return;
        }
        let owners = manifests.pods.iter().filter_map(|pod| {
            let owner = pod.owner.as_ref()?;
            Some((Kind::named(&owner.kind)?, &pod.namespace, &owner.name))
        });
        let owners: BTreeSet<(Kind, &Arc<str>, &Arc<str>)> = owners.collect();
        let found = owners.into_iter().filter_map(|(kind, namespace, name)| {
            self.scaled.get(&(kind, format!("{namespace}/{name}").into())).and_then(Owning::of)
        });
        manifests.owners = found.collect();
    }

    /// Adds the PodTemplates and workloads that the CapacityBuffers refer to.
    fn add_templates(&self, manifests: &mut Manifests) {
        for buffer in &manifests.capacity_buffers {
            let path = |name: &str| -> Arc<str> { format!("{}/{name}", buffer.meta.namespace).into() };
            match &buffer.source {
                Some(BufferSource::Template(name)) => {
                    let path = path(name);
                    if let Some(live) = self.pod_templates.get(&path) {
                        manifests.pod_templates.insert(path, Arc::clone(&live.template));
                    }
                }
                Some(BufferSource::Workload { group: _, kind, name }) => {
                    let key = Kind::named(kind).map(|kind| (kind, path(name)));
                    manifests.scaled.extend(key.and_then(|key| self.scaled.get(&key)).cloned());
                }
                None => {}
            }
        }
    }
}
