use std::fmt;

use serde::{Deserialize, Serialize};

/// A function working on one cluster (docs/glossary.md).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Lane {
    Provisioner,
    Lifecycle,
    Disruption,
    Terminator,
    Interruption,
    Housekeeper,
}

impl Lane {
    /// Lanes with a wake queue. EventBridge invokes the other two.
    pub const WOKEN: [Self; 4] = [
        Self::Provisioner,
        Self::Lifecycle,
        Self::Disruption,
        Self::Terminator,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Provisioner => "provisioner",
            Self::Lifecycle => "lifecycle",
            Self::Disruption => "disruption",
            Self::Terminator => "terminator",
            Self::Interruption => "interruption",
            Self::Housekeeper => "housekeeper",
        }
    }
}

impl fmt::Display for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
