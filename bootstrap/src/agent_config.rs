//! The agent's own configuration, and its form in the user data of each family.
//!
//! | family | form |
//! |---|---|
//! | AL2, AL2023 | a MIME part `application/muster.dev`; cloud-init and nodeadm ignore it |
//! | Bottlerocket | `settings.host-containers.muster-agent.user-data`, base64 |
//! | Windows, Custom | a comment `# muster-agent: <base64>` on a line of its own |
//!
//! The comment is read in every family, so a Custom image has a form that no other reader of its user data interprets.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::family::Family;
use crate::node_class;
use crate::place::Source;
use crate::tree::{self, Tree};
use crate::userdata::{AGENT_CONFIG_TYPE, OutgoingPart, PartKind, UserData, base64, multipart, to_base64};

/// `apiVersion` of the document.
pub const API_VERSION: &str = "muster.dev/v1";
/// `kind` of the document.
pub const KIND: &str = "AgentConfig";
/// Prefix of the comment line.
const COMMENT: &str = "# muster-agent: ";
/// Name of the Bottlerocket host container that runs the agent.
const HOST_CONTAINER: &str = "muster-agent";

/// The `AgentConfig` document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AgentConfig {
    /// `muster.dev/v1`.
    pub api_version: String,
    /// `AgentConfig`.
    pub kind: String,
    /// Settings of the agent.
    pub spec: AgentSpec,
}

/// Settings of the agent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AgentSpec {
    /// Address and credentials of the controller; without them the agent sends no reports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub controller: Option<Controller>,
    /// Program that runs the bootstrap; if absent, the setting of the image applies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    /// True if a fatal finding is only reported and blocks nothing.
    #[serde(default)]
    pub report_only: bool,
    /// State that the node must reach.
    #[serde(default)]
    pub expect: Expectation,
}

/// Address of the controller, and the credentials that both sides use before a certificate is issued.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Controller {
    /// `host:port`.
    pub address: String,
    /// PEM certificates that the controller's certificate must chain to.
    pub certificate_authority: String,
    /// Secret token of the launch template.
    pub launch_token: Secret,
}

/// Program that runs the bootstrap.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// The image's own nodeadm, bootstrap.sh or Start-EKSBootstrap.ps1.
    #[default]
    Delegate,
    /// The agent itself.
    Native,
}

/// State that the node must reach.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Expectation {
    /// Taints that must be in effect when it registers: `key=value:Effect`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub taints: Vec<String>,
    /// Taints, of these or others, that another controller removes before the node is initialized: `key=value:Effect`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub startup_taints: Vec<String>,
    /// Labels that it must register with.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Extended resources that it must offer, with the minimum quantity of each: `nvidia.com/gpu: 1`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub resources: BTreeMap<String, u64>,
}

/// A string that `Debug` output hides.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// Wraps a string.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Returns the string, for sending.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[hidden]")
    }
}

/// Reason why the document cannot be used. No text of the document is quoted, because it holds a secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AgentConfigFault {
    /// The base64 encoding is invalid.
    #[error("the agent's configuration is not base64")]
    Encoding,
    /// The document is neither YAML nor JSON.
    #[error("the agent's configuration is neither YAML nor JSON{}", at(*.line))]
    Syntax {
        /// Line in the document, if known.
        line: Option<usize>,
    },
    /// `apiVersion` or `kind` is a different one.
    #[error("the agent's configuration must be `AgentConfig` of `muster.dev/v1`")]
    Identity,
}

/// A document for the agent, as found in user data.
pub(crate) struct Document {
    /// Text of the document, or the reason why it cannot be decoded.
    pub(crate) text: Result<String, AgentConfigFault>,
    /// Location of the document; lines are those of the decoded text.
    pub(crate) source: Source,
}

/// Returns every document for the agent, in the order of the user data.
pub(crate) fn documents(user_data: &UserData) -> Vec<Document> {
    let mut found = Vec::new();
    for part in &user_data.parts {
        if part.kind == PartKind::AgentConfig {
            found.push(Document { text: Ok(part.text.clone()), source: part.source.clone() });
            continue;
        }
        for encoded in part.text.lines().filter_map(|line| line.trim().strip_prefix(COMMENT)) {
            found.push(Document { text: decoded(encoded), source: inner(&part.source) });
        }
    }
    if user_data.of_kind(PartKind::Toml).next().is_some()
        && let Ok(settings) = tree::toml(user_data.text())
        && let Some(encoded) = settings.at(&["settings", "host-containers", HOST_CONTAINER, "user-data"])
    {
        let text = encoded.text().ok_or(AgentConfigFault::Encoding).and_then(decoded);
        found.push(Document { text, source: inner(&Source::whole(user_data.anywhere().source)) });
    }
    found
}

/// Returns the source of a text that is decoded from `source`.
fn inner(source: &Source) -> Source {
    Source::whole(format!("{}, AgentConfig", source.name))
}

fn at(line: Option<usize>) -> String {
    line.map(|line| format!(" at line {line}")).unwrap_or_default()
}

