//! Settings of a whole run: clusters, NodePools, clocks and latencies.

use model::Lane;

use super::GatedFeatures;
use crate::rng::Rng;

/// NodePool that only pods of the Deployment of this name tolerate and select.
pub(crate) const TEAM: &str = "team";
/// NodePools, in the order of their creation.
const POOLS: [&str; 3] = ["default", "second", TEAM];
/// Clusters of the account, in the order of their creation.
const CLUSTERS: [&str; 2] = ["demo", "other"];
/// Probability of a burst of nodes, per mille: such a seed takes as long as dozens of others.
const BURSTS: u64 = 4;
/// Minutes of each hour for which a budget with a schedule is active.
pub(crate) const WINDOW: i64 = 10;

/// Setup of the clusters, and latencies of calls.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Number of clusters in the account; they share EC2 and the ledger.
    pub clusters: usize,
    /// Whether EC2 calls are taken out of the account's budget.
    pub budgeted: bool,
    /// Whether a relay runs, except while it is dead.
    pub relay: bool,
    /// Whether the relay publishes pods.
    pub publishes: bool,
    /// NodePools of each cluster.
    pub pools: Vec<PoolSetting>,
    /// Whether there is only one instance type, so that each pod of `web` needs a separate node.
    pub burst: bool,
    /// Whether pods of the Deployment `held` carry `karpenter.sh/do-not-disrupt`.
    pub do_not_disrupt: bool,
    /// Whether a PodDisruptionBudget protects all but one pod of `web`.
    pub disruption_budget: bool,
    pub tokens_ignored: bool,
    /// Seconds for which descriptions omit new instances.
    pub describe_lag: i64,
    /// Probability of a slow call, per mille, and the longest duration of one in seconds.
    pub latency: (u64, i64),
    /// Whether the status document for the relay's metrics exists; nothing depends on it.
    pub has_status_document: bool,
    pub gated: GatedFeatures,
    /// Seconds by which the clock of each function is ahead.
    pub skews: Vec<(Lane, i64)>,
}

/// Setup of a NodePool.
#[derive(Clone, Debug)]
pub struct PoolSetting {
    pub name: &'static str,
    pub weight: Option<i32>,
    pub spot: bool,
    pub consolidate_after: &'static str,
    pub budgets: Vec<BudgetSetting>,
    /// CPU limit of the NodePool, in cores.
    pub limit: Option<i64>,
    pub termination_grace_period: Option<&'static str>,
    pub expire_after: Option<&'static str>,
}

/// A disruption budget of a NodePool.
#[derive(Clone, Debug)]
pub struct BudgetSetting {
    pub nodes: &'static str,
    /// Minute of the hour from which the budget is active for [`WINDOW`] minutes; `None` if it always is.
    pub from: Option<i64>,
}

impl Setting {
    pub(super) fn draw(rng: &mut Rng) -> Self {
        let skewed = rng.chance(300);
        let lanes = Lane::WOKEN
            .into_iter()
            .chain([Lane::Interruption, Lane::Housekeeper]);
        let burst = rng.chance(BURSTS);
        let count = match burst {
            true => 1,
            false => rng.pick(&[1, 1, 1, 2, 3, 3]).copied().unwrap_or(1),
        };
        let pools = POOLS.into_iter().take(count);
        Self {
            clusters: if rng.chance(120) { CLUSTERS.len() } else { 1 },
            budgeted: rng.chance(300),
            relay: rng.chance(700),
            publishes: rng.chance(300),
            pools: pools
                .map(|name| PoolSetting {
                    limit: rng
                        .chance(400)
                        .then(|| rng.between(6, 24))
                        .filter(|_| !burst),
                    ..PoolSetting::draw(name, rng)
                })
                .collect(),
            burst,
            do_not_disrupt: rng.chance(300),
            disruption_budget: rng.chance(500),
            tokens_ignored: rng.chance(200),
            describe_lag: if rng.chance(300) {
                rng.between(1, 150)
            } else {
                0
            },
            latency: rng
                .pick(&[(0, 0), (0, 0), (100, 2), (300, 5)])
                .copied()
                .unwrap_or_default(),
            has_status_document: rng.chance(300),
            gated: GatedFeatures::default(),
            skews: lanes
                .map(|lane| (lane, if skewed { rng.between(-20, 20) } else { 0 }))
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
    fn draw(name: &'static str, rng: &mut Rng) -> Self {
        let always = BudgetSetting {
            nodes: budget(rng),
            from: None,
        };
        let at_times = rng.chance(200).then(|| BudgetSetting {
            nodes: rng.pick(&["0", "1", "10%"]).copied().unwrap_or("0"),
            from: Some(rng.between(0, 59)),
        });
        Self {
            name,
            weight: (name != POOLS[0] && rng.chance(500)).then_some(10),
            spot: rng.chance(500),
            consolidate_after: rng
                .pick(&["15s", "60s", "Never"])
                .copied()
                .unwrap_or("Never"),
            budgets: [always].into_iter().chain(at_times).collect(),
            limit: None,
            termination_grace_period: rng
                .chance(300)
                .then(|| rng.pick(&["1m", "5m"]).copied().unwrap_or("5m")),
            expire_after: rng.chance(150).then_some("10m"),
        }
    }
}

/// Draws the nodes that may be disrupted concurrently.
pub(super) fn budget(rng: &mut Rng) -> &'static str {
    let nodes = ["1", "2", "100", "10%", "34%", "50%", "100%"];
    rng.pick(&nodes).copied().unwrap_or("100%")
}
