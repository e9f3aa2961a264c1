//! Conditions of objects, with Karpenter's semantics. Timers depend on transition times, so the rules for when those
//! change are exact (docs/spec/lifecycle.md#conditions).

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::meta::ObjectMeta;
use crate::wire::string_enum;

pub mod types;

/// One aspect of an object's state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("required" = ["lastTransitionTime", "message", "reason", "status", "type"]))]
pub struct Condition {
    /// Type of the condition.
    #[schemars(
        length(max = 316),
        regex(
            pattern = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
        )
    )]
    pub r#type: String,
    /// Whether the condition holds: True, False, or Unknown.
    pub status: ConditionStatus,
    /// Generation of the object when the condition was determined. If metadata.generation is newer, the condition may be outdated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub observed_generation: Option<i64>,
    /// Time at which the status last changed.
    pub last_transition_time: Timestamp,
    /// Reason for the status, in one CamelCase word.
    #[serde(default)]
    #[schemars(
        length(min = 1, max = 1024),
        regex(pattern = "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"),
        transform = no_default
    )]
    pub reason: String,
    /// Human-readable details. May be empty.
    #[serde(default)]
    #[schemars(length(max = 32768), transform = no_default)]
    pub message: String,
}

/// Old objects may lack a reason, but new ones must have it: deserialization has a default, the schema has none.
fn no_default(schema: &mut schemars::Schema) {
    schema.remove("default");
}

string_enum! {
    /// Whether a condition holds.
    ConditionStatus { True, False, Unknown }
}

/// The condition types that determine an object's readiness.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConditionTypes {
    /// The condition that summarizes the dependents, if there are any.
    pub root: &'static str,
    pub dependents: Vec<&'static str>,
}

impl ConditionTypes {
    fn contains(&self, kind: &str) -> bool {
        kind == self.root || self.dependents.contains(&kind)
    }
}

#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error(
    "condition {kind} is part of the object's readiness and cannot be cleared; set it to Unknown instead"
)]
pub struct CannotClear {
    kind: String,
}

/// The conditions of one object, for reading and changing at one time.
#[derive(Debug)]
pub struct ConditionSet<'a> {
    types: &'a ConditionTypes,
    conditions: &'a mut Vec<Condition>,
    generation: i64,
    deleting: bool,
    now: Timestamp,
}

impl<'a> ConditionSet<'a> {
    /// Wraps the conditions of the object with this metadata, and adds missing dependents as Unknown. Their transition
    /// time is the object's creation, so that timeouts start there.
    pub fn new(
        types: &'a ConditionTypes,
        conditions: &'a mut Vec<Condition>,
        metadata: &ObjectMeta,
        now: Timestamp,
    ) -> Self {
        let now = whole_seconds(now);
        let generation = metadata.generation.unwrap_or(0);
        let created = metadata.creation_timestamp.unwrap_or(now);
        for kind in types.dependents.iter().chain([&types.root]) {
            if !conditions.iter().any(|condition| condition.r#type == *kind) {
                conditions.push(Condition {
                    r#type: (*kind).to_owned(),
                    status: ConditionStatus::Unknown,
                    observed_generation: Some(generation),
                    last_transition_time: created,
                    reason: "AwaitingReconciliation".to_owned(),
                    message: "object is awaiting reconciliation".to_owned(),
                });
            }
        }
        let mut set = Self {
            types,
            conditions,
            generation,
            deleting: metadata.is_deleting(),
            now,
        };
        set.sort();
        set
    }

