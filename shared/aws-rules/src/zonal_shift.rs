//! Traffic that ARC has shifted away from a zone (docs/spec/aws.md#zonal-shift).

use jiff::Timestamp;
use model::experience::ZonalShift;
use serde::Deserialize;

/// The part of GetManagedResource's answer that matters.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ManagedResource {
    zonal_shifts: Vec<Shift>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Shift {
    /// `APPLIED` or `NOT_APPLIED`: of several shifts of a resource, one is applied.
    applied_status: String,
    /// Zone id.
    away_from: String,
    /// Seconds since the epoch, possibly with a fraction.
    expiry_time: f64,
}

impl ManagedResource {
    /// The shifts that are applied and have not ended, each zone once.
    pub fn shifts(&self, now: Timestamp) -> Vec<ZonalShift> {
        let applied = self
            .zonal_shifts
            .iter()
            .filter(|shift| shift.applied_status == "APPLIED" && !shift.away_from.is_empty());
        let mut shifts: Vec<ZonalShift> = applied
            .filter_map(|shift| {
                Some(ZonalShift {
                    zone_id: shift.away_from.clone(),
                    until: seconds(shift.expiry_time)?,
                })
            })
            .filter(|shift| shift.until > now)
            .collect();
        shifts.sort();
        // Of shifts of the same zone, the one that ends last is kept.
        shifts.reverse();
        shifts.dedup_by(|a, b| a.zone_id == b.zone_id);
        shifts.reverse();
        shifts
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "a cast from a float saturates, and times out of range are refused"
)]
fn seconds(epoch: f64) -> Option<Timestamp> {
    Timestamp::from_second(epoch as i64).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_790_000_000 + seconds).unwrap()
    }

    #[test]
    fn zonal_shift_counts_while_applied_and_not_ended() {
        let answer = serde_json::json!({
            "arn": "arn:aws:eks:us-east-1:1:cluster/demo", "name": "demo",
            "appliedWeights": {"use1-az1": 0.0, "use1-az2": 1.0},
            "zonalShifts": [
                {"appliedStatus": "APPLIED", "awayFrom": "use1-az1", "expiryTime": 1_790_000_060.5},
                {"appliedStatus": "APPLIED", "awayFrom": "use1-az1", "expiryTime": 1_790_000_120},
                {"appliedStatus": "NOT_APPLIED", "awayFrom": "use1-az2", "expiryTime": 1_790_000_060},
                {"appliedStatus": "APPLIED", "awayFrom": "use1-az3", "expiryTime": 1_790_000_000},
            ],
        });
        let resource: ManagedResource = serde_json::from_value(answer).unwrap();
        let shift = ZonalShift {
            zone_id: "use1-az1".into(),
            until: at(120),
        };
        assert_eq!(resource.shifts(at(0)), [shift]);
        assert_eq!(resource.shifts(at(120)), []);
    }

    #[test]
    fn cluster_without_zonal_shifts_has_none() {
        let resource: ManagedResource = serde_json::from_str("{}").unwrap();
        assert_eq!(resource.shifts(at(0)), []);
    }
}
