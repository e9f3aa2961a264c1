//! State machine of a NodeClaim: a total function from its state and observations to the next state and the steps to take
//! (docs/spec/lifecycle.md#node-claim-states, docs/spec/lifecycle.md#termination).
//!
//! The modules `lifecycle` and `terminate` make the observations and perform the steps. `machine/table.txt` lists the whole
//! function.

use api::{
    conditions::types::{
        DRAINED, INITIALIZED, INSTANCE_TERMINATING, LAUNCHED, REGISTERED, VOLUMES_DETACHED,
    },
    names::finalizer,
};
use model::{node::ConditionStatus, node_claim::NodeClaim};

/// State of a NodeClaim, from its own conditions and metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// The NodeClaim has no finalizer, so nothing may be launched for it.
    Unprotected,
    /// The NodeClaim has no instance yet.
    Launching,
    /// The instance has not joined as a Node.
    Registering,
    /// Several Nodes claim the instance. Only the registration timeout ends that.
    Ambiguous,
    /// The Node is not initialized.
    Initializing,
    InService,
    /// Being deleted, with pods left on the node.
    Draining,
    /// Being deleted, with volumes attached to the node.
    Detaching,
    /// Being deleted, with the instance still running.
    Terminating,
    /// The NodeClaim is being deleted and has no finalizer of Whittle.
    Gone,
}

/// Observations about a NodeClaim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Observations {
    Alive {
        /// First reason that ends the NodeClaim, if any.
        ending: Option<Ending>,
        node: Joined,
    },
    /// The NodeClaim or its Node is being deleted.
    Leaving {
        node: LeavingNode,
        instance: Instance,
    },
}

/// Reason for the deletion of a NodeClaim. All of these are involuntary: budgets do not delay them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    LaunchFailed,
    LaunchTimeout,
    RegistrationTimeout,
    Expired,
    Unhealthy,
}

/// Nodes that match the NodeClaim's instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Joined {
    Nobody,
    Several,
    /// One Node that is not ready to be initialized.
    Unready,
    Ready,
}

/// Node of a NodeClaim that is being deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LeavingNode {
    /// No Node to wait for.
    Nothing,
    /// The Node is not being deleted.
    Kept,
    /// The Node is being deleted.
    Leaving {
        /// The kubelet reports.
        ready: bool,
        pods: Pods,
        volumes: Detachment,
    },
}

/// Pods left on a Node that is being drained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pods {
    Waiting,
    /// None, for too short a time to trust it.
    Settling,
    Left,
}

/// Volumes of a Node that is being drained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Detachment {
    Awaited,
    /// All volumes are detached or no longer waited for.
    Over,
}

/// Instance of a NodeClaim that is being deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Instance {
    /// Nothing was launched.
    Never,
    /// A launch is in flight.
    Underway,
    Alive,
    /// Terminated, or not the NodeClaim's own.
    Gone,
}

/// Step to take. Steps are idempotent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Adds the finalizer.
    Protect,
    /// Joins the Node to the NodeClaim.
    Register,
    /// Marks the Node as initialized.
    Initialize,
    /// Deletes the NodeClaim for this reason.
    Delete(Ending),
    /// Deletes the NodeClaim because its Node is being deleted.
    Follow,
    /// Waits for the result of the launch.
    AwaitLaunch,
    /// Deletes the Nodes.
    DeleteNodes,
    /// Keeps new pods and traffic away from the Node.
    Mark,
    /// Evicts the pods of the Node.
    Drain,
    AwaitVolumes,
    EndInstance,
    /// Removes the finalizer of the Node.
    ReleaseNode,
    /// Removes the finalizer of the NodeClaim.
    Release,
}

impl State {
    pub(crate) fn from_claim(claim: &NodeClaim) -> Self {
        let held = claim
            .finalizers
            .iter()
            .any(|name| name == finalizer::TERMINATION);
        let is_false = |condition_type: &str| {
            claim
                .condition(condition_type)
                .is_some_and(|condition| condition.status == ConditionStatus::False)
        };
        match (claim.deleted_at.is_some(), held) {
            (true, false) => Self::Gone,
            (true, true) if claim.is_true(INSTANCE_TERMINATING) => Self::Terminating,
            (true, true) if claim.is_true(VOLUMES_DETACHED) || is_false(VOLUMES_DETACHED) => {
                Self::Terminating
            }
            (true, true) if claim.is_true(DRAINED) => Self::Detaching,
            (true, true) => Self::Draining,
            (false, false) if !claim.is_true(LAUNCHED) => Self::Unprotected,
            (false, _) if !claim.is_true(LAUNCHED) => Self::Launching,
            (false, _) if is_false(REGISTERED) => Self::Ambiguous,
            (false, _) if !claim.is_true(REGISTERED) => Self::Registering,
            (false, _) if !claim.is_true(INITIALIZED) => Self::Initializing,
            (false, _) => Self::InService,
        }
    }

    fn is_leaving(self) -> bool {
        match self {
            Self::Draining | Self::Detaching | Self::Terminating | Self::Gone => true,
            Self::Unprotected
            | Self::Launching
            | Self::Registering
            | Self::Ambiguous
            | Self::Initializing
            | Self::InService => false,
        }
    }
}

