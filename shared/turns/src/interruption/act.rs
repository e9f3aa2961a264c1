//! Reactions to recorded facts, fastest first: offerings are marked, nodes tainted, NodeClaims deleted, lanes woken, and events
//! emitted last.

use std::{collections::BTreeSet, sync::Arc};

use api::{
    NodePool,
    names::{annotation::TERMINATION_TIMESTAMP, label},
};
use futures::future::join_all;
use model::{
    CapacityType, InstanceId, Interruption, InterruptionKind, Lane,
    interruption::InterruptionAction,
    launch::Instance,
    ledger::{Holder, OfferingKey},
    node::Node,
    node_claim::NodeClaim,
    plan::{NodeClaimUpdate, NodeUpdate, Target},
};
use ports::{
    Cluster, ClusterError,
    cluster::{Event, EventKind, EventTarget},
};

use super::{ClusterDelivery, LocatedFact, is_fresh};
use crate::TurnError;

/// A NodeClaim of a NodePool that an interruption ends.
pub(super) struct Ending<'a> {
    pub(super) fact: &'a Interruption,
    pub(super) instance: Option<&'a Instance>,
    /// `None` if the NodeClaim no longer exists or could not be read.
    pub(super) claim: Option<NodeClaim>,
    pub(super) action: InterruptionAction,
}

impl Ending<'_> {
    /// Whether its NodeClaim is deleted now.
    pub(super) fn ends(&self) -> bool {
        match self.action {
            InterruptionAction::Drain | InterruptionAction::Force => true,
            InterruptionAction::Replace | InterruptionAction::Cordon => false,
        }
    }
}

