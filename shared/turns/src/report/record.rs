use std::fmt::Display;

use jiff::Timestamp;
use model::{
    ClusterName, Lane, counted,
    ids::TurnId,
    journal::{self, Line, Subject},
    plan::Planned,
};
use plancheck::{Decision, Refused};
use ports::{
    CloudError, Metric,
    cluster::{Event, EventTarget, Traffic},
};
use serde::{Deserialize, Serialize};

use crate::{
    TurnError,
    context::{
        Turn,
        isolation::{AFTER_REFUSAL, ObjectFailures},
    },
    report::metrics::{self, AlarmCounts, INSUFFICIENT_CAPACITY},
};

/// Report of one turn: its journal record, and its log line.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// Version of the record's format: a reader knows records of its own version and of older ones.
    pub version: u32,
    pub cluster: ClusterName,
    pub lane: Lane,
    pub turn: TurnId,
    pub at: Timestamp,
    /// Time at which the relay sent the wake that the turn answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub woken_at: Option<Timestamp>,
    /// Ends of the turn's steps, oldest first; a turn that plans again repeats steps.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<StepEnd>,
    pub outcome: Outcome,
    /// The generation that was observed; `committed` is the one that was committed.
    pub generation: u64,
    pub committed: Option<u64>,
    pub pods: usize,
    pub nodes: usize,
    pub node_claims: usize,
    /// Source of the reads, and their cost.
    #[serde(default, skip_serializing_if = "Reads::is_free")]
    pub reads: Reads,
    /// Planned actions with their reasons, one line each.
    pub planned: Vec<Line>,
    /// Actions that would be done for NodePools in shadow mode.
    #[serde(default)]
    pub shadowed: Vec<Line>,
    /// Pods that are nominated to nodes that exist or are being launched.
    #[serde(default)]
    pub expected: Vec<Line>,
    /// Disruptions under way: proposals to be validated, the results of validation, and nodes that must stay after all.
    pub proposed: Vec<Line>,
    /// Disruptions that were committed.
    pub disrupted: Vec<Line>,
    /// NodePools whose budgets, or failures that nodes share, hold back all disruptions.
    pub held_back: Vec<Line>,
    /// Plans that wait for a person's approval.
    #[serde(default)]
    pub awaiting: Vec<Line>,
    /// Ids of the requests for approval.
    #[serde(skip)]
    pub(crate) approval_requests: Vec<String>,
    /// Caps that existing nodes exceed.
    #[serde(default)]
    pub over_caps: Vec<Line>,
    /// Decisions that the independent check took out of the plan.
    pub refused: Vec<Line>,
    /// Pods without a place, those with the same reasons together.
    pub unplaced: Vec<Line>,
    /// Pods without a place that a NodePool would serve, were its limits higher.
    pub limited: Vec<Line>,
    /// Number of pods left to the next turn, because they exceed the upper bound of one turn.
    pub postponed: usize,
    /// Number of nodes left to the next evaluation for disruption, because they exceed the upper bound of one evaluation.
    #[serde(default)]
    pub unconsidered: usize,
    pub launched: Vec<Line>,
    pub failed: Vec<Line>,
    /// Failures that did not end the turn.
    pub problems: Vec<String>,
    /// Warnings that did not impair the turn.
    #[serde(rename = "complaints", alias = "warnings")]
    pub warnings: Vec<String>,
    /// Pauses: owner, end and reason.
    #[serde(default)]
    pub paused: Vec<String>,
    /// Reason why a plan was not carried out.
    pub stopped: Option<String>,
    /// Time of the lane's next turn.
    pub due: Option<Timestamp>,
    /// The pods that a plan was made for; `None` if no pod waited.
    #[serde(skip)]
    pub(crate) waiting: Option<Waiting>,
    /// Name of the archived snapshot, if one was archived: `whittle replay` plans it again.
    #[serde(default)]
    pub snapshot: Option<String>,
    /// Failures of single objects; posted and recorded when the turn ends.
    #[serde(skip)]
    pub(crate) objects: ObjectFailures,
    /// Counts that the stack has alarms on.
    #[serde(skip)]
    pub(crate) alarm_counts: AlarmCounts,
    /// The turn's metrics, which its record leaves out.
    #[serde(skip)]
    pub metrics: Vec<Metric>,
}

