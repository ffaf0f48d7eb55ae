//! Which kinds are read, and where the API server keeps them.

/// A kind, in the version that is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Resource {
    /// Empty for the core group.
    pub(super) group: &'static str,
    pub(super) version: &'static str,
    /// As in the API's paths.
    pub(super) plural: &'static str,
    /// Whether a cluster may do without it.
    pub(super) optional: bool,
}

const fn always(group: &'static str, version: &'static str, plural: &'static str) -> Resource {
    Resource { group, version, plural, optional: false }
}

const fn where_known(group: &'static str, version: &'static str, plural: &'static str) -> Resource {
    Resource { group, version, plural, optional: true }
}

/// What decides on nodes and pods. Workloads are not among them: their pods are there already.
pub(super) const RESOURCES: &[Resource] = &[
    always("", "v1", "namespaces"),
    always("", "v1", "nodes"),
    always("", "v1", "pods"),
    always("", "v1", "persistentvolumeclaims"),
    always("", "v1", "persistentvolumes"),
    always("apps", "v1", "daemonsets"),
    always("node.k8s.io", "v1", "runtimeclasses"),
    always("policy", "v1", "poddisruptionbudgets"),
    always("scheduling.k8s.io", "v1", "priorityclasses"),
    always("storage.k8s.io", "v1", "csinodes"),
    always("storage.k8s.io", "v1", "storageclasses"),
    always("storage.k8s.io", "v1", "volumeattachments"),
    where_known("karpenter.sh", "v1", "nodepools"),
    where_known("karpenter.sh", "v1", "nodeclaims"),
    where_known("karpenter.sh", "v1alpha1", "nodeoverlays"),
    where_known("karpenter.k8s.aws", "v1", "ec2nodeclasses"),
    where_known("karpenter.kwok.sh", "v1alpha1", "kwoknodeclasses"),
    where_known("autoscaling.x-k8s.io", "v1beta1", "capacitybuffers"),
];

/// The kind that the default spread of a scheduler's configuration looks at besides.
pub(super) const SERVICES: Resource = always("", "v1", "services");

impl Resource {
    /// The path of a page of all its objects; `after` is the token that the page before ended with.
    pub(super) fn page(&self, limit: u32, after: &str) -> String {
        let Self { group, version, plural, .. } = self;
        let root = if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") };
        let mut query = form_urlencoded::Serializer::new(String::new());
        query.append_pair("limit", &limit.to_string());
        if !after.is_empty() {
            query.append_pair("continue", after);
        }
        format!("{root}/{plural}?{}", query.finish())
    }

    /// Whether its objects say how nodes are made.
    pub(super) fn is_node_class(&self) -> bool {
        self.plural.ends_with("nodeclasses")
    }

    /// The name that `kubectl` takes.
    pub(super) fn name(&self) -> String {
        if self.group.is_empty() { self.plural.to_owned() } else { format!("{}.{}", self.plural, self.group) }
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
}