/// Reads the NodeClaims that own the instances of facts, and the NodePools that decide how their nodes are handled: without
/// these, no NodeClaim is returned.
pub(super) async fn claims(
    delivery: &ClusterDelivery<'_>,
    api: Result<&dyn Cluster, &Arc<TurnError>>,
    located: &[LocatedFact<'_>],
) -> (
    Vec<NodePool>,
    Vec<Result<Option<NodeClaim>, Arc<TurnError>>>,
) {
    let none = |error: &Arc<TurnError>| {
        let each = located.iter().map(|_| Err(Arc::clone(error)));
        (Vec::new(), each.collect())
    };
    let api = match api {
        Ok(api) => api,
        Err(error) => return none(error),
    };
    let each = located.iter().map(|located| async {
        let ledger = &delivery.world.ledger;
        let owner = ledger.owner(&located.fact.instance).await;
        let Some(owner) = owner.map_err(|error| Arc::new(error.into()))? else {
            return Ok(None);
        };
        let Holder::Claim(name) = owner.holder else {
            return Ok(None);
        };
        let claim = api.node_claim(&name).await;
        claim.map_err(|error| Arc::new(error.into()))
    });
    match tokio::join!(api.node_pools(), join_all(each)) {
        (Ok(pools), claims) => (pools.items, claims),
        (Err(error), _) => none(&Arc::new(error.into())),
    }
}

impl ClusterDelivery<'_> {
    /// Taints nodes and deletes NodeClaims ahead of the terminator's turn, which retries what fails here.
    pub(super) async fn fast_path(
        &self,
        api: Result<&dyn Cluster, &Arc<TurnError>>,
        endings: &[Ending<'_>],
    ) {
        // Before the provisioner plans, so that it does not buy the same offering again.
        self.mark_offerings(endings).await;
        let act = async {
            let api = api.map_err(Arc::clone)?;
            if !self.may_act(api).await.map_err(Arc::new)? {
                return Ok(Vec::new());
            }
            let each = endings
                .iter()
                .filter(|ending| ending.action != InterruptionAction::Replace)
                .filter_map(|ending| Some((ending, ending.claim.as_ref()?)))
                .map(|(ending, claim)| self.end_node(api, ending, claim));
            Ok::<_, Arc<TurnError>>(join_all(each).await)
        };
        let lanes = [Lane::Provisioner, Lane::Terminator];
        let reason = endings
            .first()
            .map_or("interruption", |ending| ending.fact.kind.as_str());
        let (acted, ()) = tokio::join!(act, self.wake(&lanes, reason));
        let nodes = match acted {
            Ok(nodes) => nodes,
            Err(error) => {
                tracing::warn!(cluster = %self.cluster, %error, "interrupted nodes not tainted; the terminator retries");
                return;
            }
        };
        if let Ok(api) = api {
            self.emit_events(api, endings, nodes.into_iter().flatten().collect())
                .await;
        }
    }

    /// Taints the node and, unless it is only cordoned, deletes the NodeClaim. Returns the node.
    async fn end_node(
        &self,
        api: &dyn Cluster,
        ending: &Ending<'_>,
        claim: &NodeClaim,
    ) -> Option<Node> {
        let (node, deleted) = match ending.action {
            InterruptionAction::Cordon => (mark_node(api, claim, planner::cordon).await, Ok(())),
            InterruptionAction::Drain | InterruptionAction::Replace | InterruptionAction::Force => {
                tokio::join!(
                    mark_node(api, claim, planner::mark),
                    delete_claim(self, api, ending, claim)
                )
            }
        };
        for error in [node.as_ref().err(), deleted.as_ref().err()]
            .into_iter()
            .flatten()
        {
            let instance = &ending.fact.instance;
            tracing::warn!(cluster = %self.cluster, %instance, %error, "node not tainted or NodeClaim not deleted; the terminator retries");
        }
        node.ok().flatten()
    }

    async fn mark_offerings(&self, endings: &[Ending<'_>]) {
        let now = self.world.clock.now();
        let fresh = endings
            .iter()
            .filter(|ending| is_fresh(ending.fact.at, now));
        let mut offerings = BTreeSet::new();
        let mut unknown: Vec<InstanceId> = Vec::new();
        for ending in fresh {
            match (ending.fact.kind, offering_of(ending)) {
                (_, Some(offering)) => drop(offerings.insert(offering)),
                (InterruptionKind::SpotInterrupted, None) => {
                    unknown.push(ending.fact.instance.clone());
                }
                (_, None) => {}
            }
        }
        if !unknown.is_empty() {
            match self.world.cloud.describe_instances(&unknown).await {
                Ok(instances) => {
                    let spot = instances.iter();
                    let spot = spot.filter(|instance| instance.capacity_type == CapacityType::Spot);
                    offerings.extend(spot.map(spot_offering_of));
                }
                Err(error) => {
                    tracing::warn!(cluster = %self.cluster, %error, "offerings not marked unavailable");
                }
            }
        }
        for offering in &offerings {
            if let Err(error) = self.world.ledger.mark_unavailable(offering, now).await {
                tracing::warn!(cluster = %self.cluster, ?offering, %error, "offering not marked unavailable");
            }
        }
    }

    async fn emit_events(&self, api: &dyn Cluster, endings: &[Ending<'_>], nodes: Vec<Node>) {
        for ending in endings {
            let Some(claim) = &ending.claim else { continue };
            let node = nodes
                .iter()
                .find(|node| Some(&node.name) == claim.status.node_name.as_ref());
            let mut events = self.events(ending, claim, node);
            if ending.fact.kind == InterruptionKind::InstanceTerminated {
                events.extend(self.explanation(claim, &ending.fact.instance).await);
            }
            for event in events {
                if let Err(error) = api.post_event(&event).await {
                    tracing::warn!(cluster = %self.cluster, reason = event.reason, %error, "Kubernetes event not created");
                }
            }
        }
    }

    /// Events on the NodeClaim and on its Node (docs/spec/aws.md#interruption-actions).
    fn events(&self, ending: &Ending<'_>, claim: &NodeClaim, node: Option<&Node>) -> Vec<Event> {
        let at = self.world.clock.now();
        let objects = [
            Some(EventTarget::NodeClaim(
                claim.name.clone(),
                claim.uid.clone(),
            )),
            node.map(|node| EventTarget::Node(node.name.clone(), node.uid.clone())),
        ];
        let (severity, reason) = ending.fact.kind.event();
        let kind = match severity {
            "Normal" => EventKind::Normal,
            _ => EventKind::Warning,
        };
        let message = ending.fact.announcement();
        let ends = claim.deleted_at.is_none() && ending.ends();
        let mut events = Vec::new();
        for about in objects.into_iter().flatten() {
            events.push(Event {
                about: about.clone(),
                kind,
                reason: reason.to_owned(),
                message: message.clone(),
                at,
            });
            if ends {
                events.push(Event {
                    about,
                    kind: EventKind::Warning,
                    reason: "TerminatingOnInterruption".into(),
                    message: format!(
                        "NodeClaim {} is deleted because of the interruption",
                        claim.name
                    ),
                    at,
                });
            }
        }
        events
    }

    /// Cause of the instance's end, if its termination was not requested (docs/spec/aws.md#permissions).
    async fn explanation(&self, claim: &NodeClaim, id: &InstanceId) -> Option<Event> {
        let described = self
            .world
            .cloud
            .describe_instances(std::slice::from_ref(id));
        let described = match described.await {
            Ok(described) => described,
            Err(error) => {
                tracing::warn!(cluster = %self.cluster, instance = %id, %error, "reason of the instance's termination cannot be read");
                return None;
            }
        };
        let failure = described.first()?.failure()?;
        let hint = if failure.starts_with(CANNOT_START) {
            "; if spec.blockDeviceMappings of its EC2NodeClass encrypts volumes, check that EC2 may use the key in ebs.kmsKeyID"
        } else {
            ""
        };
        Some(Event {
            about: EventTarget::NodeClaim(claim.name.clone(), claim.uid.clone()),
            kind: EventKind::Warning,
            reason: "InstanceTerminating".into(),
            message: format!("EC2 terminated instance {id}: {failure}{hint}"),
            at: self.world.clock.now(),
        })
    }
}

/// EC2's error for an instance that could not be started, among other reasons because EC2 has no grant for a volume's key.
const CANNOT_START: &str = "Client.InternalError";

/// Offering that was interrupted and must not be launched again immediately: spot offerings, also of nodes that a rebalance
/// recommendation ends, and reservations.
fn offering_of(ending: &Ending<'_>) -> Option<OfferingKey> {
    let labels = ending.claim.as_ref().map(|claim| &claim.labels);
    let label = |key: &str| {
        let value = labels?.get(key)?;
        (!value.is_empty()).then(|| value.clone())
    };
    let (capacity_type, scope) = match ending.fact.kind {
        InterruptionKind::SpotInterrupted | InterruptionKind::RebalanceRecommendation => {
            (CapacityType::Spot, None)
        }
        InterruptionKind::CapacityReservationInterrupted => (
            CapacityType::Reserved,
            Some(label(label::CAPACITY_RESERVATION_ID)?),
        ),
        InterruptionKind::ScheduledChange
        | InterruptionKind::InstanceStopped
        | InterruptionKind::InstanceTerminated
        | InterruptionKind::InstanceStatus
        | InterruptionKind::SystemStatus
        | InterruptionKind::EventStatus
        | InterruptionKind::GroupTerminating
        | InterruptionKind::CapacityBlockExpiring => return None,
    };
    if let Some(instance) = ending.instance {
        return Some(OfferingKey {
            scope,
            capacity_type,
            ..spot_offering_of(instance)
        });
    }
    Some(OfferingKey {
        capacity_type,
        instance_type: label(label::INSTANCE_TYPE)?,
        zone_id: label(label::ZONE_ID)?,
        scope,
    })
}

fn spot_offering_of(instance: &Instance) -> OfferingKey {
    OfferingKey {
        capacity_type: CapacityType::Spot,
        instance_type: instance.instance_type.clone(),
        zone_id: instance.zone_id.clone(),
        scope: None,
    }
}

/// Keeps new pods and traffic away from a node before anything else happens to it.
async fn mark_node(
    api: &dyn Cluster,
    claim: &NodeClaim,
    how: fn(&Node) -> Option<NodeUpdate>,
) -> Result<Option<Node>, TurnError> {
    let Some(name) = &claim.status.node_name else {
        return Ok(None);
    };
    for _ in 0..TRIES_MAX {
        let Some(node) = api.node(name).await? else {
            return Ok(None);
        };
        if node.provider_id != claim.status.provider_id {
            return Ok(None);
        }
        let Some(update) = how(&node) else {
            return Ok(Some(node));
        };
        match api.update_node(&update).await {
            Ok(()) => return Ok(Some(node)),
            Err(ClusterError::NotFound { .. }) => return Ok(None),
            Err(ClusterError::Conflict { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let what = format!("node {name}");
    Err(ClusterError::Conflict { what }.into())
}

/// Attempts: an object that changes in the meantime is read again, once.
const TRIES_MAX: usize = 2;

async fn delete_claim(
    delivery: &ClusterDelivery<'_>,
    api: &dyn Cluster,
    ending: &Ending<'_>,
    claim: &NodeClaim,
) -> Result<(), TurnError> {
    let mut claim = claim.clone();
    for _ in 0..TRIES_MAX {
        if claim.deleted_at.is_some() {
            return Ok(());
        }
        match delete_once(delivery, api, ending, &claim).await {
            Err(ClusterError::Conflict { .. }) => {}
            Ok(()) | Err(ClusterError::NotFound { .. }) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        let uid = claim.uid.clone();
        match api.node_claim(&claim.name).await? {
            Some(now) if now.uid == uid => claim = now,
            Some(_) | None => return Ok(()),
        }
    }
    let what = format!("NodeClaim {}", claim.name);
    Err(ClusterError::Conflict { what }.into())
}

async fn delete_once(
    delivery: &ClusterDelivery<'_>,
    api: &dyn Cluster,
    ending: &Ending<'_>,
    claim: &NodeClaim,
) -> Result<(), ClusterError> {
    let target = Target {
        name: claim.name.clone(),
        uid: claim.uid.clone(),
        resource_version: claim.resource_version.clone(),
    };
    api.delete_node_claim(&target).await?;
    // Only a NodeClaim that is being deleted gets a deadline, so that no deadline outlives a failed deletion.
    if let Some(update) =
        forced_termination_update(ending.action, claim, delivery.world.clock.now())
    {
        api.update_node_claim(&update).await?;
    }
    Ok(())
}

/// Termination timestamp for a drain without time to wait: it is over when it begins (docs/spec/aws.md#interruption-actions).
/// The update names no version of the NodeClaim, because its deletion changes the version.
pub(crate) fn forced_termination_update(
    action: InterruptionAction,
    claim: &NodeClaim,
    now: jiff::Timestamp,
) -> Option<NodeClaimUpdate> {
    if action != InterruptionAction::Force || claim.annotations.contains_key(TERMINATION_TIMESTAMP)
    {
        return None;
    }
    let mut update = NodeClaimUpdate {
        name: claim.name.clone(),
        uid: claim.uid.clone(),
        ..NodeClaimUpdate::default()
    };
    update
        .set_annotations
        .insert(TERMINATION_TIMESTAMP.to_owned(), format!("{now:.0}"));
    Some(update)
}