/// The end of a step of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepEnd {
    pub step: Step,
    pub at: Timestamp,
}

/// A step of a turn that launches nodes (docs/ARCHITECTURE.md).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Step {
    /// The ledger and the cluster are read.
    Observed,
    /// The plan is made and checked.
    Planned,
    /// The plan is in the ledger.
    Committed,
    /// EC2 has answered every call.
    Launched,
}

/// Pods that waited when a plan was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Waiting {
    /// Number of pods that the plan left without a place.
    pub(crate) unplaced: usize,
    pub(crate) pending: planner::PendingPods,
}

/// Reads of a turn.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Reads {
    pub pods: PodsFrom,
    #[serde(flatten)]
    pub traffic: Traffic,
}

impl Reads {
    fn is_free(&self) -> bool {
        *self == Self::default()
    }
}

/// Source of the list of all pods, if that was read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum PodsFrom {
    /// Lists, or watches that continued from them, as [`Traffic`] shows.
    #[default]
    ApiServer,
    /// The version that the relay published.
    View(u64),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Outcome {
    Done,
    /// Another turn of the lane is under way, and another will follow it.
    Held,
    /// The cluster is not registered (any more), or not yet mirrored: nothing is done, and nothing is lost.
    Unregistered,
    /// Functions of another reach serve the cluster: nothing is done, and nothing is lost.
    Elsewhere(String),
    /// The account's budget of EC2 calls is spent; the lane's next turn is due when there may be some.
    Postponed(String),
    /// The error is recorded in the lane's row, and the turn is retried.
    Failed(String),
}

impl Turn<'_> {
    /// The report of a turn that has done nothing yet.
    pub(crate) fn report(&self) -> Report {
        let live = self.meta.pauses.iter();
        let live = live.filter(|pause| pause.is_live(self.now));
        Report {
            paused: live.map(ToString::to_string).collect(),
            ..Report::new(self.cluster, self.lane, self.id, self.now)
        }
    }
}

impl Report {
    pub(crate) const VERSION: u32 = 1;

    pub(crate) fn new(cluster: &ClusterName, lane: Lane, turn: &TurnId, at: Timestamp) -> Self {
        Self {
            version: Self::VERSION,
            cluster: cluster.clone(),
            lane,
            turn: turn.clone(),
            at,
            woken_at: None,
            steps: Vec::new(),
            outcome: Outcome::Done,
            generation: 0,
            committed: None,
            pods: 0,
            nodes: 0,
            node_claims: 0,
            reads: Reads::default(),
            planned: Vec::new(),
            shadowed: Vec::new(),
            expected: Vec::new(),
            proposed: Vec::new(),
            disrupted: Vec::new(),
            held_back: Vec::new(),
            awaiting: Vec::new(),
            approval_requests: Vec::new(),
            over_caps: Vec::new(),
            refused: Vec::new(),
            unplaced: Vec::new(),
            limited: Vec::new(),
            postponed: 0,
            unconsidered: 0,
            launched: Vec::new(),
            failed: Vec::new(),
            problems: Vec::new(),
            warnings: Vec::new(),
            paused: Vec::new(),
            stopped: None,
            due: None,
            waiting: None,
            snapshot: None,
            objects: ObjectFailures::default(),
            alarm_counts: AlarmCounts::default(),
            metrics: Vec::new(),
        }
    }

    pub(crate) fn end_step(&mut self, step: Step, at: Timestamp) {
        self.steps.push(StepEnd { step, at });
    }

    pub(crate) fn run_again_at(&mut self, at: Timestamp) {
        self.due = Some(self.due.map_or(at, |due| due.min(at)));
    }

    /// Outcome of a step that concerns one object, whose own failure ends nothing else.
    pub(crate) fn isolate<T, E: Into<TurnError>>(
        &mut self,
        about: &EventTarget,
        step: Result<T, E>,
    ) -> Result<Option<T>, TurnError> {
        self.objects.isolate(about, self.at, step)
    }

