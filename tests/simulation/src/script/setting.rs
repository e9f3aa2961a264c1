//! The conditions of a whole run: clusters, NodePools, clocks and latencies.

use model::Lane;

use super::Gated;
use crate::dice::Dice;

/// NodePool that only pods of the Deployment of this name tolerate and select.
pub(crate) const TEAM: &str = "team";
/// NodePools in the order in which settings have them.
const POOLS: [&str; 3] = ["default", "second", TEAM];
/// Clusters of the account, in the order in which settings have them.
const CLUSTERS: [&str; 2] = ["demo", "other"];
/// Seeds with a wave of nodes, per mille: each takes as long as dozens of others.
const WAVES: u64 = 4;
/// Minutes of each hour that a budget with a schedule is in force.
pub(crate) const WINDOW: i64 = 10;

/// How clusters are set up, and how calls are answered.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Clusters of one account, which share its EC2 and its ledger.
    pub clusters: usize,
    /// Calls of EC2 are taken out of the account's budget.
    pub budgeted: bool,
    /// Whether the relay watches when it is not said to be dead.
    pub relay: bool,
    /// Whether the relay publishes pods.
    pub publishes: bool,
    /// NodePools of each cluster.
    pub pools: Vec<PoolSetting>,
    /// One instance type, so that each pod of `web` needs a node of its own.
    pub wave: bool,
    /// Pods of the Deployment `held` carry `karpenter.sh/do-not-disrupt`.
    pub do_not_disrupt: bool,
    /// A PodDisruptionBudget keeps all but one pod of `web`.
    pub disruption_budget: bool,
    pub tokens_ignored: bool,
    /// Seconds for which descriptions miss new instances.
    pub describe_lag: i64,
    /// Calls that are slow, per mille, and the most seconds that one takes.
    pub latency: (u64, i64),
    /// Whether there is a document that functions tell the relay's metrics in: nothing depends on it.
    pub tells: bool,
    pub gated: Gated,
    /// Seconds by which the clock of each function is ahead.
    pub skews: Vec<(Lane, i64)>,
}

/// How a NodePool is set up.
#[derive(Clone, Debug)]
pub struct PoolSetting {
    pub name: &'static str,
    pub weight: Option<i32>,
    pub spot: bool,
    pub consolidate_after: &'static str,
    pub budgets: Vec<BudgetSetting>,
    /// In cores.
    pub limit: Option<i64>,
    pub termination_grace_period: Option<&'static str>,
    pub expire_after: Option<&'static str>,
}

/// A disruption budget of a NodePool.
#[derive(Clone, Debug)]
pub struct BudgetSetting {
    pub nodes: &'static str,
    /// Minute of the hour at which the budget comes into force for [`WINDOW`] minutes; `None` if it always is.
    pub from: Option<i64>,
}

impl Setting {
    pub(super) fn draw(dice: &mut Dice) -> Self {
        let skewed = dice.chance(300);
        let lanes = Lane::WOKEN
            .into_iter()
            .chain([Lane::Interruption, Lane::Housekeeper]);
        let wave = dice.chance(WAVES);
        let count = match wave {
            true => 1,
            false => dice.pick(&[1, 1, 1, 2, 3, 3]).copied().unwrap_or(1),
        };
        let pools = POOLS.into_iter().take(count);
        Self {
            clusters: if dice.chance(120) { CLUSTERS.len() } else { 1 },
            budgeted: dice.chance(300),
            relay: dice.chance(700),
            publishes: dice.chance(300),
            pools: pools
                .map(|name| PoolSetting {
                    limit: dice
                        .chance(400)
                        .then(|| dice.between(6, 24))
                        .filter(|_| !wave),
                    ..PoolSetting::draw(name, dice)
                })
                .collect(),
            wave,
            do_not_disrupt: dice.chance(300),
            disruption_budget: dice.chance(500),
            tokens_ignored: dice.chance(200),
            describe_lag: if dice.chance(300) {
                dice.between(1, 150)
            } else {
                0
            },
            latency: dice
                .pick(&[(0, 0), (0, 0), (100, 2), (300, 5)])
                .copied()
                .unwrap_or_default(),
            tells: dice.chance(300),
            gated: Gated::default(),
            skews: lanes
                .map(|lane| (lane, if skewed { dice.between(-20, 20) } else { 0 }))
                .collect(),
        }
    }

    pub(crate) fn cluster_names(&self) -> impl Iterator<Item = &'static str> {
        CLUSTERS.into_iter().take(self.clusters)
    }

    pub(crate) fn has_team(&self) -> bool {
        self.pools.iter().any(|pool| pool.name == TEAM)
    }
}

impl PoolSetting {
    fn draw(name: &'static str, dice: &mut Dice) -> Self {
        let always = BudgetSetting {
            nodes: budget(dice),
            from: None,
        };
        let at_times = dice.chance(200).then(|| BudgetSetting {
            nodes: dice.pick(&["0", "1", "10%"]).copied().unwrap_or("0"),
            from: Some(dice.between(0, 59)),
        });
        Self {
            name,
            weight: (name != POOLS[0] && dice.chance(500)).then_some(10),
            spot: dice.chance(500),
            consolidate_after: dice
                .pick(&["15s", "60s", "Never"])
                .copied()
                .unwrap_or("Never"),
            budgets: [always].into_iter().chain(at_times).collect(),
            limit: None,
            termination_grace_period: dice
                .chance(300)
                .then(|| dice.pick(&["1m", "5m"]).copied().unwrap_or("5m")),
            expire_after: dice.chance(150).then_some("10m"),
        }
    }
}

/// Nodes that may be disrupted at once.
pub(super) fn budget(dice: &mut Dice) -> &'static str {
    let nodes = ["1", "2", "100", "10%", "34%", "50%", "100%"];
    dice.pick(&nodes).copied().unwrap_or("100%")
}
