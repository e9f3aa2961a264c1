//! A cluster whose API server hangs costs other clusters no more than its own time slice.

use stories::HangingStack;

use model::Lane;

use jiff::SignedDuration;

use super::secs;

#[tokio::test]
async fn cluster_whose_api_server_hangs_delays_no_other_cluster() {
    let mut stack = HangingStack::new(40, |number| number == 0).await;
    let (report, took) = stack.sweep().await.unwrap();
    assert!(took < secs(50), "{took}: {report:?}");
    assert!(stack.renewed().contains(&39), "{report:?}");
    assert_eq!(stack.woken().len(), 40, "{report:?}");
    let reported = |problem: &&String| problem.starts_with("cluster-000: cut off after 12s");
    assert_eq!(
        report.problems.iter().filter(reported).count(),
        1,
        "{report:?}"
    );
}

#[tokio::test]
async fn healthy_clusters_are_visited_within_the_minute_with_20_of_200_hanging() {
    let mut stack = HangingStack::new(200, |number| number % 10 == 0).await;
    let (report, took) = stack.sweep().await.unwrap();
    assert!(took < secs(50), "{took}");
    assert_eq!(stack.renewed().len(), 180, "{:?}", report.problems);
    assert_eq!(stack.woken().len(), 200);
}

#[tokio::test]
async fn healthy_clusters_are_visited_within_minutes_while_most_hang() {
    let hangs = |number: usize| number % 10 != 9;
    let mut stack = HangingStack::new(300, hangs).await;
    for _ in 0..10 {
        let (_, took) = stack.sweep().await.unwrap();
        assert!(took < secs(60), "{took}");
    }
    let renewed = stack.renewed();
    let starved: Vec<usize> = (0..300)
        .filter(|number| !hangs(*number) && !renewed.contains(number))
        .collect();
    assert_eq!(starved, Vec::<usize>::new());
}

#[tokio::test]
async fn account_housekeeping_runs_with_any_number_of_hanging_clusters() {
    let mut stack = HangingStack::new(300, |_| true).await;
    let (report, _) = stack.sweep().await.unwrap();
    stack.rig.sim.with(|world| {
        assert!(world.calls.contains(&"troubles"), "{:?}", world.calls);
        assert_eq!(world.looked_up.len(), 1, "prices were renewed");
    });
    let left = |problem: &String| problem.contains("clusters are not visited in time");
    assert!(report.problems.iter().any(left), "{report:?}");
}

#[tokio::test]
async fn lane_of_an_aborted_visit_is_released_and_due_at_the_next_sweep() {
    let mut stack = HangingStack::new(1, |_| true).await;
    stack.sweep().await.unwrap();
    stack.rig.sim.with(|world| {
        let now = world.now;
        let row = &world.ledger.of(&HangingStack::name(0)).lanes[&Lane::Housekeeper];
        assert!(row.lease.is_none() && row.failures == 1, "{row:?}");
        assert!(row.due.is_some_and(|due| due <= now), "{row:?}");
    });
}

#[tokio::test]
async fn changed_entries_of_a_hundred_clusters_delay_no_account_duty() {
    for (latency, leaves_some) in [(SignedDuration::from_millis(100), false), (secs(4), true)] {
        let mut stack = HangingStack::new(100, |_| false).await;
        stack.rig.sim.with(|world| {
            world.latency = latency;
            for entry in &mut world.registry {
                let body = entry.body.as_mut().unwrap();
                body["settings"] = serde_json::json!({"featureGates": {"StaticCapacity": true}});
            }
        });
        let (report, took) = stack.sweep().await.unwrap();
        assert!(took <= secs(50), "{took}: {report:?}");
        let is_late = |problem: &String| problem.starts_with("registry: cut off after 15s");
        let problems = &report.problems;
        assert_eq!(problems.iter().any(is_late), leaves_some, "{problems:?}");
        let calls = stack.rig.sim.with(|world| world.calls.clone());
        assert!(calls.contains(&"troubles"), "{calls:?}");
        let renewed = stack.rig.sim.with(|world| world.looked_up.len());
        assert_eq!(renewed, 1, "prices were renewed");
    }
}
