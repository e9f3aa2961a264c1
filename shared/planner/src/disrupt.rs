//! Which nodes are no longer worth having (spec/lifecycle §13–§21): empty, drifted, or underutilized ones, under budgets.

mod balanced;
mod budgets;
mod candidates;
mod command;
mod consolidation;
pub(crate) mod cost;
mod drift;
mod emptiness;
mod methods;
mod multi;
mod price;
mod scene;
mod schedule;
mod simulate;
mod single;
mod types;
mod validation;

use jiff::SignedDuration;
use model::{Action, Snapshot};

pub use self::{candidates::Blocked, command::Command};
use self::{methods::Methods, scene::Scene};
use crate::{decision::Decision, inventory::Inventory, provision::question::Ground};

/// Why nodes go, as conditions, events and metrics call it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    Empty,
    Drifted,
    Underutilized,
}

/// What decided it. Methods are tried in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Method {
    Emptiness,
    StaticDrift,
    Drift,
    MultiNode,
    SingleNode,
}

/// What one look at a cluster comes to.
#[derive(Clone, Debug, Default)]
pub struct Pass {
    /// Several only for static NodePools.
    pub commands: Vec<Command>,
    /// Nodes that some method may not disrupt.
    pub blocked: Vec<Blocked>,
    /// Nodes that consolidation does not remove.
    pub unconsolidatable: Vec<Blocked>,
}

/// What consolidates must still hold after this time: pods are bound in between that nobody saw coming.
const VALIDATED_AFTER: SignedDuration = SignedDuration::from_secs(15);

/// The first method that finds something to do decides.
pub fn disrupt(snapshot: &Snapshot) -> Pass {
    let inventory = Inventory::new(snapshot);
    let ground = Ground::new(snapshot);
    let later = snapshot.now.checked_add(VALIDATED_AFTER);
    let scene = Scene::new(snapshot, &inventory, &ground, snapshot.now);
    let later = Scene::new(snapshot, &inventory, &ground, later.unwrap_or(snapshot.now));
    Methods::new(&scene, &later).first()
}

/// Deletes the empty, consolidatable nodes that budgets allow.
pub fn empty(snapshot: &Snapshot) -> Decision {
    let mut decision = Decision::default();
    let inventory = Inventory::new(snapshot);
    let ground = Ground::new(snapshot);
    let scene = Scene::new(snapshot, &inventory, &ground, snapshot.now);
    for command in Methods::new(&scene, &scene).emptiness() {
        for target in command.delete {
            let because = command.because.clone();
            decision.act(Action::DeleteNodeClaim(target), because);
        }
    }
    decision
}

impl Reason {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Empty => "Empty",
            Self::Drifted => "Drifted",
            Self::Underutilized => "Underutilized",
        }
    }
}

impl Method {
    /// As metrics call it.
    pub fn consolidation_type(self) -> &'static str {
        match self {
            Self::Emptiness => "empty",
            Self::StaticDrift | Self::Drift => "",
            Self::MultiNode => "multi",
            Self::SingleNode => "single",
        }
    }
}

#[cfg(test)]
mod tests;