impl Ending {
    /// Karpenter's metric reason, and a text for people.
    pub(crate) fn because(self) -> (&'static str, &'static str) {
        match self {
            Self::LaunchFailed => ("insufficient_capacity", "its launch failed"),
            Self::LaunchTimeout => ("launch_timeout", "its instance was not launched in time"),
            Self::RegistrationTimeout => (
                "registration_timeout",
                "its node did not join the cluster in time",
            ),
            Self::Expired => ("expired", "it is older than its expireAfter"),
            Self::Unhealthy => (
                "unhealthy",
                "its node has been unhealthy for longer than its condition is tolerated",
            ),
        }
    }

    /// Whether the reason applies in a state: timeouts end only the step that they are about.
    fn concerns(self, state: State) -> bool {
        match self {
            Self::LaunchFailed | Self::LaunchTimeout => {
                matches!(state, State::Unprotected | State::Launching)
            }
            Self::RegistrationTimeout => matches!(state, State::Registering | State::Ambiguous),
            Self::Expired | Self::Unhealthy => !state.is_leaving(),
        }
    }
}

/// Whether a NodeClaim that is deleted for this reason is kept if its instance joins in time.
pub(crate) fn is_time_out(reason: &str) -> bool {
    let all = [Ending::LaunchTimeout, Ending::RegistrationTimeout];
    all.iter()
        .any(|ending| reason.starts_with(ending.because().0))
}

/// Returns why a NodeClaim is kept whose deletion for a timeout is recorded, if the step has been completed since.
pub(crate) fn arrived(reason: &str, claim: &NodeClaim) -> Option<String> {
    let came = |ending: Ending, what: &str| {
        let (name, _) = ending.because();
        let has_come = reason.starts_with(name) && !ending.concerns(State::from_claim(claim));
        has_come.then(|| format!("NodeClaim {} has {what} in the meantime", claim.name))
    };
    came(Ending::LaunchTimeout, "been launched")
        .or_else(|| came(Ending::RegistrationTimeout, "registered"))
}

/// Returns the next state of a NodeClaim and the steps to take.
pub(crate) fn next(state: State, observations: Observations) -> (State, Vec<Step>) {
    match observations {
        // A deletion cannot be undone.
        _ if state == State::Gone => (state, Vec::new()),
        Observations::Alive {
            ending: Some(ending),
            ..
        } if ending.concerns(state) => (State::Draining, vec![Step::Delete(ending)]),
        Observations::Alive { node, .. } => live(state, node),
        Observations::Leaving { node, instance } => {
            let (after, mut steps) = leave(node, instance);
            if !state.is_leaving() {
                // Irreversible steps wait until the deletion is recorded, which may be refused.
                steps.retain(|step| !matches!(step, Step::EndInstance | Step::ReleaseNode));
                steps.insert(0, Step::Follow);
            }
            (after, steps)
        }
    }
}

fn live(state: State, node: Joined) -> (State, Vec<Step>) {
    use State::{Ambiguous, InService, Initializing, Launching, Registering, Unprotected};
    match (state, node) {
        (Unprotected, _) => (Launching, vec![Step::Protect]),
        (Registering, Joined::Several) => (Ambiguous, Vec::new()),
        (Registering | Initializing | InService, Joined::Ready) => {
            (InService, vec![Step::Register, Step::Initialize])
        }
        (Registering | Initializing, Joined::Unready) => (Initializing, vec![Step::Register]),
        // A NodeClaim that was in service never returns to an earlier state.
        (InService, Joined::Unready) => (InService, vec![Step::Register]),
        (state, _) => (state, Vec::new()),
    }
}

fn leave(node: LeavingNode, instance: Instance) -> (State, Vec<Step>) {
    use State::{Detaching, Draining, Gone, Terminating};
    match (node, instance) {
        (LeavingNode::Nothing, Instance::Never | Instance::Gone) => (Gone, vec![Step::Release]),
        (LeavingNode::Nothing, Instance::Underway) => (Draining, vec![Step::AwaitLaunch]),
        (LeavingNode::Nothing, Instance::Alive) => (Terminating, vec![Step::EndInstance]),
        (LeavingNode::Kept, _) => (Draining, vec![Step::DeleteNodes]),
        // Nothing runs on a terminated instance, even if the API still lists pods.
        (LeavingNode::Leaving { ready: false, .. }, Instance::Gone) => {
            (Terminating, vec![Step::ReleaseNode])
        }
        (
            LeavingNode::Leaving {
                pods: Pods::Waiting | Pods::Settling,
                ..
            },
            _,
        ) => (Draining, vec![Step::Mark, Step::Drain]),
        (
            LeavingNode::Leaving {
                volumes: Detachment::Awaited,
                ..
            },
            _,
        ) => (Detaching, vec![Step::Mark, Step::AwaitVolumes]),
        (LeavingNode::Leaving { .. }, Instance::Alive) => {
            (Terminating, vec![Step::Mark, Step::EndInstance])
        }
        (LeavingNode::Leaving { .. }, Instance::Never | Instance::Underway | Instance::Gone) => {
            (Terminating, vec![Step::Mark, Step::ReleaseNode])
        }
    }
}

#[cfg(test)]
mod tests;
