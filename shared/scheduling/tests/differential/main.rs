//! Differential test against a naive reference: for small random clusters both make the same decisions, pod by pod and type
//! by type.

#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a wrong index fails the test"
)]

mod naive;
mod random_cluster;

use std::collections::BTreeSet;

use proptest::prelude::*;
use scheduling::{BaselineCluster, Input, SimulatedRemoval, SolveResult, solve};

use self::naive::Decision;

/// Result as names, comparable with the reference.
fn named(result: &SolveResult, input: &Input<'_>) -> Decision {
    let name = |at: &usize| input.pods[*at].key.name.clone();
    let names = |pods: &[usize]| -> BTreeSet<String> { pods.iter().map(name).collect() };
    let new = result.new_nodes.iter().map(|node| {
        let pool = &input.pools[node.pool];
        let types = node.choices.iter();
        let types = types.map(|choice| pool.types[choice.instance_type()].name.clone());
        (pool.name.0.clone(), names(&node.pods), types.collect())
    });
    let existing = result.existing.iter();
    Decision {
        new: new.collect(),
        existing: existing
            .map(|(node, pods)| (input.nodes[*node].name.to_owned(), names(pods)))
            .collect(),
        unplaced: result.unplaced.iter().map(|left| name(&left.pod)).collect(),
    }
}

/// Input without a node, with its pods to place again, and the indexes of these pods.
fn without(whole: &Input<'_>, node: usize) -> (Vec<usize>, Decision) {
    let mut input = whole.clone();
    let removed = input.nodes.remove(node);
    let leaves = |pod: &&model::pod::Pod| {
        pod.node_name
            .as_ref()
            .is_some_and(|on| on.as_str() == removed.name)
    };
    let pods = (0..).zip(&whole.pods);
    let leaving = pods.filter(|(_, pod)| leaves(pod)).map(|(at, _)| at);
    input
        .pods
        .retain(|pod| pod.node_name.is_none() || leaves(pod));
    (leaving.collect(), named(&solve(&input), &input))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn search_decides_like_the_naive_reference(cluster in random_cluster::cluster()) {
        cluster.with_input(|input| {
            prop_assert_eq!(named(&solve(input), input), naive::decide(input));
            Ok(())
        })?;
    }

    #[test]
    fn baseline_simulations_equal_separate_solves(
        cluster in random_cluster::cluster(),
        by_zone in any::<bool>(),
    ) {
        let cluster = if by_zone { cluster.apart_by_zone() } else { cluster };
        cluster.with_input(|input| {
            let waiting = input.pods.len();
            let mut whole = input.clone();
            whole.pods.extend(input.hosts.iter().flat_map(|host| &host.pods));
            let baseline = BaselineCluster::new(whole.clone(), waiting, None);
            for node in 0..input.nodes.len() {
                let (pods, fresh) = without(&whole, node);
                let result = baseline.without(&SimulatedRemoval {
                    moved: &vec![false; pods.len()],
                    pods: &pods,
                    nodes: &[node].into(),
                    remaining: input.pools.iter().map(|pool| pool.remaining.clone()).collect(),
                    wanted: &[],
                });
                let placed = (0..waiting).chain(pods).map(|at| whole.pods[at]);
                let placed = Input { pods: placed.collect(), ..whole.clone() };
                prop_assert_eq!(named(&result, &placed), fresh);
            }
            Ok(())
        })?;
    }
}
