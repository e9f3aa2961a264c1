//! Property tests: every record is read back as it was written.

use std::fmt::Debug;

use jiff::Timestamp;
use model::{
    Evidence, InstanceType, Notification, Snapshot,
    budget::TokenBucket,
    caps::AccountSpending,
    experience::{FullSubnet, MeasuredMemory, ZonalShift},
    journal::Subject,
    launch::FleetRequest,
    ledger::{
        Call, ClaimPhase, Command, Cursor, InstanceOwner, Intent, IntentState, LaneRow, Lease,
        Mode, Notice, OfferingKey, Pause, Request, SweepMemory, UnavailableOffering,
    },
    node::Node,
    node_claim::NodeClaim,
    node_pool::NodePool,
    plan::{Expected, Launch, Plan},
    pod::{Pod, PodShape},
    view::ViewPointer,
    volume::Storage,
};
use ports::JournalEntry;
use proptest::{collection::vec, prelude::*};
use serde::{Serialize, de::DeserializeOwned};

use crate::{
    arbitrary::arbitrary,
    commands::{command_of, command_row, notice_row},
    journal,
    launches::{call_of, call_row, intent_of, intent_row},
    object_store,
    plan_header::Header,
    records::{ClusterRecord, read_cluster, write_cluster},
    row::{NewRow, Row, pack, unpack},
    table::Key,
};

fn read_back(row: NewRow) -> Row {
    Row::new(std::sync::Arc::new(row.0))
}

/// Asserts that a record stored in a single attribute is read back unchanged.
fn assert_round_trip<T: Serialize + DeserializeOwned + PartialEq + Debug>(value: &T) {
    let row = NewRow::new(&Key::meta(&"c".into()));
    let row = read_back(row.json("body", value).unwrap());
    assert_eq!(&row.json::<T>("body").unwrap(), value);
}

fn assert_cluster_row_round_trips(record: &ClusterRecord) {
    let (key, row) = write_cluster(&"c".into(), record).unwrap();
    let read = read_cluster(&key, &std::sync::Arc::new(row)).unwrap();
    assert_eq!(read.as_ref(), Some(record));
}

/// Chooses the variant by hand: an internally tagged enum cannot be generated through its `Deserialize`.
fn intent_state(words: &[u64]) -> IntentState {
    let (choice, words) = words.split_first().unwrap_or((&0, &[]));
    let (uid, attempt) = arbitrary(words);
    let (token, text): (_, String) = arbitrary(words);
    match choice % 6 {
        0 => IntentState::Intended,
        1 => IntentState::Claimed { uid, attempt },
        2 => IntentState::Launching {
            uid,
            attempt,
            token,
        },
        3 => IntentState::Launched {
            instance: text.into(),
        },
        4 => IntentState::Failed { why: text },
        _ => IntentState::Void { why: text },
    }
}

