//! Disruption candidates, and the reasons for which other nodes are not candidates (docs/spec/lifecycle.md#eligibility).

use std::rc::Rc;

use api::names::annotation::DO_NOT_DISRUPT;
use jiff::Timestamp;
use model::{
    InstanceType, NanosPerHour,
    labels::{INSTANCE_TYPE, NODE_POOL},
    node::Node,
    node_claim::NodeClaim,
    node_pool::NodePool,
    plan::Target,
    pod::Pod,
};

use super::{context::DisruptionContext, cost, price};
use crate::{
    do_not_disrupt::{must_not_be_disrupted, protected_until},
    inventory::StateNode,
    managed::{is_managed, is_managed_pool},
    pods::is_reschedulable,
};

/// A node that may be disrupted, with its price and its disruption cost.
#[derive(Clone)]
pub(super) struct Candidate<'a> {
    /// Index in the inventory.
    pub(super) index: usize,
    pub(super) state_node: &'a StateNode<'a>,
    pub(super) claim: &'a NodeClaim,
    pub(super) node: &'a Node,
    pub(super) pool: &'a NodePool,
    /// `None` if the instance type is no longer in the catalog.
    pub(super) instance_type: Option<&'a InstanceType>,
    pub(super) price: NanosPerHour,
    pub(super) cost: i64,
}

/// A node that may not be disrupted, with the reason.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Blocked {
    /// Name of the Node, or of the NodeClaim if there is no Node.
    pub node: String,
    pub message: String,
}

/// Degree to which a disruption method respects pods that block eviction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// Pods and PodDisruptionBudgets must allow the eviction now.
    Graceful,
    /// Blocking pods are ignored on nodes with a terminationGracePeriod.
    Eventual,
}

/// Candidates of a class, and the blocked nodes.
#[derive(Clone, Default)]
pub(super) struct Candidates<'a> {
    pub(super) all: Rc<Vec<Candidate<'a>>>,
    pub(super) blocked: Vec<Blocked>,
    /// Earliest time at which a blocked node becomes a candidate by the passing of time; no event announces that.
    pub(super) unblocked_at: Option<Timestamp>,
}

impl<'a> Candidates<'a> {
    pub(super) fn new(context: &DisruptionContext<'a>, class: Class) -> Self {
        let mut all = Vec::new();
        let mut blocked = Vec::new();
        let mut unblocked_at = None;
        for (at, state_node) in context.inventory.state_nodes.iter().enumerate() {
            match judge_state_node(context, at, state_node, class) {
                Verdict::Candidate(candidate) => all.push(candidate),
                Verdict::Blocked { message, until } => {
                    unblocked_at = unblocked_at.into_iter().chain(until).min();
                    blocked.push(Blocked {
                        node: name_of(state_node),
                        message,
                    });
                }
                Verdict::NotOurs => {}
            }
        }
        Self {
            all: Rc::new(all),
            blocked,
            unblocked_at,
        }
    }

    pub(super) fn by_target(&self, target: &Target) -> Option<&Candidate<'a>> {
        let mut all = self.all.iter();
        all.find(|candidate| {
            candidate.claim.name == target.name && candidate.claim.uid == target.uid
        })
    }

    pub(super) fn by_claim(&self, claim: &NodeClaim) -> Option<&Candidate<'a>> {
        self.all
            .iter()
            .find(|candidate| candidate.claim.name == claim.name)
    }
}

pub(super) fn name_of(state_node: &StateNode<'_>) -> String {
    let node = state_node.node.map(|node| node.name.as_str());
    node.unwrap_or(state_node.name).to_owned()
}

/// Whether a node is a candidate.
enum Verdict<'a> {
    Candidate(Candidate<'a>),
    Blocked {
        message: String,
        /// Time at which the block ends by itself, if it does.
        until: Option<Timestamp>,
    },
    /// Not managed by Whittle, excluded or already being disrupted; no event is emitted.
    NotOurs,
}

impl Verdict<'_> {
    fn blocked(message: String, until: Option<Timestamp>) -> Self {
        Self::Blocked { message, until }
    }
}

