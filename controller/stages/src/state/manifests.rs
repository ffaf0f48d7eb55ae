//! Cluster state in the format that the engine also reads from files.

use muster_manifest::{Manifests, Pod};

use super::cluster::Cluster;

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
            node_overlays: self.overlays.values().cloned().collect(),
            capacity_buffers: self.buffers.values().cloned().collect(),
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
            ..self.nodes_and_claims()
        };
        let readable = self.pods.values().filter(|pod| pod.is_readable);
        // The sequence orders pods relative to workloads, which are absent here.
        let numbered = readable.zip(1..).map(|(pod, sequence)| Pod { sequence, ..pod.pod.clone() });
        manifests.pods.extend(numbered);
        manifests
    }
}
