//! Network, metadata service and processor of EC2 instances.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::rules::{self, cel};

/// A network interface of an instance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NetworkInterface {
    /// Network card that it sits on.
    #[schemars(range(min = 0))]
    pub network_card_index: i32,
    /// Its number on the card.
    #[schemars(range(min = 0))]
    pub device_index: i32,
    /// Type of the interface.
    pub interface_type: InterfaceType,
}

/// Type of a network interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum InterfaceType {
    /// IP traffic.
    Interface,
    /// Traffic of an Elastic Fabric Adapter, no IP.
    EfaOnly,
}

/// Access of instances to their metadata service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MetadataOptions {
    /// Enables the HTTP endpoint of the service.
    #[serde(default = "Toggle::enabled")]
    pub http_endpoint: Toggle,
    /// Enables the IPv6 endpoint of the service.
    #[serde(default = "Toggle::disabled", rename = "httpProtocolIPv6")]
    pub http_protocol_ipv6: Toggle,
    /// Maximum number of network hops of an answer: with 1 it does not reach pods.
    #[serde(default = "default_hop_limit")]
    #[schemars(range(min = 1, max = 64))]
    pub http_put_response_hop_limit: i64,
    /// Use of session tokens: `required` is IMDSv2.
    #[serde(default)]
    pub http_tokens: TokenState,
}

/// On or off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Toggle {
    /// On.
    Enabled,
    /// Off.
    Disabled,
}

/// Use of session tokens by the metadata service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TokenState {
    /// It does.
    #[default]
    Required,
    /// It does not.
    Optional,
}

/// Timeouts of idle tracked connections, in seconds.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = cel(rules::CONNECTION_TRACKING)))]
pub struct ConnectionTracking {
    /// Established TCP connections.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 60, max = 432000))]
    pub tcp_established_timeout: Option<i32>,
    /// UDP flows that have had more than one exchange.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 60, max = 180))]
    pub udp_stream_timeout: Option<i32>,
    /// UDP flows that have had one exchange at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 30, max = 60))]
    pub udp_timeout: Option<i32>,
}

/// Settings of the processor.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CpuOptions {
    /// Enables nested virtualization. Requires an instance type that supports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nested_virtualization: Option<Toggle>,
}

/// Nitro Enclaves.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EnclaveOptions {
    /// Enables enclaves. Requires an instance type that supports them.
    pub enabled: bool,
}

const fn default_hop_limit() -> i64 {
    1
}

// === impl MetadataOptions ===

impl Default for MetadataOptions {
    fn default() -> Self {
        Self {
            http_endpoint: Toggle::Enabled,
            http_protocol_ipv6: Toggle::Disabled,
            http_put_response_hop_limit: default_hop_limit(),
            http_tokens: TokenState::Required,
        }
    }
}

// === impl Toggle ===

impl Toggle {
    const fn enabled() -> Self {
        Self::Enabled
    }

    const fn disabled() -> Self {
        Self::Disabled
    }
}
