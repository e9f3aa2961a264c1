//! Interruptions that AWS announces, for any instance of the account: the facts go to the ledger before anything else happens,
//! then their nodes are tainted, their NodeClaims deleted, and the lanes woken that reschedule pods and drain nodes
//! (docs/design.md#functions, docs/protocol.md#c3, docs/protocol.md#l4). None of this depends on the relay.

mod act;
pub(crate) mod capacity_blocks;
mod delivery;
mod owners;
mod policy;
mod reports;
mod unmanaged;

use std::{collections::BTreeMap, sync::Arc};

use api::names::tag;
use executor::Executor;
use futures::future::join_all;
use jiff::{SignedDuration, Timestamp};
use model::{
    ClusterName, Interruption, Lane, Wake,
    ids::TurnId,
    interruption::InterruptionAction,
    launch::Instance,
    ledger::{Meta, Mode, Notice},
};
use ports::{CloudError, Cluster, ledger::Unfenced};

pub use self::delivery::{Delivery, Message, deliver};
pub(crate) use self::{act::forced_termination_update, unmanaged::node_of_instance};
use self::{
    act::{Ending, claims},
    owners::FactOwner,
};
use crate::{
    InterruptionReport, TurnError, World,
    context::{identity::EntriesByCluster, time_limit::within},
    settings::{entry, reach},
};

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
    let mut clusters: BTreeMap<(ClusterName, bool), Vec<LocatedFact<'_>>> = BTreeMap::new();
    for (at, (fact, owner)) in facts.iter().zip(owners).enumerate() {
        outcomes.push(match owner {
            Err(error) => Some(Err(error)),
            Ok(FactOwner::NotOurs) => Some(Ok(InterruptionReport::NotOurs)),
            Ok(FactOwner::Ours { cluster, instance }) => {
                let located = LocatedFact { at, fact, instance };
                clusters.entry((cluster, false)).or_default().push(located);
                None
            }
            Ok(FactOwner::Unmanaged { cluster, instance }) => {
                let instance = Some(instance);
                let located = LocatedFact { at, fact, instance };
                clusters.entry((cluster, true)).or_default().push(located);
                None
            }
        });
    }
    let each = clusters
        .iter()
        .map(|((cluster, unmanaged), located)| async move {
            let handled = handle_cluster(world, cluster, *unmanaged, located, turn);
            let handled = within(world, CLUSTER_TIME_MAX, handled).await;
            handled.unwrap_or_else(|late| vec![Err(Arc::new(late)); located.len()])
        });
    for (located, answers) in clusters.values().zip(join_all(each).await) {
        for (located, answer) in located.iter().zip(answers) {
            if let Some(outcome) = outcomes.get_mut(located.at) {
                *outcome = Some(answer);
            }
        }
    }
    outcomes
        .into_iter()
        .map(|outcome| outcome.unwrap_or_else(|| Err(Arc::new(missing_outcome()))))
        .collect()
}

/// Error for a fact without an outcome: it may not be recorded, so its message must stay.
fn missing_outcome() -> TurnError {
    TurnError::Cloud(CloudError::Unknown {
        action: "handling an interruption".to_owned(),
        message: "no outcome was returned".to_owned(),
    })
}

/// A fact whose cluster is known.
struct LocatedFact<'a> {
    /// Index in the delivery.
    at: usize,
    fact: &'a Interruption,
    /// The instance as EC2 describes it, if EC2 was queried.
    instance: Option<Box<Instance>>,
}

async fn handle_cluster(
    world: &World,
    cluster: &ClusterName,
    unmanaged: bool,
    located: &[LocatedFact<'_>],
    turn: &TurnId,
) -> Vec<InterruptionOutcome> {
    let all = |outcome: InterruptionOutcome| vec![outcome; located.len()];
    let (cluster, meta) = match served_entry(world, cluster).await {
        Ok(Some(entry)) => entry,
        Ok(None) => {
            let cluster = cluster.clone();
            tracing::warn!(%cluster, "interruption ignored; the instance's cluster is not registered");
            return all(Ok(InterruptionReport::Unregistered { cluster }));
        }
        Err(error) => return all(Err(Arc::new(error))),
    };
    let cluster = &cluster;
    if meta.mode == Mode::Shadow {
        let cluster = cluster.clone();
        return all(Ok(InterruptionReport::Shadow { cluster }));
    }
    let delivery = ClusterDelivery {
        world,
        cluster,
        meta: &meta,
        turn,
    };
    if reach::of_cluster(&meta) != world.reach {
        let cluster = cluster.clone();
        // Nodes of groups are handled only by the functions of their cluster's reach: no recorded notice would oblige another
        // lane.
        let recorded = match unmanaged {
            true => Ok(()),
            false => delivery.record(&urgent(located), false).await,
        };
        return all(match recorded {
            Ok(()) => Ok(InterruptionReport::Elsewhere { cluster }),
            Err(error) => Err(Arc::new(error)),
        });
    }
    let outcomes = match unmanaged {
        true => delivery.handle_unmanaged(located).await,
        false => delivery.handle(located).await,
    };
    delivery.notify(located, &outcomes).await;
    outcomes
}

/// The entry under which a cluster is served: its own, or one under another name that it got after its instances were launched.
async fn served_entry(
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
    let summaries = ledger.cluster_summaries(&clusters).await?;
    let Some(name) = EntriesByCluster::of(&summaries).first(uid) else {
        return Ok(None);
    };
    let meta = ledger.meta(&name).await?;
    Ok(meta.map(|meta| (name, meta)))
}

/// One cluster's part of a delivery.
struct ClusterDelivery<'a> {
    world: &'a World,
    cluster: &'a ClusterName,
    meta: &'a Meta,
    turn: &'a TurnId,
}