proptest! {
    #[test]
    fn plan_is_read_back_as_written(words in vec(any::<u64>(), 0..400)) {
        let plan: Plan = arbitrary(&words);
        let packed = pack(&plan).unwrap();
        prop_assert_eq!(unpack::<Plan>(&packed).unwrap(), plan);
    }

    #[test]
    fn intent_is_read_back_as_written(words in vec(any::<u64>(), 0..200)) {
        let launch: Launch = arbitrary(&words);
        let (plan, generation, lease, committed_at) = arbitrary(&words);
        let intent = Intent { plan, generation, launch, state: intent_state(&words), lease, committed_at };
        let row = read_back(intent_row(&"c".into(), &intent).unwrap());
        prop_assert_eq!(intent_of(&row).unwrap(), intent);
    }

    #[test]
    fn call_is_read_back_as_written(words in vec(any::<u64>(), 0..200)) {
        let request: FleetRequest = arbitrary(&words);
        let (attempt, members, frozen_at, lease, closed): (_, _, Timestamp, Option<Lease>, _) = arbitrary(&words);
        let call = Call { request, attempt, members, frozen_at, lease, closed };
        let row = read_back(call_row(&"c".into(), &call).unwrap());
        prop_assert_eq!(call_of(&row).unwrap(), call);
    }

    #[test]
    fn command_is_read_back_as_written(words in vec(any::<u64>(), 0..100)) {
        let command: Command = arbitrary(&words);
        let row = read_back(command_row(&"c".into(), &command).unwrap());
        prop_assert_eq!(command_of(&row), command);
    }

    #[test]
    fn notice_is_read_back_as_written(words in vec(any::<u64>(), 0..40)) {
        let notice: Notice = arbitrary(&words);
        let row = read_back(notice_row(&"c".into(), &notice).unwrap());
        prop_assert_eq!(row.flag("done"), notice.done);
        prop_assert_eq!(row.json::<Notice>("body").unwrap(), notice);
    }

    #[test]
    fn lane_and_beat_are_read_back_as_written(words in vec(any::<u64>(), 0..60)) {
        let row: LaneRow = arbitrary(&words);
        // A lane without a full look has no relay counter, and an error has a text.
        let row = LaneRow {
            last_error: row.last_error.filter(|error| !error.is_empty()),
            last_full_look: row.last_full_look.filter(|at| *at > Timestamp::UNIX_EPOCH && row.seen.is_some()),
            ..row
        };
        let seen = row.seen.clone().filter(|_| row.last_full_look.is_some());
        assert_cluster_row_round_trips(&ClusterRecord::Lane(arbitrary(&words), LaneRow { seen, ..row }));
        assert_cluster_row_round_trips(&ClusterRecord::RelayBeat(arbitrary(&words)));
    }

    #[test]
    fn claim_and_nomination_are_read_back_as_written(words in vec(any::<u64>(), 0..20), name in "[a-z][a-z0-9.-]{0,20}") {
        assert_cluster_row_round_trips(&ClusterRecord::Claim(name.as_str().into(), arbitrary(&words)));
        let until = arbitrary(&words);
        for expected in [Expected::Node(name.as_str().into()), Expected::NodeClaim(name.as_str().into())] {
            assert_cluster_row_round_trips(&ClusterRecord::Nomination(expected, until));
        }
    }

    #[test]
    fn published_object_is_read_back_as_written(object in vec(any::<u8>(), 0..2_000)) {
        let key = Key::meta(&"c".into());
        let row = read_back(object_store::row(&key, &object).unwrap());
        prop_assert_eq!(object_store::object(&row).unwrap(), object);
    }

    /// Parts of a snapshot, which is stored in the bucket and has no row.
    #[test]
    fn parts_of_snapshot_are_read_back_as_written(words in vec(any::<u64>(), 0..200)) {
        assert_round_trip(&arbitrary::<NodePool>(&words));
        assert_round_trip(&arbitrary::<NodeClaim>(&words));
        assert_round_trip(&arbitrary::<Node>(&words));
        assert_round_trip(&arbitrary::<InstanceType>(&words));
        assert_round_trip(&arbitrary::<Storage>(&words));
    }

    /// A pod with all fields that a snapshot holds.
    #[test]
    fn pod_is_read_back_as_written(words in vec(any::<u64>(), 0..200), others in vec(any::<u64>(), 0..40)) {
        let shape: PodShape = arbitrary(&words);
        let (key, uid, resource_version, created_at, deletion) = arbitrary(&others);
        let (node_name, nominated_node, phase, ready, unschedulable, started_at) = arbitrary(&others);
        let pod = Pod {
            key,
            uid,
            resource_version,
            created_at,
            deletion,
            node_name,
            nominated_node,
            phase,
            ready,
            unschedulable,
            started_at,
            shape: shape.into(),
        };
        assert_round_trip(&pod);
        let snapshot = Snapshot {
            node_pools: vec![arbitrary(&words)],
            node_claims: vec![arbitrary(&words)],
            nodes: vec![arbitrary(&words)],
            pods: vec![pod],
            namespaces: arbitrary(&words),
            disruption_budgets: arbitrary(&words),
            storage: arbitrary(&words),
            devices: arbitrary(&words),
            nominated: arbitrary(&others),
            caps: arbitrary(&others),
            account: arbitrary(&others),
            evidence: arbitrary(&others),
            cursor: arbitrary(&others),
            ..Snapshot::empty("c".into(), arbitrary(&others), arbitrary(&others))
        };
        // Compared in serialized form: snapshots do not implement `PartialEq`.
        let written = serde_json::to_value(&snapshot).unwrap();
        let read: Snapshot = serde_json::from_value(written.clone()).unwrap();
        prop_assert_eq!(serde_json::to_value(&read).unwrap(), written);
    }

    #[test]
    fn header_is_read_back_as_written(words in vec(any::<u64>(), 0..100)) {
        let (commands, notices) = arbitrary(&words);
        assert_round_trip(&Header::Unfenced { commands, notices });
        let (id, chunks) = arbitrary(&words);
        assert_round_trip(&Header::Plan { id, chunks });
    }

    #[test]
    fn memories_are_read_back_as_written(words in vec(any::<u64>(), 0..100)) {
        assert_round_trip(&arbitrary::<SweepMemory>(&words));
        assert_round_trip(&arbitrary::<Cursor>(&words));
        assert_round_trip(&arbitrary::<Notification>(&words));
        assert_round_trip(&arbitrary::<ViewPointer>(&words));
        assert_round_trip(&arbitrary::<InstanceOwner>(&words));
        assert_round_trip(&arbitrary::<ClaimPhase>(&words));
        assert_round_trip(&arbitrary::<TokenBucket>(&words));
    }

    #[test]
    fn meta_is_read_back_as_written(words in vec(any::<u64>(), 0..100)) {
        for mode in [Mode::Active, Mode::Shadow] {
            assert_round_trip(&mode);
        }
        assert_round_trip(&arbitrary::<serde_json::Value>(&words));
        assert_round_trip(&arbitrary::<Vec<Pause>>(&words));
        assert_round_trip(&arbitrary::<Vec<Request>>(&words));
        assert_round_trip(&arbitrary::<AccountSpending>(&words));
    }

    #[test]
    fn experience_is_read_back_as_written(words in vec(any::<u64>(), 0..40)) {
        let offering: OfferingKey = arbitrary(&words);
        let (until, count) = arbitrary(&words);
        assert_round_trip(&UnavailableOffering { offering, until, count });
        assert_round_trip(&arbitrary::<FullSubnet>(&words));
        assert_round_trip(&arbitrary::<Evidence>(&words));
        assert_round_trip(&arbitrary::<MeasuredMemory>(&words));
        assert_round_trip(&arbitrary::<Vec<ZonalShift>>(&words));
    }

    #[test]
    fn journal_entry_is_read_back_as_written(words in vec(any::<u64>(), 0..100), pod in "[a-z]{1,8}") {
        let about = Subject::Pod(model::PodKey::new("default", pod));
        let line = serde_json::json!([{"text": "left waiting", "about": [about.to_string()]}]);
        let body: serde_json::Value = arbitrary(&words);
        let entry = JournalEntry {
            turn: "turn-1".into(),
            at: Timestamp::from_millisecond(1_767_225_600_123).unwrap(),
            lane: arbitrary(&words),
            about: [about].into(),
            body: serde_json::json!({"decided": line, "other": body.to_string()}),
        };
        let row = read_back(journal::row(&"c".into(), &entry).unwrap());
        prop_assert_eq!(journal::entry(&row).unwrap(), entry);
    }
}
