use model::CapacityType;
use sandbox::WorldClock;
use tokio::sync::mpsc;

use super::*;
use crate::{catalogs, demo::verdict};

async fn world(sender: &MessageSender) -> World {
    let catalog = Arc::new(catalogs::us_east_1().unwrap());
    let clock = WorldClock::accelerated(100, SignedDuration::from_hours(2));
    World::start(catalog, clock, sender.clone()).await.unwrap()
}

#[tokio::test]
async fn pods_that_never_run_and_nodes_that_stay_are_missing_effects() {
    let (sender, _messages) = mpsc::unbounded_channel();
    let world = world(&sender).await;
    let only_one = (
        CapacityType::OnDemand,
        "r6gd.xlarge".to_owned(),
        "us-east-1a".to_owned(),
    );
    world.set_capacity(only_one.clone(), 0);
    let mut story = Story::new(&world, sender);
    story.timeout = SignedDuration::from_mins(2);
    let script = Script::named("growth").unwrap();
    story.apply("node-class.yaml").await.unwrap();
    story.apply("node-pool.yaml").await.unwrap();

    for step in &script.chapters[2].steps {
        story.step(step).await.unwrap();
    }
    assert_eq!(
        story.missing,
        [
            "0 of 3 pods of deployment/cache run",
            "deployment/cache should run on exactly one r6gd.xlarge, on-demand in us-east-1a, and runs on: nothing",
        ]
    );
    let error = verdict(&story.missing).unwrap_err().to_string();
    assert!(error.contains("0 of 3 pods"), "{error}");

    world.set_capacity(only_one, 1);
    story.missing.clear();
    story.timeout = STORY_TIMEOUT;
    story.runs("cache", 3).await;
    assert_eq!(story.missing, Vec::<Missing>::new());
    story.timeout = SignedDuration::from_secs(30);
    story.all_gone().await;
    let [left] = story.missing.as_slice() else {
        panic!("{:?}", story.missing);
    };
    for kind in ["instance i-", "nodeclaim/default-", "node/ip-"] {
        assert!(left.contains(kind), "{left}");
    }
    world.stop().await;
}

#[test]
fn story_without_missing_effects_ends_well() {
    assert!(verdict(&[]).is_ok());
}

/// Notes and outputs of a story that is played to its end without missing effects.
async fn played(name: &str) -> Vec<String> {
    let (sender, mut messages) = mpsc::unbounded_channel();
    let world = world(&sender).await;
    let mut story = Story::new(&world, sender.clone());
    story.timeout = SignedDuration::from_hours(1);
    let script = Script::named(name).unwrap();
    let missing = Box::pin(story.play(&script, true)).await.unwrap();
    assert_eq!(missing, Vec::<Missing>::new());
    world.stop().await;
    let mut notes = Vec::new();
    while let Ok(message) = messages.try_recv() {
        match message {
            Message::Note(_, text) | Message::Output(text) => notes.push(text),
            Message::Broken(error) => panic!("{error}"),
            Message::Chapter(_)
            | Message::Typed(..)
            | Message::Turn(_)
            | Message::Sweep(_)
            | Message::Picture(_)
            | Message::End => {}
        }
    }
    notes
}

fn contains(notes: &[String], text: &str) {
    assert!(
        notes.iter().any(|note| note.contains(text)),
        "{text}: {notes:#?}"
    );
}

#[tokio::test]
async fn consolidation_ends_with_cheaper_nodes() {
    contains(&played("consolidation").await, "/h before, $");
}

#[tokio::test]
async fn drift_replaces_all_three_nodes() {
    contains(&played("drift").await, "3 nodes replaced after ");
}

#[tokio::test]
async fn interruption_is_announced_and_answered() {
    let notes = played("interruption").await;
    contains(&notes, "back in 2 minutes");
    contains(&notes, "1 node replaced after ");
}

#[tokio::test]
async fn missing_capacity_is_an_event_and_the_next_pool_serves_the_pods() {
    let notes = played("capacity").await;
    contains(
        &notes,
        "event InsufficientCapacityError of NodeClaim first-",
    );
}

#[tokio::test]
async fn broken_node_class_has_a_condition_with_the_remedy() {
    let notes = played("broken-node-class").await;
    contains(&notes, "EC2NodeClass default has SubnetsReady=False: ");
    contains(
        &notes,
        "event SubnetsNotFound of EC2NodeClass default: subnetSelectorTerms select no subnet",
    );
    contains(&notes, "EC2NodeClass default has Ready=True");
}

#[tokio::test]
async fn explain_shows_the_launch_and_replay_the_difference() {
    let notes = played("explain").await;
    contains(&notes, "pod/default/inflate-");
    contains(&notes, "With the changes: ");
}

#[tokio::test]
async fn takeover_waits_for_the_lease_and_adopts_the_nodes() {
    let notes = played("takeover").await;
    contains(&notes, "views\n");
    contains(&notes, "no node came or went in 3m00s");
    contains(&notes, "/h before, $");
}
