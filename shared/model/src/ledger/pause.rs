use std::{collections::BTreeSet, fmt};

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::ids::NodePoolName;

/// A hold that one person puts on a scope for a time. Several people's pauses are independent, and each person lifts
/// only their own.
///
/// No pause delays interruptions, dead nodes or deletions requested by users (docs/design.md#never-delayed).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pause {
    pub scope: PauseScope,
    pub owner: String,
    pub level: PauseLevel,
    pub reason: String,
    pub since: Timestamp,
    /// The pause ends by itself at this time.
    pub until: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum PauseScope {
    /// All clusters of the account and Region.
    Account,
    Cluster,
    NodePool(NodePoolName),
}

/// The actions that a pause holds back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PauseLevel {
    /// Voluntary disruption: emptiness, drift, consolidation and expiration. Pods still get nodes, and drains under way
    /// finish.
    Voluntary,
    /// Launches and voluntary drains under way, in addition to `Voluntary`.
    All,
}

/// The number of pauses is at its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "there are already {} pauses, the maximum: resume some of them",
    Pause::COUNT_MAX
)]
pub struct TooManyPauses;

impl Pause {
    /// Upper bound on the duration, so that a forgotten pause ends.
    pub const DURATION_MAX: SignedDuration = SignedDuration::from_hours(30 * 24);
    /// `until` of a pause that only ends when it is lifted. Beyond [`Self::DURATION_MAX`], so users cannot set it.
    pub const INDEFINITE: Timestamp = Timestamp::MAX;
    /// Upper bound on the pauses of one row, because every turn reads all of them.
    pub const COUNT_MAX: usize = 20;

    pub fn is_live(&self, now: Timestamp) -> bool {
        self.until > now
    }

    /// Whether the pause is in force and holds back `level`.
    fn holds(&self, level: PauseLevel, now: Timestamp) -> bool {
        self.level >= level && self.is_live(now)
    }

    /// Pauses of the whole cluster or its account that hold back `level`.
    pub fn of_cluster(pauses: &[Self], level: PauseLevel, now: Timestamp) -> Option<Paused<'_>> {
        let whole = |pause: &&Self| pause.scope <= PauseScope::Cluster;
        Paused::of(pauses.iter().filter(whole), level, now)
    }

    /// Pauses that hold back `level` for a NodePool: those of the NodePool, its cluster and its account.
    pub fn of_pool<'a>(
        pauses: &'a [Self],
        pool: Option<&NodePoolName>,
        level: PauseLevel,
        now: Timestamp,
    ) -> Option<Paused<'a>> {
        let concerns = |pause: &&Self| match &pause.scope {
            PauseScope::Account | PauseScope::Cluster => true,
            PauseScope::NodePool(name) => Some(name) == pool,
        };
        Paused::of(pauses.iter().filter(concerns), level, now)
    }

    /// NodePools that are paused themselves for `level`.
    pub fn node_pools(
        pauses: &[Self],
        level: PauseLevel,
        now: Timestamp,
    ) -> BTreeSet<NodePoolName> {
        let holding = pauses.iter().filter(|pause| pause.holds(level, now));
        let of_pool = holding.filter_map(|pause| match &pause.scope {
            PauseScope::NodePool(name) => Some(name.clone()),
            PauseScope::Account | PauseScope::Cluster => None,
        });
        of_pool.collect()
    }

    /// Earliest end of a pause that ends by itself.
    pub fn next_end(pauses: &[Self], now: Timestamp) -> Option<Timestamp> {
        let ends = pauses.iter().map(|pause| pause.until);
        ends.filter(|until| *until > now && *until != Self::INDEFINITE)
            .min()
    }

    /// The pauses after adding `pause`, which replaces one of the same owner and scope.
    pub fn put(pauses: &[Self], pause: Self, now: Timestamp) -> Result<Vec<Self>, TooManyPauses> {
        let (_, mut rest) = Self::lift(pauses, &pause.scope, &pause.owner, now);
        if rest.len() >= Self::COUNT_MAX {
            return Err(TooManyPauses);
        }
        rest.push(pause);
        Ok(rest)
    }

    /// The pause that the owner lifts, if there is one, and the remaining ones.
    pub fn lift(
        pauses: &[Self],
        scope: &PauseScope,
        owner: &str,
        now: Timestamp,
    ) -> (Option<Self>, Vec<Self>) {
        let live = pauses.iter().filter(|pause| pause.is_live(now)).cloned();
        let (own, rest): (Vec<_>, Vec<_>) =
            live.partition(|pause| pause.owner == owner && pause.scope == *scope);
        (own.into_iter().next(), rest)
    }
}

/// Pauses that hold something back now; at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paused<'a>(Vec<&'a Pause>);

