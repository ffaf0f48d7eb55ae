//! Configuration of the node's agent in the user data of a launch template: the controller's address and the template's
//! secret.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Taint;
use muster_api::taints;
use muster_bootstrap::agent_config::{self, AgentConfig, AgentSpec, Expectation, Secret};
use muster_bootstrap::node_class::MergeFault;
use muster_bootstrap::userdata::UserData;
use muster_cloud::LaunchRequest;
use muster_link::{LaunchKey, Pins, SecretHash};

use super::template::Template;
use super::user_data::bootstrap_family;
use crate::family::AmiFamily;

/// Connection settings of the controller for nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Controller {
    /// Address (`host:port`).
    pub address: String,
    /// CA certificate of the controller (PEM).
    pub certificate_authority: String,
    /// Key that derives the secrets and names of templates.
    pub key: LaunchKey,
    /// Previous key, if an instance that was launched with it may still be found.
    pub former_key: Option<LaunchKey>,
}

/// Agent settings of a template's instances.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentSettings {
    /// Hash of their secret.
    pub secret: SecretHash,
    /// Hash of their secret under the previous key.
    pub former: Option<SecretHash>,
    /// Certificate authorities that they trust.
    pub pins: Pins,
}

impl AgentSettings {
    /// Iterates over the hashes of the secrets that an instance may have. `is_found`: it may have been launched before
    /// the key was replaced.
    pub fn secrets(&self, is_found: bool) -> impl Iterator<Item = SecretHash> {
        std::iter::once(self.secret).chain(self.former.filter(|_| is_found))
    }
}

impl Controller {
    /// Adds the agent's configuration to the template's user data and returns the settings to remember. Returns `None`
    /// and changes nothing if the class has its own agent configuration.
    pub(super) fn introduce(
        &self,
        template: &mut Template,
        family: AmiFamily,
        request: &LaunchRequest,
    ) -> Result<Option<AgentSettings>, MergeFault> {
        let written = UserData::read(template.user_data.as_bytes(), "user-data");
        if !matches!(AgentConfig::find(&written), Ok(None)) {
            return Ok(None);
        }
        let (content, former_key) = (template.text(), self.former_key.as_ref());
        let token = self.key.token(content.as_bytes());
        let former = former_key.map(|key| SecretHash::of(&key.token(content.as_bytes())));
        let config = AgentConfig::new(AgentSpec {
            controller: Some(agent_config::Controller {
                address: self.address.clone(),
                certificate_authority: self.certificate_authority.clone(),
                launch_token: Secret::new(token.clone()),
            }),
            expect: Expectation {
                taints: expected(family, &request.taints),
                resources: devices(&request.requests),
                ..Expectation::default()
            },
            ..AgentSpec::default()
        });
        template.user_data = config.put(bootstrap_family(family), &template.user_data)?;
        let pins = Pins::of_pem(&self.certificate_authority).unwrap_or_default();
        Ok(Some(AgentSettings { secret: SecretHash::of(&token), former, pins }))
    }
}

/// Returns the extended resources with a positive count among the pod requests.
fn devices(requests: &BTreeMap<String, String>) -> BTreeMap<String, u64> {
    let vendors = requests.iter().filter(|(name, _)| name.contains('/'));
    vendors.filter_map(|(name, count)| Some((name.clone(), count.parse().ok().filter(|count| *count > 0)?))).collect()
}

/// Returns the taints that the node must register with. Custom images do not get taints.
fn expected(family: AmiFamily, wanted: &[Taint]) -> Vec<String> {
    if family == AmiFamily::Custom {
        return Vec::new();
    }
    let spelled = |taint: &Taint| match taint.value.as_deref().filter(|value| !value.is_empty()) {
        Some(value) => format!("{}={value}:{}", taint.key, taint.effect),
        None => format!("{}:{}", taint.key, taint.effect),
    };
    std::iter::once(&taints::unregistered()).chain(wanted).map(spelled).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_what_is_named_after_a_vendor_and_counted() {
        let requests = [("cpu", "1500m"), ("nvidia.com/gpu", "2"), ("vendor.example/x", "0"), ("hugepages-2Mi", "4")];
        let requests = requests.map(|(name, count)| (name.to_owned(), count.to_owned()));
        assert_eq!(devices(&requests.into()), BTreeMap::from([("nvidia.com/gpu".to_owned(), 2)]));
    }
}
