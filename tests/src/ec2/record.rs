//! Every call, when, by whom, with what, and what it got.

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use super::faults::RuleId;

/// One recorded call.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Call {
    /// Counts from 1, in the order of arrival.
    pub sequence: usize,
    /// When it came, by the proxy's clock.
    pub at: Timestamp,
    /// From arrival to answer, by the machine's clock, in milliseconds.
    pub took_ms: u64,
    /// `ec2`.
    pub service: String,
    /// The region that it was signed for.
    pub region: String,
    /// `CreateFleet`.
    pub action: String,
    /// Query protocol: one object with the names as sent. JSON: the body.
    pub parameters: Value,
    /// The name given to [`Ec2::credentials`](super::Ec2::credentials); the access key if nobody named it.
    pub identity: String,
    /// What the client says of itself.
    pub user_agent: String,
    /// HTTP status; `None` if the connection was cut.
    pub status: Option<u16>,
    /// AWS's error code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// As the answer has it.
    pub request_id: String,
    /// The rules that matched.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<RuleId>,
}

/// Recorded calls, to be narrowed down.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Record(pub Vec<Call>);

impl Call {
    /// A parameter of the query protocol, a field of a JSON body.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters.get(name)?.as_str()
    }
}

impl Record {
    /// Only calls of this action.
    #[must_use]
    pub fn of(self, action: &str) -> Self {
        self.only(|call| call.action == action)
    }

    /// Only calls by this identity.
    #[must_use]
    pub fn by(self, identity: &str) -> Self {
        self.only(|call| call.identity == identity)
    }

    /// Only calls that got this error.
    #[must_use]
    pub fn failed(self, code: &str) -> Self {
        self.only(|call| call.error.as_deref() == Some(code))
    }

    /// Only calls with a success as answer that arrived at the client.
    #[must_use]
    pub fn succeeded(self) -> Self {
        self.only(|call| call.status.is_some_and(|status| status < 400))
    }

    /// Only calls from `from` on.
    #[must_use]
    pub fn since(self, from: Timestamp) -> Self {
        self.only(|call| call.at >= from)
    }

    /// Only calls for which `keep` says yes.
    #[must_use]
    pub fn only(mut self, keep: impl FnMut(&Call) -> bool) -> Self {
        self.0.retain(keep);
        self
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// None.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// One JSON document a line, with all parameters: what lies beside the other logs of a failed test.
    pub fn json_lines(&self) -> String {
        let line = |call: &Call| serde_json::to_string(call).unwrap_or_default() + "\n";
        self.0.iter().map(line).collect()
    }

    /// One line each: `#12 CreateFleet by controller: 200`, for a failed test's message.
    pub fn lines(&self) -> String {
        let line = |call: &Call| {
            let Call { sequence, service, action, identity, .. } = call;
            let end = match (&call.error, call.status) {
                (Some(code), _) => code.clone(),
                (None, Some(status)) => status.to_string(),
                (None, None) => "connection cut".to_owned(),
            };
            format!("#{sequence} {service}:{action} by {identity}: {end}\n")
        };
        self.0.iter().map(line).collect()
    }
}

impl<'a> IntoIterator for &'a Record {
    type Item = &'a Call;
    type IntoIter = std::slice::Iter<'a, Call>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}
