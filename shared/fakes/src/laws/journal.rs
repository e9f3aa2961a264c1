//! Records are found by object, by turn and by time.

use std::collections::BTreeSet;

use model::{ClusterName, Lane, PodKey, journal::Subject};
use ports::{Journal, JournalEntry, journal::JournalQuery};

use super::{at, turn};

/// More objects than a record has index rows.
const MANY: usize = 1_100;

pub async fn records_are_found_by_object_turn_and_time(journal: &dyn Journal, c: &ClusterName) {
    let pool = Subject::NodePool("default".into());
    let web = pod("web");
    let first = entry("t1", 0, [pool.clone(), web.clone()]);
    let second = entry("t2", 10, [pool.clone()]);
    let crowd = (0..MANY).map(|index| pod(&format!("job-{index}")));
    let third = entry("t3", 20, crowd.chain([web.clone()]));
    for entry in [&first, &second, &third, &first] {
        journal.record(c, entry).await.unwrap();
    }
    let latest = async |about: Option<&Subject>, from: i64, until: i64, most: usize| {
        let wanted = JournalQuery {
            about: about.cloned(),
            from: at(from),
            until: at(until),
            most,
        };
        let found = journal.latest(c, &wanted).await.unwrap();
        let turns = found.iter().map(|entry| entry.turn.0.clone());
        turns.collect::<Vec<_>>()
    };
    assert_eq!(latest(None, 0, 60, 9).await, ["t3", "t2", "t1"]);
    assert_eq!(latest(None, 0, 60, 2).await, ["t3", "t2"], "the latest");
    assert_eq!(latest(None, 10, 20, 9).await, ["t2"], "until is excluded");
    assert_eq!(latest(Some(&pool), 0, 60, 9).await, ["t2", "t1"]);
    assert_eq!(latest(Some(&web), 0, 60, 9).await, ["t3", "t1"]);
    assert_eq!(latest(Some(&pod("job-7")), 0, 60, 9).await, ["t3"]);
    assert!(latest(Some(&pod("other")), 0, 60, 9).await.is_empty());
    let found = journal.of_turn(c, &turn("t1")).await.unwrap();
    assert_eq!(found, [first], "a record is read as it was kept");
    assert!(journal.of_turn(c, &turn("t9")).await.unwrap().is_empty());
    let other = ClusterName(format!("{c}-other"));
    let found = journal.of_turn(&other, &turn("t1")).await.unwrap();
    assert!(found.is_empty(), "clusters do not share records");
}

/// A sweep collects garbage and warns in one turn.
pub async fn turn_writes_records_for_several_lanes(journal: &dyn Journal, c: &ClusterName) {
    let collected = JournalEntry {
        lane: Lane::Housekeeper,
        ..entry("sweep", 30, [])
    };
    let warned = JournalEntry {
        lane: Lane::Interruption,
        ..entry("sweep", 30, [pod("web")])
    };
    for entry in [&collected, &warned] {
        journal.record(c, entry).await.unwrap();
    }
    let mut found = journal.of_turn(c, &turn("sweep")).await.unwrap();
    found.sort_by_key(|entry| entry.lane);
    assert_eq!(found, [warned, collected]);
}

fn pod(name: &str) -> Subject {
    Subject::Pod(PodKey::new("default", name))
}

fn entry(id: &str, seconds: i64, about: impl IntoIterator<Item = Subject>) -> JournalEntry {
    let about: BTreeSet<Subject> = about.into_iter().collect();
    JournalEntry {
        turn: turn(id),
        at: at(seconds),
        lane: Lane::Provisioner,
        body: serde_json::json!({"planned": [{"text": "launch", "about": about}]}),
        about,
    }
}
