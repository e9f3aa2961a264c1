//! Notifications outside the cluster: none by default, each once, in time, and rate limited.

use fakes::Fault;
use serde_json::json;
use stories::{Relay, Rig, secs};

use crate::{deliver, instances, is_deleting, running, spot};

const HOOK: &str = "https://chat.example.com/hook";

fn destinations(rig: &Rig, destinations: &serde_json::Value) {
    rig.configure(&json!({"notifications": destinations}));
}

fn sent_notifications(rig: &Rig) -> Vec<fakes::DeliveredNotification> {
    rig.sim.with(|world| world.notifications.clone())
}

async fn warn(rig: &mut Rig) {
    let victim = instances(rig)[0].clone();
    let body = spot(rig, &victim);
    let delivery = deliver(rig, &[body]).await;
    assert!(delivery.kept.is_empty());
}

#[tokio::test]
async fn no_notification_is_sent_by_default() {
    let mut rig = running(Relay::Dead, 1).await;
    warn(&mut rig).await;
    rig.pass(secs(180)).await;
    assert_eq!(sent_notifications(&rig), []);
}

#[tokio::test]
async fn credentials_of_another_cluster_are_sent_nowhere() {
    let mut rig = running(Relay::Dead, 1).await;
    rig.sim.add_cluster("prod");
    rig.sim.with(|world| {
        let token = ("/whittle/credentials/prod".into(), "their token".into());
        world.secrets.extend([token]);
    });
    let headers = json!({"Authorization": "ssm:/whittle/credentials/prod"});
    destinations(
        &rig,
        &json!([{"name": "mine", "to": HOOK, "headers": headers}]),
    );
    warn(&mut rig).await;
    rig.pass(secs(180)).await;
    assert_eq!(sent_notifications(&rig), []);
}

