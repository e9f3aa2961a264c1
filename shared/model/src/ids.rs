//! Newtypes for names and identifiers, so that a NodePool's name cannot be passed as a NodeClaim's.

use std::{fmt, sync::Arc};

use serde::{Deserialize, Serialize};

macro_rules! names {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub String);

        impl $name {
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(text.to_owned())
            }
        }

        impl From<String> for $name {
            fn from(text: String) -> Self {
                Self(text)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    )*};
}

names! {
    /// Name of a cluster, as registered under `/whittle/clusters/<name>`.
    ClusterName;
    /// Id of an EC2 instance, `i-…`.
    InstanceId;
    NodeClaimName;
    NodeClassName;
    /// Name of a Kubernetes Node.
    NodeName;
    NodePoolName;
    /// `metadata.uid` of a Kubernetes object.
    Uid;
    /// Idempotency token of one frozen CreateFleet call: its ClientToken, and the value of the `whittle.sh/launch` tag
    /// on its instances.
    LaunchToken;
    /// Id of a committed plan, derived from its content.
    PlanId;
    /// Id of one invocation of a function, and the owner of its leases.
    TurnId;
}

/// Name of an EC2 instance type, such as `m5.large`. Reference-counted, because a plan lists hundreds per node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct InstanceTypeName(Arc<str>);

impl InstanceTypeName {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for InstanceTypeName {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

/// A pod's namespace and name, written `namespace/name`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PodKey {
    pub namespace: String,
    pub name: String,
}

impl PodKey {
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
        }
    }
}

impl fmt::Display for PodKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}