impl AgentConfig {
    /// Creates a document with this spec.
    #[must_use]
    pub fn new(spec: AgentSpec) -> Self {
        Self { api_version: API_VERSION.to_owned(), kind: KIND.to_owned(), spec }
    }

    /// Reads the document from user data; `None` if there is none. If there are two documents, both are ignored except
    /// for `reportOnly: true`, which either of them can set.
    ///
    /// # Errors
    /// Returns an error if the document exists but cannot be used.
    pub fn find(user_data: &UserData) -> Result<Option<Self>, AgentConfigFault> {
        let read: Vec<Result<Self, _>> =
            documents(user_data).into_iter().map(|document| Self::read(&document.text?)).collect();
        if read.len() > 1 {
            let report_only = read.iter().flatten().any(|config| config.spec.report_only);
            return Ok(Some(Self::new(AgentSpec { report_only, ..AgentSpec::default() })));
        }
        read.into_iter().next().transpose()
    }

    /// Reads the document. Unknown fields and fields of the wrong type are ignored: a newer controller may send fields
    /// that this agent does not know, and a mistake in one field must not undo `reportOnly: true` in another.
    /// [`crate::validate()`] reports each of them.
    ///
    /// ```
    /// use muster_bootstrap::agent_config::AgentConfig;
    ///
    /// let text = "apiVersion: muster.dev/v1\nkind: AgentConfig\nspec: {reportOnly: true}\n";
    /// let config = AgentConfig::read(text)?;
    /// assert!(config.spec.report_only);
    /// # Ok::<(), muster_bootstrap::agent_config::AgentConfigFault>(())
    /// ```
    ///
    /// # Errors
    /// Returns an error if the document cannot be used.
    pub fn read(text: &str) -> Result<Self, AgentConfigFault> {
        let tree = tree::yaml(text).map_err(|fault| AgentConfigFault::Syntax { line: fault.line })?;
        let text = |key: &str| tree.get(key).and_then(Tree::text);
        if text("apiVersion") != Some(API_VERSION) || text("kind") != Some(KIND) {
            return Err(AgentConfigFault::Identity);
        }
        Ok(Self::new(tree.get("spec").map(AgentSpec::read).unwrap_or_default()))
    }

    /// Adds the document to user data, in the form of the family.
    ///
    /// # Errors
    /// Returns an error if the user data is not in the format of its family.
    pub fn put(&self, family: Family, user_data: &str) -> Result<String, node_class::MergeFault> {
        let text = serde_json::to_string_pretty(&json!(self)).unwrap_or_default();
        match family {
            Family::Al2 | Family::Al2023 => {
                let mut parts = node_class::parts(user_data, family == Family::Al2023)?;
                parts.push(OutgoingPart { media_type: AGENT_CONFIG_TYPE.to_owned(), text });
                Ok(multipart(&parts))
            }
            Family::Bottlerocket => {
                let mut document: toml::Table = user_data
                    .parse()
                    .map_err(|error: toml::de::Error| node_class::MergeFault::NotToml(error.message().to_owned()))?;
                let containers = node_class::table(node_class::table(&mut document, "settings"), "host-containers");
                let container = node_class::table(containers, HOST_CONTAINER);
                container.insert("user-data".to_owned(), to_base64(text.as_bytes()).into());
                Ok(document.to_string())
            }
            Family::Windows2019 | Family::Windows2022 | Family::Windows2025 => {
                const TAG: &str = "<powershell>";
                let at = user_data.to_ascii_lowercase().find(TAG).ok_or(node_class::MergeFault::NotPowerShell)?;
                let (before, after) = user_data.split_at(at + TAG.len());
                let gap = if after.starts_with(['\r', '\n']) { "" } else { "\n" };
                Ok(format!("{before}\n{COMMENT}{}{gap}{after}", to_base64(text.as_bytes())))
            }
            Family::Custom => {
                // After the `#!` line, if there is one.
                let at = if user_data.starts_with("#!") {
                    user_data.find('\n').map_or(user_data.len(), |at| at + 1)
                } else {
                    0
                };
                let (before, after) = user_data.split_at(at);
                let gap = if before.is_empty() || before.ends_with('\n') { "" } else { "\n" };
                Ok(format!("{before}{gap}{COMMENT}{}\n{after}", to_base64(text.as_bytes())))
            }
        }
    }
}

impl AgentSpec {
    /// Reads the fields that have the expected type.
    fn read(spec: &Tree) -> Self {
        let expect = spec.get("expect");
        let texts = |key: &str| {
            let items = expect.and_then(|expect| expect.get(key)).map(Tree::items).unwrap_or_default();
            items.iter().filter_map(Tree::text).map(ToOwned::to_owned).collect()
        };
        let entries = |key: &str| expect.and_then(|expect| expect.get(key)).map(Tree::entries).unwrap_or_default();
        let label = |(key, _, value): &(String, usize, Tree)| Some((key.clone(), value.text()?.to_owned()));
        let resource =
            |(name, _, count): &(String, usize, Tree)| Some((name.clone(), u64::try_from(count.integer()?).ok()?));
        Self {
            controller: spec.get("controller").and_then(Controller::read),
            mode: match spec.get("mode").and_then(Tree::text) {
                Some("native") => Some(Mode::Native),
                Some("delegate") => Some(Mode::Delegate),
                _ => None,
            },
            report_only: spec.get("reportOnly").and_then(Tree::boolean) == Some(true),
            expect: Expectation {
                taints: texts("taints"),
                startup_taints: texts("startupTaints"),
                labels: entries("labels").iter().filter_map(label).collect(),
                resources: entries("resources").iter().filter_map(resource).collect(),
            },
        }
    }
}

