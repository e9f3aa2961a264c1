//! Caps on the cost and number of nodes: existing nodes stay, and no launch exceeds the cap.

use fakes::World;
use model::{InterruptionKind, NanosPerHour, caps::Spending};
use serde_json::json;
use stories::{Rig, all_bound, secs};

use crate::{alive, event_messages, in_service};

/// Sets the hourly cost cap of the NodePool.
fn cap_pool(rig: &Rig, dollars: &str) {
    rig.sim.with(|world| {
        let pool = world.api.node_pools.get_mut("default").unwrap();
        let annotations = &mut pool.metadata.annotations;
        annotations.insert(model::caps::Caps::ANNOTATION.into(), dollars.into());
    });
}

fn cap_cluster(rig: &Rig, guards: serde_json::Value) {
    rig.configure(&json!({ "guards": guards }));
}

/// Sets the caps of the account.
fn cap_account(rig: &Rig, dollars: Option<&str>, nodes: Option<u32>) {
    rig.sim.with(|world| {
        let caps = &mut world.ledger.spending.caps;
        caps.price = dollars.map(|dollars| NanosPerHour::from_dollars(dollars).unwrap());
        caps.nodes = nodes;
    });
}

/// Records the totals of another cluster, as its turns do.
fn record_other_cluster(world: &mut World, nodes: u32) {
    let spending = Spending {
        price: NanosPerHour(i64::from(nodes) * 96_000_000),
        nodes,
    };
    let account = &mut world.ledger.spending;
    *account = account.with(&"other".into(), spending);
}

/// Changes a label of the NodePool's template, so that its nodes drift.
pub(crate) fn relabel(world: &mut World) {
    let pool = world.api.node_pools.get_mut("default").unwrap();
    pool.metadata.generation = Some(2);
    let metadata = pool.spec.template.metadata.get_or_insert_default();
    let labels = metadata.labels.get_or_insert_default();
    labels.insert("team".to_owned(), "new".to_owned());
}

/// Number of nodes that were created before [`relabel`].
fn outdated(world: &mut World) -> usize {
    let nodes = world.api.nodes.values();
    nodes
        .filter(|node| !node.labels.contains_key("team"))
        .count()
}

fn of_one_node(world: &mut World) -> bool {
    world.account.alive().count() == 1
}

#[tokio::test]
async fn no_launch_exceeds_a_cap_and_pods_have_events() {
    let node_cap = "the cluster is capped at 1 node and has 1: no node is removed for the cap";
    let price_cap = "is capped at $0.1000 an hour and costs $0.0960";
    for (cap, message) in [
        (
            Box::new(|rig: &Rig| cap_pool(rig, "0.10")) as Box<dyn Fn(&Rig)>,
            price_cap,
        ),
        (
            Box::new(|rig: &Rig| cap_cluster(rig, json!({"dollarsPerHour": "0.10"}))),
            price_cap,
        ),
        (
            Box::new(|rig: &Rig| cap_cluster(rig, json!({"nodes": 1}))),
            node_cap,
        ),
    ] {
        let mut rig = in_service(1).await;
        cap(&rig);
        rig.scale(9);
        rig.pass(secs(300)).await;
        assert_eq!(rig.sim.with(alive), 1, "{message}: {:#?}", rig.transcript);
        let events = event_messages(&rig, "FailedScheduling");
        assert!(
            events.iter().any(|event| event.contains(message)),
            "{message}: {events:?}"
        );
    }
}

#[tokio::test]
async fn exceeded_cap_removes_no_node_and_raising_it_resumes_launches() {
    let mut rig = in_service(3).await;
    let before = rig.sim.with(alive);
    cap_cluster(&rig, json!({"dollarsPerHour": "0.01", "nodes": 0}));
    rig.pass(secs(900)).await;
    assert_eq!(rig.sim.with(alive), before);
    rig.scale(20);
    rig.pass(secs(300)).await;
    assert_eq!(rig.sim.with(alive), before);
    cap_cluster(&rig, json!({}));
    let bound = rig.until(secs(900), all_bound).await;
    assert!(bound.is_some(), "{:#?}", rig.transcript);
}