impl ClusterDelivery<'_> {
    async fn handle(&self, located: &[LocatedFact<'_>]) -> Vec<InterruptionOutcome> {
        // Urgent facts are recorded before the API server is called.
        if let Err(error) = self.record(&urgent(located), false).await {
            return vec![Err(Arc::new(error)); located.len()];
        }
        let api = self.connect().await;
        let (pools, claims) = claims(self, api.as_deref(), located).await;
        let decided = policy::decide_all(&pools, located, &claims);
        let late: Vec<(&Interruption, InterruptionAction)> = located
            .iter()
            .zip(&decided)
            .filter(|(located, _)| !is_urgent(located.fact))
            .filter_map(|(located, decision)| {
                let action = decision.as_ref().ok()?.required_action()?;
                Some((located.fact, action))
            })
            .collect();
        let recorded = self.record(&late, false).await.map_err(Arc::new);
        let is_late =
            |located: &LocatedFact<'_>| late.iter().any(|(fact, _)| *fact == located.fact);
        let outcomes = located.iter().zip(&decided).map(|(located, decision)| {
            let cluster = self.cluster.clone();
            match (decision, &recorded) {
                (Err(error), _) => Err(Arc::clone(error)),
                (Ok(policy::Decision::Obey(_)), Err(error)) if is_late(located) => {
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
        let endings: Vec<Ending<'_>> = located
            .iter()
            .zip(claims)
            .zip(decided)
            .zip(&outcomes)
            .filter(|(_, outcome)| outcome.is_ok())
            .filter_map(|(((located, claim), decision), _)| {
                Some(Ending {
                    fact: located.fact,
                    instance: located.instance.as_deref(),
                    claim: claim.ok().flatten(),
                    action: decision.ok()?.required_action()?,
                })
            })
            .collect();
        let measured = self.measure(located, &outcomes, &endings);
        // From here on the ledger obliges the terminator; the rest only makes it faster.
        let expected = |outcome: &InterruptionOutcome| {
            matches!(outcome, Ok(InterruptionReport::Expected { .. }))
        };
        if !endings.is_empty() {
            self.fast_path(api.as_deref(), &endings).await;
            self.record_in_journal(&endings).await;
        } else if outcomes.iter().any(expected) {
            // The wake lets the terminator notice the end sooner: finalizers wait for it.
            self.wake(&[Lane::Terminator], "instance-ends").await;
        }
        if let Ok(api) = &api {
            self.publish_to_relay(&**api, &measured).await;
        }
        outcomes
    }

    /// Records facts, the generation and the due times of lanes that must act on them in one transaction (docs/protocol.md#c3).
    async fn record(
        &self,
        facts: &[(&Interruption, InterruptionAction)],
        unmanaged: bool,
    ) -> Result<(), TurnError> {
        let now = self.world.clock.now();
        for chunk in facts.chunks(Unfenced::ACTS_MAX) {
            let notices = chunk.iter().map(|(fact, action)| Notice {
                instance: fact.instance.clone(),
                kind: fact.kind.as_str().to_owned(),
                deadline: fact.deadline,
                at: Some(now),
                action: *action,
                unmanaged,
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
            deadline: now.saturating_add(CLUSTER_TIME_MAX).unwrap_or(now),
            launch_timeout: SignedDuration::ZERO,
        };
        let stop = executor.may_act().await?;
        if let Some(stop) = &stop {
            tracing::warn!(cluster = %self.cluster, %stop, "interruptions recorded, but nodes not drained");
        }
        Ok(stop.is_none())
    }

    async fn wake(&self, lanes: &[Lane], reason: &str) {
        for lane in lanes {
            let wake = Wake::new(self.cluster.clone(), *lane, reason);
            if let Err(error) = self.world.wakes.send(&wake, SignedDuration::ZERO).await {
                tracing::warn!(cluster = %self.cluster, %lane, %error, "wake not sent");
            }
        }
    }
}

/// Upper bound on one cluster's part of a delivery, half of the function's time: only the messages of a cluster that answers
/// slowly are redelivered.
const CLUSTER_TIME_MAX: SignedDuration = SignedDuration::from_secs(30);

fn urgent<'a>(located: &[LocatedFact<'a>]) -> Vec<(&'a Interruption, InterruptionAction)> {
    let urgent = located.iter().filter(|located| is_urgent(located.fact));
    urgent
        .filter_map(|located| Some((located.fact, located.fact.kind.action()?)))
        .collect()
}

/// Whether a fact is recorded before the cluster is read: facts that are redelivered, or that may be known already, can wait for the
/// API server.
fn is_urgent(fact: &Interruption) -> bool {
    let kind = fact.kind;
    kind.action().is_some() && !kind.is_state_change() && !kind.is_polled()
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
        tracing::info!(%instance, kind, ?outcome, "impaired instance handled");
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
    const FRESH_FOR: SignedDuration = SignedDuration::from_mins(10);
    at.is_none_or(|at| now.duration_since(at) < FRESH_FOR)
}
