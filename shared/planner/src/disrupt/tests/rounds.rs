//! Evaluations with a small share: a round of several finds the same as one evaluation without a limit.

use model::ledger::Cursor;

use super::*;

const NODE_POOL: &str = "karpenter.sh/nodepool";

impl TestCluster {
    pub(super) fn pool(self, name: &str) -> Self {
        self.with(|snapshot| {
            let mut pool = snapshot.node_pools[0].clone();
            pool.name = name.into();
            snapshot.node_pools.push(pool);
            let types = snapshot.instance_types[&"default".into()].clone();
            snapshot.instance_types.insert(name.into(), types);
        })
    }

    /// Adds nodes of a NodePool that cannot be removed, in descending rank.
    fn stuck(mut self, pool: &str, count: usize) -> Self {
        for at in 0..count {
            self = self.stuck_node(pool, &format!("{pool}-{at:02}"), at + 1);
        }
        self
    }

    /// Adds a node with pods that fit nowhere else.
    fn stuck_node(self, pool: &str, name: &str, pods: usize) -> Self {
        let before = self.0.pods.len();
        let cluster = self.node(name, "large", &vec![100; pods]);
        let cluster = cluster.with(|snapshot| {
            for pod in &mut snapshot.pods[before..] {
                let nowhere = (ZONE.to_owned(), "nowhere".to_owned());
                pod.node_selector.extend([nowhere]);
            }
        });
        cluster.belongs(name, pool)
    }

    pub(super) fn belongs(self, node: &str, pool: &str) -> Self {
        self.with(|snapshot| {
            let label = (NODE_POOL.to_owned(), pool.to_owned());
            let mut nodes = snapshot.nodes.iter_mut();
            let of_node = nodes.find(|known| known.name.as_str() == node).unwrap();
            of_node.labels.extend([label.clone()]);
            let claim = format!("{node}-claim");
            let mut claims = snapshot.node_claims.iter_mut();
            let of_claim = claims
                .find(|known| known.name.as_str() == claim.as_str())
                .unwrap();
            of_claim.labels.extend([label]);
        })
    }

    /// Evaluates once within this share, from the cursor of the previous evaluation.
    fn evaluate(&mut self, simulated: usize) -> DisruptionResult {
        let share = Share {
            simulated,
            ..Share::WHOLE
        };
        let result = disrupt_within(&self.0, share, &BTreeSet::new());
        self.0.cursor.clone_from(&result.cursor);
        result
    }

    /// Evaluates until one finds a command or the round ends.
    fn round(&mut self, simulated: usize) -> Vec<DisruptionResult> {
        let mut evaluations = Vec::new();
        for _ in 0..100 {
            let result = self.evaluate(simulated);
            let ends = !result.commands.is_empty() || result.cursor.is_none();
            evaluations.push(result);
            if ends {
                return evaluations;
            }
        }
        panic!("the round does not end within a hundred evaluations");
    }
}

/// Nodes that an evaluation reports on.
fn reported_nodes(result: &DisruptionResult) -> Vec<String> {
    let both = result.blocked.iter().chain(&result.unconsolidatable);
    both.map(|report| report.node.clone()).collect()
}

fn nodes_reported_by_all(evaluations: &[DisruptionResult]) -> Vec<String> {
    let mut all: Vec<String> = evaluations.iter().flat_map(reported_nodes).collect();
    all.sort();
    all
}

fn found(evaluations: &[DisruptionResult]) -> Vec<Vec<String>> {
    let commands = evaluations.iter().flat_map(|result| &result.commands);
    commands.map(|command| command.nodes.clone()).collect()
}

/// Three NodePools, one of them large, with nodes that cannot be removed.
fn large_and_small_pools() -> TestCluster {
    TestCluster::new()
        .pool("few")
        .pool("many")
        .stuck("default", 3)
        .stuck("few", 2)
        .stuck("many", 9)
}

