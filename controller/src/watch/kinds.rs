//! Kinds that are read, and their API paths.

use muster_stages::state::Kind;

/// API resource of a kind, in the version that is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Resource {
    pub(crate) kind: Kind,
    /// Plural name, as in API paths.
    pub(crate) plural: &'static str,
    /// True if a cluster may lack it.
    pub(super) optional: bool,
}

const fn always(kind: Kind, plural: &'static str) -> Resource {
    Resource { kind, plural, optional: false }
}

const fn where_known(kind: Kind, plural: &'static str) -> Resource {
    Resource { kind, plural, optional: true }
}

/// Kinds that decisions about nodes and pods depend on. Workloads are not among them, because their pods already exist.
pub(crate) const RESOURCES: &[Resource] = &[
    always(Kind::Namespace, "namespaces"),
    always(Kind::Node, "nodes"),
    always(Kind::Pod, "pods"),
    always(Kind::PersistentVolumeClaim, "persistentvolumeclaims"),
    always(Kind::PersistentVolume, "persistentvolumes"),
    always(Kind::DaemonSet, "daemonsets"),
    always(Kind::RuntimeClass, "runtimeclasses"),
    always(Kind::PodDisruptionBudget, "poddisruptionbudgets"),
    always(Kind::PriorityClass, "priorityclasses"),
    always(Kind::LimitRange, "limitranges"),
    always(Kind::CsiNode, "csinodes"),
    always(Kind::StorageClass, "storageclasses"),
    always(Kind::VolumeAttachment, "volumeattachments"),
    where_known(Kind::NodePool, "nodepools"),
    where_known(Kind::NodeClaim, "nodeclaims"),
    where_known(Kind::NodeOverlay, "nodeoverlays"),
    where_known(Kind::Ec2NodeClass, "ec2nodeclasses"),
    where_known(Kind::KwokNodeClass, "kwoknodeclasses"),
    where_known(Kind::CapacityBuffer, "capacitybuffers"),
];

/// Kinds whose selectors the default topology spread of a scheduler configuration uses.
pub(crate) const SELECTING: &[Resource] = &[
    always(Kind::Service, "services"),
    always(Kind::ReplicationController, "replicationcontrollers"),
    always(Kind::ReplicaSet, "replicasets"),
    always(Kind::StatefulSet, "statefulsets"),
];

/// Kinds that CapacityBuffers refer to.
pub(crate) const TEMPLATES: &[Resource] = &[
    always(Kind::PodTemplate, "podtemplates"),
    always(Kind::Deployment, "deployments"),
    always(Kind::StatefulSet, "statefulsets"),
    always(Kind::ReplicaSet, "replicasets"),
];

/// Kind that lists the devices of a node. New in 1.34.
pub(crate) const RESOURCE_SLICES: Resource = where_known(Kind::ResourceSlice, "resourceslices");

/// Kinds of claims for devices.
pub(crate) const DEVICES: &[Resource] = &[
    where_known(Kind::DeviceClass, "deviceclasses"),
    where_known(Kind::ResourceClaim, "resourceclaims"),
    where_known(Kind::ResourceClaimTemplate, "resourceclaimtemplates"),
];

/// Field selector without terminated pods: they use no resources, and there may be many.
const NOT_ENDED: &str = "status.phase!=Succeeded,status.phase!=Failed";

impl Resource {
    /// Returns group and version.
    pub(crate) fn group(&self) -> (&'static str, &'static str) {
        self.kind.api_version().split_once('/').unwrap_or(("", self.kind.api_version()))
    }

    fn path(&self, query: &[(&str, &str)]) -> String {
        let (group, version) = self.group();
        let root = if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") };
        let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(query).finish();
        format!("{root}/{}?{query}", self.plural)
    }

    /// Returns the path of a page of all its objects; `after` is the continue token of the previous page.
    pub(super) fn page(&self, limit: u32, after: &str) -> String {
        let limit = limit.to_string();
        let token = Some(("continue", after)).filter(|_| !after.is_empty());
        self.path(&[Some(("limit", limit.as_str())), token].into_iter().flatten().collect::<Vec<_>>())
    }

    /// Returns the path of a page of the objects that are watched.
    pub(super) fn live_page(&self, limit: u32, after: &str) -> String {
        let limit = limit.to_string();
        let token = Some(("continue", after)).filter(|_| !after.is_empty());
        let all = [Some(("limit", limit.as_str())), token, self.selector()];
        self.path(&all.into_iter().flatten().collect::<Vec<_>>())
    }

    /// Returns the path of a watch from `version` on that the server ends after this number of seconds.
    pub(super) fn watch(&self, version: &str, seconds: u64) -> String {
        let seconds = seconds.to_string();
        let all = [
            Some(("watch", "true")),
            Some(("allowWatchBookmarks", "true")),
            Some(("resourceVersion", version)),
            Some(("timeoutSeconds", seconds.as_str())),
            self.selector(),
        ];
        self.path(&all.into_iter().flatten().collect::<Vec<_>>())
    }

    fn selector(&self) -> Option<(&'static str, &'static str)> {
        (self.kind == Kind::Pod).then_some(("fieldSelector", NOT_ENDED))
    }

    /// Returns true for kinds of NodeClasses.
    pub(super) fn is_node_class(&self) -> bool {
        self.plural.ends_with("nodeclasses")
    }

    /// Returns the name as `kubectl` accepts it.
    pub(super) fn name(&self) -> String {
        let (group, _) = self.group();
        if group.is_empty() { self.plural.to_owned() } else { format!("{}.{group}", self.plural) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SERVICES: Resource = SELECTING[0];

    #[test]
    fn a_page_has_the_path_of_its_group_and_an_escaped_token() {
        assert_eq!(SERVICES.page(1, ""), "/api/v1/services?limit=1");
        let pools = RESOURCES.iter().find(|it| it.plural == "nodepools").unwrap();
        assert_eq!(pools.page(500, "a=/b"), "/apis/karpenter.sh/v1/nodepools?limit=500&continue=a%3D%2Fb");
        assert_eq!(pools.name(), "nodepools.karpenter.sh");
    }

    #[test]
    fn of_pods_those_are_followed_that_have_not_ended() {
        let pods = RESOURCES.iter().find(|it| it.kind == Kind::Pod).unwrap();
        let selector = "fieldSelector=status.phase%21%3DSucceeded%2Cstatus.phase%21%3DFailed";
        assert_eq!(pods.live_page(2, ""), format!("/api/v1/pods?limit=2&{selector}"));
        let rest = format!("resourceVersion=7&timeoutSeconds=300&{selector}");
        assert_eq!(pods.watch("7", 300), format!("/api/v1/pods?watch=true&allowWatchBookmarks=true&{rest}"));
        assert_eq!(SERVICES.live_page(2, "x"), "/api/v1/services?limit=2&continue=x");
    }
}
