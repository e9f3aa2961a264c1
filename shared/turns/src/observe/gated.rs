//! Objects that count only behind their feature gate: NodeOverlays, and CapacityBuffers with their references
//! (docs/spec/lifecycle.md#node-overlay, docs/spec/lifecycle.md#capacity-buffer).

use std::future::Future;

use api::{
    conditions::types::VALIDATION_SUCCEEDED,
    convert::{BufferTarget, Unresolved, buffer_target, capacity_buffer},
};
use futures::{StreamExt, TryStreamExt, stream};
use jiff::SignedDuration;
use model::{
    Lane,
    snapshot::{CapacityBuffer, NodeOverlay, Settings},
};
use ports::{Cluster, ClusterError};

use crate::context::Turn;

/// Names of the feature gates.
pub const NODE_OVERLAY: &str = "NodeOverlay";
pub const CAPACITY_BUFFER: &str = "CapacityBuffer";

/// Reason of an overlay's condition while another overlay overrides it everywhere.
pub(crate) const CONFLICT: &str = "Conflict";

/// Interval at which lanes that depend on these kinds read them: the relay does not watch them.
pub(crate) const POLL_INTERVAL: SignedDuration = SignedDuration::from_secs(60);

/// Upper bound on CapacityBuffers: each needs another read, of the object it refers to.
const BUFFERS_MAX: usize = 100;
const CONCURRENT_READS: usize = 8;

/// Objects behind feature gates, as read.
#[derive(Default)]
pub struct Gated {
    /// All NodeOverlays, including invalid ones.
    pub overlays: Vec<api::NodeOverlay>,
    pub buffers: Vec<Buffer>,
    /// Warnings to users about gates that are on and have no effect.
    pub warnings: Vec<String>,
}

/// A CapacityBuffer with the object it refers to.
pub struct Buffer {
    pub(crate) object: api::CapacityBuffer,
    /// The buffer in the form that a snapshot holds.
    pub shape: CapacityBuffer,
    /// Whether its reference was resolved; without it the buffer keeps no room.
    pub resolved: Result<(), Unresolved>,
    /// Generation of the PodTemplate that the buffer names.
    pub(crate) template_generation: Option<i64>,
}

pub(crate) fn is_on(gate: &str, settings: &Settings) -> bool {
    settings.feature_gates.get(gate) == Some(&true)
}

impl Gated {
    /// The overlays and buffers that a snapshot holds: invalid overlays are left out.
    pub fn for_snapshot(&self) -> (Vec<NodeOverlay>, Vec<CapacityBuffer>) {
        let overlays = self.overlays.iter();
        let overlays = overlays.filter(|overlay| api::validation::node_overlay(overlay).is_empty());
        let buffers = self.buffers.iter().map(|buffer| buffer.shape.clone());
        (
            overlays.map(|overlay| overlay.clone().into()).collect(),
            buffers.collect(),
        )
    }

    /// Overlays that may give prices to instance types without one: the valid ones that the lifecycle function did not find in
    /// conflict with others.
    pub fn for_previews(&self) -> Vec<NodeOverlay> {
        let overlays = self.overlays.iter();
        let usable = overlays.filter(|overlay| {
            api::validation::node_overlay(overlay).is_empty() && !is_in_conflict(overlay)
        });
        usable.map(|overlay| overlay.clone().into()).collect()
    }
}

