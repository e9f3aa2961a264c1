//! Objects that refuse, and rows that cannot be read, until a person sees to them.

use fakes::{Admission, Protected, Protection, SpoiltRow, World};
use model::{NodeClaimName, node::Node, node_claim::NodeClaim};

use crate::{
    dice::Dice,
    is_own,
    play::{Place, Play},
    script::Refusing,
};

/// The names of what a refusal concerns: a NodeClaim, its instance and its Node.
pub(crate) type Refused = Vec<String>;

/// Kinds of rows that each tell of one launch, NodeClaim, command or notice.
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
    dice: &mut Dice,
    why: Protection,
    is_deleted: bool,
) -> Refused {
    let alive = world.account.alive().filter(|one| is_own(world, one));
    let ids: Vec<_> = alive.map(|one| one.id.clone()).collect();
    let Some(id) = dice.pick(&ids) else {
        return Refused::new();
    };
    world.account.protected.insert(id.clone(), why);
    let mut claims = world.api.node_claims.values();
    let claim = claims.find(|claim| is_of(claim, id.as_str()));
    let claim = claim.map(|claim| claim.name.clone());
    let refused = match &claim {
        Some(claim) => names(world, claim),
        None => vec![id.to_string()],
    };
    delete(world, claim.filter(|_| is_deleted));
    refused
}

pub(super) fn object(
    world: &mut World,
    dice: &mut Dice,
    (object, how): (Refusing, Admission),
    is_deleted: bool,
) -> Refused {
    let api = &world.api;
    let (protected, claim) = match object {
        Refusing::Node => {
            let nodes: Vec<&Node> = api.nodes.values().collect();
            let Some(node) = dice.pick(&nodes) else {
                return Refused::new();
            };
            let claim = claim_at(world, &node.provider_id);
            (Protected::Node(node.name.clone()), claim)
        }
        Refusing::NodeClaim => {
            let claims: Vec<_> = api.node_claims.keys().cloned().collect();
            let Some(claim) = dice.pick(&claims) else {
                return Refused::new();
            };
            (Protected::NodeClaim(claim.clone()), Some(claim.clone()))
        }
        Refusing::Pod => {
            let bound = api.pods.values().filter(|pod| pod.node_name.is_some());
            let pods: Vec<_> = bound.collect();
            let Some(pod) = dice.pick(&pods) else {
                return Refused::new();
            };
            let node = pod.node_name.as_ref().and_then(|name| api.nodes.get(name));
            let claim = node.and_then(|node| claim_at(world, &node.provider_id));
            (Protected::Pod(pod.key.clone()), claim)
        }
    };
    let mut refused = match &protected {
        Protected::Node(name) => vec![name.to_string()],
        Protected::NodeClaim(_)
        | Protected::NodeClaimsOf(_)
        | Protected::NodePool(_)
        | Protected::NodeClass(_)
        | Protected::Pod(_) => Refused::new(),
    };
    refused.extend(claim.iter().flat_map(|claim| names(world, claim)));
    world.api.protected.insert(protected, how);
    delete(world, claim.filter(|_| is_deleted));
    refused
}

/// Makes a row unreadable, and says what it was and whom it concerns.
pub(super) fn spoil(world: &mut World, choice: usize) -> Option<(SpoiltRow, Refused)> {
    let partition = format!("CLUSTER#{}", world.cluster);
    let is_of_object =
        |pk: &str, sk: &str| pk == partition && ROWS.iter().any(|kind| sk.starts_with(kind));
    let keys = world.ledger.table().keys().into_iter();
    let keys = keys.map(|key| (key.pk, key.sk));
    let objects = keys.filter(|(pk, sk)| is_of_object(pk, sk) || owned(world, pk, sk).is_some());
    let objects: Vec<(String, String)> = objects.collect();
    let (pk, sk) = objects.get(choice.checked_rem(objects.len())?)?;
    let refused = match owned(world, pk, sk) {
        Some(instance) => of_instance(world, instance),
        None => concerned(world, sk),
    };
    Some((world.ledger.spoil(pk, sk), refused))
}

/// The instance of this cluster whose owner a row names.
fn owned<'a>(world: &World, pk: &'a str, sk: &str) -> Option<&'a str> {
    let instance = pk.strip_prefix("INSTANCE#")?;
    let owner = world.ledger.owners.get(&instance.into())?;
    (sk == "OWNER" && owner.cluster == world.cluster).then_some(instance)
}

/// An instance, and the NodeClaim that shows it.
fn of_instance(world: &World, instance: &str) -> Refused {
    let mut claims = world.api.node_claims.values();
    let claim = claims.find(|claim| is_of(claim, instance));
    let claim = claim.map(|claim| claim.name.clone());
    let mut refused = vec![instance.to_owned()];
    refused.extend(claim.iter().flat_map(|claim| names(world, claim)));
    refused
}

/// NodeClaims, instances and Nodes that a row tells of.
fn concerned(world: &World, key: &str) -> Refused {
    let Some((kind, name)) = key.split_once('#') else {
        return Refused::new();
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

/// A cluster's registry entry, which nobody can read from now on.
pub(super) fn hide_entry(world: &mut World) -> Option<serde_json::Value> {
    let mut entries = world.registry.iter_mut();
    let entry = entries.find(|entry| entry.cluster == world.cluster)?;
    let body = std::mem::replace(&mut entry.body, Err("not JSON".to_owned()));
    body.ok()
}

/// A registry entry as it was.
pub(super) fn show_entry(place: &mut Place) {
    let Some(body) = place.entry.take() else {
        return;
    };
    place.sim.with(|world| {
        let mut entries = world.registry.iter_mut();
        if let Some(entry) = entries.find(|entry| entry.cluster == world.cluster) {
            entry.body = Ok(body);
        }
    });
}

/// Whether anything refuses, or cannot be read.
pub(crate) fn refuses(play: &Play) -> bool {
    play.clusters.iter().any(|place| {
        let refuses =
            |world: &World| !world.api.protected.is_empty() || !world.account.protected.is_empty();
        !place.spoilt.is_empty() || place.sim.look(refuses)
    })
}

/// A person sees to everything that refuses or cannot be read.
pub(crate) fn see_to_refusals(play: &mut Play) {
    let now = play.now();
    for place in &mut play.clusters {
        let spoilt = std::mem::take(&mut place.spoilt);
        place.sim.with(|world| {
            world.api.protected.clear();
            world.account.protected.clear();
            spoilt.iter().for_each(|row| world.ledger.mend(row));
        });
        play.laws.with(&place.name, |laws| laws.refused.lift(now));
    }
}

fn names(world: &World, claim: &NodeClaimName) -> Refused {
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
        world.api.order_deletion(&claim, world.now);
    }
}
