//! Objects whose changes are rejected, and rows that cannot be read, until a user intervenes.

use fakes::{Admission, CorruptedRow, Protected, Protection, World};
use model::{NodeClaimName, node::Node, node_claim::NodeClaim};

use crate::{
    is_own,
    play::{Play, SimulatedCluster},
    rng::Rng,
    script::RejectedObject,
};

/// Names of the objects that a rejection concerns: a NodeClaim, its instance and its Node.
pub(crate) type ConcernedNames = Vec<String>;

/// Prefixes of rows that belong to one launch, NodeClaim, command or notice.
const ROWS: [&str; 7] = [
    "INTENT#",
    "LAUNCHED#",
    "CALL#",
    "CLOSED#",
    "CLAIM#",
    "COMMAND#",
    "NOTICE#",
];

pub(super) fn instance(
    world: &mut World,
    rng: &mut Rng,
    why: Protection,
    is_deleted: bool,
) -> ConcernedNames {
    let alive = world
        .account
        .alive()
        .filter(|instance| is_own(world, instance));
    let ids: Vec<_> = alive.map(|instance| instance.id.clone()).collect();
    let Some(id) = rng.pick(&ids) else {
        return ConcernedNames::new();
    };
    world.account.protected.insert(id.clone(), why);
    let mut claims = world.api.node_claims.values();
    let claim = claims.find(|claim| is_of(claim, id.as_str()));
    let claim = claim.map(|claim| claim.name.clone());
    let concerned = match &claim {
        Some(claim) => names(world, claim),
        None => vec![id.to_string()],
    };
    delete(world, claim.filter(|_| is_deleted));
    concerned
}

pub(super) fn object(
    world: &mut World,
    rng: &mut Rng,
    (object, how): (RejectedObject, Admission),
    is_deleted: bool,
) -> ConcernedNames {
    let api = &world.api;
    let (protected, claim) = match object {
        RejectedObject::Node => {
            let nodes: Vec<&Node> = api.nodes.values().collect();
            let Some(node) = rng.pick(&nodes) else {
                return ConcernedNames::new();
            };
            let claim = claim_at(world, &node.provider_id);
            (Protected::Node(node.name.clone()), claim)
        }
        RejectedObject::NodeClaim => {
            let claims: Vec<_> = api.node_claims.keys().cloned().collect();
            let Some(claim) = rng.pick(&claims) else {
                return ConcernedNames::new();
            };
            (Protected::NodeClaim(claim.clone()), Some(claim.clone()))
        }
        RejectedObject::Pod => {
            let bound = api.pods.values().filter(|pod| pod.node_name.is_some());
            let pods: Vec<_> = bound.collect();
            let Some(pod) = rng.pick(&pods) else {
                return ConcernedNames::new();
            };
            let node = pod.node_name.as_ref().and_then(|name| api.nodes.get(name));
            let claim = node.and_then(|node| claim_at(world, &node.provider_id));
            (Protected::Pod(pod.key.clone()), claim)
        }
        RejectedObject::NodePool => {
            let pools: Vec<_> = api.node_pools.keys().collect();
            let Some(pool) = rng.pick(&pools) else {
                return ConcernedNames::new();
            };
            (Protected::NodePool(pool.as_str().into()), None)
        }
        RejectedObject::NodeClass => {
            let classes: Vec<_> = api.node_classes.keys().collect();
            let Some(class) = rng.pick(&classes) else {
                return ConcernedNames::new();
            };
            (Protected::NodeClass((*class).clone()), None)
        }
    };
    let mut concerned = match &protected {
        Protected::Node(name) => vec![name.to_string()],
        Protected::NodeClaim(_)
        | Protected::NodeClaimsOf(_)
        | Protected::NodePool(_)
        | Protected::NodeClass(_)
        | Protected::Pod(_) => ConcernedNames::new(),
    };
    concerned.extend(claim.iter().flat_map(|claim| names(world, claim)));
    world.api.protected.insert(protected, how);
    delete(world, claim.filter(|_| is_deleted));
    concerned
}

/// Makes a row unreadable; returns the row and the names of the objects concerned.
pub(super) fn corrupt_row(
    world: &mut World,
    choice: usize,
) -> Option<(CorruptedRow, ConcernedNames)> {
    let partition = format!("CLUSTER#{}", world.cluster);
    let is_of_object =
        |pk: &str, sk: &str| pk == partition && ROWS.iter().any(|kind| sk.starts_with(kind));
    let keys = world.ledger.table().keys().into_iter();
    let keys = keys.map(|key| (key.pk, key.sk));
    let objects = keys.filter(|(pk, sk)| is_of_object(pk, sk) || owned(world, pk, sk).is_some());
    let objects: Vec<(String, String)> = objects.collect();
    let (pk, sk) = objects.get(choice.checked_rem(objects.len())?)?;
    let concerned = match owned(world, pk, sk) {
        Some(instance) => of_instance(world, instance),
        None => concerned_by_row(world, sk),
    };
    Some((world.ledger.spoil(pk, sk), concerned))
}

