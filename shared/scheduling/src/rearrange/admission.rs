//! Checks of topology spread, pod affinity, anti-affinity and host ports before a pod joins a node of the model.

use super::{
    assignment::Assignment,
    cluster_model::{ClusterModel, NO_INDEX, PodKind},
    rules::{Demand, DomainRule},
};

impl Assignment {
    pub(super) fn admits(&self, cluster: &ClusterModel, kind: &PodKind, node: usize) -> bool {
        self.admits_on_host(cluster, kind, node)
            && kind.domains.iter().all(|rule| {
                let domain = self.domain(cluster, node, rule.key);
                self.admits_in(rule, domain)
            })
    }

    pub(super) fn admits_on_host(
        &self,
        cluster: &ClusterModel,
        kind: &PodKind,
        node: usize,
    ) -> bool {
        kind.hosts.iter().all(|rule| {
            rule.most
                .is_none_or(|most| self.on_host(cluster, node, rule.column) <= most)
        })
    }

    pub(super) fn admits_in(&self, rule: &DomainRule, domain: usize) -> bool {
        let Some(demand) = rule.demand else {
            return true;
        };
        if domain == NO_INDEX || rule.eligible >> domain & 1 == 0 {
            return false;
        }
        let counts = self.in_domains.row(rule.row);
        let here = counts.get(domain).copied().unwrap_or(0);
        match demand {
            Demand::Spread {
                most_skew,
                least_domains,
                counts_itself,
            } => {
                let least = match rule.eligible.count_ones() < least_domains {
                    true => 0,
                    false => eligible(rule, counts).min().unwrap_or(0),
                };
                here + i64::from(counts_itself) - least <= most_skew
            }
            Demand::Together { may_be_first } => {
                here > 0 || may_be_first && eligible(rule, counts).all(|count| count == 0)
            }
            Demand::Apart => here == 0,
        }
    }
}

fn eligible<'c>(rule: &DomainRule, counts: &'c [i64]) -> impl Iterator<Item = i64> + 'c {
    let bits = rule.eligible;
    let counts = counts.iter().enumerate();
    counts
        .filter(move |(domain, _)| bits >> domain & 1 == 1)
        .map(|(_, count)| *count)
}

#[cfg(test)]
mod tests {
    use super::{
        super::{grid::Grid, rules::DOMAINS_MAX, tests::fixture::SmallCluster},
        *,
    };

    /// Whether a pod may join each of three domains with these counts, if only the `eligible` domains are open to it.
    fn admitted(counts: [i64; 3], eligible: u64, demand: Option<Demand>) -> [bool; 3] {
        let rule = DomainRule {
            row: 0,
            key: 0,
            demand,
            counts: true,
            eligible,
        };
        let mut state = SmallCluster::new()
            .node("s", "a", &[])
            .with_model(ClusterModel::initial_assignment);
        state.in_domains = Grid::new(1, DOMAINS_MAX);
        for (domain, count) in counts.into_iter().enumerate() {
            state.in_domains.set(0, domain, count);
        }
        assert_eq!(state.admits_in(&rule, NO_INDEX), demand.is_none());
        [0, 1, 2].map(|domain| state.admits_in(&rule, domain))
    }

    fn spread(least_domains: u32, counts_itself: bool) -> Option<Demand> {
        Some(Demand::Spread {
            most_skew: 1,
            least_domains,
            counts_itself,
        })
    }

    #[test]
    fn skew_is_measured_from_the_emptiest_eligible_domain() {
        let admitted = |eligible, demand| admitted([2, 1, 0], eligible, demand);
        assert_eq!(admitted(0b111, spread(0, true)), [false, false, true]);
        assert_eq!(admitted(0b011, spread(0, true)), [false, true, false]);
        assert_eq!(admitted(0b011, spread(0, false)), [true, true, false]);
    }

    #[test]
    fn minimum_is_zero_below_min_domains() {
        let admitted = |least_domains| admitted([2, 1, 0], 0b011, spread(least_domains, true));
        assert_eq!(admitted(2), [false, true, false]);
        assert_eq!(admitted(3), [false, false, false]);
    }

    #[test]
    fn first_affinity_pod_is_admitted_anywhere_and_others_beside_it() {
        let near = |may_be_first| Some(Demand::Together { may_be_first });
        assert_eq!(admitted([0, 3, 0], 0b111, near(true)), [false, true, false]);
        assert_eq!(admitted([0, 0, 3], 0b011, near(true)), [true, true, false]);
        assert_eq!(admitted([0, 0, 0], 0b111, near(false)), [false; 3]);
    }

    #[test]
    fn anti_affinity_admits_only_empty_domains() {
        let apart = Some(Demand::Apart);
        assert_eq!(admitted([0, 3, 0], 0b011, apart), [true, false, false]);
    }

    #[test]
    fn rule_without_demand_admits_every_domain() {
        assert_eq!(admitted([0, 3, 9], 0, None), [true; 3]);
    }
}