    /// [`Self::isolate`] for things without an object in the cluster.
    pub(crate) fn isolate_unseen<T, E: Into<TurnError>>(
        &mut self,
        about: impl Display,
        step: Result<T, E>,
    ) -> Result<Option<T>, TurnError> {
        self.objects.isolate_unseen(about, self.at, step)
    }

    /// Takes over the outcome of a step for one of several objects, and returns whether the next may be handled. An error of
    /// the whole API server or ledger meets all of them, so the rest is left to a later turn; AWS services answer
    /// calls about other objects independently.
    pub(crate) fn may_continue_after<T, E: Into<TurnError>>(
        &mut self,
        about: &EventTarget,
        step: Result<T, E>,
    ) -> bool {
        let isolated = self.isolate(about, step).map(drop);
        self.may_continue(about, isolated)
    }

    /// [`Self::may_continue_after`] for things without an object that an event could be about.
    pub(crate) fn may_continue_after_unseen<T, E: Into<TurnError>>(
        &mut self,
        about: &str,
        step: Result<T, E>,
    ) -> bool {
        let isolated = self.isolate_unseen(about, step).map(drop);
        self.may_continue(about, isolated)
    }

    fn may_continue(&mut self, about: impl Display, isolated: Result<(), TurnError>) -> bool {
        match isolated {
            Ok(()) => true,
            Err(TurnError::Cloud(error @ CloudError::Postponed { until, .. })) => {
                self.postpone(&format!("{about}: {error}"), until);
                true
            }
            Err(error) => {
                self.problems.push(format!("{about}: {error}"));
                self.run_again_at(self.at + AFTER_REFUSAL);
                matches!(error, TurnError::Cloud(_))
            }
        }
    }

    /// Takes over the failures of single objects, and returns the events about them.
    pub(crate) fn take_failures(&mut self) -> Vec<Event> {
        let failures = std::mem::take(&mut self.objects);
        self.problems.extend(failures.problems);
        if let Some(again) = failures.again {
            self.run_again_at(again);
        }
        failures.events
    }

    /// Records work that is postponed for lack of EC2 calls, and makes the lane due when there are some.
    pub(crate) fn postpone(&mut self, what: &str, until: Timestamp) {
        self.stopped = Some(what.to_owned());
        self.alarm_counts.throttled += 1;
        self.run_again_at(until);
    }

    /// Records instances for whose termination EC2 gave no answer.
    pub(crate) fn take_unanswered(
        &mut self,
        unanswered: Option<(usize, CloudError)>,
        again: Timestamp,
    ) {
        match unanswered {
            None => {}
            Some((_, error @ CloudError::Postponed { until, .. })) => {
                self.postpone(&error.to_string(), until);
            }
            Some((instances, error)) => {
                let instances = counted(instances, "instance");
                self.problems
                    .push(format!("terminating {instances}: {error}"));
                self.run_again_at(again);
            }
        }
    }

    /// Whether the report is recorded in the journal: it has a decision, a refusal or a failure.
    pub(crate) fn is_notable(&self) -> bool {
        !(self.planned.is_empty()
            && self.shadowed.is_empty()
            && self.expected.is_empty()
            && self.proposed.is_empty()
            && self.awaiting.is_empty()
            && self.over_caps.is_empty()
            && self.refused.is_empty()
            && self.unplaced.is_empty()
            && self.postponed == 0
            && self.launched.is_empty()
            && self.failed.is_empty()
            && self.problems.is_empty())
            || matches!(self.outcome, Outcome::Failed(_) | Outcome::Postponed(_))
    }

    /// Records planned actions with their reasons.
    pub(crate) fn plan(&mut self, actions: &[Planned]) {
        self.planned.extend(actions.iter().map(Line::from));
    }

    /// Removes the record of an action that its object refused: it is reported as a problem instead.
    pub(crate) fn unplan(&mut self, refused: &Planned) {
        let line = Line::from(refused);
        if let Some(at) = self.planned.iter().rposition(|planned| *planned == line) {
            self.planned.remove(at);
        }
    }

