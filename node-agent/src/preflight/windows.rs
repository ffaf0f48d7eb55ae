//! Checks that apply to Windows nodes only.

use muster_bootstrap::Family;
use muster_bootstrap::finding::{Finding, Severity};
use muster_bootstrap::place::Source;
use muster_bootstrap::verdicts::{self, Verdict};

use super::Facts;
use super::credentials::CredentialCheck;

/// Group for kube-proxy on Windows, which uses the node's credentials.
const KUBE_PROXY: &str = "eks:kube-proxy-windows";

pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    if !facts.family.is_some_and(Family::is_windows) {
        return Vec::new();
    }
    let warning = |verdict: &'static Verdict, message: &str, source: &str, text: &str| {
        let place = Source::whole(source).anywhere();
        Finding::new(verdict, message, Some((place, text))).with_severity(Severity::Warning)
    };
    let mut found = Vec::new();
    if let Some(CredentialCheck::Known { user, groups, .. }) = &facts.standing
        && !groups.iter().any(|group| group == KUBE_PROXY)
    {
        let message = format!("`{user}` is not in group {KUBE_PROXY}");
        found.push(warning(&verdicts::WN06, &message, "SelfSubjectReview", &groups.join(", ")));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::preflight::command::kubelet_of_service;
    use crate::preflight::credentials::OwnNode;
    use crate::preflight::identity::{Instance, Metadata};
    use crate::preflight::machine::Machine;
    use crate::preflight::tests::examined;
    use muster_bootstrap::agent_config::AgentConfig;
    use muster_bootstrap::input::File;

    const NAME: &str = "ip-10-0-0-1.ec2.internal";

    fn user_data() -> String {
        "<powershell>\n[string]$EKSBootstrapScriptFile = \"$env:ProgramFiles\\Amazon\\EKS\\Start-EKSBootstrap.ps1\"\n\
             & $EKSBootstrapScriptFile -EKSClusterName 'shop' -APIServerEndpoint 'https://a.example' -Base64ClusterCA \
             'LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1JSUIKLS0tLS1FTkQgQ0VSVElGSUNBVEUtLS0tLQo=' -KubeletExtraArgs '--register-with-taints=\"karpenter.sh/unregistered:NoExecute\"' \
             -DNSClusterIP '10.100.0.10'\n</powershell>\n"
            .to_owned()
    }

    /// A healthy Windows node.
    fn windows(facts: &mut Facts) {
        let line = format!(
            r#""C:\Program Files\Amazon\EKS\EKS-WindowsServiceHost.exe" kubelet "C:\Program Files\kubernetes\kubelet.exe" --cloud-provider=external --config="C:\ProgramData\kubernetes\kubelet-config.json" --kubeconfig="C:\ProgramData\kubernetes\kubeconfig" --hostname-override={NAME} --resolv-conf="" --cgroups-per-qos=false --enforce-node-allocatable="" --register-with-taints="karpenter.sh/unregistered:NoExecute""#
        );
        facts.family = Some(Family::Windows2022);
        facts.metadata = Metadata::Answers(Box::new(Instance {
            id: "i-1".to_owned(),
            has_role: Some(true),
            user_data: Some(user_data().into_bytes()),
            ..Instance::default()
        }));
        facts.command = Some(("the kubelet's command line".to_owned(), kubelet_of_service(&line).unwrap()));
        let text = r#"{"apiVersion":"kubelet.config.k8s.io/v1beta1","kind":"KubeletConfiguration","clusterDNS":["10.100.0.10"]}"#;
        facts.config = vec![File { name: "kubelet-config.json".to_owned(), text: text.to_owned() }];
        facts.machine = Machine { has_unified_cgroups: true, host_name: NAME.to_owned(), ..Machine::default() };
        facts.standing = known(&["system:nodes", KUBE_PROXY]);
        facts.devices = crate::devices::chain::Sightings { has_no_view: true, ..Default::default() };
    }

    fn known(groups: &[&str]) -> Option<CredentialCheck> {
        let groups = groups.iter().map(|it| (*it).to_owned()).collect();
        let user = format!("system:node:{NAME}");
        Some(CredentialCheck::Known { user, groups, version: Some("v1.36.1".to_owned()), node: OwnNode::Absent })
    }

    fn codes(change: impl FnOnce(&mut Facts)) -> Vec<(&'static str, Severity)> {
        let found = examined(|facts| {
            windows(facts);
            change(facts);
        });
        found.findings.iter().map(|it| (it.verdict.code, it.severity)).collect()
    }

    #[test]
    fn a_healthy_node_has_nothing_to_hear() {
        assert_eq!(codes(|_| ()), []);
        let preflight = examined(windows);
        assert_eq!(preflight.node_name.as_deref(), Some(NAME));
        assert_eq!(preflight.effective.taints.len(), 1);
    }

    #[test]
    fn each_fault_has_its_verdict() {
        let warning = |code| vec![(code, Severity::Warning)];
        assert_eq!(codes(|it| it.standing = known(&["system:nodes"])), warning("WN06"));
        let bare = codes(|it| {
            if let Metadata::Answers(instance) = &mut it.metadata {
                instance.user_data = None;
            }
            (it.command, it.config, it.is_bootstrapped) = (None, Vec::new(), false);
        });
        assert_eq!(bare, [("WN09", Severity::Error)]);
    }

    #[test]
    fn the_agents_own_document_is_read_and_its_wishes_kept_or_refused() {
        let asks = |spec: &str| {
            let config = AgentConfig::read(&format!("apiVersion: muster.dev/v1\nkind: AgentConfig\nspec: {spec}\n"));
            config.unwrap().put(Family::Windows2022, &user_data()).unwrap().into_bytes()
        };
        let with = |spec: &str, change: fn(&mut Facts)| {
            codes(|it| {
                if let Metadata::Answers(instance) = &mut it.metadata {
                    instance.user_data = Some(asks(spec));
                }
                change(it);
            })
        };
        let taint = "{expect: {taints: ['karpenter.sh/unregistered:NoExecute']}}";
        assert_eq!(with(taint, |_| ()), []);
        let without: fn(&mut Facts) = |it| {
            if let Some((_, arguments)) = &mut it.command {
                arguments.retain(|argument| !argument.starts_with("--register-with-taints"));
            }
        };
        assert_eq!(with(taint, without), [("KA07", Severity::Error)]);
        assert_eq!(with("{mode: native}", |_| ()), [("UD31", Severity::Warning)]);
        assert_eq!(with("{expect: {resources: {nvidia.com/gpu: 1}}}", |_| ()), [], "only the Node can tell");
    }
}
