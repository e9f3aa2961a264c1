//! Interruptions that AWS announces, for any instance of the account: the facts go to the ledger before anything else happens,
//! then their nodes are tainted, their NodeClaims deleted, and the lanes woken that reschedule pods and drain nodes
//! (docs/design.md#functions, docs/protocol.md#c3, docs/protocol.md#l4). None of this depends on the relay.

mod act;
mod delivery;
mod foreign;
mod owners;
mod policy;
mod told;

use std::{collections::BTreeMap, sync::Arc};

use api::names::tag;
use executor::Executor;
use futures::future::join_all;
use jiff::{SignedDuration, Timestamp};
use model::{
    ClusterName, Interruption, Lane, Wake,
    ids::TurnId,
    interruption::Course,
    launch::Instance,
    ledger::{Meta, Mode, Notice},
};
use ports::{CloudError, Cluster, ledger::Unfenced};
use serde::Serialize;

pub use self::delivery::{Delivery, Message, deliver};
pub(crate) use self::{
    act::forced,
    foreign::node_of_instance,
    policy::{complaints, course, refute},
};
use self::{
    act::{Ending, claims},
    owners::Whose,
};
use crate::{TurnError, World, entry, identity::Identified, reach, time_limit::within};

/// Outcome of one interruption, for the log line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum InterruptionReport {
    /// No registered cluster has this instance.
    NotOurs,
    /// The fact is recorded, and its NodeClaim is being deleted or will be by the terminator.
    Recorded { cluster: ClusterName },
    /// No news: its NodeClaim is gone or being deleted already.
    Expected { cluster: ClusterName },
    /// The instance's NodePool asks for no reaction to this.
    Tolerated { cluster: ClusterName },
    /// The event cannot happen to this instance, as its NodeClaim shows, such as a spot notice for an instance that is not
    /// spot. Nothing was done.
    Refuted { cluster: ClusterName },
    /// The instance's cluster is in shadow mode: nothing was done.
    Shadow { cluster: ClusterName },
    /// The functions of its cluster's reach receive the event too, and act on it. Recorded here where that cannot wait.
    Elsewhere { cluster: ClusterName },
    /// The instance's cluster is not registered any more.
    Unregistered { cluster: ClusterName },
}

impl InterruptionReport {
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::NotOurs => "not-ours",
            Self::Recorded { .. } => "recorded",
            Self::Expected { .. } => "expected",
            Self::Tolerated { .. } => "tolerated",
            Self::Refuted { .. } => "refuted",
            Self::Shadow { .. } => "shadow",
            Self::Elsewhere { .. } => "elsewhere",
            Self::Unregistered { .. } => "unregistered",
        }
    }
}

/// Outcome of one interruption. An error means that the fact may not be recorded: its message must stay in the queue.
pub type InterruptionOutcome = Result<InterruptionReport, Arc<TurnError>>;

/// Handles interruptions of any clusters together and returns their outcomes in order. A failure for one cluster or instance
/// does not delay the others.
pub async fn interrupt(
    world: &World,
    facts: &[Interruption],
    turn: &TurnId,
) -> Vec<InterruptionOutcome> {
    let owners = owners::find(world, facts).await;
    let mut outcomes: Vec<Option<InterruptionOutcome>> = Vec::new();
    // Grouped by cluster and by whether a NodePool made the node; unmanaged nodes are handled separately.
    let mut clusters: BTreeMap<(ClusterName, bool), Vec<Found<'_>>> = BTreeMap::new();
    for (at, (fact, whose)) in facts.iter().zip(owners).enumerate() {
        outcomes.push(match whose {
            Err(error) => Some(Err(error)),
            Ok(Whose::Stranger) => Some(Ok(InterruptionReport::NotOurs)),
            Ok(Whose::Ours { cluster, instance }) => {
                let found = Found { at, fact, instance };
                clusters.entry((cluster, false)).or_default().push(found);
                None
            }
            Ok(Whose::Foreign { cluster, instance }) => {
                let instance = Some(instance);
                let found = Found { at, fact, instance };
                clusters.entry((cluster, true)).or_default().push(found);
                None
            }
        });
    }
    let each = clusters
        .iter()
        .map(|((cluster, foreign), found)| async move {
            let handled = one_cluster(world, cluster, *foreign, found, turn);
            let handled = within(world, ACTING, handled).await;
            handled.unwrap_or_else(|late| vec![Err(Arc::new(late)); found.len()])
        });
    for (found, answers) in clusters.values().zip(join_all(each).await) {
        for (found, answer) in found.iter().zip(answers) {
            if let Some(outcome) = outcomes.get_mut(found.at) {
                *outcome = Some(answer);
            }
        }
    }
    outcomes
        .into_iter()
        .map(|outcome| outcome.unwrap_or_else(|| Err(Arc::new(unanswered()))))
        .collect()
}

