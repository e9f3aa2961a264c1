//! Work of the housekeeper besides waking lanes and collecting instances: prices, launch templates, instance profiles.
#![expect(clippy::unwrap_used, reason = "a missing value fails the test")]

use fakes::Fault;
use ports::cluster::Unreadable;
use stories::{Relay, Rig, secs};
use turns::SweepReport;

async fn sweep(rig: &mut Rig) -> SweepReport {
    let turn = rig.next_turn();
    turns::housekeep(&rig.world, &turn).await.unwrap()
}

fn with_templates(rig: &Rig) {
    rig.sim.with(|world| {
        let templates = [("used", "default"), ("spent", "gone")];
        world.account.templates = templates
            .map(|(name, class)| (name.to_owned(), class.to_owned()))
            .into();
    });
}

#[tokio::test]
async fn unused_launch_templates_and_profiles_are_collected_once_an_hour() {
    let mut rig = Rig::ready(Relay::Dead).await;
    with_templates(&rig);
    let soon = sweep(&mut rig).await;
    assert_eq!(
        soon.collected, [""; 0],
        "the collection ran when the cluster was new"
    );
    rig.sim.advance(secs(3600));
    let report = sweep(&mut rig).await;
    assert_eq!(report.collected, ["demo/spent"]);
    assert_eq!(report.problems, [""; 0]);
}

/// A NodeClass that cannot be parsed still needs its launch templates and its instance profile.
#[tokio::test]
async fn nothing_is_collected_while_a_node_class_is_unreadable() {
    let mut rig = Rig::ready(Relay::Dead).await;
    with_templates(&rig);
    rig.sim.advance(secs(3600));
    rig.sim.with(|world| {
        world.api.unreadable_node_classes = vec![Unreadable {
            name: "gone".into(),
            uid: "gone-uid".into(),
            message: "invalid type".into(),
        }];
    });
    let report = sweep(&mut rig).await;
    assert_eq!(report.collected, [""; 0]);
    let reported = "gone cannot be read: invalid type";
    let problems = &report.problems;
    assert!(
        problems.iter().any(|problem| problem.contains(reported)),
        "{report:?}"
    );
}

#[tokio::test]
async fn failing_list_collects_nothing_and_stops_no_sweep() {
    let mut rig = Rig::ready(Relay::Dead).await;
    with_templates(&rig);
    rig.sim.advance(secs(3600));
    rig.sim.fail_next("node_classes", Fault::Unavailable);
    let report = sweep(&mut rig).await;
    assert_eq!(report.collected, [""; 0]);
    assert!(
        report
            .problems
            .iter()
            .any(|problem| problem.contains("launch templates")),
        "{report:?}"
    );
    assert_eq!(rig.sim.with(|world| world.account.templates.len()), 2);
}

#[tokio::test]
async fn prices_are_renewed_without_the_price_list_where_every_cluster_is_isolated() {
    let mut rig = Rig::ready(Relay::Dead).await;
    for (isolated, expected) in [
        (serde_json::json!(true), false),
        (serde_json::json!("true"), false),
        (serde_json::json!(false), true),
    ] {
        rig.sim.with(|world| {
            world.looked_up.clear();
            let body = world.registry.first_mut().unwrap().body.as_mut().unwrap();
            body["settings"] = serde_json::json!({ "isolatedVPC": isolated });
        });
        sweep(&mut rig).await;
        assert_eq!(rig.sim.with(|world| world.looked_up.clone()), [expected]);
    }
}

#[tokio::test]
async fn failing_price_refresh_is_reported_and_stops_no_wake() {
    let mut rig = Rig::ready(Relay::Dead).await;
    rig.sim.advance(secs(600));
    rig.sim.fail_next("renew_prices", Fault::Denied);
    let report = sweep(&mut rig).await;
    assert_eq!(report.warnings.len(), 1, "{report:?}");
    assert!(!report.woken.is_empty(), "{report:?}");
}