/// Returns the instance whose owner row this is, if the owner is in this cluster.
fn owned<'a>(world: &World, pk: &'a str, sk: &str) -> Option<&'a str> {
    let instance = pk.strip_prefix("INSTANCE#")?;
    let owner = world.ledger.owners.get(&instance.into())?;
    (sk == "OWNER" && owner.cluster == world.cluster).then_some(instance)
}

/// An instance, and its NodeClaim.
fn of_instance(world: &World, instance: &str) -> ConcernedNames {
    let mut claims = world.api.node_claims.values();
    let claim = claims.find(|claim| is_of(claim, instance));
    let claim = claim.map(|claim| claim.name.clone());
    let mut concerned = vec![instance.to_owned()];
    concerned.extend(claim.iter().flat_map(|claim| names(world, claim)));
    concerned
}

/// Names of the NodeClaims, instances and Nodes that a row concerns.
fn concerned_by_row(world: &World, key: &str) -> ConcernedNames {
    let Some((kind, name)) = key.split_once('#') else {
        return ConcernedNames::new();
    };
    let rows = crate::rows(world);
    let claims: Vec<NodeClaimName> = match kind {
        "CALL" | "CLOSED" => rows
            .and_then(|rows| rows.calls.get(&name.into()))
            .map(|call| call.members.to_vec())
            .unwrap_or_default(),
        "COMMAND" => rows
            .and_then(|rows| rows.commands.get(name))
            .map(|command| {
                let targets = command.delete.iter().map(|target| target.name.clone());
                targets
                    .chain(command.replacements.iter().cloned())
                    .collect()
            })
            .unwrap_or_default(),
        "NOTICE" => {
            return of_instance(world, name.split('#').next().unwrap_or_default());
        }
        _ => vec![name.into()],
    };
    claims
        .iter()
        .flat_map(|claim| names(world, claim))
        .collect()
}

/// Makes a cluster's registry entry unreadable; returns its content.
pub(super) fn hide_entry(world: &mut World) -> Option<serde_json::Value> {
    let mut entries = world.registry.iter_mut();
    let entry = entries.find(|entry| entry.cluster == world.cluster)?;
    let body = std::mem::replace(&mut entry.body, Err("not JSON".to_owned()));
    body.ok()
}

/// Restores a registry entry.
pub(super) fn show_entry(simulated: &mut SimulatedCluster) {
    let Some(body) = simulated.entry.take() else {
        return;
    };
    simulated.sim.with(|world| {
        let mut entries = world.registry.iter_mut();
        if let Some(entry) = entries.find(|entry| entry.cluster == world.cluster) {
            entry.body = Ok(body);
        }
    });
}

/// Returns whether any change is rejected or any row unreadable.
pub(crate) fn has_rejections(play: &Play) -> bool {
    play.clusters.iter().any(|simulated| {
        let rejects =
            |world: &World| !world.api.protected.is_empty() || !world.account.protected.is_empty();
        !simulated.unreadable.is_empty() || simulated.sim.look(rejects)
    })
}

/// Allows all rejected changes and restores all unreadable rows.
pub(crate) fn lift_rejections(play: &mut Play) {
    let now = play.now();
    for simulated in &mut play.clusters {
        let unreadable = std::mem::take(&mut simulated.unreadable);
        simulated.sim.with(|world| {
            world.api.protected.clear();
            world.account.protected.clear();
            unreadable.iter().for_each(|row| world.ledger.mend(row));
        });
        play.laws
            .with(&simulated.name, |laws| laws.rejected.lift(now));
    }
}

fn names(world: &World, claim: &NodeClaimName) -> ConcernedNames {
    let mut names = vec![claim.to_string()];
    if let Some(claim) = world.api.node_claims.get(claim) {
        let id = claim.status.provider_id.rsplit('/').next();
        names.extend(id.filter(|id| !id.is_empty()).map(ToOwned::to_owned));
        names.extend(claim.status.node_name.iter().map(ToString::to_string));
    }
    names
}

fn claim_at(world: &World, provider_id: &str) -> Option<NodeClaimName> {
    let mut claims = world.api.node_claims.values();
    let claim = claims.find(|claim| claim.status.provider_id == provider_id)?;
    Some(claim.name.clone())
}

fn is_of(claim: &NodeClaim, instance: &str) -> bool {
    claim.status.provider_id.rsplit('/').next() == Some(instance)
}

fn delete(world: &mut World, claim: Option<NodeClaimName>) {
    if let Some(claim) = claim {
        world.api.request_deletion(&claim, world.now);
    }
}