/// [`large_and_small_pools`] with a removable node in a small NodePool, the last in its order.
fn large_and_small_pools_with_removable_node() -> TestCluster {
    let cluster = large_and_small_pools().node("spare", "small", &[10; 29]);
    cluster.belongs("spare", "few")
}

#[test]
fn node_pools_are_considered_round_robin() {
    let evaluations = large_and_small_pools().round(1);
    let order: Vec<String> = evaluations.iter().flat_map(reported_nodes).collect();
    let firsts = ["default-00", "few-00", "many-00"];
    let seconds = ["default-01", "few-01", "many-01"];
    assert_eq!(order[..6], [firsts, seconds].concat());
    assert_eq!(order[6..8], ["default-02", "many-02"]);
    assert_eq!(order.len(), 14, "{order:?}");
    let left: Vec<usize> = evaluations.iter().map(|result| result.left).collect();
    assert_eq!(left, (0..14).rev().collect::<Vec<usize>>());
}

#[test]
fn continued_evaluations_equal_a_single_evaluation() {
    for can_go in [false, true] {
        let cluster = || match can_go {
            true => large_and_small_pools_with_removable_node(),
            false => large_and_small_pools(),
        };
        let whole = [cluster().evaluate(usize::MAX)];
        assert_eq!(found(&whole).len(), usize::from(can_go), "{whole:?}");
        let mut counts = Vec::new();
        for simulated in [1, 40, 100, 150, 400, 100_000] {
            let evaluations = cluster().round(simulated);
            assert_eq!(
                nodes_reported_by_all(&evaluations),
                nodes_reported_by_all(&whole),
                "{simulated}"
            );
            assert_eq!(found(&evaluations), found(&whole), "{simulated}");
            counts.push(evaluations.len());
        }
        assert!(counts.is_sorted_by(|a, b| a >= b), "{counts:?}");
        assert_eq!(counts.last(), Some(&1));
        assert!(counts[0] > 5 && counts[2] > 1, "{counts:?}");
    }
}

#[test]
fn drift_finishes_before_consolidation() {
    let cluster = || {
        let mut cluster = large_and_small_pools_with_removable_node();
        for at in 0..9 {
            cluster =
                cluster.with(|snapshot| drift(snapshot, &format!("many-0{at}-claim"), 9 - at));
        }
        cluster
    };
    let whole = [cluster().evaluate(usize::MAX)];
    for simulated in [1, 40, 100] {
        let mut cluster = cluster();
        let evaluations = cluster.round(simulated);
        assert_eq!(
            nodes_reported_by_all(&evaluations),
            nodes_reported_by_all(&whole),
            "{simulated}"
        );
        assert_eq!(found(&evaluations), found(&whole), "{simulated}");
        assert!(evaluations.len() > 2);
        assert!(evaluations[0].unconsolidatable.is_empty() && evaluations[0].left > 0);
        assert!(
            simulated > 1 || evaluations[0].left == 8,
            "one of nine candidates"
        );
        assert!(matches!(evaluations[0].cursor, Some(Cursor::Drift(_))));
    }
}

#[test]
fn drift_continues_after_the_node_found() {
    let mut cluster = large_and_small_pools_with_removable_node()
        .with(|snapshot| drift(snapshot, "many-00-claim", 2))
        .with(|snapshot| drift(snapshot, "spare-claim", 1));
    let evaluations = cluster.round(1);
    let [first, last] = &evaluations[..] else {
        panic!("{evaluations:?}")
    };
    assert_eq!(last.commands[0].reason, Reason::Drifted);
    assert!(matches!(last.cursor, Some(Cursor::Drift(_))));
    assert_ne!(last.cursor, first.cursor);
}

