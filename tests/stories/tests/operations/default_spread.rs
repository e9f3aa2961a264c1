//! `schedulerConfig`: pods without spread constraints of their own get the cluster's (docs/settings.md).

use std::collections::BTreeSet;

use fakes::Fault;
use model::{
    PodKey, Uid,
    selector::LabelSelector,
    snapshot::{Service, Workload},
};
use serde_json::json;
use stories::{Relay, Rig, all_bound, cpu, secs};

/// A cluster whose Service `web` is for the pods of the ReplicaSet `web`, which are to spread over zones.
async fn with_defaults(when_unsatisfiable: &str, optimize: &str) -> Rig {
    let rig = Rig::ready(Relay::Dead).await;
    let by_zone = json!({
        "maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": when_unsatisfiable,
    });
    rig.configure(&json!({
        "optimize": optimize,
        "schedulerConfig": { "podTopologySpread": { "defaultConstraints": [by_zone] } },
    }));
    let web = || PodKey::new("default", "web");
    let labels = || [("app".to_owned(), "web".to_owned())].into();
    rig.sim.with(|world| {
        let selectors = &mut world.api.pod_selectors;
        selectors.services.push(Service {
            key: web(),
            selector: labels(),
        });
        selectors.workloads.push(Workload {
            kind: "ReplicaSet".into(),
            key: web(),
            uid: Uid::from("web-uid"),
            selector: Some(LabelSelector {
                match_labels: labels(),
                match_expressions: Vec::new(),
            }),
            replicas: None,
            pod: None,
        });
    });
    rig
}

fn zones(rig: &Rig) -> usize {
    rig.sim.with(|world| {
        let zones: BTreeSet<String> = world.account.alive().map(|one| one.zone.clone()).collect();
        zones.len()
    })
}

async fn grow(rig: &mut Rig) {
    rig.sim.with(|world| world.api.scale("web", 2, cpu(100)));
    let took = rig.until(secs(120), all_bound).await;
    assert!(took.is_some(), "{:#?}", rig.transcript);
}

#[tokio::test]
async fn pods_without_constraints_of_their_own_are_spread_by_the_cluster_s_defaults() {
    let mut rig = with_defaults("DoNotSchedule", "cost").await;
    grow(&mut rig).await;
    assert_eq!(zones(&rig), 2);
}

#[tokio::test]
async fn preferred_spread_of_pods_that_no_service_selects_is_honoured_as_by_karpenter() {
    let mut rig = with_defaults("ScheduleAnyway", "upstream").await;
    rig.sim
        .with(|world| world.api.pod_selectors.services.clear());
    grow(&mut rig).await;
    assert_eq!(zones(&rig), 2);
}

#[tokio::test]
async fn selectors_that_may_not_be_read_are_told_of_and_stop_no_launch() {
    let mut rig = with_defaults("DoNotSchedule", "cost").await;
    for _ in 0..20 {
        rig.sim.fail_next("pod_selectors", Fault::Denied);
    }
    grow(&mut rig).await;
    assert_eq!(zones(&rig), 1);
    let told = |line: &String| {
        line.contains("default spread constraints are not applied: the API server denied")
    };
    assert!(rig.transcript.iter().any(told), "{:#?}", rig.transcript);
}
