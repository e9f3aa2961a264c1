//! Reports of an interruption: to the journal, the metrics, and destinations outside the cluster.

use model::{
    Lane, NotificationClass,
    journal::{Line, Subject},
};
use ports::{Cluster, Metric};

use super::{Found, InterruptionOutcome, InterruptionReport, Work, act::Ending};
use crate::{
    Entry, Report, journal, metrics,
    notifications::{self, News},
    status,
};

impl Work<'_> {
    /// Records in the journal what was decided about nodes, so that people can look it up.
    pub(super) async fn remember(&self, endings: &[Ending<'_>]) {
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
            let course = ending.course.as_str();
            Line::new(format!("{}: {course}", ending.fact.announcement()), about)
        });
        report.planned = lines.collect();
        journal::note(self.world, &report).await;
    }

    pub(super) fn measure(
        &self,
        found: &[Found<'_>],
        outcomes: &[InterruptionOutcome],
        endings: &[Ending<'_>],
    ) -> Vec<Metric> {
        let now = self.world.clock.now();
        let received = found.iter().zip(outcomes).flat_map(|(found, outcome)| {
            metrics::of_interruption(found.fact, outcome.as_ref().ok(), now)
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
    pub(super) async fn show(&self, api: &dyn Cluster, measured: &[Metric]) {
        if let Some(complaint) = status::tell(api, Lane::Interruption, measured, None).await {
            tracing::warn!(cluster = %self.cluster, "{complaint}");
        }
    }

    /// Sends notifications to the cluster's destinations.
    pub(super) async fn notify(&self, found: &[Found<'_>], outcomes: &[InterruptionOutcome]) {
        let entry = Entry::read(&self.meta.registry).ok();
        let destinations = entry.map(|entry| entry.destinations).unwrap_or_default();
        let recorded = found.iter().zip(outcomes);
        let recorded = recorded
            .filter(|(_, outcome)| matches!(outcome, Ok(InterruptionReport::Recorded { .. })));
        let details: Vec<String> = recorded
            .map(|(found, _)| found.fact.announcement())
            .collect();
        let first = found.first().map(|found| &found.fact.instance);
        let (Some(first), false, false) = (first, destinations.is_empty(), details.is_empty())
        else {
            return;
        };
        let class = NotificationClass::Interruption;
        let news = News {
            id: format!("{}/{}/{first}", class.as_str(), self.turn),
            class,
            title: match details.len() {
                1 => "the end of 1 node is announced".to_owned(),
                many => format!("the end of {many} nodes is announced"),
            },
            details,
        };
        let put = notifications::put(self.world, self.cluster, &destinations, vec![news]);
        if let Err(error) = put.await {
            tracing::warn!(cluster = %self.cluster, %error, "no notification");
        }
    }
}