/// Error for a fact without an outcome: it may not be recorded, so its message must stay.
fn unanswered() -> TurnError {
    TurnError::Cloud(CloudError::Unknown {
        action: "handling an interruption".to_owned(),
        message: "nothing says what became of it".to_owned(),
    })
}

/// A fact whose cluster is known.
struct Found<'a> {
    /// Index in the delivery.
    at: usize,
    fact: &'a Interruption,
    /// The instance as EC2 describes it, where EC2 was queried.
    instance: Option<Box<Instance>>,
}

async fn one_cluster(
    world: &World,
    cluster: &ClusterName,
    foreign: bool,
    found: &[Found<'_>],
    turn: &TurnId,
) -> Vec<InterruptionOutcome> {
    let all = |outcome: InterruptionOutcome| vec![outcome; found.len()];
    let (cluster, meta) = match served(world, cluster).await {
        Ok(Some(served)) => served,
        Ok(None) => {
            let cluster = cluster.clone();
            tracing::warn!(%cluster, "an instance of a cluster that is not registered is interrupted");
            return all(Ok(InterruptionReport::Unregistered { cluster }));
        }
        Err(error) => return all(Err(Arc::new(error))),
    };
    let cluster = &cluster;
    if meta.mode == Mode::Shadow {
        let cluster = cluster.clone();
        return all(Ok(InterruptionReport::Shadow { cluster }));
    }
    let work = Work {
        world,
        cluster,
        meta: &meta,
        turn,
    };
    if reach::of(&meta) != world.reach {
        let cluster = cluster.clone();
        // Nodes of groups are handled only by the functions of their cluster's reach: no recorded notice would oblige another
        // lane.
        let recorded = match foreign {
            true => Ok(()),
            false => work.record(&urgent(found), false).await,
        };
        return all(match recorded {
            Ok(()) => Ok(InterruptionReport::Elsewhere { cluster }),
            Err(error) => Err(Arc::new(error)),
        });
    }
    let outcomes = match foreign {
        true => work.on_foreign(found).await,
        false => work.on(found).await,
    };
    work.notify(found, &outcomes).await;
    outcomes
}

/// The entry under which a cluster is served: its own, or one under another name that it got after its instances were launched.
async fn served(
    world: &World,
    cluster: &ClusterName,
) -> Result<Option<(ClusterName, Meta)>, TurnError> {
    let ledger = &world.ledger;
    let meta = match ledger.meta(cluster).await? {
        Some(meta) if entry::is_unregistered(&meta) => meta,
        meta => return Ok(meta.map(|meta| (cluster.clone(), meta))),
    };
    let Some(uid) = &meta.uid else {
        return Ok(None);
    };
    let clusters = ledger.clusters().await?.into_iter().collect();
    let seen = ledger.glances(&clusters).await?;
    let Some(name) = Identified::of(&seen).first(uid) else {
        return Ok(None);
    };
    let meta = ledger.meta(&name).await?;
    Ok(meta.map(|meta| (name, meta)))
}

/// One cluster's part of a delivery.
struct Work<'a> {
    world: &'a World,
    cluster: &'a ClusterName,
    meta: &'a Meta,
    turn: &'a TurnId,
}