impl<'a> Paused<'a> {
    fn of(
        pauses: impl Iterator<Item = &'a Pause>,
        level: PauseLevel,
        now: Timestamp,
    ) -> Option<Self> {
        let holding: Vec<_> = pauses.filter(|pause| pause.holds(level, now)).collect();
        (!holding.is_empty()).then_some(Self(holding))
    }

    /// Time at which the last of the pauses ends by itself; `None` if one does not.
    pub fn until(&self) -> Option<Timestamp> {
        let last = self.0.iter().map(|pause| pause.until).max();
        last.filter(|last| *last != Pause::INDEFINITE)
    }
}

/// Formats owner, end and reason of each pause.
impl fmt::Display for Paused<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, pause) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("; ")?;
            }
            write!(f, "{pause}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Pause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            scope,
            owner,
            level,
            reason,
            until,
            ..
        } = self;
        write!(f, "{scope} is paused ({level}) by {owner}")?;
        if *until != Self::INDEFINITE {
            write!(f, " until {until:.0}")?;
        }
        write!(f, ": {reason}")
    }
}

impl fmt::Display for PauseScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Account => f.write_str("the account"),
            Self::Cluster => f.write_str("the cluster"),
            Self::NodePool(name) => write!(f, "NodePool {name}"),
        }
    }
}

impl fmt::Display for PauseLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Voluntary => "voluntary",
            Self::All => "all",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(minutes: i64) -> Timestamp {
        Timestamp::from_second(minutes * 60).unwrap()
    }

    fn pause(owner: &str, scope: PauseScope, level: PauseLevel, until: i64) -> Pause {
        Pause {
            scope,
            owner: owner.into(),
            level,
            reason: "a migration".into(),
            since: at(0),
            until: at(until),
        }
    }

    #[test]
    fn pauses_of_two_owners_coexist_and_each_lifts_its_own() {
        let level = PauseLevel::Voluntary;
        let one = pause("ann", PauseScope::Cluster, level, 10);
        let other = pause("ben", PauseScope::Cluster, level, 20);
        let both = Pause::put(std::slice::from_ref(&one), other.clone(), at(1)).unwrap();
        assert_eq!(both, [one.clone(), other.clone()]);
        let (lifted, left) = Pause::lift(&both, &PauseScope::Cluster, "ann", at(1));
        assert_eq!((lifted, left), (Some(one), vec![other.clone()]));
        let (lifted, left) = Pause::lift(&both, &PauseScope::Account, "ben", at(1));
        assert_eq!((lifted, left), (None, both.clone()), "another scope");
        let paused = Pause::of_cluster(&both, level, at(1)).unwrap();
        assert_eq!(
            paused.to_string(),
            "the cluster is paused (voluntary) by ann until 1970-01-01T00:10:00Z: a migration; \
             the cluster is paused (voluntary) by ben until 1970-01-01T00:20:00Z: a migration"
        );
        assert_eq!(paused.until(), Some(at(20)));
    }

    #[test]
    fn pause_expires_and_owner_can_replace_it() {
        let first = pause("ann", PauseScope::Cluster, PauseLevel::All, 10);
        let all = [first];
        assert!(Pause::of_cluster(&all, PauseLevel::All, at(9)).is_some());
        assert!(Pause::of_cluster(&all, PauseLevel::All, at(10)).is_none());
        let second = pause("ann", PauseScope::Cluster, PauseLevel::Voluntary, 30);
        let put = Pause::put(&all, second.clone(), at(1)).unwrap();
        assert_eq!(put, [second]);
    }

    #[test]
    fn pause_level_includes_lower_one_and_node_pool_scope_is_exclusive() {
        let all = [
            pause(
                "ann",
                PauseScope::NodePool("web".into()),
                PauseLevel::All,
                9,
            ),
            pause("ben", PauseScope::Account, PauseLevel::Voluntary, 9),
        ];
        let of = |pool: &str, level| {
            let pool = NodePoolName::from(pool);
            Pause::of_pool(&all, Some(&pool), level, at(1)).map(|paused| paused.0.len())
        };
        assert_eq!(of("web", PauseLevel::All), Some(1));
        assert_eq!(of("web", PauseLevel::Voluntary), Some(2));
        assert_eq!(of("db", PauseLevel::All), None);
        assert_eq!(of("db", PauseLevel::Voluntary), Some(1));
        assert_eq!(Pause::of_cluster(&all, PauseLevel::All, at(1)), None);
    }

    #[test]
    fn pause_count_is_bounded_and_expired_pauses_free_slots() {
        let of = |index: usize, until| {
            pause(
                &format!("p{index}"),
                PauseScope::Cluster,
                PauseLevel::All,
                until,
            )
        };
        let full: Vec<_> = (0..Pause::COUNT_MAX).map(|index| of(index, 10)).collect();
        assert_eq!(Pause::put(&full, of(99, 20), at(1)), Err(TooManyPauses));
        assert_eq!(Pause::put(&full, of(99, 20), at(10)).unwrap().len(), 1);
    }
}
