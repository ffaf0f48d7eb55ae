//! Conversion of the options of the server for agents.

use muster_link::document::Certificates;

use super::super::arguments::{AgentArguments, CloudName};
use super::super::failure::Failure;
use crate::agents::{self, Port};
use crate::run::RunError;

/// Converts the options of the server for agents; `None` if it is not served.
pub(super) fn options(arguments: AgentArguments, cloud: CloudName) -> Result<Option<agents::Options>, Failure> {
    let AgentArguments { agent_port, agent_address, agent_health_port, agent_identity_certificates } = arguments;
    let Some(port) = agent_port else { return Ok(None) };
    if cloud == CloudName::Kwok {
        return Err(Failure::Run(RunError::NoAgents));
    }
    let address = agent_address.unwrap_or_default();
    let address = address.parse().map_err(|fault| {
        Failure::Usage(format!(
            "`--agent-address`: `{address}`: {fault}\n\nhint: write where nodes reach the port of `--agent-port`, as \
             `muster.example.com:9443`"
        ))
    })?;
    let of_aws = Certificates::of_aws().map_err(|error| Failure::Internal(error.to_string()))?;
    let certificates = match agent_identity_certificates {
        None => of_aws,
        Some(path) => {
            let wrong = |why: &dyn std::fmt::Display| {
                Failure::Usage(format!("`--agent-identity-certificates`: `{}`: {why}", path.display()))
            };
            let text = std::fs::read_to_string(&path).map_err(|error| wrong(&error))?;
            of_aws.and(Certificates::read(&text).map_err(|error| wrong(&error))?)
        }
    };
    let (port, health_port) = (Port::Number(port), Port::Number(agent_health_port));
    Ok(Some(agents::Options {
        port,
        health_port,
        address,
        certificates,
        rotation: agents::Rotation::default(),
        documents: super::super::DOCUMENTS,
    }))
}
