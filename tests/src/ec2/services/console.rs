//! `GetConsoleOutput`: what a test says that an instance has written to its serial console. moto has the same for all of
//! them.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::super::answer::{Answer, ApiError};
use super::super::faults;
use super::super::request::Request;
use super::super::shared::Shared;
use super::super::xml;

/// An instance that has written nothing yet has no output.
pub(super) fn output(shared: &Shared, request: &Request, request_id: &str) -> Result<Answer, ApiError> {
    let id = request.parameters.text("InstanceId").unwrap_or_default();
    let console = {
        let state = shared.state();
        state.instances.get(id).ok_or_else(|| faults::no_instance(id))?.console.clone()
    };
    let written = console.map(|text| xml::leaf("output", STANDARD.encode(text)));
    let fields = [xml::leaf("instanceId", id), xml::leaf("timestamp", shared.clock.now().to_string())];
    Ok(Answer::ec2(&request.action, request_id, fields.into_iter().chain(written).collect()))
}
