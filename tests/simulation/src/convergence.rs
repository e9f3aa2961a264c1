//! What must come of everything once nothing goes wrong any more.

use api::names::tag;
use fakes::World;
use model::{launch::Instance, ledger::CommandState};

use crate::{deeds, is_own, laws::Broken, play::Play, rows};

/// Time-outs (five minutes), what was learned of missing capacity (half an hour) and garbage collection are over by then.
const PATIENCE: i64 = 75 * 60;
/// Nothing has happened for so long: longer than consolidateAfter and what is judged again.
const QUIET: i64 = 240;
/// How often the question is asked.
const EVERY: i64 = 15;

/// What refuses goes on to refuse for so long after the trouble, longer than anything else may take.
const REFUSES_FOR: i64 = 25 * 60;

/// Nodes that fail alike go on to fail for so long after the trouble, longer than any condition is tolerated.
const FAIL_FOR: i64 = 45 * 60;

pub(crate) fn come_to_rest(play: &mut Play) -> Result<(), Broken> {
    deeds::go_on_failing(play);
    if deeds::refuses(play) {
        play.pass(REFUSES_FOR)?;
        play.note("! a person sees to what refuses");
        deeds::see_to_refusals(play);
    }
    if deeds::fails(play) {
        play.pass(FAIL_FOR)?;
        play.note("! a person sees to why nodes fail");
        deeds::see_to_causes(play);
    }
    let begun = play.seconds;
    let mut unrest = String::new();
    while play.seconds < begun + PATIENCE {
        play.pass(EVERY)?;
        let all = play.clusters.iter();
        let found = all.filter_map(|place| Some((&place.name, place.sim.look(unrest_of)?)));
        let found = found.map(|(name, why)| format!("{name}: {why}")).next();
        match found {
            Some(why) => unrest = why,
            None if play.seconds - play.last_change < QUIET || !play.is_idle() => {
                "something still changes".clone_into(&mut unrest);
            }
            None => {
                let planned = play.look_once();
                if planned.is_empty() {
                    return Ok(());
                }
                unrest = planned.join("; ");
                play.last_change = play.seconds;
            }
        }
    }
    Err(Broken {
        law: "the cluster comes to rest",
        at: play.now(),
        what: unrest,
    })
}

/// Whether an instance is of a former cluster of the name, which may live on elsewhere: it is named, and never ended. While its entry
/// cannot be read, what it said last holds.
pub(crate) fn is_left(world: &World, instance: &Instance) -> bool {
    let uid = instance.tags.get(tag::CLUSTER_UID);
    let mut entries = world.registry.iter();
    let entry = entries.find(|entry| entry.cluster == world.cluster);
    let readable = entry.and_then(|entry| entry.body.as_ref().ok());
    let last = || Some(&rows(world)?.meta.as_ref()?.registry);
    let kind = readable.or_else(last);
    let kind = kind.and_then(|entry| entry.get("type")?.as_str());
    uid.is_some_and(|uid| *uid != world.api.uid.0) && kind != Some("eks")
}

/// What is not as it should be in the end.
fn unrest_of(world: &World) -> Option<String> {
    let wanted: usize = world.api.deployments.values().map(|one| one.replicas).sum();
    let bound = world
        .api
        .pods
        .values()
        .filter(|pod| pod.node_name.is_some() && pod.deletion.is_none())
        .count();
    if bound != wanted || world.api.pods.len() != wanted {
        return Some(format!("{bound} of {wanted} pods run"));
    }
    let mut instances: Vec<String> = world
        .account
        .alive()
        .filter(|one| is_own(world, one) && !is_left(world, one))
        .map(|one| format!("aws:///{}/{}", one.zone, one.id))
        .collect();
    let mut claims: Vec<String> = world
        .api
        .node_claims
        .values()
        .map(|claim| claim.status.provider_id.clone())
        .collect();
    let mut nodes: Vec<String> = world
        .api
        .nodes
        .values()
        .map(|node| node.provider_id.clone())
        .collect();
    for list in [&mut instances, &mut claims, &mut nodes] {
        list.sort();
    }
    if instances != claims || claims != nodes {
        return Some(format!(
            "instances {instances:?}, NodeClaims {claims:?}, Nodes {nodes:?}"
        ));
    }
    let leaving = world
        .api
        .node_claims
        .values()
        .find(|claim| claim.deleted_at.is_some());
    if let Some(claim) = leaving {
        return Some(format!("NodeClaim {} does not go", claim.name));
    }
    let mut nodes = world.api.nodes.values();
    if let Some(node) = nodes.find(|node| !node.conditions.is_empty()) {
        return Some(format!("Node {} is not repaired", node.name));
    }
    for (name, pool) in &world.api.node_pools {
        let claims = world.api.node_claims.values();
        let own = claims.filter(|claim| claim.node_pool().is_some_and(|own| own.as_str() == name));
        let own = i64::try_from(own.count()).unwrap_or(i64::MAX);
        if let Some(replicas) = pool.spec.replicas.filter(|replicas| *replicas != own) {
            return Some(format!("NodePool {name} has {own} of {replicas} nodes"));
        }
    }
    let names: Vec<_> = world.api.node_claims.keys().cloned().collect();
    let rows = rows(world)?;
    if let Some(call) = rows.calls.values().find(|call| !call.closed) {
        return Some(format!("call {} is open", call.request.token));
    }
    if let Some(intent) = rows.intents.values().find(|intent| intent.is_in_flight()) {
        return Some(format!(
            "the launch of {} is open: {:?}",
            intent.name(),
            intent.state
        ));
    }
    let open = |command: &&model::ledger::Command| {
        command.state.is_open() || command.state == CommandState::Proposed
    };
    if let Some(command) = rows.commands.values().find(open) {
        return Some(format!(
            "command {} is open: {:?}",
            command.id, command.state
        ));
    }
    if let Some(notice) = rows.notices.values().find(|notice| !notice.done) {
        return Some(format!("the notice for {} is open", notice.instance));
    }
    // Zero growth of the table: rows live as long as their NodeClaims.
    if let Some(name) = rows
        .intents
        .keys()
        .chain(rows.claims.keys())
        .find(|name| !names.contains(name))
    {
        return Some(format!("rows of NodeClaim {name} are left over"));
    }
    let unowned = names.iter().find(|name| !rows.claims.contains_key(*name));
    unowned.map(|name| format!("A4: nothing says which instance NodeClaim {name} owns"))
}