impl Controller {
    /// Returns `None` if a field is missing: the agent needs all three to connect.
    fn read(controller: &Tree) -> Option<Self> {
        let text = |key: &str| controller.get(key).and_then(Tree::text).map(ToOwned::to_owned);
        Some(Self {
            address: text("address")?,
            certificate_authority: text("certificateAuthority")?,
            launch_token: Secret::new(text("launchToken")?),
        })
    }
}

fn decoded(encoded: &str) -> Result<String, AgentConfigFault> {
    let bytes = base64(encoded.trim().as_bytes()).ok_or(AgentConfigFault::Encoding)?;
    String::from_utf8(bytes).map_err(|_| AgentConfigFault::Encoding)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> AgentConfig {
        AgentConfig::new(AgentSpec {
            controller: Some(Controller {
                address: "muster.kube-system:8443".to_owned(),
                certificate_authority: "-----BEGIN CERTIFICATE-----".to_owned(),
                launch_token: Secret::new("mlt-1"),
            }),
            mode: Some(Mode::Native),
            report_only: true,
            expect: Expectation {
                taints: vec!["karpenter.sh/unregistered:NoExecute".to_owned()],
                startup_taints: vec!["node.cilium.io/agent-not-ready:NoExecute".to_owned()],
                labels: BTreeMap::from([("a".to_owned(), "b".to_owned())]),
                resources: BTreeMap::from([("nvidia.com/gpu".to_owned(), 1)]),
            },
        })
    }

    #[test]
    fn it_travels_in_every_family() {
        for (family, text) in [
            (Family::Al2, "#!/bin/bash\n/etc/eks/bootstrap.sh c\n"),
            (Family::Al2023, "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\n"),
            (Family::Bottlerocket, "[settings.kubernetes]\ncluster-name = \"c\"\n"),
            (Family::Windows2022, "<powershell>\n& x\n</powershell>\n"),
            (Family::Windows2022, "<PowerShell>& x</PowerShell>"),
            (Family::Custom, "#!/bin/bash\necho\n"),
            (Family::Custom, "anything"),
        ] {
            let written = config().put(family, text).unwrap();
            let read = UserData::read(written.as_bytes(), "user-data");
            assert_eq!(AgentConfig::find(&read).unwrap(), Some(config()), "{written}");
            assert_eq!(
                Family::detect(&read),
                if text == "anything" { Family::Custom } else { Family::detect(&UserData::read(text.as_bytes(), "")) }
            );
        }
    }

    #[test]
    fn user_data_of_windows_without_a_script_is_refused() {
        let tasks = "version: 1.1\ntasks:\n- task: executeScript\n";
        for text in ["", tasks] {
            let fault = config().put(Family::Windows2022, text).unwrap_err();
            assert_eq!(fault.to_string(), "the user data has no `<powershell>`");
        }
    }

    #[test]
    fn the_token_is_not_shown() {
        assert!(!format!("{:?}", config()).contains("mlt-1"));
    }

    #[test]
    fn what_is_wrong_is_said_without_quoting() {
        for (text, fault) in
            [("a: [", AgentConfigFault::Syntax { line: Some(1) }), ("kind: NodeConfig", AgentConfigFault::Identity)]
        {
            let found = AgentConfig::read(text).unwrap_err();
            assert!(
                found == fault
                    || matches!((&found, &fault), (AgentConfigFault::Syntax { .. }, AgentConfigFault::Syntax { .. })),
                "{found}"
            );
        }
    }

    #[test]
    fn nothing_is_held_back_where_somebody_asks_for_it_and_slips_elsewhere() {
        let head = "apiVersion: muster.dev/v1\nkind: AgentConfig\nspec: ";
        for spec in [
            "{reportOnly: true, mod: native}",
            "{reportOnly: true, mode: nativ, expect: {taints: 5, resources: {nvidia.com/gpu: many}}}",
            "{reportOnly: true, controller: {address: a:1}}",
        ] {
            let config = AgentConfig::read(&format!("{head}{spec}")).unwrap();
            assert!(config.spec.report_only && config.spec.mode.is_none(), "{spec}");
            assert_eq!((config.spec.controller, config.spec.expect), (None, Expectation::default()), "{spec}");
        }
        assert!(!AgentConfig::read(&format!("{head}{{reportOnly: 1, mode: native}}")).unwrap().spec.report_only);
        let twice = config().put(Family::Custom, &config().put(Family::Custom, "").unwrap()).unwrap();
        let read = UserData::read(twice.as_bytes(), "user-data");
        let expected = AgentSpec { report_only: true, ..AgentSpec::default() };
        assert_eq!(AgentConfig::find(&read), Ok(Some(AgentConfig::new(expected))));
    }
}