#[tokio::test]
async fn exceeded_cap_is_reported_by_event_journal_and_notification() {
    type Cap = (fn(&Rig), &'static str, &'static str);
    let caps: [Cap; 3] = [
        (
            |rig| cap_pool(rig, "0.01"),
            "NodePool default is capped at $0.0100 an hour and costs $0.0960",
            "its annotation whittle.sh/max-dollars-per-hour is raised",
        ),
        (
            |rig| cap_cluster(rig, json!({"nodes": 0})),
            "the cluster is capped at 0 nodes and has 1",
            "the cap in settings.guards of its registry entry is raised",
        ),
        (
            |rig| cap_account(rig, None, Some(0)),
            "the account is capped at 0 nodes and has 1",
            "`whittle caps` raises it",
        ),
    ];
    for (cap, what, remedy) in caps {
        let mut rig = in_service(1).await;
        rig.pass(secs(300)).await;
        assert_eq!(event_messages(&rig, "CapExceeded"), Vec::<String>::new());
        cap(&rig);
        rig.pass(secs(660)).await;
        let events = event_messages(&rig, "CapExceeded");
        let [event] = &events[..] else {
            panic!("{what}: {events:?}")
        };
        let says = |text: &str| text.starts_with(what) && text.ends_with(remedy);
        assert!(says(event), "{event}");
        assert!(event.contains("no node is removed for the cap"), "{event}");
        assert_eq!(rig.sim.with(alive), 1);
        rig.sim.with(|world| {
            let journal = world.ledger.of(&Rig::cluster()).journal.values();
            let mut lines = journal.filter_map(|entry| entry.body["overCaps"][0]["text"].as_str());
            assert!(lines.any(says), "{what}");
        });
    }
}

#[tokio::test]
async fn nodes_of_other_clusters_count_against_account_caps() {
    for (dollars, nodes, message) in [
        (
            Some("0.30"),
            None,
            "the account is capped at $0.3000 an hour and costs $0.2880",
        ),
        (None, Some(3), "the account is capped at 3 nodes and has 3"),
    ] {
        let mut rig = in_service(1).await;
        cap_account(&rig, dollars, nodes);
        rig.sim.with(|world| record_other_cluster(world, 2));
        rig.scale(9);
        rig.pass(secs(300)).await;
        assert_eq!(rig.sim.with(alive), 1, "{:#?}", rig.transcript);
        let events = event_messages(&rig, "FailedScheduling");
        let is_expected = |event: &String| event.contains(message);
        assert!(events.iter().any(is_expected), "{message}: {events:?}");
        rig.sim.with(|world| record_other_cluster(world, 0));
        let more = rig.until(secs(240), |world| alive(world) > 1).await;
        assert!(more.is_some(), "{:#?}", rig.transcript);
    }
}

#[tokio::test]
async fn concurrent_launches_of_two_clusters_respect_the_account_cap() {
    let mut rig = in_service(1).await;
    cap_account(&rig, None, Some(2));
    rig.sim.with(|world| {
        // The other cluster commits between this one's read and its commit.
        world.on_call = Some(("commit", |world| record_other_cluster(world, 1)));
    });
    rig.scale(9);
    rig.pass(secs(120)).await;
    assert!(
        rig.sim.with(|world| world.on_call.is_none()),
        "the other cluster committed"
    );
    assert_eq!(rig.sim.with(alive), 1, "{:#?}", rig.transcript);
}

#[tokio::test]
async fn cluster_totals_are_written_only_when_they_change() {
    let mut rig = in_service(5).await;
    let written = |world: &mut World| world.ledger.spending.of(&Rig::cluster());
    let nodes = rig.sim.with(alive);
    assert_eq!(rig.sim.with(written).nodes, u32::try_from(nodes).unwrap());
    assert!(rig.sim.with(written).price > NanosPerHour(0));
    rig.pass(secs(300)).await;
    let revision = rig.sim.with(|world| world.ledger.spending.revision);
    rig.pass(secs(1_800)).await;
    let after = rig.sim.with(|world| world.ledger.spending.revision);
    assert_eq!(after, revision, "nothing changed");
    rig.scale(0);
    let forgotten = rig
        .until(secs(900), |world| {
            let clusters = &world.ledger.spending.clusters;
            !clusters.contains_key(&Rig::cluster())
        })
        .await;
    assert!(forgotten.is_some(), "{:#?}", rig.transcript);
}

#[tokio::test]
async fn drifted_nodes_wait_while_the_hourly_eviction_cap_is_reached() {
    let mut rig = in_service(1).await;
    rig.scale(2);
    assert!(rig.until(secs(300), all_bound).await.is_some());
    rig.pass(secs(60)).await;
    assert_eq!(rig.sim.with(outdated), 2, "{:#?}", rig.transcript);
    cap_cluster(&rig, json!({"evictionsPerHour": 1}));
    rig.sim.with(relabel);
    rig.pass(secs(2_700)).await;
    assert_eq!(rig.sim.with(outdated), 1, "{:#?}", rig.transcript);
    let events = event_messages(&rig, "DisruptionBlocked");
    let capped =
        "Evictions in the cluster are capped at 1 an hour, and 1 was decided within the last hour";
    let is_expected = |event: &String| event.starts_with(capped);
    assert!(events.iter().any(is_expected), "{events:?}");
    let renewed = rig.until(secs(1_800), |world| outdated(world) == 0).await;
    assert!(renewed.is_some(), "{:#?}", rig.transcript);
}