    /// Records decisions that the independent check took out.
    pub(crate) fn refuse(&mut self, refused: &[Refused]) {
        for refused in refused {
            let about = match &refused.decision {
                Decision::Action(planned) => journal::subjects(&planned.action),
                Decision::Nomination(nomination) => vec![
                    Subject::Pod(nomination.pod.key.clone()),
                    Subject::from(&nomination.node),
                ],
            };
            let violations = refused.violations.iter();
            let lines = violations.map(|violation| Line::new(violation.as_str(), about.clone()));
            self.refused.extend(lines);
        }
    }

    pub(crate) fn take_outcome(&mut self, outcome: &executor::ExecutionOutcome) {
        let events = outcome.events.iter();
        let lacking = events.filter(|event| event.reason == INSUFFICIENT_CAPACITY);
        self.alarm_counts.insufficient_capacity +=
            u64::try_from(lacking.count()).unwrap_or(u64::MAX);
        self.metrics
            .extend(metrics::of_launching(self.lane, outcome));
        self.launched
            .extend(outcome.launched.iter().map(|(claim, instance)| {
                let about = Subject::NodeClaim(claim.clone());
                Line::new(format!("{claim} is {instance}"), [about])
            }));
        self.failed.extend(outcome.failed.iter().map(|failed| {
            let claim = Subject::NodeClaim(failed.claim.clone());
            let pods = failed.pods.iter().map(|pod| Subject::Pod(pod.key.clone()));
            let about = [claim].into_iter().chain(pods);
            Line::new(format!("{}: {}", failed.claim, failed.why), about)
        }));
        self.problems.extend(outcome.problems.iter().cloned());
        if let Some(stop) = &outcome.stopped {
            self.stopped = Some(stop.to_string());
        }
        if let Some(postponed) = &outcome.postponed {
            self.postpone(&postponed.to_string(), postponed.until);
        }
    }

    /// Lines about decisions and their outcomes.
    pub fn lines(&self) -> impl Iterator<Item = &Line> {
        [
            &self.planned,
            &self.shadowed,
            &self.expected,
            &self.proposed,
            &self.disrupted,
            &self.held_back,
            &self.awaiting,
            &self.over_caps,
            &self.refused,
            &self.unplaced,
            &self.launched,
            &self.failed,
        ]
        .into_iter()
        .flatten()
    }

    /// Logs the turn as one wide line.
    pub(crate) fn log(&self) {
        let outcome = match &self.outcome {
            Outcome::Done => "done",
            Outcome::Held => "held",
            Outcome::Unregistered => "cluster is not registered",
            Outcome::Elsewhere(_) => "cluster is reached from another network",
            Outcome::Postponed(_) => "postponed",
            Outcome::Failed(_) => "failed",
        };
        let error = match &self.outcome {
            Outcome::Failed(error) | Outcome::Postponed(error) | Outcome::Elsewhere(error) => error,
            Outcome::Done | Outcome::Held | Outcome::Unregistered => "",
        };
        tracing::info!(
            cluster = %self.cluster,
            lane = %self.lane,
            turn = %self.turn,
            outcome,
            error,
            generation = self.generation,
            committed = self.committed,
            pods = self.pods,
            nodes = self.nodes,
            node_claims = self.node_claims,
            pods_from = ?self.reads.pods,
            requests = self.reads.traffic.requests,
            bytes = self.reads.traffic.bytes,
            listed = self.reads.traffic.listed,
            followed = self.reads.traffic.followed,
            planned = self.planned.len(),
            refused = self.refused.len(),
            unplaced = self.unplaced.len(),
            postponed = self.postponed,
            unconsidered = self.unconsidered,
            launched = self.launched.len(),
            failed = self.failed.len(),
            problems = self.problems.join("; "),
            warnings = self.warnings.join("; "),
            paused = self.paused.join("; "),
            stopped = self.stopped.as_deref().unwrap_or_default(),
            "turn ended"
        );
    }
}
