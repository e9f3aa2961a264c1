//! Network, metadata service and processor options of instances.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema::rules;
use crate::wire::string_enum;

/// A network interface of the instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NetworkInterface {
    /// Index of the network card, from 0.
    #[schemars(range(min = 0))]
    pub network_card_index: i32,
    /// Index of the device on the network card, from 0.
    #[schemars(range(min = 0))]
    pub device_index: i32,
    /// An ordinary interface, or one for EFA traffic only.
    pub interface_type: InterfaceType,
}

string_enum! {
    /// A kind of network interface.
    InterfaceType { Interface = "interface", EfaOnly = "efa-only" }
}

string_enum! {
    /// On or off.
    Switch { Enabled = "enabled", Disabled = "disabled" }
}

string_enum! {
    /// Whether requests to the metadata service need a session token (IMDSv2).
    TokenState { Required = "required", Optional = "optional" }
}

/// Access to the instance metadata service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MetadataOptions {
    /// Whether the metadata service can be reached at all.
    pub http_endpoint: Switch,
    /// Whether the metadata service can be reached over IPv6.
    #[serde(rename = "httpProtocolIPv6")]
    pub http_protocol_ipv6: Switch,
    /// Maximum number of network hops of a response; with more than 1, containers can reach the metadata service.
    #[schemars(range(min = 1, max = 64))]
    pub http_put_response_hop_limit: i64,
    /// Whether requests need a session token.
    pub http_tokens: TokenState,
}

impl Default for MetadataOptions {
    fn default() -> Self {
        Self {
            http_endpoint: Switch::Enabled,
            http_protocol_ipv6: Switch::Disabled,
            http_put_response_hop_limit: 1,
            http_tokens: TokenState::Required,
        }
    }
}

/// Idle timeouts of connections that security groups track.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules::cel(&[(
    "at least one of tcpEstablishedTimeout, udpStreamTimeout, or udpTimeout must be set",
    "has(self.tcpEstablishedTimeout) || has(self.udpStreamTimeout) || has(self.udpTimeout)",
)])))]
pub struct ConnectionTracking {
    /// Idle timeout of established TCP connections, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 60, max = 432_000))]
    pub tcp_established_timeout: Option<i32>,
    /// Idle timeout of UDP flows with several requests and responses, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 60, max = 180))]
    pub udp_stream_timeout: Option<i32>,
    /// Idle timeout of UDP flows with a single request or response, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 30, max = 60))]
    pub udp_timeout: Option<i32>,
}

/// Processor features.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CpuOptions {
    /// Whether nested virtualization is enabled. Only some instance types support it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nested_virtualization: Option<Switch>,
}

/// Nitro Enclaves: isolated virtual machines beside the one of the node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EnclaveOptions {
    /// Whether enclaves are enabled on every instance, which restricts launches to instance types that support them. If false, no
    /// node is launched for pods that request enclaves.
    pub enabled: bool,
}
