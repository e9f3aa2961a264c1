//! Convergence after the faults have ended.

use api::names::tag;
use fakes::World;
use model::{launch::Instance, ledger::CommandState};

use crate::{events, is_own, laws::BrokenLaw, play::Play, rows};

/// Upper bound on the seconds until convergence: time-outs (five minutes), back-off after missing capacity (half an hour) and
/// garbage collection have ended by then.
const CONVERGES_WITHIN: i64 = 75 * 60;
/// Seconds without any change before a cluster counts as converged: longer than consolidateAfter and the validation delay.
const QUIET: i64 = 240;
/// Seconds between checks.
const CHECK_INTERVAL: i64 = 15;

/// Seconds for which rejections continue after the fault phase: longer than anything else may take.
const REJECTIONS_CONTINUE_FOR: i64 = 25 * 60;

/// Seconds for which outbreaks continue after the fault phase: longer than any condition is tolerated.
const OUTBREAKS_CONTINUE_FOR: i64 = 45 * 60;

pub(crate) fn converge(play: &mut Play) -> Result<(), BrokenLaw> {
    events::keep_outbreaks_active(play);
    if events::has_rejections(play) {
        play.pass(REJECTIONS_CONTINUE_FOR)?;
        play.note("! a user lifts the rejections");
        events::lift_rejections(play);
    }
    if events::has_outbreaks(play) {
        play.pass(OUTBREAKS_CONTINUE_FOR)?;
        play.note("! a user ends the outbreaks");
        events::end_outbreaks(play);
    }
    let started_at = play.seconds;
    let mut open = String::new();
    while play.seconds < started_at + CONVERGES_WITHIN {
        play.pass(CHECK_INTERVAL)?;
        let all = play.clusters.iter();
        let found =
            all.filter_map(|simulated| Some((&simulated.name, simulated.sim.look(open_work)?)));
        let found = found.map(|(name, why)| format!("{name}: {why}")).next();
        match found {
            Some(why) => open = why,
            None if play.seconds - play.last_change < QUIET || !play.is_idle() => {
                "something still changes".clone_into(&mut open);
            }
            None => {
                let planned = play.run_all_lanes();
                if planned.is_empty() {
                    return Ok(());
                }
                open = planned.join("; ");
                play.last_change = play.seconds;
            }
        }
    }
    Err(BrokenLaw {
        law: "the cluster comes to rest",
        at: play.now(),
        what: open,
    })
}

/// Returns whether an instance belongs to a former cluster of the same name that may still exist elsewhere; such an instance is
/// reported, and never terminated. While the registry entry cannot be read, its last content counts.
pub(crate) fn is_of_former_cluster(world: &World, instance: &Instance) -> bool {
    let uid = instance.tags.get(tag::CLUSTER_UID);
    let mut entries = world.registry.iter();
    let entry = entries.find(|entry| entry.cluster == world.cluster);
    let readable = entry.and_then(|entry| entry.body.as_ref().ok());
    let last = || Some(&rows(world)?.meta.as_ref()?.registry);
    let kind = readable.or_else(last);
    let kind = kind.and_then(|entry| entry.get("type")?.as_str());
    uid.is_some_and(|uid| *uid != world.api.uid.0) && kind != Some("eks")
}

/// Returns what keeps a cluster from being converged.
fn open_work(world: &World) -> Option<String> {
    let wanted: usize = world
        .api
        .deployments
        .values()
        .map(|deployment| deployment.replicas)
        .sum();
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
        .filter(|instance| is_own(world, instance) && !is_of_former_cluster(world, instance))
        .map(|instance| format!("aws:///{}/{}", instance.zone, instance.id))
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
    // The table must not grow: rows exist only as long as their NodeClaims.
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