impl Work<'_> {
    async fn on(&self, found: &[Found<'_>]) -> Vec<InterruptionOutcome> {
        // Urgent facts are recorded before the API server is called.
        if let Err(error) = self.record(&urgent(found), false).await {
            return vec![Err(Arc::new(error)); found.len()];
        }
        let api = self.connect().await;
        let (pools, seen) = claims(self, api.as_deref(), found).await;
        let decided = policy::decide(&pools, found, &seen);
        let late: Vec<(&Interruption, Course)> = found
            .iter()
            .zip(&decided)
            .filter(|(found, _)| !is_urgent(found.fact))
            .filter_map(|(found, decision)| {
                let course = decision.as_ref().ok()?.obeyed()?;
                Some((found.fact, course))
            })
            .collect();
        let recorded = self.record(&late, false).await.map_err(Arc::new);
        let is_late = |found: &Found<'_>| late.iter().any(|(fact, _)| *fact == found.fact);
        let outcomes = found.iter().zip(&decided).map(|(found, decision)| {
            let cluster = self.cluster.clone();
            match (decision, &recorded) {
                (Err(error), _) => Err(Arc::clone(error)),
                (Ok(policy::Decision::Obey(_)), Err(error)) if is_late(found) => {
                    Err(Arc::clone(error))
                }
                (Ok(policy::Decision::Obey(_)), _) => Ok(InterruptionReport::Recorded { cluster }),
                (Ok(policy::Decision::Expected), _) => Ok(InterruptionReport::Expected { cluster }),
                (Ok(policy::Decision::Tolerate), _) => {
                    Ok(InterruptionReport::Tolerated { cluster })
                }
                (Ok(policy::Decision::Refute), _) => Ok(InterruptionReport::Refuted { cluster }),
            }
        });
        let outcomes: Vec<InterruptionOutcome> = outcomes.collect();
        let endings: Vec<Ending<'_>> = found
            .iter()
            .zip(seen)
            .zip(decided)
            .zip(&outcomes)
            .filter(|(_, outcome)| outcome.is_ok())
            .filter_map(|(((found, claim), decision), _)| {
                Some(Ending {
                    fact: found.fact,
                    instance: found.instance.as_deref(),
                    claim: claim.ok().flatten(),
                    course: decision.ok()?.obeyed()?,
                })
            })
            .collect();
        let measured = self.measure(found, &outcomes, &endings);
        // From here on the ledger obliges the terminator; the rest only makes it faster.
        let expected = |outcome: &InterruptionOutcome| {
            matches!(outcome, Ok(InterruptionReport::Expected { .. }))
        };
        if !endings.is_empty() {
            self.hasten(api.as_deref(), &endings).await;
            self.remember(&endings).await;
        } else if outcomes.iter().any(expected) {
            // The terminator sees the end sooner: finalizers wait for it.
            self.wake(&[Lane::Terminator], "instance-ends").await;
        }
        if let Ok(api) = &api {
            self.show(&**api, &measured).await;
        }
        outcomes
    }

    /// Records facts, the generation and the due times of lanes that must act on them in one transaction (docs/protocol.md#c3).
    async fn record(
        &self,
        facts: &[(&Interruption, Course)],
        foreign: bool,
    ) -> Result<(), TurnError> {
        let now = self.world.clock.now();
        for some in facts.chunks(Unfenced::TOGETHER) {
            let notices = some.iter().map(|(fact, course)| Notice {
                instance: fact.instance.clone(),
                kind: fact.kind.as_str().to_owned(),
                deadline: fact.deadline,
                at: Some(now),
                course: *course,
                foreign,
                hook: fact.hook.clone(),
                event: fact.event.clone(),
                reboots: fact.reboots,
                done: false,
            });
            let acts = Unfenced {
                turn: self.turn.clone(),
                commands: Vec::new(),
                notices: notices.collect(),
                due: vec![(Lane::Terminator, now), (Lane::Provisioner, now)],
            };
            self.world
                .ledger
                .record_unfenced(self.cluster, &acts)
                .await?;
        }
        Ok(())
    }

    async fn connect(&self) -> Result<Arc<dyn Cluster>, Arc<TurnError>> {
        let clusters = &self.world.clusters;
        clusters
            .connect(self.cluster, &self.meta.registry)
            .await
            .map_err(|error| Arc::new(error.into()))
    }

    /// Whether interruptions may be acted on, read afresh before acting (docs/protocol.md#b1, docs/protocol.md#c4).
    async fn may_act(&self, api: &dyn Cluster) -> Result<bool, TurnError> {
        let world = self.world;
        let now = world.clock.now();
        let executor = Executor {
            cluster: self.cluster,
            turn: self.turn,
            lane: Lane::Interruption,
            holder: &world.holder,
            uid: self.meta.uid.as_ref(),
            cloud: &*world.cloud,
            api,
            ledger: &*world.ledger,
            clock: &*world.clock,
            deadline: now.saturating_add(ACTING).unwrap_or(now),
            launch_timeout: SignedDuration::ZERO,
        };
        let stop = executor.may_act().await?;
        if let Some(stop) = &stop {
            tracing::warn!(cluster = %self.cluster, %stop, "interruptions are on record only");
        }
        Ok(stop.is_none())
    }

    async fn wake(&self, lanes: &[Lane], reason: &str) {
        for lane in lanes {
            let wake = Wake::new(self.cluster.clone(), *lane, reason);
            if let Err(error) = self.world.wakes.send(&wake, SignedDuration::ZERO).await {
                tracing::warn!(cluster = %self.cluster, %lane, %error, "left to the sweep");
            }
        }
    }
}

