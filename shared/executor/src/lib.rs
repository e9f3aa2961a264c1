//! Execution of plans: commits them under the generation fence, then acts, in an order that may stop anywhere and be resumed by
//! any turn (docs/protocol.md#committing, docs/protocol.md#launching).
//!
//! This crate decides nothing about placement and must never depend on `planner`, `plancheck` or an adapter: their results are
//! passed in as functions and ports.

mod call;
mod command;
mod commit;
mod concurrent;
mod gate;
mod launch;
mod members;
mod naming;
mod ownership;
mod rebase;
mod release;
mod reread;
mod resume;
mod settle;
#[cfg(test)]
mod test_plans;

use std::{collections::BTreeMap, sync::Arc};

use api::EC2NodeClass;
use jiff::{SignedDuration, Timestamp};
use model::{
    CapacityType, ClusterName, FreeAddresses, InstanceId, InstanceType, Lane, NodeClaimName,
    NodeClassName, NodePoolName, Uid,
    ids::TurnId,
    launch::{Instance, LaunchRefusal},
    ledger::Lease,
    plan::PodRef,
};
use ports::{Clock, Cloud, Cluster, LaunchBuilder, Ledger, cluster::Event};
use thiserror::Error;

pub use command::{DisruptionOrder, ProposalOutcome};
pub use commit::{CommitOutcome, CommittedPlan};
pub use gate::{ExecutorError, StopReason, holder_of};
pub use release::ReleaseState;

/// One turn's executor: its identity, the ports and the time limits.
#[derive(Clone, Copy)]
pub struct Executor<'a> {
    pub cluster: &'a ClusterName,
    pub turn: &'a TurnId,
    pub lane: Lane,
    /// The stack's name in Karpenter's leader Lease (docs/protocol.md#b1).
    pub holder: &'a str,
    /// The cluster that the registry entry was found to lead to: instances are tagged with its uid, and the leader Lease names
    /// it.
    pub uid: Option<&'a Uid>,
    pub cloud: &'a dyn Cloud,
    pub api: &'a dyn Cluster,
    pub ledger: &'a dyn Ledger,
    pub clock: &'a dyn Clock,
    /// Time after which no new step is begun; unfinished steps are left to a later turn.
    pub deadline: Timestamp,
    /// Age of a NodeClaim without an instance at which its launch is given up (docs/spec/lifecycle.md#liveness).
    pub launch_timeout: SignedDuration,
}

/// Inputs of launches besides their NodeClaims.
pub struct LaunchInputs<'a> {
    pub builder: &'a dyn LaunchBuilder,
    pub classes: &'a BTreeMap<NodeClassName, ResolvedNodeClass>,
    /// Instance types of NodePools that NodeOverlays correct; those of the other NodePools are their NodeClass's.
    pub overlaid: BTreeMap<NodePoolName, Arc<Vec<InstanceType>>>,
    /// Free addresses of the NodeClasses' subnets, less those of calls under way.
    pub free_addresses: FreeAddresses,
    /// Instances that were launched for these NodeClaims by another turn or controller: they are used instead of launching.
    pub existing: BTreeMap<NodeClaimName, Instance>,
}

/// A NodeClass and the instance types it allows, with offerings known to lack capacity marked.
#[derive(Clone, Debug)]
pub struct ResolvedNodeClass {
    pub object: EC2NodeClass,
    pub types: Arc<Vec<InstanceType>>,
}

/// Launches, failures, events and metrics of one execution.
#[derive(Debug, Default)]
pub struct ExecutionOutcome {
    pub launched: Vec<(NodeClaimName, InstanceId)>,
    pub failed: Vec<FailedLaunch>,
    /// Launches left as they are, for a later turn.
    pub unfinished: Vec<NodeClaimName>,
    /// Failures that did not stop the others, for the journal.
    pub problems: Vec<String>,
    /// Reason why no further step was begun.
    pub stopped: Option<StopReason>,
    /// The call that waits for the account's budget of EC2 calls, and until when.
    pub postponed: Option<Postponed>,
    pub events: Vec<Event>,
    /// Failed launches, one entry for each NodeClaim and attempt.
    pub errors: Vec<LaunchError>,
    /// Offerings that EC2 had no capacity of, also where it had enough of others.
    pub lacking: Vec<LackingOffering>,
    /// Duration of each CreateFleet request that was sent, including its repetitions.
    pub requests: Vec<SignedDuration>,
}

/// Class of a launch's failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaunchError {
    InsufficientCapacity,
    NodeClassNotReady,
    /// Any other answer of EC2, or none.
    Unclassified,
}

/// An offering in an error of CreateFleet's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LackingOffering {
    pub zone: String,
    /// Empty if the zone is none of the catalog's.
    pub zone_id: String,
    pub capacity_type: CapacityType,
    /// EC2's error code.
    pub code: String,
}

/// A call that was not made, because the account's budget of EC2 calls is spent.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{action} waits until {until}: the account's budget of EC2 calls is spent")]
pub struct Postponed {
    pub action: String,
    pub until: Timestamp,
}

/// A launch that ended without an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedLaunch {
    pub claim: NodeClaimName,
    pub why: String,
    /// Pods that were to run on it and must be planned again.
    pub pods: Vec<PodRef>,
}

impl From<&LaunchRefusal> for LaunchError {
    fn from(refusal: &LaunchRefusal) -> Self {
        match refusal {
            LaunchRefusal::InsufficientCapacity { .. } => Self::InsufficientCapacity,
            LaunchRefusal::NodeClassNotReady { .. } => Self::NodeClassNotReady,
            LaunchRefusal::Create { .. } => Self::Unclassified,
        }
    }
}

impl ExecutionOutcome {
    fn left(&mut self, claim: &NodeClaimName, problem: impl ToString) {
        self.unfinished.push(claim.clone());
        self.problems
            .push(format!("NodeClaim {claim}: {}", problem.to_string()));
    }

    /// Outcome of a step of one launch: a launch whose own NodeClaim is refused is left to a later turn, and others continue.
    fn isolate(
        &mut self,
        claim: &NodeClaimName,
        step: Result<(), ExecutorError>,
    ) -> Result<(), ExecutorError> {
        match step {
            Err(error) if error.is_about_one_object() => {
                self.left(claim, error);
                Ok(())
            }
            step => step,
        }
    }

    /// Adds the outcome of another step.
    pub fn absorb(&mut self, other: Self) {
        self.launched.extend(other.launched);
        self.failed.extend(other.failed);
        self.unfinished.extend(other.unfinished);
        self.problems.extend(other.problems);
        self.events.extend(other.events);
        self.errors.extend(other.errors);
        self.lacking.extend(other.lacking);
        self.requests.extend(other.requests);
        self.stopped = self.stopped.take().or(other.stopped);
        self.postponed = self.postponed.take().or(other.postponed);
    }
}

/// Time by which a lease outlives the turn's own end, so that no other turn takes over a step that is just being finished.
pub const LEASE_MARGIN: SignedDuration = SignedDuration::from_secs(5);

impl Executor<'_> {
    /// The lease that this turn takes on its work.
    pub fn lease(&self) -> Lease {
        Lease {
            owner: self.turn.clone(),
            until: self.deadline + LEASE_MARGIN,
        }
    }
}
