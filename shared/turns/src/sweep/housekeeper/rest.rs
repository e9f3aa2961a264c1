//! Clusters at rest, which a sweep does not visit, and the longest time that they rest
//! (docs/adr/0015-clusters-at-rest-are-not-visited.md).

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use model::{
    ClusterName, Lane,
    ledger::{LaneRow, Meta, RelayBeat, RelayCounter},
};
use ports::ledger::ClusterSummary;

use crate::sweep::wake_reason::wake_reason;

/// Longest interval between visits of a cluster at rest: neither the relay nor the ledger reports, for example, another leader
/// or an instance without an owner.
const AT_LEAST_EVERY: SignedDuration = SignedDuration::from_mins(5);
/// Period in seconds over which later visits of clusters that came to rest together are spread.
const SPREAD_SECONDS: u64 = 4 * 60;

/// Reason why a cluster must be visited; `None` if all of its lanes are quiet, the housekeeper's own among them
/// (docs/protocol.md#l5), and nothing was committed or counted by its relay since the last visit.
pub(super) fn visit_reason(
    summary: &ClusterSummary,
    meta: &Meta,
    relay_is_alive: bool,
    now: Timestamp,
) -> Option<&'static str> {
    let beat = summary.beat.as_ref();
    if summary.memory.generation != Some(meta.generation)
        || beat.map(counters) != summary.memory.beat.as_ref().map(counters)
    {
        return Some("changed");
    }
    let mut lanes = [Lane::Housekeeper].into_iter().chain(Lane::WOKEN);
    let why = |lane| wake_reason(lane, &row(&summary.lanes, lane), beat, relay_is_alive, now);
    lanes.find_map(why)
}

/// A relay's counters of all lanes: an event may concern garbage collection, whichever lane it is counted for.
fn counters(beat: &RelayBeat) -> (&str, &BTreeMap<String, u64>) {
    (&beat.epoch, &beat.counters)
}

/// Row of a lane; a lane that was never taken has none.
pub(super) fn row(lanes: &[(Lane, LaneRow)], lane: Lane) -> LaneRow {
    let mut lanes = lanes.iter();
    let found = lanes.find(|(other, _)| *other == lane);
    found.map(|(_, row)| row.clone()).unwrap_or_default()
}

/// Record of a full look by a visit, in its lane's row, as any full look writes it (docs/protocol.md#l6).
pub(super) fn full_look(beat: Option<&RelayBeat>) -> RelayCounter {
    beat.map(|beat| beat.counter(Lane::Housekeeper))
        .unwrap_or_default()
}

/// Time of the next visit to a cluster at rest.
pub(super) fn next_visit(cluster: &ClusterName, now: Timestamp) -> Timestamp {
    let bytes = cluster.0.bytes().map(u64::from);
    let place =
        bytes.fold(0_u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte)) % SPREAD_SECONDS;
    let place = SignedDuration::from_secs(i64::try_from(place).unwrap_or(0));
    now.saturating_add(AT_LEAST_EVERY + place).unwrap_or(now)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use model::ledger::{Lease, Mode, SweepMemory};

    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    fn meta(generation: u64) -> Meta {
        Meta {
            generation,
            mode: Mode::Active,
            registry: serde_json::Value::Null,
            uid: None,
            pauses: Vec::new(),
            account: model::caps::AccountSpending::default(),
            requests: Vec::new(),
        }
    }

    fn beat(epoch: &str, count: u64) -> RelayBeat {
        RelayBeat {
            epoch: epoch.into(),
            counters: [("of a lane of a newer version".to_owned(), count)].into(),
            ..RelayBeat::default()
        }
    }

    /// A cluster visited at second 1000 whose lanes have all had a full look.
    fn resting() -> ClusterSummary {
        let row = LaneRow {
            last_full_look: Some(at(1000)),
            seen: Some(beat("e", 4).counter(Lane::Lifecycle)),
            due: Some(at(1300)),
            ..LaneRow::default()
        };
        let lanes = [Lane::Housekeeper].into_iter().chain(Lane::WOKEN);
        ClusterSummary {
            meta: Some(meta(7)),
            beat: Some(beat("e", 4)),
            lanes: lanes.map(|lane| (lane, row.clone())).collect(),
            memory: SweepMemory {
                beat: Some(beat("e", 4)),
                generation: Some(7),
                ..SweepMemory::default()
            },
        }
    }

    fn why(change: impl FnOnce(&mut ClusterSummary)) -> Option<&'static str> {
        let mut summary = resting();
        change(&mut summary);
        let meta = summary.meta.clone().unwrap();
        visit_reason(&summary, &meta, true, at(1100))
    }

    fn own(summary: &mut ClusterSummary) -> &mut LaneRow {
        let mut lanes = summary.lanes.iter_mut();
        let own = lanes.find(|(lane, _)| *lane == Lane::Housekeeper);
        own.map(|(_, row)| row).unwrap()
    }

    #[test]
    fn l5_cluster_is_at_rest_only_without_any_reason_to_visit() {
        assert_eq!(why(|_| {}), None);
        assert_eq!(why(|summary| summary.meta = Some(meta(8))), Some("changed"));
        assert_eq!(
            why(|summary| summary.memory.generation = None),
            Some("changed")
        );
        assert_eq!(
            why(|summary| summary.lanes.clear()),
            Some("unseen"),
            "it is new"
        );
        let (summary, meta) = (resting(), meta(7));
        let unheard = visit_reason(&summary, &meta, false, at(1100));
        assert_eq!(unheard, Some("relay-silent"));
    }

    #[test]
    fn l5_any_new_count_of_the_relay_ends_the_rest() {
        assert_eq!(
            why(|summary| summary.beat = Some(beat("e", 5))),
            Some("changed")
        );
        assert_eq!(
            why(|summary| summary.beat = Some(beat("e", 3))),
            Some("changed")
        );
        assert_eq!(
            why(|summary| summary.beat = Some(beat("f", 4))),
            Some("changed")
        );
    }

    #[test]
    fn l5_every_due_lane_ends_the_rest() {
        for lane in [Lane::Housekeeper].into_iter().chain(Lane::WOKEN) {
            let due = why(|summary| {
                for (other, row) in &mut summary.lanes {
                    if *other == lane {
                        row.due = Some(at(1100));
                    }
                }
            });
            assert_eq!(due, Some("due"), "{lane}");
        }
        assert_eq!(why(|summary| own(summary).failures = 1), Some("failed"));
    }

    #[test]
    fn l2_dead_visit_is_due_once_its_lease_has_lapsed() {
        let visited = |until| {
            why(|summary| {
                own(summary).due = None;
                own(summary).lease = Some(Lease {
                    owner: "t".into(),
                    until: at(until),
                });
            })
        };
        assert_eq!(visited(1101), None, "it is under way");
        assert_eq!(visited(1100), Some("due"));
    }

    #[test]
    fn visits_of_clusters_at_rest_are_spread_over_minutes() {
        let visits: BTreeSet<i64> = (0..200)
            .map(|number| {
                let cluster = ClusterName(format!("cluster-{number}"));
                next_visit(&cluster, at(0)).as_second()
            })
            .collect();
        assert!(visits.len() > 100, "{visits:?}");
        assert!(visits.iter().all(|at| (300..540).contains(at)));
    }
}
