//! A cluster at a moment, as all disruption methods look at it.

use std::{
    cell::{Cell, OnceCell, RefCell},
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
};

use api::conditions::types::INITIALIZED;
use jiff::{SignedDuration, Timestamp};
use model::{
    NodeClaimName, NodePoolName, Snapshot,
    ledger::Command,
    node::ConditionStatus,
    node_claim::NodeClaim,
    node_pool::{ConsolidateAfter, NodePool},
    snapshot::{Optimize, ReservedOfferingMode},
};
use scheduling::{Effort, Groundwork, Standing, Volumes};

use super::{movers::Movers, worth::Worth};
use crate::{
    guards::Guards,
    inventory::{Inventory, Machine},
    provision::question::{Asked, Ground},
};

/// How far consolidation looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sight {
    /// To the next step, the first that is worth it: as upstream does.
    Next,
    /// To the next step of a plan that is begun; without one, to the next step.
    Begun,
    /// To where steps lead, and what else could be done at once.
    Far,
}

/// How a look is meant.
#[derive(Clone, Copy)]
pub(super) struct Stance<'a> {
    /// Nodes that are left alone.
    pub(super) spared: &'a BTreeSet<NodeClaimName>,
    /// Moves cost nothing: whatever saves is done.
    pub(super) at_any_price: bool,
    pub(super) sight: Sight,
    /// How much is simulated before the rest is left to another look.
    pub(super) simulated: usize,
    /// Whether pods may do without a reservation that others take.
    pub(super) reserved: ReservedOfferingMode,
}

impl Stance<'_> {
    pub(super) fn new(snapshot: &Snapshot) -> Self {
        static NONE: BTreeSet<NodeClaimName> = BTreeSet::new();
        Self {
            spared: &NONE,
            at_any_price: false,
            sight: match snapshot.settings.optimize {
                Optimize::Upstream => Sight::Next,
                Optimize::Cost => Sight::Far,
            },
            simulated: usize::MAX,
            reserved: ReservedOfferingMode::Fallback,
        }
    }
}

pub(super) struct Scene<'a> {
    pub(super) snapshot: &'a Snapshot,
    /// May be later than the snapshot's: commands are judged again after a while.
    pub(super) now: Timestamp,
    pub(super) inventory: &'a Inventory<'a>,
    pub(super) ground: &'a Ground<'a>,
    pub(super) guards: Guards<'a>,
    pub(super) volumes: Volumes<'a>,
    /// What is known of the same NodePools and DaemonSets.
    known: Option<Rc<Groundwork<'a>>>,
    standing: OnceCell<Standing<'a>>,
    destinations: OnceCell<Vec<usize>>,
    pools: BTreeMap<&'a NodePoolName, &'a NodePool>,
    pub(super) movers: &'a Movers<'a>,
    /// Machines that were disturbed so recently that consolidation moves nothing there (docs/spec/lifecycle.md#simulation).
    pub(super) settling: BTreeSet<usize>,
    /// Machines on which nothing would start.
    pub(super) closed: BTreeSet<usize>,
    pub(super) stance: Stance<'a>,
    pub(super) worth: Worth,
    /// The nodes and pods of all simulations so far.
    pub(super) simulated: Cell<usize>,
    /// By pod, the weight of the preferences that it goes without where it is, as far as that was asked.
    pub(super) unmet_today: RefCell<BTreeMap<usize, Option<u32>>>,
}

