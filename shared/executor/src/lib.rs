//! Makes plans real: commits them under the generation fence, then acts, in an order that is safe to stop anywhere and to
//! take up again by anybody (docs/protocol.md#committing, docs/protocol.md#launching).
//!
//! It decides nothing about placement and must never depend on `planner`, `plancheck` or an adapter: what it needs of them
//! comes in as functions and ports.

mod call;
mod command;
mod commit;
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
mod together;

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

pub use command::{Order, Proposed};
pub use commit::{Commitment, Made};
pub use gate::{Stop, Trouble, holder_of};
pub use release::Released;

/// One turn's hands.
#[derive(Clone, Copy)]
pub struct Executor<'a> {
    pub cluster: &'a ClusterName,
    pub turn: &'a TurnId,
    pub lane: Lane,
    /// The stack's name in Karpenter's leader Lease (docs/protocol.md#b1).
    pub holder: &'a str,
    /// Which cluster the registry entry was seen to lead to: instances are tagged with it, and the leader Lease names it.
    pub uid: Option<&'a Uid>,
    pub cloud: &'a dyn Cloud,
    pub api: &'a dyn Cluster,
    pub ledger: &'a dyn Ledger,
    pub clock: &'a dyn Clock,
    /// After this nothing new is begun; what is under way is left as it stands.
    pub deadline: Timestamp,
    /// A NodeClaim without an instance is given up after this, counted from its creation (docs/spec/lifecycle.md#liveness).
    pub launch_timeout: SignedDuration,
}

/// What launches depend on besides their NodeClaims.
pub struct LaunchFacts<'a> {
    pub builder: &'a dyn LaunchBuilder,
    pub classes: &'a BTreeMap<NodeClassName, ClassFacts>,
    /// The types of NodePools that NodeOverlays correct; those of the others are their NodeClass's.
    pub overlaid: BTreeMap<NodePoolName, Arc<Vec<InstanceType>>>,
    /// Of their subnets, calls under way taken off.
    pub free_addresses: FreeAddresses,
    /// Instances that somebody else launched for NodeClaims and left to us: these are taken instead of launching.
    pub existing: BTreeMap<NodeClaimName, Instance>,
}

/// A NodeClass and the types it allows, with offerings known to lack capacity marked.
#[derive(Clone, Debug)]
pub struct ClassFacts {
    pub object: EC2NodeClass,
    pub types: Arc<Vec<InstanceType>>,
}

/// What came of acting.
#[derive(Debug, Default)]
pub struct Outcome {
    pub launched: Vec<(NodeClaimName, InstanceId)>,
    pub failed: Vec<Failed>,
    /// Left as they stand, for a later turn.
    pub unfinished: Vec<NodeClaimName>,
    /// What went wrong on the way, for the journal.
    pub problems: Vec<String>,
    /// Why nothing more was begun.
    pub stopped: Option<Stop>,
    /// What waits for the account's budget of EC2 calls, and until when.
    pub postponed: Option<Postponed>,
    pub events: Vec<Event>,
    /// Launches that failed, one entry for each NodeClaim and attempt.
    pub errors: Vec<LaunchError>,
    /// Offerings that EC2 had nothing of, also where it had enough of others.
    pub lacking: Vec<LackingOffering>,
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
    /// Empty where the zone is none of the catalog's.
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
pub struct Failed {
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

impl Outcome {
    fn left(&mut self, claim: &NodeClaimName, problem: impl ToString) {
        self.unfinished.push(claim.clone());
        self.problems
            .push(format!("NodeClaim {claim}: {}", problem.to_string()));
    }

    /// The outcome of a step of one launch: one whose own NodeClaim refuses is left to a later turn, and others go on.
    fn isolate(&mut self, claim: &NodeClaimName, step: Result<(), Trouble>) -> Result<(), Trouble> {
        match step {
            Err(trouble) if trouble.is_about_one_object() => {
                self.left(claim, trouble);
                Ok(())
            }
            step => step,
        }
    }

    /// Adds what another step came to.
    pub fn absorb(&mut self, other: Self) {
        self.launched.extend(other.launched);
        self.failed.extend(other.failed);
        self.unfinished.extend(other.unfinished);
        self.problems.extend(other.problems);
        self.events.extend(other.events);
        self.errors.extend(other.errors);
        self.lacking.extend(other.lacking);
        self.stopped = self.stopped.take().or(other.stopped);
        self.postponed = self.postponed.take().or(other.postponed);
    }
}

/// A lease outlives the turn's own end by this, so that nobody takes over what is just being finished.
pub const LEASE_MARGIN: SignedDuration = SignedDuration::from_secs(5);

impl Executor<'_> {
    /// The lease this turn takes on what it works on.
    pub fn lease(&self) -> Lease {
        Lease {
            owner: self.turn.clone(),
            until: self.deadline + LEASE_MARGIN,
        }
    }
}
