mod chains;
mod messages;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::atomic::{AtomicBool, Ordering},
};

use api::{
    conditions::types::REGISTERED,
    names::{finalizer, taint::UNREGISTERED},
};
use executor::Executor;
use futures::{StreamExt, stream};
use jiff::{SignedDuration, Timestamp};
use model::{Action, InstanceId, NodeClaimName, node::Node, plan::Planned};
use ports::{
    ClusterError, LedgerError, Metric,
    cluster::{Event, EventKind, EventTarget},
};
use tokio::sync::OnceCell;

use self::{
    chains::NodeIndex,
    messages::{disruption_reason, drain_refused, forced_deletion_message},
};
use crate::{
    Report, TurnError,
    act::{
        missing_in_ec2::terminate_missing_in_ec2,
        terminations::{end_instances, refused_recently},
    },
    context::{Turn, node_claims::instance_of},
    observe::Observed,
    report::{events, metrics, transitions::transitions},
};

/// Delay before an object is tried again that changed during the turn or that the API server refused for now.
const RETRY_AFTER: SignedDuration = SignedDuration::from_secs(10);

/// Nodes handled concurrently: enough to hide a call's latency, few enough for an API server that has other clients.
const CONCURRENT_NODES: usize = 10;

/// Result of acting on a decision that binds only the objects it names.
#[derive(Default)]
pub(crate) struct Applied {
    pub(crate) events: Vec<Event>,
    pub(crate) metrics: Vec<Metric>,
    pub(crate) deleted_claims: bool,
    /// Whether NodeClaims were released, so that they are gone now.
    pub(crate) finished_claims: bool,
    /// Whether one of the released NodeClaims had no node. A node's drain would have been visible; pods may have waited for
    /// this one.
    pub(crate) finished_without_node: bool,
    pub(crate) acted: bool,
    /// Indexes of the actions that an object refused. They are tried again, but not immediately.
    pub(crate) refused: BTreeSet<usize>,
    /// Indexes of the actions that were done.
    pub(crate) done: BTreeSet<usize>,
}

/// Carries out a decision's actions, each under its own preconditions (docs/protocol.md#d2). An action that fails does not stop
/// the others.
pub(crate) async fn apply(
    turn: &Turn<'_>,
    executor: &Executor<'_>,
    observed: &Observed,
    actions: &[Planned],
    report: &mut Report,
) -> Result<Applied, TurnError> {
    let mut applied = Applied::default();
    if actions.is_empty() {
        return Ok(applied);
    }
    if let Some(stop) = executor.may_act().await? {
        report.stopped = Some(stop.to_string());
        report.run_again_at(turn.now + RETRY_AFTER);
        return Ok(applied);
    }
    let nodes = NodeIndex::new(&observed.snapshot);
    let reads = &Reads::default();
    let throttled = AtomicBool::new(false);
    let chains = nodes.chains(actions).into_iter().map(|chain| {
        let throttled = &throttled;
        async move {
            let mut done = Vec::new();
            for index in chain {
                if turn.world.clock.now() >= turn.deadline || throttled.load(Ordering::Relaxed) {
                    done.push((index, ActionOutcome::Left));
                    break;
                }
                let Some(planned) = actions.get(index) else {
                    break;
                };
                let outcome = apply_action(turn, executor, observed, reads, planned).await;
                if let ActionOutcome::Throttled(_) = &outcome {
                    throttled.store(true, Ordering::Relaxed);
                }
                let ends = outcome.ends_chain(&planned.action);
                done.push((index, outcome));
                if ends {
                    break;
                }
            }
            done
        }
    });
    // Collected before the first await, so that the turn's future is `Send`.
    let chains: Vec<_> = chains.collect();
    let done: Vec<Vec<(usize, ActionOutcome)>> = stream::iter(chains)
        .buffered(CONCURRENT_NODES)
        .collect()
        .await;
    let mut done: Vec<(usize, ActionOutcome)> = done.into_iter().flatten().collect();
    // Reported in the order of the plan, whichever node was faster.
    done.sort_by_key(|(index, _)| *index);
    let mut terminations: BTreeMap<InstanceId, Timestamp> = BTreeMap::new();
    for (index, outcome) in done {
        let because = actions
            .get(index)
            .map_or("", |planned| planned.because.as_str());
        match outcome {
            ActionOutcome::Acted(own) => {
                applied.absorb(*own);
                applied.acted = true;
                applied.done.insert(index);
                tracing::info!(because, "planned action applied");
            }
            ActionOutcome::Terminates(instance, since) => {
                terminations.insert(instance, since);
            }
            ActionOutcome::Gone => {}
            ActionOutcome::Later => report.run_again_at(turn.now + RETRY_AFTER),
            ActionOutcome::Refused(own) => applied.absorb(*own),
            ActionOutcome::Throttled(error) => {
                report.problems.push(format!("{because}: {error}"));
                report.run_again_at(turn.now + RETRY_AFTER);
            }
            ActionOutcome::Failed(error) => {
                let about = actions
                    .get(index)
                    .map(|planned| messages::object_of(observed, &planned.action));
                let isolated = match about {
                    Some(about) => report.isolate(&about, Err::<(), _>(error)).map(drop),
                    None => Err(error),
                };
                match isolated {
                    Ok(()) => {
                        applied.refused.insert(index);
                        if let Some(planned) = actions.get(index) {
                            report.unplan(planned);
                        }
                    }
                    Err(error) => {
                        report.problems.push(format!("{because}: {error}"));
                        report.run_again_at(turn.now + RETRY_AFTER);
                    }
                }
            }
            ActionOutcome::Left => report.run_again_at(turn.world.clock.now()),
        }
    }
    match end_instances(turn.world, turn.cluster, &terminations).await {
        Ok(outcome) => {
            applied.acted |= !outcome.ended.is_empty();
            let refused = outcome.refused.iter();
            let emitted = refused.flat_map(|(id, refusal)| {
                messages::termination_refused(turn, observed, id, refusal)
            });
            applied.events.extend(emitted);
            let claims = &observed.snapshot.node_claims;
            let failed = metrics::of_ending(turn.lane, &outcome, claims);
            applied.metrics.extend(failed);
            report.take_unanswered(outcome.unanswered, turn.now + RETRY_AFTER);
        }
        Err(error) => {
            report
                .problems
                .push(format!("terminating instances: {error}"));
            report.run_again_at(turn.now + RETRY_AFTER);
        }
    }
    report.metrics.append(&mut applied.metrics);
    Ok(applied)
}

