//! Owners of instances: the cluster is found in the ledger or by the instance's tags (docs/design.md#functions,
//! docs/protocol.md#g4).

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use api::names::tag;
use futures::future::join_all;
use jiff::SignedDuration;
use model::{ClusterName, InstanceId, Interruption, launch::Instance};

use super::cluster_of;
use crate::{TurnError, World};

pub(super) enum FactOwner {
    NotOurs,
    Ours {
        cluster: ClusterName,
        /// The instance as EC2 describes it, if EC2 was queried.
        instance: Option<Box<Instance>>,
    },
    /// The instance runs in a registered cluster, but none of its NodePools made it.
    Unmanaged {
        cluster: ClusterName,
        instance: Box<Instance>,
    },
}

/// Period for which an instance of no registered cluster is not looked up again (docs/protocol.md#g4).
const NOT_OURS_FOR: SignedDuration = SignedDuration::from_hours(1);

/// Concurrent reads of the ledger.
const CONCURRENT_READS: usize = 32;

/// Finds the owner of each fact's instance. EC2 is queried once for all instances that the ledger does not know; never for
/// state changes, which come for every instance of the account, nor for statuses that EC2 itself just returned.
pub(super) async fn find(
    world: &World,
    facts: &[Interruption],
) -> Vec<Result<FactOwner, Arc<TurnError>>> {
    let mut known = Vec::new();
    for chunk in facts.chunks(CONCURRENT_READS) {
        known.extend(join_all(chunk.iter().map(|fact| owner_by_ledger(world, fact))).await);
    }
    let mut unknown: Vec<InstanceId> = facts
        .iter()
        .zip(&known)
        .filter(|(_, known)| matches!(known, Ok(None)))
        .map(|(fact, _)| fact.instance.clone())
        .collect();
    unknown.sort();
    unknown.dedup();
    let described = describe(world, &unknown).await.map_err(Arc::new);
    let mut answers = Vec::new();
    for (fact, known) in facts.iter().zip(known) {
        answers.push(match known {
            Ok(Some(owner)) => Ok(owner),
            Err(error) => Err(Arc::new(error)),
            Ok(None) => match &described {
                Err(error) => Err(Arc::clone(error)),
                Ok(found) => owner_by_tags(world, fact, found).await.map_err(Arc::new),
            },
        });
    }
    answers
}

/// Owner by the ledger; `None` if EC2 must be queried.
async fn owner_by_ledger(
    world: &World,
    fact: &Interruption,
) -> Result<Option<FactOwner>, TurnError> {
    let id = &fact.instance;
    if let Some(owner) = world.ledger.owner(id).await? {
        return Ok(Some(FactOwner::Ours {
            cluster: owner.cluster,
            instance: None,
        }));
    }
    if fact.kind.is_account_wide() || world.ledger.is_unmanaged(id, world.clock.now()).await? {
        return Ok(Some(FactOwner::NotOurs));
    }
    Ok(None)
}

async fn describe(
    world: &World,
    ids: &[InstanceId],
) -> Result<BTreeMap<InstanceId, Instance>, TurnError> {
    if ids.is_empty() {
        return Ok(BTreeMap::new());
    }
    let found = world.cloud.describe_instances(ids).await?.into_iter();
    Ok(found
        .map(|instance| (instance.id.clone(), instance))
        .collect())
}

async fn owner_by_tags(
    world: &World,
    fact: &Interruption,
    found: &BTreeMap<InstanceId, Instance>,
) -> Result<FactOwner, TurnError> {
    let id = &fact.instance;
    let Some(instance) = found.get(id) else {
        // Absence proves nothing, so the message stays until EC2 lists the instance or the queue gives up
        // (docs/protocol.md#g4).
        return Err(TurnError::Cloud(ports::CloudError::NotFound {
            what: format!("instance {id}"),
        }));
    };
    if let Some(cluster) = cluster_of(instance)
        && world.ledger.meta(&cluster).await?.is_some()
    {
        return Ok(FactOwner::Ours {
            cluster,
            instance: Some(Box::new(instance.clone())),
        });
    }
    for cluster in clusters_of_groups(instance) {
        // EC2 was queried anyway, and its answer is newer than the event.
        if !fact.kind.applies_to_capacity_type(instance.capacity_type) {
            return Ok(FactOwner::NotOurs);
        }
        if world.ledger.meta(&cluster).await?.is_some() {
            let instance = Box::new(instance.clone());
            return Ok(FactOwner::Unmanaged { cluster, instance });
        }
    }
    remember_unmanaged(world, id).await?;
    Ok(FactOwner::NotOurs)
}

pub(super) async fn remember_unmanaged(world: &World, id: &InstanceId) -> Result<(), TurnError> {
    let until = world.clock.now() + NOT_OURS_FOR;
    Ok(world.ledger.remember_unmanaged(id, until).await?)
}

/// Names of clusters in the tags of managed node groups, Auto Scaling groups and kOps.
fn clusters_of_groups(instance: &Instance) -> BTreeSet<ClusterName> {
    let tags = &instance.tags;
    let named = tag::OF_GROUPS.iter().filter_map(|key| tags.get(*key));
    let keys = tags.keys();
    let in_keys = keys.filter_map(|key| key.strip_prefix(tag::CLUSTER_PREFIX));
    let names = named.map(String::as_str).chain(in_keys);
    names.map(ClusterName::from).collect()
}
