//! Which kinds are read, and where the API server keeps them.

use crate::state::Kind;

/// A kind, in the version that is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Resource {
    pub(crate) kind: Kind,
    /// As in the API's paths.
    pub(crate) plural: &'static str,
    /// Whether a cluster may do without it.
    pub(super) optional: bool,
}

const fn always(kind: Kind, plural: &'static str) -> Resource {
    Resource { kind, plural, optional: false }
}

const fn where_known(kind: Kind, plural: &'static str) -> Resource {
    Resource { kind, plural, optional: true }
}

/// What decides on nodes and pods. Workloads are not among them: their pods are there already.
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

/// The kind that the default spread of a scheduler's configuration looks at besides.
pub(crate) const SERVICES: Resource = always(Kind::Service, "services");

/// The kind that tells what devices a node has, which only matters while it comes up. New in 1.34.
pub(crate) const RESOURCE_SLICES: Resource = where_known(Kind::ResourceSlice, "resourceslices");

/// Pods that have ended hold nothing, and there may be many.
const NOT_ENDED: &str = "status.phase!=Succeeded,status.phase!=Failed";

impl Resource {
    /// Group and version.
    pub(crate) fn group(&self) -> (&'static str, &'static str) {
        self.kind.api_version().split_once('/').unwrap_or(("", self.kind.api_version()))
    }

    fn path(&self, query: &[(&str, &str)]) -> String {
        let (group, version) = self.group();
        let root = if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") };
        let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(query).finish();
        format!("{root}/{}?{query}", self.plural)
    }

    /// The path of a page of all its objects; `after` is the token that the page before ended with.
    pub(super) fn page(&self, limit: u32, after: &str) -> String {
        let limit = limit.to_string();
        let token = Some(("continue", after)).filter(|_| !after.is_empty());
        self.path(&[Some(("limit", limit.as_str())), token].into_iter().flatten().collect::<Vec<_>>())
    }

    /// The path of a page of those that are followed.
    pub(super) fn live_page(&self, limit: u32, after: &str) -> String {
        let limit = limit.to_string();
        let token = Some(("continue", after)).filter(|_| !after.is_empty());
        let all = [Some(("limit", limit.as_str())), token, self.selector()];
        self.path(&all.into_iter().flatten().collect::<Vec<_>>())
    }

    /// The path of all that happens to those that are followed from `version` on, for so many seconds.
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

    /// Whether its objects say how nodes are made.
    pub(super) fn is_node_class(&self) -> bool {
        self.plural.ends_with("nodeclasses")
    }

    /// The name that `kubectl` takes.
    pub(super) fn name(&self) -> String {
        let (group, _) = self.group();
        if group.is_empty() { self.plural.to_owned() } else { format!("{}.{group}", self.plural) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