    pub fn get(&self, kind: &str) -> Option<&Condition> {
        self.conditions
            .iter()
            .find(|condition| condition.r#type == kind)
    }

    /// The condition's status; a missing condition is Unknown.
    pub fn status(&self, kind: &str) -> ConditionStatus {
        self.get(kind)
            .map_or(ConditionStatus::Unknown, |condition| {
                condition.status.clone()
            })
    }

    pub fn is_true(&self, kind: &str) -> bool {
        self.status(kind) == ConditionStatus::True
    }

    pub fn is_ready(&self) -> bool {
        self.is_true(self.types.root)
    }

    /// Sets the condition to True with its own type as the reason.
    pub fn set_true(&mut self, kind: &str) {
        self.set(kind, ConditionStatus::True, kind, "");
    }

    pub fn set_false(&mut self, kind: &str, reason: &str, message: &str) {
        self.set(kind, ConditionStatus::False, reason, message);
    }

    pub fn set_unknown(&mut self, kind: &str, reason: &str, message: &str) {
        self.set(kind, ConditionStatus::Unknown, reason, message);
    }

    /// Sets the condition and updates the root. The transition time changes only if the status does.
    pub fn set(&mut self, kind: &str, status: ConditionStatus, reason: &str, message: &str) {
        self.write(kind, status, reason, message);
        if self.deleting {
            for condition in &mut *self.conditions {
                condition.observed_generation = Some(self.generation);
            }
        }
        if kind != self.types.root {
            self.write_root();
        }
        self.sort();
    }

    /// Sets the condition to its present value, so that its observed generation becomes the object's current one. Does
    /// nothing if it is missing.
    pub fn renew(&mut self, kind: &str) {
        if let Some(Condition {
            status,
            reason,
            message,
            ..
        }) = self.get(kind).cloned()
        {
            self.set(kind, status, &reason, &message);
        }
    }

    /// Removes a condition that the object's readiness does not depend on.
    pub fn clear(&mut self, kind: &str) -> Result<(), CannotClear> {
        if self.types.contains(kind) {
            return Err(CannotClear {
                kind: kind.to_owned(),
            });
        }
        self.conditions.retain(|condition| condition.r#type != kind);
        Ok(())
    }

    fn write(&mut self, kind: &str, status: ConditionStatus, reason: &str, message: &str) {
        let before = self
            .get(kind)
            .filter(|condition| condition.status == status);
        let condition = Condition {
            r#type: kind.to_owned(),
            last_transition_time: before
                .map_or(self.now, |condition| condition.last_transition_time),
            status,
            observed_generation: Some(self.generation),
            reason: reason.to_owned(),
            message: message.to_owned(),
        };
        self.conditions.retain(|condition| condition.r#type != kind);
        self.conditions.push(condition);
    }

    fn write_root(&mut self) {
        if self.types.dependents.is_empty() {
            return;
        }
        let current =
            |condition: &Condition| condition.observed_generation == Some(self.generation);
        let mut unhealthy: Vec<_> = self
            .types
            .dependents
            .iter()
            .filter_map(|kind| self.get(kind))
            .filter(|condition| condition.status != ConditionStatus::True || !current(condition))
            .collect();
        unhealthy.sort_by(|a, b| {
            b.last_transition_time
                .cmp(&a.last_transition_time)
                .then_with(|| a.r#type.cmp(&b.r#type))
        });
        let message: Vec<_> = unhealthy
            .iter()
            .map(|condition| format!("{}={}", condition.r#type, condition.status))
            .collect();
        let failed = unhealthy
            .iter()
            .any(|condition| condition.status == ConditionStatus::False && current(condition));
        let (status, reason) = match (unhealthy.is_empty(), failed) {
            (true, _) => (ConditionStatus::True, self.types.root),
            (false, true) => (ConditionStatus::False, "UnhealthyDependents"),
            (false, false) => (ConditionStatus::Unknown, "ReconcilingDependents"),
        };
        self.write(self.types.root, status, reason, &message.join(", "));
    }

    /// Sorts by type, so that equal conditions are always stored equally.
    fn sort(&mut self) {
        self.conditions.sort_by(|a, b| a.r#type.cmp(&b.r#type));
    }
}

/// Truncates to whole seconds, the resolution of conditions in Kubernetes.
fn whole_seconds(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

#[cfg(test)]
mod tests;
