//! Budgets: a share of nodes at any time, none in business hours, and fewer for the reason Underutilized. The documentation shows
//! this example to users.

use std::collections::BTreeSet;

use serde_json::json;
use stories::{POD, Relay, Rig, all_bound, cpu, secs};

use crate::types;

/// Budgets as a user writes them: a tenth at once, none in business hours, a twentieth for underutilized nodes.
fn set_budgets(rig: &Rig) {
    let budgets = json!([
        {"nodes": "10%"},
        {"nodes": "0", "schedule": "0 9 * * mon-fri", "duration": "8h"},
        {"nodes": "5%", "reasons": ["Underutilized"]},
    ]);
    rig.sim.with(|world| {
        let pool = world.api.node_pools.get_mut("default").unwrap();
        pool.spec.disruption.budgets = serde_json::from_value(budgets).unwrap();
        pool.spec.template.spec.requirements.push(
            serde_json::from_value(json!({
                "key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.2xlarge"],
            }))
            .unwrap(),
        );
    });
}

/// Advances the clock to a time of day without running turns.
fn advance_to(rig: &Rig, time: &str) {
    rig.sim.with(|world| {
        let today = world.now.to_string();
        let (day, _) = today.split_once('T').unwrap();
        let at: jiff::Timestamp = format!("{day}T{time}Z").parse().unwrap();
        assert!(at > world.now, "{today} is after {time}");
        world.now = at;
    });
}

fn leave_one_pod_on_each_node(rig: &Rig) {
    rig.sim.with(|world| {
        let mut taken = BTreeSet::new();
        world
            .api
            .pods
            .retain(|_, pod| taken.insert(pod.node_name.clone()));
        world.api.scale("web", taken.len(), cpu(POD));
    });
}

/// Number of nodes being disrupted, and of those that are disrupted as underutilized.
fn disrupted_nodes(rig: &Rig) -> (usize, usize) {
    rig.sim.with(|world| {
        let claims = world.api.node_claims.values();
        let deleting = claims.filter(|claim| claim.deleted_at.is_some()).count();
        let commands = world.ledger.of(&Rig::cluster()).commands.values();
        let open = commands.filter(|command| command.state.is_open());
        let targets = |reason: Option<&str>| -> usize {
            let of_reason = open
                .clone()
                .filter(|command| reason.is_none_or(|reason| command.reason == reason));
            of_reason.map(|command| command.delete.len()).sum()
        };
        (deleting.max(targets(None)), targets(Some("Underutilized")))
    })
}

#[tokio::test]
async fn budgets_limit_disruptions_by_share_schedule_and_reason() {
    let mut rig = Rig::ready(Relay::Watching).await;
    set_budgets(&rig);
    rig.scale(60);
    assert!(rig.until(secs(300), all_bound).await.is_some());
    let nodes = types(&rig).len();
    assert!(nodes >= 10, "{nodes}");
    // This day is a Thursday.
    advance_to(&rig, "16:45:00");
    rig.pass(secs(60)).await;
    leave_one_pod_on_each_node(&rig);
    rig.pass(secs(12 * 60)).await;
    assert_eq!(types(&rig).len(), nodes, "none in business hours");

    let (mut most, mut most_saving) = (0, 0);
    for _ in 0..30 * 60 {
        rig.pass(secs(1)).await;
        let (all, saving) = disrupted_nodes(&rig);
        most = most.max(all);
        most_saving = most_saving.max(saving);
    }
    let share = |percent: usize| (nodes * percent).div_ceil(100);
    assert!(
        (1..=share(10)).contains(&most),
        "{most} of {nodes}: {:#?}",
        rig.transcript
    );
    assert!(
        (1..=share(5)).contains(&most_saving),
        "{most_saving} of {nodes}"
    );
    assert!(types(&rig).len() < nodes);
    assert!(rig.sim.with(all_bound), "{:#?}", rig.transcript);
}
