use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::{ApiServer, parse_time, rfc3339};
use crate::{
    error::ApiResult,
    json,
    kinds::ResourceType,
    store::{Object, ObjectKey},
};

/// `DeleteOptions` of the Kubernetes API.
#[derive(Clone, Debug, Default)]
pub struct DeleteOptions {
    pub grace_period_seconds: Option<i64>,
    pub preconditions: Preconditions,
    pub propagation: Propagation,
    pub dry_run: bool,
}

#[derive(Clone, Debug, Default)]
pub struct Preconditions {
    pub uid: Option<String>,
    pub resource_version: Option<String>,
}

/// Treatment of the dependents of a deleted object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Propagation {
    #[default]
    Background,
    Foreground,
    Orphan,
}

#[derive(Clone, Debug)]
pub enum Deleted {
    /// The object is gone.
    Now(Arc<Object>),
    /// The object is marked for deletion; finalizers or the kubelet have work to do first.
    Later(Arc<Object>),
}

/// Finalizer that keeps an owner until its dependents are gone.
pub(crate) const FOREGROUND_FINALIZER: &str = "foregroundDeletion";
/// Finalizer that keeps an owner until its dependents no longer refer to it.
pub(crate) const ORPHAN_FINALIZER: &str = "orphan";

const DEFAULT_GRACE_SECONDS: i64 = 30;

impl ApiServer {
    pub fn delete(
        &mut self,
        kind: &ResourceType,
        key: &ObjectKey,
        options: &DeleteOptions,
        now: Timestamp,
    ) -> ApiResult<Deleted> {
        let old = self.get(kind, key)?;
        check_preconditions(kind, &old, &options.preconditions)?;
        let grace = grace_seconds(kind, &old, options.grace_period_seconds);
        let mut value = old.value().clone();
        let finalizer = match options.propagation {
            Propagation::Background => None,
            Propagation::Foreground => Some(FOREGROUND_FINALIZER),
            Propagation::Orphan => Some(ORPHAN_FINALIZER),
        };
        if let Some(finalizer) = finalizer
            && !old.is_terminating()
            && let Some(finalizers) = json::array_mut(&mut value, &["metadata", "finalizers"])
        {
            finalizers.push(json!(finalizer));
        }
        let must_wait = grace > 0 || has_finalizers(&value);
        if options.dry_run {
            return Ok(if must_wait {
                Deleted::Later(old)
            } else {
                Deleted::Now(old)
            });
        }
        if !must_wait {
            return Ok(Deleted::Now(self.finish(kind, key).unwrap_or(old)));
        }
        mark(kind, &old, &mut value, grace, now);
        if old.value() == &value {
            return Ok(Deleted::Later(old));
        }
        Ok(Deleted::Later(self.store.put(&kind.table, value)))
    }

    /// Removes an object from the store.
    pub(crate) fn finish(&mut self, kind: &ResourceType, key: &ObjectKey) -> Option<Arc<Object>> {
        let last = self.store.remove(&kind.table, key)?;
        if kind.is_crd() {
            self.kinds.uninstall(last.value());
        }
        Some(last)
    }
}

/// Returns whether an object can be removed: marked for deletion, without finalizers and with no grace period left.
pub(super) fn is_finished(object: &Object) -> bool {
    let grace = json::integer(object.value(), &["metadata", "deletionGracePeriodSeconds"]);
    object.is_terminating() && !has_finalizers(object.value()) && grace.unwrap_or(0) == 0
}

/// Returns whether an object has finalizers; namespaces have a second list of them.
fn has_finalizers(value: &Value) -> bool {
    [["metadata", "finalizers"], ["spec", "finalizers"]]
        .iter()
        .any(|path| !json::items(value, path).is_empty())
}

fn check_preconditions(
    kind: &ResourceType,
    old: &Object,
    preconditions: &Preconditions,
) -> ApiResult<()> {
    let subject = kind.subject(old.name());
    if let Some(uid) = &preconditions.uid
        && uid != old.uid()
    {
        return Err(subject.conflict(&format!(
            "Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
            old.uid()
        )));
    }
    let revision = old.revision().to_string();
    if let Some(wanted) = &preconditions.resource_version
        && *wanted != revision
    {
        return Err(subject.conflict(&format!(
            "Precondition failed: ResourceVersion in precondition: {wanted}, ResourceVersion in object meta: {revision}"
        )));
    }
    Ok(())
}

/// Grace period of a deletion; only pods that are bound to a node have one.
fn grace_seconds(kind: &ResourceType, old: &Object, requested: Option<i64>) -> i64 {
    if !kind.is_pod() {
        return 0;
    }
    let pod = old.value();
    let phase = json::text(pod, &["status", "phase"]);
    if json::text(pod, &["spec", "nodeName"]).is_empty() || matches!(phase, "Succeeded" | "Failed")
    {
        return 0;
    }
    let own = json::integer(pod, &["spec", "terminationGracePeriodSeconds"]);
    requested.or(own).unwrap_or(DEFAULT_GRACE_SECONDS).max(0)
}

/// Marks an object for deletion; a second request can only shorten the grace period.
fn mark(kind: &ResourceType, old: &Object, value: &mut Value, grace: i64, now: Timestamp) {
    let deadline = now
        .checked_add(SignedDuration::from_secs(grace))
        .unwrap_or(now);
    let earlier = parse_time(json::text(old.value(), &["metadata", "deletionTimestamp"]));
    if grace == 0 || earlier.is_none_or(|earlier| deadline < earlier) {
        json::set(value, &["metadata", "deletionTimestamp"], rfc3339(deadline));
        json::set(value, &["metadata", "deletionGracePeriodSeconds"], grace);
        if earlier.is_none()
            && let Some(generation) = json::integer(value, &["metadata", "generation"])
        {
            json::set(value, &["metadata", "generation"], generation + 1);
        }
    }
    if kind.is_namespace() {
        json::set(value, &["status", "phase"], "Terminating");
    }
}
