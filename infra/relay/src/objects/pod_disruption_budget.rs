//! PodDisruptionBudgets: when an eviction that was refused may be tried again.

use serde::Deserialize;

use super::meta::Meta;
use super::{Digest, Watched};
use crate::change::What;
use crate::kind::Kind;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct PodDisruptionBudget {
    metadata: Meta,
    status: BudgetStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct BudgetStatus {
    disruptions_allowed: i64,
}

/// What is kept of a PodDisruptionBudget.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BudgetDigest {
    generation: i64,
    allows: bool,
}

impl Watched for PodDisruptionBudget {
    const KIND: Kind = Kind::PodDisruptionBudget;

    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn digest(&self) -> Digest {
        Digest::PodDisruptionBudget(BudgetDigest {
            generation: self.metadata.generation,
            allows: self.status.disruptions_allowed > 0,
        })
    }
}

pub fn differences(old: Option<&BudgetDigest>, new: Option<&BudgetDigest>) -> Vec<What> {
    let mut changes = Vec::new();
    if old.map(|old| old.generation) != new.map(|new| new.generation) {
        changes.push(What::BudgetChanged);
    } else if new.is_some_and(|new| new.allows) && !old.is_some_and(|old| old.allows) {
        changes.push(What::BudgetAllows);
    }
    changes
}
