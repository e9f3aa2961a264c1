//! How a NodeClaim lives: one total function from where it stands and what is seen of it to where it stands then and what is
//! to be done (docs/spec/lifecycle.md#node-claim-states, docs/spec/lifecycle.md#termination).
//!
//! What is seen is judged in `lifecycle` and `terminate`, which also make the steps concrete. `state_node/table.txt` lists the
//! whole function.

use api::{
    conditions::types::{
        DRAINED, INITIALIZED, INSTANCE_TERMINATING, LAUNCHED, REGISTERED, VOLUMES_DETACHED,
    },
    names::finalizer,
};
use model::{node::ConditionStatus, node_claim::NodeClaim};

/// Where a NodeClaim stands, by its own conditions and metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// No finalizer holds it, so nothing may be launched for it.
    Unprotected,
    /// It has no instance yet.
    Launching,
    /// Its instance has not joined as a Node.
    Registering,
    /// Several Nodes say that they are its instance; only its time-out ends that.
    Ambiguous,
    /// Its Node is not usable yet.
    Initializing,
    InService,
    /// Its deletion is ordered, and pods are still to leave.
    Draining,
    /// Its volumes are still to leave.
    Detaching,
    /// Its instance is to end.
    Terminating,
    /// Nothing holds it any more.
    Gone,
}

/// What is seen of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    Alive {
        /// The first thing that ends it, if anything does.
        ending: Option<Ending>,
        node: Joined,
    },
    /// It or its Node is being deleted.
    Leaving { node: Held, instance: Instance },
}

/// Why a NodeClaim is deleted. None of these is a choice: budgets do not hold them back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    LaunchFailed,
    LaunchTimeout,
    RegistrationTimeout,
    Expired,
    Unhealthy,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Joined {
    Nobody,
    Several,
    /// One Node, which lacks something that its users wait for.
    Unready,
    Ready,
}

/// The Node of a NodeClaim that goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Held {
    /// There is none that it must wait for.
    Nothing,
    /// It is not being deleted yet.
    Kept,
    /// It is being deleted.
    Leaving {
        /// Its kubelet speaks.
        ready: bool,
        pods: Pods,
        volumes: Detachment,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pods {
    Waiting,
    /// None are there, for too short a time to trust it.
    Settling,
    Left,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Detachment {
    Awaited,
    /// All are detached, or will not be waited for any longer.
    Over,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Instance {
    /// Nothing was launched for it.
    Never,
    /// A launch for it is under way.
    Underway,
    Alive,
    /// It is gone, or was never its own.
    Gone,
}

/// What is to be done. Steps that are done already change nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Puts the finalizer on it.
    Protect,
    /// Joins its Node to it.
    Register,
    /// Marks its Node as usable.
    Initialize,
    /// Deletes it, for this reason.
    Delete(Ending),
    /// Deletes it, because its Node is being deleted.
    Follow,
    /// Waits for what its launch comes to.
    AwaitLaunch,
    /// Deletes its Nodes.
    DeleteNodes,
    /// Keeps new pods and traffic away from its Node.
    Mark,
    /// Lets the pods of its Node go.
    Drain,
    AwaitVolumes,
    EndInstance,
    /// Lets its Node go.
    ReleaseNode,
    /// Lets it go.
    Release,
}

impl State {
    pub(crate) fn of(claim: &NodeClaim) -> Self {
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
    /// Upstream's metric reason, and words for people.
    pub(crate) fn because(self) -> (&'static str, &'static str) {
        match self {
            Self::LaunchFailed => ("insufficient_capacity", "its launch came to nothing"),
            Self::LaunchTimeout => ("launch_timeout", "its instance was not launched in time"),
            Self::RegistrationTimeout => (
                "registration_timeout",
                "its node did not join the cluster in time",
            ),
            Self::Expired => ("expired", "it is older than its expireAfter"),
            Self::Unhealthy => (
                "unhealthy",
                "its node has been unhealthy for longer than is tolerated",
            ),
        }
    }

    /// Time-outs end what waits for just that; the rest ends at any age.
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

/// Whether a NodeClaim that is deleted for this reason stays if it turns up before.
pub(crate) fn is_time_out(reason: &str) -> bool {
    let all = [Ending::LaunchTimeout, Ending::RegistrationTimeout];
    all.iter()
        .any(|ending| reason.starts_with(ending.because().0))
}

/// What a NodeClaim that was to be deleted for a time-out has come to since, so that it stays.
pub(crate) fn arrived(reason: &str, claim: &NodeClaim) -> Option<String> {
    let came = |ending: Ending, what: &str| {
        let (name, _) = ending.because();
        let has_come = reason.starts_with(name) && !ending.concerns(State::of(claim));
        has_come.then(|| format!("NodeClaim {} has {what} since", claim.name))
    };
    came(Ending::LaunchTimeout, "been launched")
        .or_else(|| came(Ending::RegistrationTimeout, "registered"))
}

/// The next step of a NodeClaim.
pub(crate) fn next(state: State, seen: Seen) -> (State, Vec<Step>) {
    match seen {
        // Nothing takes a deletion back.
        _ if state == State::Gone => (state, Vec::new()),
        Seen::Alive {
            ending: Some(ending),
            ..
        } if ending.concerns(state) => (State::Draining, vec![Step::Delete(ending)]),
        Seen::Alive { node, .. } => live(state, node),
        Seen::Leaving { node, instance } => {
            let (after, mut steps) = leave(node, instance);
            if !state.is_leaving() {
                // What cannot be taken back waits until its deletion is on record, which may be refused.
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
        // What was in service once never goes back.
        (InService, Joined::Unready) => (InService, vec![Step::Register]),
        (state, _) => (state, Vec::new()),
    }
}

fn leave(node: Held, instance: Instance) -> (State, Vec<Step>) {
    use State::{Detaching, Draining, Gone, Terminating};
    match (node, instance) {
        (Held::Nothing, Instance::Never | Instance::Gone) => (Gone, vec![Step::Release]),
        (Held::Nothing, Instance::Underway) => (Draining, vec![Step::AwaitLaunch]),
        (Held::Nothing, Instance::Alive) => (Terminating, vec![Step::EndInstance]),
        (Held::Kept, _) => (Draining, vec![Step::DeleteNodes]),
        // Nothing runs there any more, whatever the API still shows.
        (Held::Leaving { ready: false, .. }, Instance::Gone) => {
            (Terminating, vec![Step::ReleaseNode])
        }
        (
            Held::Leaving {
                pods: Pods::Waiting | Pods::Settling,
                ..
            },
            _,
        ) => (Draining, vec![Step::Mark, Step::Drain]),
        (
            Held::Leaving {
                volumes: Detachment::Awaited,
                ..
            },
            _,
        ) => (Detaching, vec![Step::Mark, Step::AwaitVolumes]),
        (Held::Leaving { .. }, Instance::Alive) => {
            (Terminating, vec![Step::Mark, Step::EndInstance])
        }
        (Held::Leaving { .. }, Instance::Never | Instance::Underway | Instance::Gone) => {
            (Terminating, vec![Step::Mark, Step::ReleaseNode])
        }
    }
}

#[cfg(test)]
mod tests;
