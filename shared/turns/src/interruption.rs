//! Interruptions that AWS announces, for any instance of the account: the fact goes to the ledger before anything else
//! happens, then its NodeClaim is deleted.

use api::names::tag;
use jiff::{SignedDuration, Timestamp};
use model::{
    CapacityType, ClusterName, InstanceId, Lane, Wake,
    ids::TurnId,
    launch::Instance,
    ledger::{Holder, Mode, Notice, OfferingKey},
    node_claim::NodeClaim,
    plan::Target,
};
use ports::{
    Cluster, ClusterError,
    cluster::{Event, EventKind, EventTarget},
    ledger::Unfenced,
};
use serde::Serialize;

use crate::{TurnError, World};

/// One announced interruption of one instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interruption {
    pub instance: InstanceId,
    pub kind: InterruptionKind,
    pub deadline: Option<Timestamp>,
}

/// Announcements that end a node (spec/aws §20.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InterruptionKind {
    SpotInterruption,
    CapacityReservationInterruption,
    ScheduledChange,
    InstanceStopping,
    InstanceTerminated,
}

impl InterruptionKind {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::SpotInterruption => "spot-interruption",
            Self::CapacityReservationInterruption => "capacity-reservation-interruption",
            Self::ScheduledChange => "scheduled-change",
            Self::InstanceStopping => "instance-stopping",
            Self::InstanceTerminated => "instance-terminated",
        }
    }
}

/// What became of it, for the log line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum InterruptionReport {
    /// No cluster of ours has this instance.
    NotOurs,
    /// On record, and its NodeClaim is on its way out or will be by the terminator.
    Recorded { cluster: ClusterName },
    /// Its cluster is in shadow mode: nothing was done.
    Shadow { cluster: ClusterName },
}

/// A stranger is not looked up again for so long (PROTOCOL G4).
const STRANGER_FOR: SignedDuration = SignedDuration::from_hours(1);

/// Handles one interruption. An error means that the fact may not be on record: its message must stay in the queue.
pub async fn interrupt(
    world: &World,
    fact: &Interruption,
    turn: &TurnId,
) -> Result<InterruptionReport, TurnError> {
    let now = world.clock.now();
    let id = &fact.instance;
    let owner = world.ledger.owner(id).await?;
    let (cluster, instance) = match owner {
        Some(owner) => (owner.cluster, None),
        None => {
            if world.ledger.is_not_ours(id, now).await? {
                return Ok(InterruptionReport::NotOurs);
            }
            let found = world
                .cloud
                .describe_instances(std::slice::from_ref(id))
                .await?
                .into_iter()
                .next();
            let Some(instance) = found else {
                return Err(not_shown(id));
            };
            let Some(cluster) = instance
                .tags
                .get(tag::EKS_CLUSTER)
                .map(|name| ClusterName::from(name.as_str()))
            else {
                world
                    .ledger
                    .remember_not_ours(id, now + STRANGER_FOR)
                    .await?;
                return Ok(InterruptionReport::NotOurs);
            };
            (cluster, Some(instance))
        }
    };
    let Some(meta) = world.ledger.meta(&cluster).await? else {
        world
            .ledger
            .remember_not_ours(id, now + STRANGER_FOR)
            .await?;
        return Ok(InterruptionReport::NotOurs);
    };
    if meta.mode == Mode::Shadow {
        return Ok(InterruptionReport::Shadow { cluster });
    }
    let notice = Notice {
        instance: id.clone(),
        kind: fact.kind.as_str().to_owned(),
        deadline: fact.deadline,
        done: false,
    };
    let acts = Unfenced {
        turn: turn.clone(),
        commands: Vec::new(),
        notices: vec![notice],
        due: vec![(Lane::Terminator, now), (Lane::Provisioner, now)],
    };
    world.ledger.record_unfenced(&cluster, &acts).await?;
    // From here on the ledger obliges the terminator; the rest only makes it faster.
    if let Err(error) = hasten(world, &cluster, &meta.registry, fact, instance).await {
        tracing::warn!(%cluster, instance = %id, %error, "left to the terminator");
    }
    Ok(InterruptionReport::Recorded { cluster })
}

