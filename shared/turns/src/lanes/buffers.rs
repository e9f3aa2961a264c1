//! Status of CapacityBuffers (docs/spec/lifecycle.md#capacity-buffer): the lifecycle turn resolves their references, the
//! provisioner reports whether there is room. Both write on condition of the version that they read.

use std::collections::BTreeMap;

use api::{
    ConditionSet,
    conditions::types::{self, PROVISIONING, READY_FOR_PROVISIONING},
    convert::Unresolved,
    karpenter::CapacityBufferStatus,
};
use jiff::Timestamp;
use model::{Lane, PodKey, plan::BufferCapacity};
use ports::{ClusterError, cluster::EventTarget};

use crate::{
    Report, TurnError,
    context::Turn,
    observe::{
        Observed,
        gated::{Buffer, CAPACITY_BUFFER, NODE_OVERLAY, POLL_INTERVAL, is_on},
    },
    report::events,
};

/// Writes the resolved references of buffers into their status. BufferCapacity for a changed buffer is the provisioner's concern.
pub(crate) async fn write_resolved_status(
    turn: &Turn<'_>,
    observed: &Observed,
    report: &mut Report,
) -> Result<(), TurnError> {
    let settings = &turn.entry.settings;
    if is_on(CAPACITY_BUFFER, settings) || is_on(NODE_OVERLAY, settings) {
        report.run_again_at(turn.now + POLL_INTERVAL);
    }
    let mut changed = false;
    for buffer in &observed.gated.buffers {
        let status = resolved_status(buffer, turn.now);
        changed |= write(turn, buffer, status, report).await;
    }
    if changed {
        turn.wake(Lane::Provisioner, "buffers-changed").await?;
    }
    Ok(())
}

/// Writes whether the buffers' pods have room, as far as the plan shows.
pub(crate) async fn write_room_status(
    turn: &Turn<'_>,
    observed: &Observed,
    rooms: &BTreeMap<PodKey, BufferCapacity>,
    report: &mut Report,
) {
    for buffer in &observed.gated.buffers {
        // Pods that take the room are bound by the scheduler without a wake.
        report.run_again_at(turn.now + POLL_INTERVAL);
        let room = rooms.get(&buffer.shape.key).copied();
        let status = room_status(buffer, room, turn.now);
        write(turn, buffer, status, report).await;
    }
}

/// Writes the status if it differs. Returns whether it was written.
async fn write(
    turn: &Turn<'_>,
    buffer: &Buffer,
    status: CapacityBufferStatus,
    report: &mut Report,
) -> bool {
    if buffer.object.status.as_ref() == Some(&status) {
        return false;
    }
    let key = &buffer.shape.key;
    let version = buffer.object.metadata.resource_version.as_deref();
    let version = version.unwrap_or_default();
    let written = turn
        .api
        .update_capacity_buffer_status(key, version, &status);
    let uid = buffer.object.metadata.uid.clone();
    let about = EventTarget::CapacityBuffer(key.clone(), uid.into());
    match written.await {
        Ok(()) => {
            let (before, after) = (
                conditions_of(buffer.object.status.as_ref()),
                conditions_of(Some(&status)),
            );
            let emitted = events::of_conditions(&about, before, after, turn.now);
            events::post(turn, &emitted, report).await;
            true
        }
        Err(ClusterError::Conflict { .. } | ClusterError::NotFound { .. }) => {
            report.run_again_at(turn.now + POLL_INTERVAL);
            false
        }
        Err(error) => {
            report.may_continue_after::<(), _>(&about, Err(error));
            false
        }
    }
}

fn conditions_of(status: Option<&CapacityBufferStatus>) -> &[api::Condition] {
    let conditions = status.and_then(|status| status.conditions.as_deref());
    conditions.unwrap_or_default()
}

fn resolved_status(buffer: &Buffer, now: Timestamp) -> CapacityBufferStatus {
    let spec = &buffer.object.spec;
    let pods = planner::buffer_pods(&buffer.shape);
    let is_resolved = buffer.resolved.is_ok();
    let mut status = conditions(buffer, now, |set| match &buffer.resolved {
        Ok(()) => set.set(
            READY_FOR_PROVISIONING,
            api::ConditionStatus::True,
            "Resolved",
            "",
        ),
        Err(error) => set.set_false(
            READY_FOR_PROVISIONING,
            resolution_reason(error),
            &error.to_string(),
        ),
    });
    status.pod_template_ref = spec.pod_template_ref.clone().filter(|_| is_resolved);
    status.pod_template_generation = buffer.template_generation;
    status.replicas = i32::try_from(pods).ok().filter(|_| is_resolved);
    status.provisioning_strategy = Some(spec.provisioning_strategy.clone());
    status
}

fn room_status(
    buffer: &Buffer,
    room: Option<BufferCapacity>,
    now: Timestamp,
) -> CapacityBufferStatus {
    conditions(buffer, now, |set| {
        if let Err(error) = &buffer.resolved {
            set.set_false(PROVISIONING, "NotReadyForProvisioning", &error.to_string());
        } else if planner::buffer_pods(&buffer.shape) == 0 {
            set.set_false(PROVISIONING, "BufferEmpty", "the buffer is for zero pods");
        } else {
            match room {
                Some(BufferCapacity::Available) => set.set(
                    PROVISIONING,
                    api::ConditionStatus::True,
                    "FitsExistingCapacity",
                    "",
                ),
                Some(BufferCapacity::Insufficient) => set.set_false(
                    PROVISIONING,
                    "RequiresNewCapacity",
                    "some of its pods need a new node or cannot be placed",
                ),
                None => {}
            }
        }
    })
}

/// The buffer's status with `change` applied to its conditions.
fn conditions(
    buffer: &Buffer,
    now: Timestamp,
    change: impl FnOnce(&mut ConditionSet<'_>),
) -> CapacityBufferStatus {
    let mut status = buffer.object.status.clone().unwrap_or_default();
    let mut conditions = status.conditions.take().unwrap_or_default();
    let condition_types = types::capacity_buffer();
    let metadata = &buffer.object.metadata;
    change(&mut ConditionSet::new(
        &condition_types,
        &mut conditions,
        metadata,
        now,
    ));
    status.conditions = Some(conditions);
    status
}

fn resolution_reason(error: &Unresolved) -> &'static str {
    match error {
        Unresolved::PodTemplateNotFound(_) => "PodTemplateNotFound",
        Unresolved::ScalableRefNotFound { .. } => "ScalableRefNotFound",
        Unresolved::NotScalable { .. } | Unresolved::NoReference | Unresolved::TwoReferences => {
            "ResolutionFailed"
        }
    }
}