/// Upper bound on one cluster's part of a delivery, half of the function's time: only the messages of a cluster that answers
/// slowly are redelivered.
const ACTING: SignedDuration = SignedDuration::from_secs(30);

fn urgent<'a>(found: &[Found<'a>]) -> Vec<(&'a Interruption, Course)> {
    let urgent = found.iter().filter(|found| is_urgent(found.fact));
    urgent
        .filter_map(|found| Some((found.fact, found.fact.kind.course()?)))
        .collect()
}

/// Whether a fact is recorded before the cluster is read: facts that are redelivered, or that may be no news, can wait for the
/// API server.
fn is_urgent(fact: &Interruption) -> bool {
    let kind = fact.kind;
    kind.course().is_some() && !kind.is_state_change() && !kind.is_polled()
}

/// Reads impaired instances of all clusters from EC2 at once, and handles them like announcements.
pub(crate) async fn poll(
    world: &World,
    turn: &TurnId,
) -> Result<Vec<InterruptionOutcome>, TurnError> {
    let troubles = world.cloud.troubles(world.clock.now()).await?;
    if troubles.is_empty() {
        return Ok(Vec::new());
    }
    let outcomes = interrupt(world, &troubles, turn).await;
    for (fact, outcome) in troubles.iter().zip(&outcomes) {
        let (instance, kind) = (&fact.instance, fact.kind.as_str());
        tracing::info!(%instance, kind, ?outcome, "instance in trouble");
    }
    Ok(outcomes)
}

/// Name of the cluster an instance belongs to, by its tags.
fn cluster_of(instance: &Instance) -> Option<ClusterName> {
    let name = instance.tags.get(tag::EKS_CLUSTER)?;
    Some(ClusterName::from(name.as_str()))
}

/// Whether an event at `at` is recent enough to count for the present.
fn is_fresh(at: Option<Timestamp>, now: Timestamp) -> bool {
    const FRESH: SignedDuration = SignedDuration::from_mins(10);
    at.is_none_or(|at| now.duration_since(at) < FRESH)
}
