//! Lanes that are not provably quiet (docs/protocol.md#l5, docs/protocol.md#l6).

use jiff::{SignedDuration, Timestamp};
use model::{
    Lane,
    ledger::{LaneRow, RelayBeat},
};

/// Longest time between full looks of a lane, even if it seems quiet.
const FULL_LOOK: SignedDuration = SignedDuration::from_mins(10);

/// Reason why a lane must be woken; `None` if the lane is quiet.
pub(crate) fn wake_reason(
    lane: Lane,
    row: &LaneRow,
    beat: Option<&RelayBeat>,
    relay_is_alive: bool,
    now: Timestamp,
) -> Option<&'static str> {
    let lapsed = row.lease.as_ref().is_some_and(|lease| !lease.is_live(now));
    let looked = row
        .last_full_look
        .is_some_and(|at| now.duration_since(at) < FULL_LOOK);
    let counters = beat.map(|beat| beat.counter(lane));
    if row.due.is_some_and(|due| due <= now) || lapsed {
        Some("due")
    } else if row.failures > 0 {
        Some("failed")
    } else if !looked {
        Some("unseen")
    } else if !relay_is_alive {
        Some("relay-silent")
    } else if counters != row.seen {
        Some("changed")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use model::ledger::Lease;

    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    fn beat(seq: u64) -> RelayBeat {
        RelayBeat {
            epoch: "e".into(),
            counters: BTreeMap::from([("lifecycle".into(), seq)]),
            ..RelayBeat::default()
        }
    }

    fn quiet() -> LaneRow {
        LaneRow {
            last_full_look: Some(at(1000)),
            seen: Some(beat(4).counter(Lane::Lifecycle)),
            ..LaneRow::default()
        }
    }

    fn why(row: &LaneRow, seq: u64, relay_is_alive: bool, now: i64) -> Option<&'static str> {
        wake_reason(
            Lane::Lifecycle,
            row,
            Some(&beat(seq)),
            relay_is_alive,
            at(now),
        )
    }

    #[test]
    fn l5_lane_is_quiet_only_without_any_reason_to_wake_it() {
        assert_eq!(why(&quiet(), 4, true, 1100), None);
        assert_eq!(
            why(
                &LaneRow {
                    due: Some(at(1100)),
                    ..quiet()
                },
                4,
                true,
                1100
            ),
            Some("due")
        );
        assert_eq!(
            why(
                &LaneRow {
                    due: Some(at(1101)),
                    ..quiet()
                },
                4,
                true,
                1100
            ),
            None
        );
        assert_eq!(
            why(
                &LaneRow {
                    failures: 1,
                    ..quiet()
                },
                4,
                true,
                1100
            ),
            Some("failed")
        );
        assert_eq!(why(&quiet(), 4, false, 1100), Some("relay-silent"));
        assert_eq!(why(&quiet(), 4, true, 1600), Some("unseen"));
        assert_eq!(why(&LaneRow::default(), 4, true, 1100), Some("unseen"));
    }

    #[test]
    fn l5_counters_must_be_equal_not_just_reached() {
        assert_eq!(why(&quiet(), 5, true, 1100), Some("changed"));
        assert_eq!(
            why(&quiet(), 3, true, 1100),
            Some("changed"),
            "another relay counts from the beginning"
        );
    }

    #[test]
    fn l2_lapsed_lease_counts_as_due() {
        let lease = Lease {
            owner: "t".into(),
            until: at(1100),
        };
        let crashed = LaneRow {
            lease: Some(lease),
            ..quiet()
        };
        assert_eq!(why(&crashed, 4, true, 1099), None, "its turn still runs");
        assert_eq!(why(&crashed, 4, true, 1100), Some("due"));
    }
}