fn is_in_conflict(overlay: &api::NodeOverlay) -> bool {
    let status = overlay.status.as_ref();
    let conditions = status.and_then(|status| status.conditions.as_ref());
    conditions
        .into_iter()
        .flatten()
        .any(|condition| condition.r#type == VALIDATION_SUCCEEDED && condition.reason == CONFLICT)
}

/// Reads the objects that a turn needs.
pub(crate) async fn observe(turn: &Turn<'_>) -> Result<Gated, ClusterError> {
    // The terminator plans no pods and no prices.
    if turn.lane == Lane::Terminator {
        return Ok(Gated::default());
    }
    read(&*turn.api, &turn.entry.settings).await
}

/// Reads the objects behind enabled gates. A gate whose CRD is not installed counts as off.
///
/// # Errors
///
/// Errors of the API server other than unknown kinds.
pub async fn read(api: &dyn Cluster, settings: &Settings) -> Result<Gated, ClusterError> {
    let mut gated = Gated::default();
    if is_on(NODE_OVERLAY, settings) {
        gated.overlays = served(api.node_overlays(), &mut gated.warnings).await?;
    }
    if is_on(CAPACITY_BUFFER, settings) {
        let mut buffers = served(api.capacity_buffers(), &mut gated.warnings).await?;
        if buffers.len() > BUFFERS_MAX {
            gated.warnings.push(format!(
                "there are {} CapacityBuffers: only the first {BUFFERS_MAX} by name are used",
                buffers.len()
            ));
            buffers.sort_by(|a, b| name(a).cmp(&name(b)));
            buffers.truncate(BUFFERS_MAX);
        }
        let resolved = buffers.into_iter().map(|buffer| resolve(api, buffer));
        let resolved = stream::iter(resolved).buffered(CONCURRENT_READS);
        gated.buffers = resolved.try_collect().await?;
    }
    Ok(gated)
}

fn name(buffer: &api::CapacityBuffer) -> (&Option<String>, &String) {
    (&buffer.metadata.namespace, &buffer.metadata.name)
}

async fn served<T>(
    list: impl Future<Output = Result<Vec<T>, ClusterError>>,
    warnings: &mut Vec<String>,
) -> Result<Vec<T>, ClusterError> {
    match list.await {
        Err(error @ ClusterError::KindMissing { .. }) => {
            warnings.push(format!("{error}, although its feature gate is on"));
            Ok(Vec::new())
        }
        answer => answer,
    }
}

async fn resolve(api: &dyn Cluster, object: api::CapacityBuffer) -> Result<Buffer, ClusterError> {
    let (mut template, mut workload) = (None, None);
    match buffer_target(&object) {
        Ok(BufferTarget::PodTemplate(key)) => template = api.pod_template(&key).await?,
        Ok(BufferTarget::Workload(kind, key)) => workload = api.workload(kind, &key).await?,
        Err(_) => {}
    }
    let template_generation = template
        .as_ref()
        .and_then(|template| template.metadata.generation);
    let templates: Vec<_> = template.into_iter().collect();
    let workloads: Vec<_> = workload.into_iter().collect();
    let (shape, resolved) = capacity_buffer(object.clone(), &templates, &workloads);
    Ok(Buffer {
        object,
        shape,
        resolved,
        template_generation,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn overlay(name: &str, resource: &str, reason: Option<&str>) -> api::NodeOverlay {
        let condition = |reason| {
            serde_json::json!({
                "type": "ValidationSucceeded", "status": "False", "reason": reason, "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            })
        };
        let conditions: Vec<_> = reason.map(condition).into_iter().collect();
        let manifest = serde_json::json!({
            "metadata": {"name": name},
            "spec": {"requirements": [], "price": "1", "capacity": {resource: "1"}},
            "status": {"conditions": conditions},
        });
        serde_json::from_value(manifest).unwrap()
    }

    #[test]
    fn invalid_or_conflicting_overlays_price_no_previews() {
        let gated = Gated {
            overlays: vec![
                overlay("new", "example.com/a", None),
                overlay("once-wrong", "example.com/a", Some("RuntimeValidation")),
                overlay("wrong", "cpu", None),
                overlay("in-conflict", "example.com/a", Some("Conflict")),
            ],
            ..Gated::default()
        };
        let names = |overlays: Vec<NodeOverlay>| -> Vec<String> {
            overlays.into_iter().map(|overlay| overlay.name).collect()
        };
        assert_eq!(names(gated.for_previews()), ["new", "once-wrong"]);
        let (overlays, _) = gated.for_snapshot();
        assert_eq!(names(overlays), ["new", "once-wrong", "in-conflict"]);
    }
}