fn judge_state_node<'a>(
    context: &DisruptionContext<'a>,
    at: usize,
    state_node: &'a StateNode<'a>,
    class: Class,
) -> Verdict<'a> {
    let blocked = |text: &str| Verdict::blocked(text.to_owned(), None);
    let Some(claim) = state_node.claim.filter(|claim| is_managed(claim)) else {
        return Verdict::NotOurs;
    };
    if context.is_commanded(claim) || context.options.excluded.contains(&claim.name) {
        return Verdict::NotOurs;
    }
    let Some(node) = state_node.node else {
        return blocked("Nodeclaim does not have an associated node");
    };
    if state_node.rebooting {
        return blocked("Node is rebooting");
    }
    if !state_node.initialized {
        return blocked("Node isn't initialized");
    }
    if state_node.deleting {
        return blocked("Node is deleting or marked for deletion");
    }
    if let Some(until) = nominated_until(context, claim, node) {
        let text = "Node is nominated for a pending pod";
        return Verdict::blocked(text.to_owned(), Some(until));
    }
    if node.annotations.get(DO_NOT_DISRUPT).map(String::as_str) == Some("true") {
        return blocked(&format!(
            "Disruption is blocked through the \"{DO_NOT_DISRUPT}\" annotation"
        ));
    }
    let Some(pool_name) = state_node.labels.get(NODE_POOL) else {
        return blocked(&format!("Node doesn't have required label \"{NODE_POOL}\""));
    };
    let Some((pool, types)) = pool_of(context, pool_name) else {
        return blocked(&format!("NodePool not found (NodePool={pool_name})"));
    };
    let waived = class == Class::Eventual && claim.spec.termination_grace_period.is_some();
    if !waived && let Some(blocking_pods) = blocking_pods(context, state_node) {
        return blocking_pods;
    }
    Verdict::Candidate(Candidate::new(
        context,
        at,
        (state_node, claim, node),
        (pool, types),
    ))
}

/// Time until which pending pods are nominated to the node, or were nominated to its NodeClaim before the Node existed.
pub(super) fn nominated_until(
    context: &DisruptionContext<'_>,
    claim: &NodeClaim,
    node: &Node,
) -> Option<Timestamp> {
    let nominated = [
        context.snapshot.nominated.get(&node.name),
        context.snapshot.nominated_claims.get(&claim.name),
    ];
    let until = nominated.into_iter().flatten().max().copied();
    until.filter(|until| *until > context.now)
}

/// Returns the NodePool of this name and its instance types, if it uses an EC2NodeClass and has any.
pub(super) fn pool_of<'a>(
    context: &DisruptionContext<'a>,
    name: &str,
) -> Option<(&'a NodePool, &'a [InstanceType])> {
    let name = name.into();
    let types = context.planning.types.get(&name)?;
    let pool = context.pool(&name).filter(|pool| is_managed_pool(pool))?;
    (!types.is_empty()).then_some((pool, types.as_slice()))
}

impl<'a> Candidate<'a> {
    pub(super) fn new(
        context: &DisruptionContext<'a>,
        index: usize,
        (state_node, claim, node): (&'a StateNode<'a>, &'a NodeClaim, &'a Node),
        (pool, types): (&'a NodePool, &'a [InstanceType]),
    ) -> Self {
        let instance_type = instance_type_of(state_node, types);
        Self {
            index,
            state_node,
            claim,
            node,
            pool,
            instance_type,
            price: instance_type.map_or(NanosPerHour(0), |instance_type| {
                let surcharge = context.snapshot.surcharge(pool).total();
                price::of_node(instance_type, &state_node.labels, surcharge)
            }),
            cost: cost::of_node(&state_node.pods, &context.snapshot.settings),
        }
    }
}

pub(super) fn instance_type_of<'t>(
    state_node: &StateNode<'_>,
    types: &'t [InstanceType],
) -> Option<&'t InstanceType> {
    let name = state_node.labels.get(INSTANCE_TYPE);
    types.iter().find(|known| Some(&known.name) == name)
}

/// Returns the first reason for which a pod blocks the disruption of its node, in Karpenter's order and wording.
fn blocking_pods<'a>(
    context: &DisruptionContext<'a>,
    state_node: &StateNode<'a>,
) -> Option<Verdict<'a>> {
    let protected = |pod: &&&Pod| must_not_be_disrupted(pod, context.now);
    if let Some(pod) = state_node.pods.iter().find(protected) {
        let text = format!("Pod has \"{DO_NOT_DISRUPT}\" annotation (Pod={})", pod.key);
        return Some(Verdict::blocked(text, protected_until(pod, context.now)));
    }
    let refusing = |pod: &&'a Pod| context.pdb_limits.blocking_budgets(pod);
    if let Some(budgets) = state_node.pods.iter().find_map(refusing) {
        let names: Vec<String> = budgets
            .iter()
            .map(|budget| budget.key.to_string())
            .collect();
        let text = match names.as_slice() {
            [name] => format!("Pdb prevents pod evictions (PodDisruptionBudget=[{name}])"),
            names => format!(
                "Eviction does not support multiple PDBs (PodDisruptionBudget(s)=[{}])",
                names.join(" ")
            ),
        };
        return Some(Verdict::blocked(text, None));
    }
    // A pod with unresolved volumes cannot be placed in a simulation.
    let moving = state_node.pods.iter().filter(|pod| is_reschedulable(pod));
    moving
        .filter(|pod| !pod.volumes.is_empty())
        .find_map(|pod| {
            let name = context.volumes.alternatives(pod).err()?;
            let text = format!(
                "Pod uses a volume that cannot be found (Pod={}, Volume={name})",
                pod.key
            );
            Some(Verdict::blocked(text, None))
        })
}