#[tokio::test]
async fn interruption_is_sent_once_to_each_destination_and_the_webhook_is_signed() {
    let mut rig = running(Relay::Dead, 1).await;
    let topic = "arn:aws:sns:us-east-1:123456789012:ops";
    let bus = "arn:aws:events:us-east-1:123456789012:event-bus/ops";
    rig.sim.with(|world| {
        world
            .secrets
            .insert("/whittle/credentials/hook".into(), HOOK.into());
        world
            .secrets
            .insert("/whittle/credentials/key".into(), "key".into());
    });
    destinations(
        &rig,
        &json!([
            {"name": "chat", "to": "ssm:/whittle/credentials/hook", "template": "slack", "headers": {"X-Team": "ops", "Authorization": "ssm:/whittle/credentials/key"}, "secret": "/whittle/credentials/key"},
            {"name": "topic", "to": topic, "classes": ["interruption"]},
            {"name": "bus", "to": bus, "classes": ["interruption"]},
            {"name": "others", "to": "https://other.example.com", "classes": ["approval"]},
        ]),
    );
    warn(&mut rig).await;
    rig.pass(secs(180)).await;
    let mut reported = sent_notifications(&rig);
    reported.sort_by(|a, b| a.to.cmp(&b.to));
    let to: Vec<&str> = reported
        .iter()
        .map(|notification| notification.to.as_str())
        .collect();
    assert_eq!(to, [bus, topic, HOOK]);
    assert_eq!(
        reported[0].head,
        [("DetailType".into(), "interruption".into())]
    );
    let detail: serde_json::Value = serde_json::from_str(&reported[0].body).unwrap();
    assert_eq!(detail["title"], "an interruption of 1 node is announced");
    assert!(
        detail["details"][0]
            .as_str()
            .unwrap()
            .contains("spot interrupted")
    );
    let signed = reported[2].head.iter();
    let signed = signed.filter(|(name, value)| name == "x-whittle-signature" && value.len() == 71);
    assert_eq!(signed.count(), 1);
    let sent: Vec<_> = reported[2].head.iter().take(3).cloned().collect();
    let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    assert_eq!(
        sent,
        [
            header("authorization", "key"),
            header("x-team", "ops"),
            header("content-type", "application/json")
        ]
    );
    assert!(reported[2].body.starts_with(r#"{"text":"*Cluster demo"#));
}

#[tokio::test]
async fn refusing_destination_is_retried_and_delays_no_work() {
    let mut rig = running(Relay::Dead, 1).await;
    let victim = instances(&rig)[0].clone();
    destinations(
        &rig,
        &json!([
            {"name": "a", "to": HOOK, "classes": ["interruption"]},
            {"name": "b", "to": "https://other.example.com", "classes": ["interruption"]},
        ]),
    );
    for _ in 0..2 {
        rig.sim.fail_next("post", Fault::Unavailable);
    }
    warn(&mut rig).await;
    rig.sim.with(|world| assert!(is_deleting(world, &victim)));
    rig.pass(secs(61)).await;
    assert_eq!(sent_notifications(&rig), [], "both refuse");
    rig.pass(secs(61)).await;
    assert_eq!(sent_notifications(&rig).len(), 2);
    rig.pass(secs(180)).await;
    assert_eq!(sent_notifications(&rig).len(), 2, "once");
}

#[tokio::test]
async fn unrecordable_notification_costs_no_node() {
    let mut rig = running(Relay::Dead, 1).await;
    let victim = instances(&rig)[0].clone();
    destinations(&rig, &json!([{"name": "a", "to": HOOK}]));
    rig.sim.fail_next("put_notifications", Fault::Throttled);
    warn(&mut rig).await;
    rig.sim.with(|world| assert!(is_deleting(world, &victim)));
}

#[tokio::test]
async fn notifications_above_the_hourly_limit_wait_and_old_ones_are_dropped() {
    let mut rig = running(Relay::Dead, 2).await;
    destinations(
        &rig,
        &json!([{"name": "a", "to": HOOK, "classes": ["interruption"], "perHour": 1}]),
    );
    warn(&mut rig).await;
    rig.pass(secs(61)).await;
    assert_eq!(sent_notifications(&rig).len(), 1);
    warn(&mut rig).await;
    rig.pass(secs(50 * 60)).await;
    assert_eq!(sent_notifications(&rig).len(), 1, "the hour is not over");
    // Deliveries fail for the rest of the hour.
    rig.sim.with(|world| world.down.extend(["post"]));
    rig.pass(secs(30 * 60)).await;
    rig.sim.with(|world| world.down.clear());
    rig.pass(secs(120)).await;
    assert_eq!(sent_notifications(&rig).len(), 1);
    rig.sim.with(|world| {
        let rows = &world.ledger.of(&Rig::cluster()).notifications;
        assert!(
            rows.values().all(|(_, reported)| *reported),
            "the old notification is dropped"
        );
    });
}

#[tokio::test]
async fn pods_blocked_by_a_limit_are_notified_once_an_hour() {
    let mut rig = Rig::ready(Relay::Dead).await;
    destinations(
        &rig,
        &json!([{"name": "a", "to": HOOK, "classes": ["limit"]}]),
    );
    // A pod whose own constraints cannot be met causes no notification.
    rig.sim
        .with(|world| world.api.scale("its limit", 1, stories::cpu(10_000_000)));
    rig.pass(secs(180)).await;
    assert_eq!(sent_notifications(&rig), []);
    rig.sim.with(|world| {
        let pool = world.api.node_pools.get_mut("default").unwrap();
        pool.spec.limits = Some([("cpu".to_owned(), "1m".into())].into());
    });
    rig.scale(3);
    rig.pass(secs(240)).await;
    let reported = sent_notifications(&rig);
    assert_eq!(reported.len(), 1, "{reported:?}");
    let body: serde_json::Value = serde_json::from_str(&reported[0].body).unwrap();
    assert_eq!(
        body["title"],
        "3 pods cannot be placed because of NodePool limits"
    );
}

#[tokio::test]
async fn removed_destination_is_forgotten() {
    let mut rig = running(Relay::Dead, 1).await;
    destinations(
        &rig,
        &json!([{"name": "a", "to": HOOK, "classes": ["interruption"]}]),
    );
    warn(&mut rig).await;
    rig.pass(secs(61)).await;
    assert_eq!(sent_notifications(&rig).len(), 1);
    let counted = |rig: &Rig| {
        rig.sim.with(|world| {
            let memory = &world.ledger.of(&Rig::cluster()).sweep;
            memory.notified.keys().cloned().collect::<Vec<String>>()
        })
    };
    assert_eq!(counted(&rig), ["a"]);
    destinations(&rig, &json!([]));
    rig.pass(secs(61)).await;
    assert_eq!(counted(&rig), Vec::<String>::new());
}

#[tokio::test]
async fn pending_approval_is_notified_once_an_hour() {
    let mut rig = running(Relay::Dead, 2).await;
    destinations(
        &rig,
        &json!([{"name": "a", "to": HOOK, "classes": ["approval"]}]),
    );
    // The API server has lost all objects, without an explanation in the ledger.
    rig.sim.with(|world| {
        world.api.deployments.clear();
        world.api.pods.clear();
        world.api.node_claims.clear();
        world.api.nodes.clear();
    });
    rig.pass(secs(15 * 60)).await;
    let reported = sent_notifications(&rig);
    assert_eq!(reported.len(), 1, "{:#?}", rig.transcript);
    assert!(
        reported[0]
            .body
            .contains("garbage collection waits for approval")
    );
}