/// Reads before actions that destroy, made once for all actions of a decision: a thousand NodeClaims that time out together
/// cost one list of Nodes.
#[derive(Default)]
struct Reads {
    nodes: OnceCell<Vec<Node>>,
    recently_refused: OnceCell<BTreeSet<InstanceId>>,
}

impl Reads {
    async fn nodes(&self, turn: &Turn<'_>) -> Result<&[Node], ClusterError> {
        let nodes = self.nodes.get_or_try_init(|| turn.api.nodes());
        Ok(nodes.await?)
    }

    /// Instances that EC2 refused to terminate a short while ago.
    async fn recently_refused(
        &self,
        turn: &Turn<'_>,
    ) -> Result<&BTreeSet<InstanceId>, LedgerError> {
        let read = || refused_recently(turn.world, turn.cluster);
        self.recently_refused.get_or_try_init(read).await
    }
}

/// Effect of one action, or the reason why it had none.
enum ActionOutcome {
    Acted(Box<Applied>),
    /// The instance is terminated together with others; it has been due since this time.
    Terminates(InstanceId, Timestamp),
    /// The action's object does not exist any more.
    Gone,
    Later,
    Refused(Box<Applied>),
    /// The API server throttles. The rest is left to the next turn, because more calls would not be served either.
    Throttled(String),
    Failed(TurnError),
    /// The deadline passed before the action was tried.
    Left,
}

impl ActionOutcome {
    /// Whether later steps for the same node must be skipped because they were planned on the premise that this one succeeds.
    /// Pods leave a node independently of each other.
    fn ends_chain(&self, action: &Action) -> bool {
        let failed = match self {
            Self::Later | Self::Refused(_) | Self::Throttled(_) | Self::Failed(_) | Self::Left => {
                true
            }
            Self::Acted(_) | Self::Terminates(..) | Self::Gone => false,
        };
        failed && !matches!(action, Action::Evict { .. } | Action::DeletePod { .. })
    }
}

