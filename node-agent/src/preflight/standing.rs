//! Who the node is to the API server: its token, its name, its groups, and a Node that may be there already.

use muster_bootstrap::finding::{Finding, Severity};
use muster_bootstrap::kubelet::version::Minor;
use muster_bootstrap::place::Source;
use muster_bootstrap::verdicts::{self, Verdict};

use super::Facts;
use crate::watch::node_object::NodeObject;

const USER: &str = "system:node:";
const GROUP: &str = "system:nodes";

/// What was asked with the kubelet's own credentials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// The kubeconfig cannot be used: its path, and why.
    Kubeconfig(String, String),
    /// The command for a token failed.
    Exec {
        /// The command.
        command: String,
        /// What it said.
        error: String,
    },
    /// The kubeconfig asks for this version of the credential API.
    ExecVersion(String),
    /// 401, and who the node is to STS, if its token could be asked.
    Unauthorized(Option<Caller>),
    /// It has no time, as while hundreds of nodes join, or no leader.
    Busy(String),
    /// Another refusal.
    Refused(String),
    /// It knows the node.
    Known {
        /// Who the node is.
        user: String,
        /// In which groups.
        groups: Vec<String>,
        /// The API server's version.
        version: Option<String>,
        /// A Node of that name.
        node: OwnNode,
    },
}

/// What STS says of the credentials that the API server refuses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Caller {
    /// It knows them: the ARN.
    Known(String),
    /// It refuses them: code and message.
    Refused(String),
}

/// The Node of the kubelet's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OwnNode {
    /// There is none, as it should be before the first start.
    Absent,
    /// There is one.
    Present(Box<NodeObject>),
    /// The API server does not say: the reason.
    Unknown(String),
}

pub(super) fn check(
    standing: &Standing,
    node_name: Option<&str>,
    facts: &Facts,
    kubelet: Option<Minor>,
) -> Vec<Finding> {
    let one = |verdict: &'static Verdict, message: &str, source: &str, text: &str| {
        Finding::new(verdict, message, Some((Source::whole(source).anywhere(), text)))
    };
    let (user, groups, version, node) = match standing {
        Standing::Kubeconfig(path, why) => {
            return vec![one(&verdicts::KA23, "the kubeconfig cannot be used", path, why)];
        }
        Standing::Exec { command, error } => {
            return vec![one(&verdicts::AU10, &format!("`{command}` gives no token"), "kubeconfig, exec", error)];
        }
        Standing::ExecVersion(version) => {
            return vec![one(
                &verdicts::AU11,
                "the credential API of the kubeconfig is too old",
                "kubeconfig, exec",
                version,
            )];
        }
        Standing::Unauthorized(caller) => return vec![unknown(caller.as_ref(), facts)],
        // The kubelet tries again by itself.
        Standing::Busy(why) => {
            return vec![one(&verdicts::NW08, "the API server is busy", "SelfSubjectReview", why)];
        }
        Standing::Refused(why) => {
            return vec![one(
                &verdicts::NW13,
                "the API server refuses to say who the node is",
                "SelfSubjectReview",
                why,
            )];
        }
        Standing::Known { user, groups, version, node } => (user, groups, version, node),
    };
    let mut found = Vec::new();
    // A bootstrap token is in other groups, and gives a client certificate that is in the right one.
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
        // The own Node of an earlier boot, or of a kubelet that runs or has run, is no stranger.
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

/// Why the API server may not know the node's role.
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
    // A role is made with its instance profile, and has the path that this one has.
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

/// The ARN of the role, without a path, behind `arn:aws:sts::ACCOUNT:assumed-role/NAME/SESSION`.
fn role_of(arn: &str) -> Option<String> {
    let (head, rest) = arn.split_once(":assumed-role/")?;
    let (partition, account) = head.split_once(":sts::")?;
    let name = rest.split('/').next()?;
    Some(format!("{partition}:iam::{account}:role/{name}"))
}
