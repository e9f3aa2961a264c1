//! Periodic observation of a cluster. Failures are reported on the page, and observation continues.

use std::{sync::Arc, time::Duration};

use anyhow::{Context, Result};
use jiff::Timestamp;
use model::{Plan, Snapshot, snapshot::Settings};

use super::{
    decisions::observed,
    document::{self, Decision},
    events,
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
        let mut notes = self.live.observe(&mut snapshot).await?;
        let mut decisions = Vec::new();
        if self.reads_events {
            let (events, warnings) = events::read(&self.client).await?;
            decisions = observed::decisions(&snapshot, &events);
            notes.extend(warnings);
        }
        // Planning may take a second with thousands of pending pods.
        let observation =
            tokio::task::spawn_blocking(move || observe_snapshot(&snapshot, notes)).await;
        Ok((observation.context("planning ended early")?, decisions))
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
