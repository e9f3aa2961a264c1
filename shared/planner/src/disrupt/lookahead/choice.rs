//! Choice between trajectories: a plan must end no more expensive than the known trajectory, with hardly more evictions.

use model::NanosPerHour;

use super::Trajectory;

/// Price of an eviction when trajectories are compared, in nano-dollars per hour.
const EVICTION: i64 = 10_000_000;
/// A plan may evict up to 1/18 more pods than single moves do.
const MORE_EVICTIONS: usize = 18;
/// Range of the eviction price that plans are searched with, in nano-dollars per hour.
const PER_EVICTION: [i64; 2] = [2_000_000, 60_000_000];
/// Most plans searched per evaluation.
const PLANS_MAX: usize = 6;

/// Bound that a new plan must keep.
pub(super) struct Bound {
    trajectory: Trajectory,
    moved_max: usize,
}

impl Bound {
    /// Bound by the trajectory of single moves.
    pub(super) fn of_single_moves(trajectory: Trajectory) -> Self {
        let moved_max = trajectory.moved + trajectory.moved / MORE_EVICTIONS;
        Self {
            trajectory,
            moved_max,
        }
    }

    /// Bound by the plan in the cursor. It allows no extra evictions: otherwise each evaluation could add some.
    pub(super) fn of_active_plan(trajectory: Trajectory) -> Self {
        let moved_max = trajectory.moved;
        Self {
            trajectory,
            moved_max,
        }
    }

    pub(super) fn moves_too_many(&self, trajectory: Trajectory) -> bool {
        trajectory.moved > self.moved_max
    }

    /// Whether the trajectory is better than the known one, within its number of evictions.
    pub(super) fn admits(&self, trajectory: Trajectory) -> bool {
        trajectory.cost <= self.trajectory.cost
            && !self.moves_too_many(trajectory)
            && value(trajectory) < value(self.trajectory)
    }

    /// Whether the plan's trajectory is chosen over that of single moves.
    pub(super) fn prefers(&self, planned: Trajectory, single_moves: Trajectory) -> bool {
        !self.admits(single_moves) || value(planned) < value(single_moves)
    }
}

/// Value of a trajectory: final cost plus the price of its evictions. Lower is better.
pub(super) fn value(trajectory: Trajectory) -> i64 {
    let moved = i64::try_from(trajectory.moved).unwrap_or(i64::MAX);
    trajectory
        .cost
        .saturating_add(moved.saturating_mul(EVICTION))
}

/// Bisection of the eviction price, towards the lowest one whose plan does not evict too many pods.
pub(super) struct Prices {
    least: i64,
    most: i64,
    left: usize,
}

impl Default for Prices {
    fn default() -> Self {
        let [least, most] = PER_EVICTION;
        Self {
            least,
            most,
            left: PLANS_MAX,
        }
    }
}

impl Prices {
    pub(super) fn current(&self) -> NanosPerHour {
        NanosPerHour((self.least * self.most).isqrt())
    }

    /// Returns the next price, unless enough plans were made.
    pub(super) fn next(&mut self, moved_too_many: bool) -> Option<NanosPerHour> {
        let known = self.current().0;
        if moved_too_many {
            self.least = known;
        } else {
            self.most = known;
        }
        self.left = self.left.saturating_sub(1);
        (self.left > 0).then(|| self.current())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Trajectory whose cost is in units of one eviction's price.
    fn trajectory(cost: i64, moved: usize) -> Trajectory {
        Trajectory {
            cost: cost * EVICTION,
            price: cost * EVICTION,
            moved,
        }
    }

    #[test]
    fn plan_is_admitted_only_if_no_more_expensive_with_hardly_more_evictions() {
        let bound = Bound::of_single_moves(trajectory(100, 36));
        assert!(bound.admits(trajectory(97, 38)), "an eighteenth more");
        assert!(!bound.admits(trajectory(90, 39)));
        assert!(!bound.admits(trajectory(101, 30)), "more expensive");
        assert!(bound.admits(trajectory(100, 35)));
        assert!(!bound.admits(trajectory(100, 36)), "the same");
        assert!(!bound.admits(trajectory(98, 38)), "worth the same");
        assert_eq!(
            [38, 39].map(|moved| bound.moves_too_many(trajectory(0, moved))),
            [false, true]
        );
    }

    #[test]
    fn alternative_to_the_active_plan_may_not_evict_more() {
        let bound = Bound::of_active_plan(trajectory(100, 36));
        assert!(bound.admits(trajectory(97, 36)));
        assert!(!bound.admits(trajectory(90, 37)));
    }

    #[test]
    fn single_moves_replace_the_active_plan_only_if_better_than_it_and_no_worse_than_a_new_plan() {
        let active = trajectory(100, 36);
        let bound = Bound::of_active_plan(active);
        assert!(bound.prefers(active, trajectory(100, 36)), "no better");
        assert!(bound.prefers(active, trajectory(90, 37)), "moves more");
        assert!(!bound.prefers(active, trajectory(97, 36)));
        assert!(
            bound.prefers(trajectory(95, 36), trajectory(97, 36)),
            "a new plan"
        );
        assert!(!bound.prefers(trajectory(97, 36), trajectory(97, 36)));
        assert!(!bound.prefers(trajectory(98, 36), trajectory(97, 36)));
    }

    #[test]
    fn eviction_price_converges_to_the_lowest_with_few_enough_evictions() {
        // Geometric means of 2 and 60, then of 2 and the result, and so on.
        let mut prices = Prices::default();
        let millions = |price: NanosPerHour| price.0 / 1_000_000;
        assert_eq!(millions(prices.current()), 10);
        assert_eq!(prices.next(false).map(millions), Some(4));
        assert_eq!(prices.next(true).map(millions), Some(7));
        assert_eq!(prices.next(true).map(millions), Some(8));
        assert_eq!(prices.next(false).map(millions), Some(7));
        assert_eq!(prices.next(true).map(millions), Some(8));
        assert_eq!(prices.next(true), None, "six plans");
    }
}
