//! PodDisruptionBudgets, which determine when a rejected eviction may be retried.

use serde::Deserialize;

use super::meta::Meta;
use super::{Digest, WatchedObject};
use crate::change::ChangeKind;
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

/// Digest of a PodDisruptionBudget.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BudgetDigest {
    generation: i64,
    allows: bool,
}

impl WatchedObject for PodDisruptionBudget {
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

pub fn differences(old: Option<&BudgetDigest>, new: Option<&BudgetDigest>) -> Vec<ChangeKind> {
    let mut changes = Vec::new();
    if old.map(|old| old.generation) != new.map(|new| new.generation) {
        changes.push(ChangeKind::BudgetChanged);
    } else if new.is_some_and(|new| new.allows) && !old.is_some_and(|old| old.allows) {
        changes.push(ChangeKind::BudgetAllows);
    }
    changes
}
