//! Periodic observation of a cluster. Failures are reported on the page, and observation continues.

use std::{sync::Arc, time::Duration};

use anyhow::{Context, Result};
use jiff::Timestamp;
use model::{Plan, Snapshot, snapshot::Settings};
use serde_json::Value;

use super::{
    decisions::observed,
    document::{self, Decision},
    hub::{Hub, Observation},
};
use crate::{cluster, live::Live};

pub(super) struct Watch {
    pub(super) live: Live,
    pub(super) client: k8s::Client,
    pub(super) settings: Settings,
    pub(super) clock: Box<dyn Fn() -> Timestamp + Send + Sync>,
    /// Interval between observations.
    pub(super) pause: Duration,
    /// Whether decisions are read from NodeClaims and events of the cluster.
    pub(super) reads_events: bool,
}

impl Watch {
    pub(super) async fn run(self, hub: Arc<Hub>) {
        loop {
            match Box::pin(self.observe_cluster()).await {
                Ok((observation, decisions)) => {
                    hub.show(observation);
                    hub.decided(decisions);
                }
                Err(error) => hub.report_problems(vec![format!("{error:#}; it is tried again")]),
            }
            tokio::time::sleep(self.pause).await;
        }
    }

    async fn observe_cluster(&self) -> Result<(Observation, Vec<Decision>)> {
        let at = (self.clock)();
        let mut snapshot = cluster::empty(at, self.settings.clone());
        let notes = self.live.observe(&mut snapshot).await?;
        let decisions = match self.reads_events {
            true => observed::decisions(&snapshot, &self.events().await?),
            false => Vec::new(),
        };
        // Planning may take a second with thousands of pending pods.
        let observation =
            tokio::task::spawn_blocking(move || observe_snapshot(&snapshot, notes)).await;
        Ok((observation.context("planning ended early")?, decisions))
    }

    /// Events of Whittle, or of a Karpenter beside it.
    async fn events(&self) -> Result<Vec<Value>> {
        let mut collected = Vec::new();
        for component in ["whittle", "karpenter"] {
            let path = format!("/api/v1/events?limit=500&fieldSelector=source%3D{component}");
            let request = http::Request::get(&path).body(Vec::new())?;
            let answer: Result<Value, _> = self.client.request(request).await;
            let answer = answer.with_context(|| format!("cannot read {path}"))?;
            let events = answer.get("items").and_then(Value::as_array);
            collected.extend(events.into_iter().flatten().cloned());
        }
        Ok(collected)
    }
}

/// The observed state, and the plan for pending pods.
pub(super) fn observe_snapshot(snapshot: &Snapshot, notes: Vec<String>) -> Observation {
    let plan = match snapshot.pods.iter().any(document::is_pending) {
        true => planner::provision(snapshot, planner::Share::WHOLE),
        false => Plan::default(),
    };
    Observation {
        at: snapshot.now,
        pools: document::pools(snapshot, &plan),
        nodes: document::nodes(snapshot),
        pending: document::pending(snapshot, &plan),
        notes,
    }
}
