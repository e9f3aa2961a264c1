//! Invalid user input: each mistake has a stated outcome, and none causes a disruption.

use super::*;

fn scheduled(schedule: Option<&str>, duration: Option<&str>) -> Budget {
    Budget {
        schedule: schedule.map(str::to_owned),
        duration: duration.map(str::to_owned),
        ..budget("5")
    }
}

/// Removed nodes and messages about the NodePool, for an empty node under this budget besides a generous one.
fn under(budget_of: Budget) -> (Vec<String>, Vec<String>) {
    let cluster = TestCluster::new().node("n", "small", &[]).with(|snapshot| {
        snapshot.node_pools[0].disruption.budgets = vec![budget("9"), budget_of];
    });
    let result = disrupt(&cluster.0);
    let reported = result.exhausted.into_iter().map(|(_, message)| message);
    (cluster.removes(), reported.collect())
}

fn says(budget: Budget, problem: &str) {
    let start = "Budget 2 of NodePool default is not valid, so nothing is disrupted: ";
    assert_eq!(
        under(budget),
        (Vec::new(), vec![format!("{start}{problem}")])
    );
}

#[test]
fn schedule_that_is_not_cron_blocks_disruption() {
    says(
        scheduled(Some("whenever"), Some("1h")),
        "schedule is \"whenever\": expected five cron fields such as \"0 9 * * 1-5\", or @daily and the like",
    );
}

#[test]
fn invalid_duration_blocks_disruption() {
    says(
        scheduled(Some("@daily"), Some("a while")),
        "duration is \"a while\": expected hours and minutes such as \"1h30m\"",
    );
}

#[test]
fn schedule_and_duration_require_each_other() {
    says(
        scheduled(Some("@daily"), None),
        "a schedule needs a duration",
    );
    says(scheduled(None, Some("1h")), "a duration needs a schedule");
}

#[test]
fn percentage_above_a_hundred_and_non_number_block_disruption() {
    for nodes in ["101%", "-1", "some"] {
        says(
            budget(nodes),
            &format!("nodes is \"{nodes}\": expected a number, or a percentage up to 100%"),
        );
    }
}

#[test]
fn unknown_reason_blocks_disruption() {
    let bored = Budget {
        reasons: vec!["Bored".to_owned()],
        ..budget("5")
    };
    says(
        bored,
        "reason \"Bored\" is not known: expected Underutilized, Empty, Drifted or Unhealthy",
    );
}

#[test]
fn strictest_of_contradicting_budgets_applies() {
    let (goes, reported) = under(budget("0"));
    assert!(goes.is_empty());
    assert_eq!(
        reported,
        ["No allowed disruptions for disruption reason Empty due to blocking budget"]
    );
}

#[test]
fn node_pool_without_nodes_gets_no_event() {
    let cluster = TestCluster::new();
    let result = disrupt(&cluster.0);
    assert!(result.commands.is_empty() && result.exhausted.is_empty() && result.blocked.is_empty());
}

#[test]
fn node_without_a_price_is_never_replaced() {
    let cluster = |zone: &str| {
        TestCluster::new()
            .node("n", "large", &[1_500])
            .with(|snapshot| {
                for labels in [
                    &mut snapshot.nodes[0].labels,
                    &mut snapshot.node_claims[0].labels,
                ] {
                    labels.insert(ZONE.to_owned(), zone.to_owned());
                }
            })
    };
    assert_eq!(cluster("a").removes(), ["n"]);
    assert!(cluster("elsewhere").removes().is_empty());
    assert_eq!(
        cluster("elsewhere").unconsolidatable(),
        ["Can't replace with a cheaper node"]
    );
}

#[test]
fn node_of_a_discontinued_instance_type_is_not_consolidated() {
    let cluster = TestCluster::new().node("n", "ancient", &[1_500]);
    assert!(cluster.removes().is_empty());
    assert_eq!(
        cluster.unconsolidatable(),
        ["Instance Type \"ancient\" not found"]
    );
}