#[test]
fn long_round_continues_after_a_command_and_a_short_one_restarts() {
    let mut cluster = large_and_small_pools_with_removable_node();
    let evaluations = cluster.round(1);
    assert_eq!(found(&evaluations), [["spare"]]);
    let before = nodes_reported_by_all(&evaluations).len();
    // The command is open and targets its node.
    let command = ledger::Command {
        delete: evaluations.last().unwrap().commands[0].delete.clone(),
        ..ledger::Command::default()
    };
    cluster.0.commands.push(command);
    let rest = cluster.round(1);
    assert_eq!(before + nodes_reported_by_all(&rest).len(), 14);
    assert_eq!(cluster.0.cursor, None);
    let mut whole = large_and_small_pools_with_removable_node();
    whole.evaluate(usize::MAX);
    assert_eq!(whole.0.cursor, None);
}

#[test]
fn command_found_before_the_search_keeps_the_cursor() {
    let mut cluster = large_and_small_pools();
    cluster.evaluate(1);
    let before = cluster.0.cursor.clone();
    assert!(before.is_some());
    let mut cluster = cluster.node("empty", "small", &[]);
    let result = cluster.evaluate(1);
    assert_eq!(result.commands[0].reason, Reason::Empty);
    assert_eq!(result.cursor, before);
}

#[test]
fn nodes_added_and_removed_between_evaluations_starve_no_other() {
    let mut cluster = large_and_small_pools();
    let nodes = cluster.0.nodes.iter();
    let before: BTreeSet<String> = nodes.map(|node| node.name.to_string()).collect();
    let mut considered = Vec::new();
    for at in 0..before.len() {
        let result = cluster.evaluate(1);
        let [last] = reported_nodes(&result).try_into().unwrap();
        // The node is deleted, and one of the highest rank is added.
        let snapshot = &mut cluster.0;
        snapshot.nodes.retain(|node| node.name.0 != last);
        let claim = format!("{last}-claim");
        snapshot
            .node_claims
            .retain(|known| known.name.as_str() != claim);
        considered.push(last);
        cluster = cluster.stuck_node("default", &format!("another-{at:02}"), 1);
    }
    assert_eq!(considered.len(), before.len());
    assert_eq!(considered.into_iter().collect::<BTreeSet<_>>(), before);
}

#[test]
fn multi_node_command_keeps_the_cursor() {
    for optimize in [Optimize::Upstream, Optimize::Cost] {
        let mut cluster = large_and_small_pools().with(|snapshot| {
            snapshot.settings.optimize = optimize;
            let types = snapshot.instance_types.get_mut(&"default".into()).unwrap();
            Arc::make_mut(types).push(kind("dear", 2, 7_000));
        });
        cluster.evaluate(1);
        let before = cluster.0.cursor.clone();
        assert!(before.is_some());
        let mut cluster = cluster
            .node("one", "dear", &[100])
            .node("other", "dear", &[100]);
        let result = cluster.evaluate(1);
        assert_eq!(found(&[result]), [["one", "other"]], "{optimize:?}");
        assert_eq!(cluster.0.cursor, before, "{optimize:?}");
    }
}

/// Both nodes could be replaced by a wide one now, and by none at validation, when the third node has cooled down.
#[test]
fn validation_counts_for_the_share() {
    let left = |simulated| {
        let mut cluster = TestCluster::new()
            .with(|snapshot| {
                let types = snapshot.instance_types.get_mut(&"default".into()).unwrap();
                Arc::make_mut(types).push(kind("wide", 16, 600));
                snapshot.node_pools[0].disruption.consolidate_after = ConsolidateAfter::Seconds(60);
            })
            .node("one", "large", &[5_000])
            .node("other", "large", &[5_000])
            .node("cooling_down", "wide", &[1_000])
            .with(|snapshot| {
                let claim = &mut snapshot.node_claims[2];
                claim.status.last_pod_event = Some(snapshot.now - SignedDuration::from_secs(50));
                claim
                    .status
                    .conditions
                    .retain(|condition| condition.kind != CONSOLIDATABLE);
            });
        let result = cluster.evaluate(simulated);
        assert!(result.commands.is_empty(), "{:?}", result.commands);
        result.left
    };
    // Two pods and three nodes, twice, and then one pod and three nodes.
    assert_eq!([14, 15].map(left), [1, 0]);
}