/// G4: absence proves nothing, so the message stays until EC2 shows the instance or the queue gives up.
fn not_shown(id: &InstanceId) -> TurnError {
    TurnError::Cloud(ports::CloudError::NotFound {
        what: format!("instance {id}"),
    })
}

async fn hasten(
    world: &World,
    cluster: &ClusterName,
    registry: &serde_json::Value,
    fact: &Interruption,
    instance: Option<Instance>,
) -> Result<(), TurnError> {
    let now = world.clock.now();
    if fact.kind == InterruptionKind::SpotInterruption {
        let ids = std::slice::from_ref(&fact.instance);
        let instance = match instance {
            Some(instance) => Some(instance),
            None => world
                .cloud
                .describe_instances(ids)
                .await?
                .into_iter()
                .next(),
        };
        if let Some(instance) = instance {
            let offering = OfferingKey {
                capacity_type: CapacityType::Spot,
                instance_type: instance.instance_type,
                zone_id: instance.zone_id,
                scope: None,
            };
            world.ledger.mark_unavailable(&offering, now).await?;
        }
    }
    delete_claim(world, cluster, registry, fact).await?;
    for lane in [Lane::Provisioner, Lane::Terminator] {
        world
            .wakes
            .send(
                &Wake::new(cluster.clone(), lane, fact.kind.as_str()),
                SignedDuration::ZERO,
            )
            .await?;
    }
    Ok(())
}

async fn delete_claim(
    world: &World,
    cluster: &ClusterName,
    registry: &serde_json::Value,
    fact: &Interruption,
) -> Result<(), TurnError> {
    let Some(owner) = world.ledger.owner(&fact.instance).await? else {
        return Ok(());
    };
    let Holder::Claim(name) = owner.holder else {
        return Ok(());
    };
    let api = world.clusters.connect(cluster, registry).await?;
    let Some(claim) = api
        .node_claim(&name)
        .await?
        .filter(|claim| claim.deleted_at.is_none())
    else {
        return Ok(());
    };
    if fact.kind == InterruptionKind::InstanceTerminated
        && let Err(error) = explain(world, api.as_ref(), &claim, &fact.instance).await
    {
        tracing::warn!(%cluster, instance = %fact.instance, %error, "its end is not explained");
    }
    let target = Target {
        name,
        uid: claim.uid,
        resource_version: claim.resource_version,
    };
    match api.delete_node_claim(&target).await {
        Ok(()) | Err(ClusterError::NotFound { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// EC2's word for a volume whose key nobody granted it, among other things that it could not start an instance with.
const CANNOT_START: &str = "Client.InternalError";

/// Says on the NodeClaim what ended its instance, where nobody asked for that (spec/aws §23.3).
async fn explain(
    world: &World,
    api: &dyn Cluster,
    claim: &NodeClaim,
    id: &InstanceId,
) -> Result<(), TurnError> {
    let described = world.cloud.describe_instances(std::slice::from_ref(id));
    let described = described.await?;
    let Some(failure) = described.first().and_then(Instance::failure) else {
        return Ok(());
    };
    let hint = if failure.starts_with(CANNOT_START) {
        "; where spec.blockDeviceMappings of its EC2NodeClass encrypts volumes, see that EC2 is granted the use of ebs.kmsKeyID"
    } else {
        ""
    };
    let event = Event {
        about: EventTarget::NodeClaim(claim.name.clone(), claim.uid.clone()),
        kind: EventKind::Warning,
        reason: "InstanceTerminating".into(),
        message: format!("EC2 ended instance {id}: {failure}{hint}"),
        at: world.clock.now(),
    };
    Ok(api.post_event(&event).await?)
}
