//! What does not change costs next to nothing: proven by the calls that are made.

use std::collections::BTreeMap;

use stories::secs;

use crate::in_service;

#[tokio::test]
async fn a_quiet_minute_is_one_sweep_that_reads_the_ledger_and_wakes_nobody() {
    let mut rig = in_service(3).await;
    rig.pass(secs(1_200)).await;
    let mut quietest: Option<BTreeMap<&str, usize>> = None;
    let mut looks = 0;
    for _ in 0..30 {
        rig.sim.with(|world| world.calls.clear());
        rig.pass(secs(60)).await;
        let mut calls: BTreeMap<&str, usize> = BTreeMap::new();
        for call in rig.sim.with(|world| world.calls.clone()) {
            *calls.entry(call).or_default() += 1;
        }
        looks += calls.get("pods").copied().unwrap_or_default();
        if quietest
            .as_ref()
            .is_none_or(|other| calls.len() < other.len())
        {
            quietest = Some(calls);
        }
    }
    let calls = quietest.unwrap_or_default();
    let total: usize = calls.values().sum();
    assert!(total <= 16, "{calls:?}");
    for dear in [
        "pods",
        "nodes",
        "node_claims",
        "instance_types",
        "commit",
        "send",
    ] {
        assert_eq!(calls.get(dear), None, "{calls:?}");
    }
    assert!(
        looks <= 12,
        "every lane looks at everything each ten minutes, and not more often: {looks}"
    );
}
