//! Instances without an owner. Instances that serve pods are drained before they are terminated.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use api::names::{finalizer, tag, taint};
use model::{
    ClusterName, InstanceId, NodeClaimName,
    ids::LaunchToken,
    launch::{Instance, InstanceState},
    ledger::{ClaimPhase, Holder},
    node::{ConditionStatus, Node},
    node_claim::NodeClaim,
    plan::NodeUpdate,
};
use ports::{Cluster, ClusterError};

use crate::{
    TurnError, World,
    context::{identity::InstanceOwnership, node_claims::instance_of},
};

/// An instance without an owner, to be terminated.
pub(super) struct Orphan {
    pub(super) instance: InstanceId,
    /// The NodeClaim that holds it in the ledger, if any.
    pub(super) claim: Option<NodeClaimName>,
    /// The Node to drain first, if it serves pods.
    pub(super) node: Option<Node>,
    pub(super) explained: bool,
}

/// Nodes that are ready and open to pods, by instance. A node that still carries the taint it booted with has never been in
/// service.
pub(super) struct ServingNodes<'a>(BTreeMap<&'a str, &'a Node>);

impl<'a> ServingNodes<'a> {
    pub(super) fn of(nodes: &'a [Node]) -> Self {
        let serves = |node: &&Node| {
            let mut taints = node.taints.iter();
            node.ready.status == ConditionStatus::True
                && taints.all(|taint| taint.key != taint::UNREGISTERED)
        };
        let nodes = nodes.iter().filter(serves);
        let by_instance =
            nodes.filter_map(|node| Some((node.provider_id.rsplit('/').next()?, node)));
        Self(by_instance.collect())
    }

    pub(super) fn get(&self, instance: &InstanceId) -> Option<&'a Node> {
        self.0.get(instance.as_str()).copied()
    }
}

/// Instances that no NodeClaim names, no launch explains, and that are not being drained.
pub(super) fn orphans(
    instances: &[Instance],
    claims: &[NodeClaim],
    serving: &ServingNodes<'_>,
    open: &BTreeSet<LaunchToken>,
) -> BTreeSet<InstanceId> {
    let named: BTreeSet<InstanceId> = claims.iter().filter_map(instance_of).collect();
    let is_drained = |instance| {
        let node = serving.get(instance);
        node.is_some_and(|node| node.deleted_at.is_some())
    };
    instances
        .iter()
        .filter(|instance| instance.tags.contains_key(tag::NODE_POOL))
        .filter(|instance| instance.state != InstanceState::ShuttingDown)
        .filter(|instance| !named.contains(&instance.id) && !is_drained(&instance.id))
        .filter(|instance| launch_of(instance).is_none_or(|token| !open.contains(&token)))
        .map(|instance| instance.id.clone())
        .collect()
}

fn launch_of(instance: &Instance) -> Option<LaunchToken> {
    instance
        .tags
        .get(tag::LAUNCH)
        .map(|token| LaunchToken::from(token.as_str()))
}

/// An instance that seems to have no owner.
pub(super) struct SuspectInstance<'a> {
    pub(super) instance: &'a Instance,
    pub(super) ownership: InstanceOwnership,
    /// The instance's Node, if that serves pods.
    pub(super) node: Option<&'a Node>,
    /// Whether the cluster has a Node for it, in whichever state.
    pub(super) has_node: bool,
}

pub(super) enum OrphanVerdict {
    /// An owner was found after all.
    Kept,
    /// No owner, and no proof that the instance was ever this cluster's: another stack may serve a cluster of the same name.
    Unproven,
    Orphan(Box<Orphan>),
}

pub(super) fn is_of(node: &Node, instance: &InstanceId) -> bool {
    node.provider_id.rsplit('/').next() == Some(instance.as_str())
}

/// Reads whether an instance really has no owner, and whether the ledger explains why. A finished launch does not explain why a
/// node in service should go: the launch may have been given up while EC2 did not list the instance.
pub(super) async fn judge_orphan(
    world: &World,
    cluster: &ClusterName,
    api: &Arc<dyn Cluster>,
    suspect: &SuspectInstance<'_>,
) -> Result<OrphanVerdict, TurnError> {
    let SuspectInstance {
        instance,
        ownership,
        node,
        has_node,
    } = *suspect;
    let owner = world.ledger.owner(&instance.id).await?;
    // The owner's cluster may be this cluster, registered under another name.
    if owner
        .as_ref()
        .is_some_and(|owner| owner.cluster != *cluster)
    {
        return Ok(OrphanVerdict::Kept);
    }
    let (claim, explained) = match owner.map(|owner| owner.holder) {
        Some(Holder::Collector) => (None, true),
        Some(Holder::Claim(claim)) => {
            if api.node_claim(&claim).await?.is_some() {
                return Ok(OrphanVerdict::Kept);
            }
            let row = world.ledger.claim(cluster, &claim).await?;
            let closed = row.is_none_or(|row| row.phase == ClaimPhase::Closed);
            (Some(claim), closed && node.is_none())
        }
        None => {
            // Surplus of a finished call: all instances that the call owed have been assigned.
            let call = match launch_of(instance) {
                Some(token) => world.ledger.call(cluster, &token).await?,
                None => None,
            };
            if ownership == InstanceOwnership::Unproven && call.is_none() && !has_node {
                return Ok(OrphanVerdict::Unproven);
            }
            let closed = call.is_some_and(|call| call.closed);
            (None, closed && node.is_none())
        }
    };
    Ok(OrphanVerdict::Orphan(Box::new(Orphan {
        instance: instance.id.clone(),
        claim,
        node: node.cloned(),
        // The former cluster is gone, which explains the absence.
        explained: explained || ownership == InstanceOwnership::FormerCluster,
    })))
}

/// Deletes a Node, so that it is drained as if a person had deleted it.
pub(super) async fn delete_node(api: &dyn Cluster, node: &Node) -> Result<(), ClusterError> {
    let update = NodeUpdate {
        name: node.name.clone(),
        uid: node.uid.clone(),
        resource_version: node.resource_version.clone(),
        // Without the finalizer the Node would be gone before its pods are.
        add_finalizers: vec![finalizer::TERMINATION.to_owned()],
        delete: true,
        ..NodeUpdate::default()
    };
    api.update_node(&update).await
}
