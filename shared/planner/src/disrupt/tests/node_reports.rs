//! Reports on nodes that may be disrupted and on those that are kept.

use super::*;

fn summaries(cluster: &TestCluster) -> Vec<String> {
    let all = node_reports(&cluster.0).into_iter();
    all.map(|report| {
        let reason = report.reason.map_or("-", Reason::as_str);
        let instead = report.alternative.map_or_else(String::new, |found| {
            let nodes: Vec<_> = found
                .nodes
                .iter()
                .map(|node| node.instance_type.as_str())
                .collect();
            format!(" for [{}] saving {}", nodes.join(", "), found.saving)
        });
        let kept = report
            .kept
            .map_or_else(String::new, |why| format!("; {why}"));
        format!("{}: {reason}{instead}{kept}", report.node)
    })
    .collect()
}

#[test]
fn report_of_a_removable_node_has_its_alternative_and_savings() {
    let cluster = TestCluster::new()
        .node("a", "large", &[1_500])
        .node("b", "small", &[])
        .node("c", "small", &[1_900])
        .with(|snapshot| drift(snapshot, "c-claim", 5));
    assert_eq!(
        summaries(&cluster),
        [
            "a: Underutilized for [] saving 0.4000",
            "b: Empty for [] saving 0.1000",
            "c: Drifted for [] saving 0.1000",
        ]
    );
}

#[test]
fn report_of_a_kept_node_has_the_reason_and_best_alternative() {
    let cluster = TestCluster::new()
        .node("exact", "small", &[1_900])
        .node("guarded", "medium", &[3_900])
        .node("never", "large", &[7_900])
        .with(|snapshot| {
            let annotation = (DO_NOT_DISRUPT.to_owned(), "true".to_owned());
            snapshot.pods[1].annotations.extend([annotation]);
            snapshot.node_claims[2].status.conditions.pop();
        });
    assert_eq!(
        summaries(&cluster),
        [
            "exact: - for [small] saving 0.0000; Can't replace with a cheaper node",
            "guarded: -; Pod has \"karpenter.sh/do-not-disrupt\" annotation (Pod=default/guarded-0)",
            "never: -; Node is not Consolidatable: its NodeClaim does not have the condition, though its pods have not changed within consolidateAfter",
        ]
    );
}

#[test]
fn report_of_a_node_kept_by_budget_has_the_possible_savings() {
    let cluster = TestCluster::new()
        .node("a", "large", &[1_500])
        .with(|snapshot| snapshot.node_pools[0].disruption.budgets = vec![budget("0")]);
    assert_eq!(
        summaries(&cluster),
        [
            "a: Underutilized for [small] saving 0.3000; No allowed disruptions for disruption reason Underutilized due to blocking budget"
        ]
    );
}

#[test]
fn every_report_has_the_price_of_the_node() {
    let cluster = TestCluster::new()
        .node("a", "small", &[1_900])
        .node("b", "large", &[7_900])
        .node("c", "medium", &[3_900])
        .with(|snapshot| {
            for node in &mut snapshot.nodes[1..] {
                let annotation = (DO_NOT_DISRUPT.to_owned(), "true".to_owned());
                node.annotations.extend([annotation]);
            }
        });
    let prices = node_reports(&cluster.0)
        .into_iter()
        .map(|report| report.price.0);
    let mills = prices.map(|price| price / 1_000_000);
    assert_eq!(mills.collect::<Vec<_>>(), [100, 400, 200]);
}

#[test]
fn node_with_blocking_pods_is_reported_as_removable_only_for_drift() {
    let kept = |drifts: bool| {
        let cluster = TestCluster::new()
            .node("n", "small", &[1_900])
            .with(|snapshot| {
                snapshot.node_claims[0].spec.termination_grace_period = Some("1h".to_owned());
                snapshot.disruption_budgets = vec![guard("n-0")];
                if drifts {
                    drift(snapshot, "n-claim", 1);
                }
            });
        node_reports(&cluster.0).remove(0).kept
    };
    assert_eq!(kept(true), None);
    let guarded = kept(false).unwrap_or_default();
    assert!(guarded.starts_with("Pdb prevents"), "{guarded}");
}

#[test]
fn empty_node_of_a_pool_without_consolidation_is_kept() {
    let cluster = TestCluster::new()
        .node("drifted", "small", &[])
        .node("empty", "small", &[])
        .with(|snapshot| {
            snapshot.node_pools[0].disruption.consolidate_after = ConsolidateAfter::Never;
            drift(snapshot, "drifted-claim", 1);
        });
    assert_eq!(cluster.removes(), ["drifted"]);
    assert_eq!(
        summaries(&cluster),
        [
            "drifted: Drifted for [] saving 0.1000",
            "empty: -; NodePool \"default\" has consolidation disabled",
        ]
    );
}

#[test]
fn empty_node_that_pending_pods_are_expected_on_is_kept() {
    let cluster = TestCluster::new().node("n", "small", &[]).with(|snapshot| {
        let mut pending = pod("web", 1_000, "");
        (pending.node_name, pending.unschedulable) = (None, true);
        snapshot.pods.push(pending);
        snapshot.settings.optimize = Optimize::Cost;
    });
    assert!(cluster.removes().is_empty());
    assert_eq!(
        summaries(&cluster),
        ["n: Empty; Pending pods are expected to run on the node"]
    );
}

#[test]
fn drifted_static_node_is_kept_if_its_replacement_exceeds_the_limit() {
    let cluster = |replicas: u32, limit: i64| {
        TestCluster::new()
            .node("n", "small", &[1_000])
            .with(|snapshot| {
                snapshot.node_pools[0].replicas = Some(replicas.into());
                snapshot.node_pools[0].limits = Resources::from([("nodes", limit)]);
                drift(snapshot, "n-claim", 1);
            })
    };
    assert_eq!(summaries(&cluster(1, 2)), ["n: Drifted"]);
    let at_limit = cluster(1, 1);
    assert!(at_limit.removes().is_empty());
    assert_eq!(
        summaries(&at_limit),
        ["n: Drifted; static NodePool is at its node limit and cannot stage a replacement"]
    );
    let surplus = cluster(0, 2);
    assert!(surplus.removes().is_empty());
    assert_eq!(
        summaries(&surplus),
        ["n: Drifted; its static NodePool has more nodes than replicas"]
    );
}
