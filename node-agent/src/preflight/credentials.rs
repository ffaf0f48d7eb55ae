//! Checks of the node's identity in the API server: token, user name, groups, and an existing Node.

use muster_bootstrap::finding::{Finding, Severity};
use muster_bootstrap::kubelet::version::Minor;
use muster_bootstrap::place::Source;
use muster_bootstrap::verdicts::{self, Verdict};

use super::Facts;
use crate::watch::node_object::NodeObject;

const USER: &str = "system:node:";
const GROUP: &str = "system:nodes";

/// Result of requests with the kubelet's own credentials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CredentialCheck {
    /// The kubeconfig is not usable: its path, and the reason.
    Kubeconfig(String, String),
    /// The exec credential plugin failed.
    Exec {
        /// Command of the plugin.
        command: String,
        /// Error message.
        error: String,
    },
    /// The kubeconfig uses this unsupported version of the exec credential API.
    ExecVersion(String),
    /// The API server returned 401; with the identity in STS, if it could be determined.
    Unauthorized(Option<Caller>),
    /// The API server is overloaded or has no leader, as while hundreds of nodes join.
    Busy(String),
    /// The API server returned another error.
    Refused(String),
    /// The API server knows the node.
    Known {
        /// User name of the node.
        user: String,
        /// Groups of the node.
        groups: Vec<String>,
        /// Version of the API server.
        version: Option<String>,
        /// Node with the kubelet's node name.
        node: OwnNode,
    },
}

/// Response of STS for credentials that the API server refuses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Caller {
    /// STS accepts the credentials: the ARN.
    Known(String),
    /// STS refuses the credentials: code and message.
    Refused(String),
}

/// Node with the kubelet's node name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OwnNode {
    /// The Node does not exist, as expected before the first start.
    Absent,
    /// The Node exists.
    Present(Box<NodeObject>),
    /// The request failed: the reason.
    Unknown(String),
}

pub(super) fn check(
    standing: &CredentialCheck,
    node_name: Option<&str>,
    facts: &Facts,
    kubelet: Option<Minor>,
) -> Vec<Finding> {
    let one = |verdict: &'static Verdict, message: &str, source: &str, text: &str| {
        Finding::new(verdict, message, Some((Source::whole(source).anywhere(), text)))
    };
    let (user, groups, version, node) = match standing {
        CredentialCheck::Kubeconfig(path, why) => {
            return vec![one(&verdicts::KA23, "the kubeconfig cannot be used", path, why)];
        }
        CredentialCheck::Exec { command, error } => {
            return vec![one(&verdicts::AU10, &format!("`{command}` gives no token"), "kubeconfig, exec", error)];
        }
        CredentialCheck::ExecVersion(version) => {
            return vec![one(
                &verdicts::AU11,
                "the credential API of the kubeconfig is too old",
                "kubeconfig, exec",
                version,
            )];
        }
        CredentialCheck::Unauthorized(caller) => return vec![unknown(caller.as_ref(), facts)],
        // The kubelet retries by itself.
        CredentialCheck::Busy(why) => {
            return vec![one(&verdicts::NW08, "the API server is busy", "SelfSubjectReview", why)];
        }
        CredentialCheck::Refused(why) => {
            return vec![one(
                &verdicts::NW13,
                "the API server refuses to say who the node is",
                "SelfSubjectReview",
                why,
            )];
        }
        CredentialCheck::Known { user, groups, version, node } => (user, groups, version, node),
    };
    let mut found = Vec::new();
    // A bootstrap token is in other groups. The client certificate obtained with it is in the right one.
    let is_bootstrapper = groups.iter().any(|group| group.starts_with("system:bootstrappers"));
    if !groups.iter().any(|group| group == GROUP) && !is_bootstrapper {
        let message = format!("`{user}` is not in group {GROUP}");
        found.push(one(&verdicts::AU04, &message, "SelfSubjectReview", &groups.join(", ")));
    }
    if let (Some(given), Some(name)) = (user.strip_prefix(USER), node_name)
        && given != name
    {
        let message = format!("the kubelet will call itself `{name}`, and its credentials are for `{given}`");
        found.push(one(&verdicts::AU07, &message, "SelfSubjectReview", user));
    }
    let server = version.as_ref().and_then(|version| version.parse::<Minor>().ok());
    if let (Some(server), Some(kubelet)) = (server, kubelet)
        && kubelet.0 > server.0
    {
        let message = format!("kubelet {kubelet} is newer than the API server, {server}");
        found.push(one(&verdicts::KA28, &message, "/version", version.as_deref().unwrap_or_default()));
    }
    if let OwnNode::Present(node) = node {
        let own = facts.metadata.instance().map(|it| it.id.as_str());
        let is_other = own.is_some() && node.instance_id().is_some() && node.instance_id() != own;
        // The Node of an earlier boot, or of a kubelet that runs or has run, is this instance's own.
        if is_other {
            let message = format!("there is a Node `{}` of another instance", node.name);
            let fix = format!("kubectl delete node {}", node.name);
            found.push(one(&verdicts::AU13, &message, "Node", &node.provider_id).with_fix(&fix));
        } else if node.provider_id.is_empty() && !facts.is_kubelet_active && !facts.has_joined {
            let message = format!("there is a Node `{}` already, without a provider ID", node.name);
            found.push(one(&verdicts::AU13, &message, "Node", "").with_severity(Severity::Warning));
        }
    }
    found
}

/// Returns the probable reason why the API server does not know the node's role.
fn unknown(caller: Option<&Caller>, facts: &Facts) -> Finding {
    let one = |verdict: &'static Verdict, message: &str, source: &str, text: &str| {
        Finding::new(verdict, message, Some((Source::whole(source).anywhere(), text)))
    };
    let role = match caller {
        Some(Caller::Refused(why)) => {
            return one(&verdicts::ID13, "STS refuses the node's credentials", "GetCallerIdentity", why);
        }
        Some(Caller::Known(arn)) => role_of(arn),
        None => None,
    };
    let fix = role.map(|role| format!("add an access entry of type EC2_LINUX (Windows: EC2_WINDOWS) for `{role}`"));
    let profile = facts.metadata.instance().and_then(|it| it.profile.as_deref());
    // A role is usually created with its instance profile, and has the same path.
    let finding = match profile.filter(|arn| arn.split('/').count() > 2) {
        Some(profile) => {
            let message = "the API server does not know the node's role, which may be named with its path";
            one(&verdicts::AU02, message, "iam/info", profile)
        }
        None => {
            let message = "the API server does not know the node's role";
            one(&verdicts::AU01, message, "SelfSubjectReview", "401 Unauthorized")
        }
    };
    match fix {
        Some(fix) => finding.with_fix(&fix),
        None => finding,
    }
}

/// Returns the role's ARN without a path, from `arn:aws:sts::ACCOUNT:assumed-role/NAME/SESSION`.
fn role_of(arn: &str) -> Option<String> {
    let (head, rest) = arn.split_once(":assumed-role/")?;
    let (partition, account) = head.split_once(":sts::")?;
    let name = rest.split('/').next()?;
    Some(format!("{partition}:iam::{account}:role/{name}"))
}
