//! Network, metadata service and processor options of instances.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema::rules;
use crate::wire::string_enum;

/// A network interface of the instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NetworkInterface {
    /// The network card, from 0.
    #[schemars(range(min = 0))]
    pub network_card_index: i32,
    /// The device on that card, from 0.
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
    /// Upper bound on the network hops of an answer; more than 1 lets containers reach the metadata service.
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

/// Time for which security groups remember idle connections.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules::cel(&[(
    "at least one of tcpEstablishedTimeout, udpStreamTimeout, or udpTimeout must be set",
    "has(self.tcpEstablishedTimeout) || has(self.udpStreamTimeout) || has(self.udpTimeout)",
)])))]
pub struct ConnectionTracking {
    /// Seconds for established TCP connections.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 60, max = 432_000))]
    pub tcp_established_timeout: Option<i32>,
    /// Seconds for UDP flows with several requests and answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 60, max = 180))]
    pub udp_stream_timeout: Option<i32>,
    /// Seconds for UDP flows with one request or answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 30, max = 60))]
    pub udp_timeout: Option<i32>,
}

/// Processor features.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CpuOptions {
    /// Whether virtual machines can run on the instance. Only some instance types can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nested_virtualization: Option<Switch>,
}

/// Nitro Enclaves: isolated virtual machines beside the one of the node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EnclaveOptions {
    /// Whether every instance can run enclaves, which only types that support them can. If false, pods that ask for enclaves get no
    /// node.
    pub enabled: bool,
}
