//! Reports of an interruption: to the journal, the metrics, and destinations outside the cluster.

use model::{
    Lane, NotificationClass,
    journal::{Line, Subject},
};
use ports::{Cluster, Metric};

use super::{ClusterDelivery, InterruptionOutcome, InterruptionReport, LocatedFact, act::Ending};
use crate::{
    Entry, Report,
    report::{
        journal, metrics,
        notifications::{self, NotificationDraft},
        status,
    },
};

impl ClusterDelivery<'_> {
    /// Records decisions about nodes in the journal, so that people can look them up.
    pub(super) async fn record_in_journal(&self, endings: &[Ending<'_>]) {
        let now = self.world.clock.now();
        let mut report = Report::new(self.cluster, Lane::Interruption, self.turn, now);
        let lines = endings.iter().map(|ending| {
            let claim = ending.claim.iter();
            let about = claim.flat_map(|claim| {
                let node = claim.status.node_name.clone().map(Subject::Node);
                [Subject::NodeClaim(claim.name.clone())]
                    .into_iter()
                    .chain(node)
            });
            let action = ending.action.as_str();
            Line::new(format!("{}: {action}", ending.fact.announcement()), about)
        });
        report.planned = lines.collect();
        journal::record_report(self.world, &report).await;
    }

    pub(super) fn measure(
        &self,
        located: &[LocatedFact<'_>],
        outcomes: &[InterruptionOutcome],
        endings: &[Ending<'_>],
    ) -> Vec<Metric> {
        let now = self.world.clock.now();
        let received = located.iter().zip(outcomes).flat_map(|(located, outcome)| {
            metrics::of_interruption(located.fact, outcome.as_ref().ok(), now)
        });
        let ended = endings.iter().filter_map(|ending| {
            let claim = ending.claim.as_ref()?;
            let ends = claim.deleted_at.is_none() && ending.ends();
            ends.then(|| metrics::of_disruption(claim, 0, ending.fact.kind.as_str(), None))
        });
        let all: Vec<Metric> = received.chain(ended.flatten()).collect();
        metrics::publish(self.world, self.cluster, all.clone());
        all
    }

    /// Publishes the counters to the cluster's relay.
    pub(super) async fn publish_to_relay(&self, api: &dyn Cluster, measured: &[Metric]) {
        if let Some(warning) = status::publish(api, Lane::Interruption, measured, None).await {
            tracing::warn!(cluster = %self.cluster, error = warning, "metrics of the relay not published");
        }
    }

    /// Sends notifications to the cluster's destinations.
    pub(super) async fn notify(
        &self,
        located: &[LocatedFact<'_>],
        outcomes: &[InterruptionOutcome],
    ) {
        let entry = Entry::read(&self.meta.registry).ok();
        let destinations = entry.map(|entry| entry.destinations).unwrap_or_default();
        let recorded = located.iter().zip(outcomes);
        let recorded = recorded
            .filter(|(_, outcome)| matches!(outcome, Ok(InterruptionReport::Recorded { .. })));
        let details: Vec<String> = recorded
            .map(|(located, _)| located.fact.announcement())
            .collect();
        let first = located.first().map(|located| &located.fact.instance);
        let (Some(first), false, false) = (first, destinations.is_empty(), details.is_empty())
        else {
            return;
        };
        let class = NotificationClass::Interruption;
        let draft = NotificationDraft {
            id: format!("{}/{}/{first}", class.as_str(), self.turn),
            class,
            title: match details.len() {
                1 => "an interruption of 1 node is announced".to_owned(),
                many => format!("interruptions of {many} nodes are announced"),
            },
            details,
        };
        let queued = notifications::enqueue(self.world, self.cluster, &destinations, vec![draft]);
        if let Err(error) = queued.await {
            tracing::warn!(cluster = %self.cluster, %error, "notification not queued; it is lost");
        }
    }
}
