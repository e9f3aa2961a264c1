//! `schedulerConfig`: pods without topology spread constraints get the cluster's defaults (docs/settings.md).

use std::collections::BTreeSet;

use fakes::Fault;
use model::{
    PodKey, Uid,
    selector::LabelSelector,
    snapshot::{Service, Workload},
};
use serde_json::json;
use stories::{Relay, Rig, all_bound, cpu, secs};

/// A cluster whose Service `web` selects the pods of the ReplicaSet `web`, which spread over zones by default.
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
        let zones: BTreeSet<String> = world
            .account
            .alive()
            .map(|instance| instance.zone.clone())
            .collect();
        zones.len()
    })
}

async fn grow(rig: &mut Rig) {
    rig.sim.with(|world| world.api.scale("web", 2, cpu(100)));
    let took = rig.until(secs(120), all_bound).await;
    assert!(took.is_some(), "{:#?}", rig.transcript);
}

#[tokio::test]
async fn pods_without_own_constraints_get_the_default_topology_spread() {
    let mut rig = with_defaults("DoNotSchedule", "cost").await;
    grow(&mut rig).await;
    assert_eq!(zones(&rig), 2);
}

#[tokio::test]
async fn preferred_default_spread_without_a_service_equals_karpenter() {
    let mut rig = with_defaults("ScheduleAnyway", "upstream").await;
    rig.sim
        .with(|world| world.api.pod_selectors.services.clear());
    grow(&mut rig).await;
    assert_eq!(zones(&rig), 2);
}

/// Pods that need a node each anyway, so that a preferred spread costs nothing.
#[tokio::test]
async fn preferred_default_spread_applies_where_it_costs_nothing() {
    for (is_spread, expected) in [(true, 2), (false, 1)] {
        let mut rig = with_defaults("ScheduleAnyway", "cost").await;
        if !is_spread {
            rig.configure(&json!({ "optimize": "cost" }));
        }
        rig.sim.with(|world| {
            world.api.pod_selectors.services.clear();
            world.catalog.retain(|known| known.name == "m5.large");
            world.api.scale("web", 2, cpu(1_500));
        });
        let took = rig.until(secs(180), all_bound).await;
        assert!(took.is_some(), "{:#?}", rig.transcript);
        assert_eq!(zones(&rig), expected, "{is_spread}: {:#?}", rig.transcript);
    }
}

#[tokio::test]
async fn unreadable_selectors_are_reported_and_block_no_launch() {
    let mut rig = with_defaults("DoNotSchedule", "cost").await;
    for _ in 0..20 {
        rig.sim.fail_next("pod_selectors", Fault::Denied);
    }
    grow(&mut rig).await;
    assert_eq!(zones(&rig), 1);
    let reported = |line: &String| {
        line.contains("default spread constraints are not applied: the API server denied")
    };
    assert!(rig.transcript.iter().any(reported), "{:#?}", rig.transcript);
}