#[tokio::test]
async fn eviction_caps_delay_neither_interruptions_nor_user_deletions() {
    for is_deleted in [false, true] {
        let mut rig = in_service(1).await;
        cap_cluster(&rig, json!({"evictionsPerHour": 0}));
        rig.pass(secs(60)).await;
        let first = rig
            .sim
            .with(|world| world.account.alive().next().unwrap().id.clone());
        if is_deleted {
            rig.sim.with(|world| {
                let now = world.now;
                for claim in world.api.node_claims.values_mut() {
                    claim.deleted_at = Some(now);
                }
            });
        } else {
            let kind = InterruptionKind::SpotInterrupted;
            rig.announce(&first, kind, Some(secs(120))).await.unwrap();
        }
        let gone = rig
            .until(secs(600), |world| {
                !world.account.alive().any(|instance| instance.id == first)
            })
            .await;
        assert!(gone.is_some(), "{is_deleted}: {:#?}", rig.transcript);
    }
}

#[tokio::test]
async fn replacement_of_an_interrupted_node_ignores_caps() {
    let mut rig = in_service(1).await;
    cap_cluster(&rig, json!({"nodes": 1}));
    let first = rig
        .sim
        .with(|world| world.account.alive().next().unwrap().id.clone());
    let kind = InterruptionKind::SpotInterrupted;
    rig.announce(&first, kind, Some(secs(120))).await.unwrap();
    let replaced = rig
        .until(secs(300), |world| {
            let mut alive = world.account.alive();
            alive.any(|instance| instance.id != first)
        })
        .await;
    assert!(replaced.is_some(), "{:#?}", rig.transcript);
    let settled = rig
        .until(secs(600), |world| all_bound(world) && of_one_node(world))
        .await;
    assert!(settled.is_some(), "{:#?}", rig.transcript);
}

#[tokio::test]
async fn invalid_cap_prevents_launches_and_is_reported() {
    let mut rig = in_service(1).await;
    cap_pool(&rig, "a lot");
    rig.scale(9);
    rig.pass(secs(300)).await;
    assert_eq!(rig.sim.with(alive), 1);
    let events = event_messages(&rig, "FailedScheduling");
    let named = |event: &String| {
        event.contains("whittle.sh/max-dollars-per-hour") && event.contains("a lot")
    };
    assert!(events.iter().any(named), "{events:?}");
}

#[tokio::test]
async fn simultaneous_expiration_of_a_cluster_waits_for_approval() {
    let mut rig = Rig::ready(stories::Relay::Watching).await;
    rig.sim
        .with(|world| world.catalog.retain(|kind| kind.name == "m5.large"));
    rig.scale(13);
    assert!(rig.until(secs(300), all_bound).await.is_some());
    rig.pass(secs(30)).await;
    // Simulates a clock that is a month ahead.
    let old: Vec<_> = rig.sim.with(|world| {
        let created_at = world.now - secs(31 * 24 * 3_600);
        for claim in world.api.node_claims.values_mut() {
            claim.spec.expire_after = Some("720h".into());
            claim.created_at = Some(created_at);
        }
        world.api.node_claims.keys().cloned().collect()
    });
    assert_eq!(old.len(), 13, "{:#?}", rig.transcript);
    let left = |world: &mut World| {
        let left = old
            .iter()
            .filter(|name| world.api.node_claims.contains_key(name));
        left.count()
    };
    rig.pass(secs(1_800)).await;
    assert_eq!(rig.sim.with(left), 3, "{:#?}", rig.transcript);
    let held = event_messages(&rig, "ExpirationHeld");
    let names_remedy = |event: &String| {
        event.contains("at most 10 NodeClaims expire within an hour")
            && event.contains("whittle approve")
    };
    assert!(held.iter().any(names_remedy), "{held:?}");
    rig.sim.with(|world| {
        let until = (world.now + secs(3_600)).to_string();
        let approved = json!({"collectUntil": until});
        if let Ok(entry) = &mut world.registry[0].body {
            entry["approvals"] = approved.clone();
        }
        if let Some(meta) = &mut world.ledger.of(&Rig::cluster()).meta {
            meta.registry["approvals"] = approved;
        }
    });
    let gone = rig.until(secs(900), |world| left(world) == 0).await;
    assert!(gone.is_some(), "{:#?}", rig.transcript);
}