async fn apply_action(
    turn: &Turn<'_>,
    executor: &Executor<'_>,
    observed: &Observed,
    reads: &Reads,
    planned: &Planned,
) -> ActionOutcome {
    if let Action::Terminate { claim, instance } = &planned.action {
        return match has_joined(turn, observed, reads, claim).await {
            Ok(false) => {
                ActionOutcome::Terminates(instance.clone(), due_since(turn, observed, claim))
            }
            // The instance's node may have pods by now, so that it must be drained first.
            Ok(true) => ActionOutcome::Later,
            Err(error) => ActionOutcome::Failed(error),
        };
    }
    if let Some((claim, instance)) = releases_missing_in_ec2(observed, &planned.action) {
        match may_release(turn, observed, reads, claim, instance).await {
            Ok(true) => {}
            Ok(false) => return ActionOutcome::Later,
            Err(error) => return ActionOutcome::Failed(error),
        }
    }
    let mut own = Applied::default();
    match execute(turn, executor, observed, &planned.action, &mut own).await {
        Ok(()) => ActionOutcome::Acted(Box::new(own)),
        Err(TurnError::Cluster(ClusterError::NotFound { .. })) => ActionOutcome::Gone,
        Err(TurnError::Cluster(ClusterError::Conflict { .. })) => ActionOutcome::Later,
        Err(TurnError::Cluster(error @ ClusterError::Throttled { .. })) => {
            ActionOutcome::Throttled(error.to_string())
        }
        // The terminator, which drains the node, decides when to try again.
        Err(TurnError::Cluster(error @ ClusterError::Refused { .. })) => {
            own.events
                .extend(drain_refused(turn, observed, &planned.action, &error));
            ActionOutcome::Refused(Box::new(own))
        }
        Err(error) => ActionOutcome::Failed(error),
    }
}

impl Applied {
    fn absorb(&mut self, other: Self) {
        self.events.extend(other.events);
        self.metrics.extend(other.metrics);
        self.deleted_claims |= other.deleted_claims;
        self.finished_claims |= other.finished_claims;
        self.finished_without_node |= other.finished_without_node;
    }
}

/// Returns the NodeClaim that the action would release because EC2 does not list its instance.
fn releases_missing_in_ec2<'a>(
    observed: &'a Observed,
    action: &Action,
) -> Option<(&'a NodeClaimName, InstanceId)> {
    let Action::UpdateNodeClaim(update) = action else {
        return None;
    };
    if !releases(&update.remove_finalizers) {
        return None;
    }
    let mut claims = observed.snapshot.node_claims.iter();
    let claim = claims.find(|claim| claim.name == update.name)?;
    let instance = instance_of(claim)?;
    let is_missing = observed.missing_in_ec2.contains(&instance);
    is_missing.then_some((&claim.name, instance))
}

/// Whether a NodeClaim whose instance EC2 does not list may be released.
async fn may_release(
    turn: &Turn<'_>,
    observed: &Observed,
    reads: &Reads,
    claim: &NodeClaimName,
    instance: InstanceId,
) -> Result<bool, TurnError> {
    if has_joined(turn, observed, reads, claim).await? {
        return Ok(false);
    }
    let since = due_since(turn, observed, claim);
    let refused = reads.recently_refused(turn).await?;
    terminate_missing_in_ec2(turn, instance, since, refused).await
}

/// Time since which the instance of a NodeClaim has been due to end.
fn due_since(turn: &Turn<'_>, observed: &Observed, name: &NodeClaimName) -> Timestamp {
    let mut claims = observed.snapshot.node_claims.iter();
    let claim = claims.find(|claim| claim.name == *name);
    claim.and_then(|claim| claim.deleted_at).unwrap_or(turn.now)
}

/// Whether a NodeClaim has a Node that this turn did not evaluate and that may run pods: the Node joined since, or the list of
/// Nodes lacked it.
async fn has_joined(
    turn: &Turn<'_>,
    observed: &Observed,
    reads: &Reads,
    name: &NodeClaimName,
) -> Result<bool, TurnError> {
    let mut claims = observed.snapshot.node_claims.iter();
    let Some(claim) = claims.find(|claim| claim.name == *name) else {
        return Ok(false);
    };
    let is_its = |node: &Node| node.provider_id == claim.status.provider_id;
    let is_judged = |node: &Node| {
        let mut judged = observed.snapshot.nodes.iter();
        judged.any(|judged| judged.uid == node.uid)
    };
    if let Some(name) = &claim.status.node_name
        && let Some(node) = turn.api.node(name).await?
        && is_its(&node)
        && !is_judged(&node)
    {
        return Ok(true);
    }
    // A node is opened to pods before its NodeClaim's condition Registered is set.
    let is_open =
        |node: &Node| is_its(node) && node.taints.iter().all(|taint| taint.key != UNREGISTERED);
    let judged = claim.is_true(REGISTERED) || observed.snapshot.nodes.iter().any(is_open);
    Ok(!judged && reads.nodes(turn).await?.iter().any(is_open))
}