impl<'a> Scene<'a> {
    pub(super) fn new(
        snapshot: &'a Snapshot,
        inventory: &'a Inventory<'a>,
        ground: &'a Ground<'a>,
        movers: &'a Movers<'a>,
        known: Option<Rc<Groundwork<'a>>>,
        stance: Stance<'a>,
    ) -> Self {
        let now = movers.now;
        let pools: BTreeMap<_, _> = snapshot.node_pools.iter().map(|p| (&p.name, p)).collect();
        let machines = inventory.machines.iter().enumerate();
        let settling = machines.filter(|(_, machine)| is_settling(machine, &pools, now));
        let settling = settling.map(|(at, _)| at).collect();
        Self {
            snapshot,
            now,
            inventory,
            ground,
            guards: Guards::new(&snapshot.disruption_budgets, snapshot.settings.optimize),
            volumes: Volumes::new(&snapshot.storage),
            known,
            standing: OnceCell::new(),
            destinations: OnceCell::new(),
            movers,
            settling,
            closed: closed(snapshot, inventory),
            worth: match stance.at_any_price {
                true => Worth::default(),
                false => Worth::by_annotations(snapshot),
            },
            stance,
            pools,
            simulated: Cell::new(0),
            unmet_today: RefCell::default(),
        }
    }

    /// The cluster as it stands, with all pods where they are: what all simulations begin with.
    pub(super) fn standing(&self) -> &Standing<'a> {
        self.standing.get_or_init(|| {
            let question = self.ground.question(
                self.inventory,
                Asked {
                    pods: self.movers.all().collect(),
                    moved: Vec::new(),
                    gone: &BTreeSet::new(),
                    settling: &self.settling,
                    closed: &self.closed,
                    reserved: self.stance.reserved,
                    effort: Effort::First,
                },
            );
            Standing::new(question, self.movers.waiting(), self.known.clone())
        })
    }

    /// Which machine each node of the standing question is, by its place in the inventory.
    pub(super) fn destinations(&self) -> &[usize] {
        self.destinations.get_or_init(|| {
            let gone = BTreeSet::new();
            let all = self
                .ground
                .destinations(self.inventory, &gone, &self.closed);
            all.map(|(at, _)| at).collect()
        })
    }

    pub(super) fn pool(&self, name: &NodePoolName) -> Option<&'a NodePool> {
        self.pools.get(name).copied()
    }

    /// Whether a command that is under way is about this NodeClaim.
    pub(super) fn is_commanded(&self, claim: &NodeClaim) -> bool {
        let under_way = self
            .snapshot
            .commands
            .iter()
            .filter(|command| command.state.is_open());
        let mut targets = under_way.flat_map(Command::targets);
        targets.any(|target| target.name == claim.name)
    }
}

fn is_settling(
    machine: &Machine<'_>,
    pools: &BTreeMap<&NodePoolName, &NodePool>,
    now: Timestamp,
) -> bool {
    let Some(claim) = machine.claim else {
        return false;
    };
    let pool = claim.node_pool().and_then(|name| pools.get(&name).copied());
    // Static nodes are never consolidated, so that nothing waits for them to be left alone (docs/spec/lifecycle.md#consolidatable).
    let pool = pool.filter(|pool| pool.replicas.is_none());
    let Some(ConsolidateAfter::Seconds(after)) = pool.map(|pool| pool.disruption.consolidate_after)
    else {
        return false;
    };
    let initialized = claim
        .condition(INITIALIZED)
        .filter(|condition| condition.status == ConditionStatus::True);
    let since = claim.status.last_pod_event;
    let since = since.or(initialized.map(|condition| condition.last_transition));
    since.is_some_and(|since| now.duration_since(since) < SignedDuration::from_secs(after))
}

/// Nodes that take no pods now: those that reboot, and those that are not ready. Upstream counts on the latter unless they are tainted,
/// and then waits for pods that cannot start.
fn closed(snapshot: &Snapshot, inventory: &Inventory<'_>) -> BTreeSet<usize> {
    let counts_on_unready = snapshot.settings.optimize == Optimize::Upstream;
    let is_unready = |machine: &Machine<'_>| {
        machine.initialized
            && machine
                .node
                .is_some_and(|node| node.ready.status != ConditionStatus::True)
    };
    let machines = inventory.machines.iter().enumerate();
    let closed = machines
        .filter(|(_, machine)| machine.rebooting || !counts_on_unready && is_unready(machine));
    closed.map(|(at, _)| at).collect()
}