async fn execute(
    turn: &Turn<'_>,
    executor: &Executor<'_>,
    observed: &Observed,
    action: &Action,
    applied: &mut Applied,
) -> Result<(), TurnError> {
    match action {
        Action::UpdateNode(update) => {
            turn.api.update_node(update).await?;
            if releases(&update.remove_finalizers) {
                let about = EventTarget::Node(update.name.clone(), update.uid.clone());
                let emitted = events::of_end(about, update.name.as_str(), turn.now);
                applied.events.push(emitted);
                let mut nodes = observed.snapshot.nodes.iter();
                let node = nodes.find(|node| node.name == update.name);
                let counted = node.map(|node| metrics::of_finished_node(node, turn.now));
                applied.metrics.extend(counted.into_iter().flatten());
            }
        }
        Action::UpdateNodeClaim(update) => {
            let ends = releases(&update.remove_finalizers);
            let claim = observed
                .snapshot
                .node_claims
                .iter()
                .find(|claim| claim.name == update.name);
            // The ledger's rows are closed before the NodeClaim is removed: otherwise its instance would look owned forever.
            if let Some(claim) = claim.filter(|_| ends) {
                executor.finish_claim(claim).await?;
                let mut nodes = observed.snapshot.nodes.iter();
                let id = &claim.status.provider_id;
                let has_node = !id.is_empty() && nodes.any(|node| node.provider_id == *id);
                applied.finished_without_node |= !has_node;
            }
            turn.api.update_node_claim(update).await?;
            applied.finished_claims |= ends;
            if ends {
                let about = EventTarget::NodeClaim(update.name.clone(), update.uid.clone());
                let emitted = events::of_end(about, update.name.as_str(), turn.now);
                applied.events.push(emitted);
            }
            if let Some(claim) = claim {
                let transitions = transitions(claim, update);
                let emitted = events::of_transitions(claim, &transitions, turn.now);
                applied.events.extend(emitted);
                let counted = metrics::of_transitions(claim, &transitions);
                applied.metrics.extend(counted);
            }
            if let Some(claim) = claim.filter(|_| ends) {
                let counted = metrics::of_finished_claim(claim, turn.now);
                applied.metrics.extend(counted);
            }
        }
        // The command requests the reboot once the command is recorded.
        Action::Reboot(_) => {}
        Action::DeleteNodeClaim(target) => {
            turn.api.delete_node_claim(target).await?;
            applied.deleted_claims = true;
        }
        Action::Evict {
            pod,
            uid,
            grace_seconds,
        } => {
            let evicted = turn.api.evict(pod, uid, *grace_seconds).await;
            let counted = metrics::of_eviction(evicted.as_ref().copied());
            applied.metrics.extend(counted);
            evicted?;
            let reason = disruption_reason(observed, pod);
            applied.metrics.push(metrics::of_drained_pod(&reason));
            applied.events.push(Event {
                about: EventTarget::Pod(pod.clone(), uid.clone()),
                kind: EventKind::Normal,
                reason: "Evicted".into(),
                message: match grace_seconds {
                    None => format!("Evicted pod: {reason}"),
                    // A shortened grace period is explained by an event on the pod, because its owner reads those.
                    Some(grace) => format!(
                        "Evicted pod: {reason}, with {grace}s of grace-period because {}",
                        match turn.entry.unmanaged.pod_grace_seconds == Some(*grace) {
                            true => "its cluster's settings allow no more",
                            false => "its node is terminated then",
                        }
                    ),
                },
                at: turn.now,
            });
        }
        Action::DeletePod {
            pod,
            uid,
            grace_seconds,
        } => {
            turn.api.delete_pod(pod, uid, *grace_seconds).await?;
            applied.events.push(Event {
                about: EventTarget::Pod(pod.clone(), uid.clone()),
                kind: EventKind::Normal,
                reason: "Disrupted".into(),
                message: forced_deletion_message(observed, pod, *grace_seconds, turn.now),
                at: turn.now,
            });
        }
        // Launches are committed elsewhere, and instances are terminated together.
        Action::Launch(_) | Action::Terminate { .. } => {}
    }
    Ok(())
}

fn releases(finalizers: &[String]) -> bool {
    finalizers.iter().any(|name| name == finalizer::TERMINATION)
}
