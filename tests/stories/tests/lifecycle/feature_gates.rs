//! NodeOverlays and CapacityBuffers, which apply only with their feature gates (docs/spec/lifecycle.md#node-overlay,
//! docs/spec/lifecycle.md#capacity-buffer).

use api::Condition;
use model::{NanosPerHour, PodKey};
use serde_json::json;
use stories::{POD, Relay, Rig, all_bound, consistent, cpu, secs, settled, transcript};

/// A ready cluster with both gates on or off.
async fn with_gates(on: bool) -> Rig {
    let mut rig = Rig::new(Relay::Watching);
    rig.sim.with(|world| {
        let entry = world.registry[0].body.as_mut().unwrap();
        let gates = json!({"nodeOverlay": on, "capacityBuffer": on});
        entry["settings"] = json!({"featureGates": gates});
    });
    rig.pass(secs(150)).await;
    assert_eq!(rig.errors, Vec::<String>::new());
    rig
}

fn buffer(rig: &Rig, name: &str, spec: serde_json::Value) {
    let manifest = json!({
        "metadata": {"name": name, "namespace": "default", "uid": name, "generation": 1, "resourceVersion": "1"},
        "spec": spec,
    });
    let buffer = serde_json::from_value(manifest).unwrap();
    rig.sim.with(|world| {
        let buffers = &mut world.api.capacity_buffers;
        buffers.insert(PodKey::new("default", name), buffer)
    });
}

fn overlay(rig: &Rig, name: &str, spec: serde_json::Value) {
    let manifest = json!({"metadata": {"name": name, "uid": name, "generation": 1}, "spec": spec});
    let overlay = serde_json::from_value(manifest).unwrap();
    rig.sim
        .with(|world| world.api.node_overlays.insert(name.to_owned(), overlay));
}

/// Status and reason of a condition, such as `True Resolved`.
fn status_and_reason(conditions: Option<Vec<Condition>>, kind: &str) -> String {
    let conditions = conditions.unwrap_or_default();
    let mut conditions = conditions.iter();
    conditions
        .find(|condition| condition.r#type == kind)
        .map_or_else(String::new, |condition| {
            format!("{} {}", condition.status, condition.reason)
        })
}

fn buffer_condition(rig: &Rig, name: &str, kind: &str) -> String {
    rig.sim.with(|world| {
        let buffer = &world.api.capacity_buffers[&PodKey::new("default", name)];
        status_and_reason(buffer.status.clone().unwrap_or_default().conditions, kind)
    })
}

fn overlay_condition(rig: &Rig, name: &str, kind: &str) -> String {
    rig.sim.with(|world| {
        let status = world.api.node_overlays[name].status.clone();
        status_and_reason(status.unwrap_or_default().conditions, kind)
    })
}

fn alive(rig: &Rig) -> usize {
    rig.sim.with(|world| world.account.alive().count())
}

#[tokio::test]
async fn capacity_buffer_has_a_node_before_any_pod_and_yields_to_pods() {
    let mut rig = with_gates(true).await;
    rig.sim.with(|world| world.api.scale("web", 0, cpu(POD)));
    let wish = json!({"scalableRef": {"kind": "Deployment", "name": "web"}, "replicas": 2});
    buffer(&rig, "spare", wish);
    let launched = rig.until(secs(180), |world| world.account.alive().count() == 1);
    assert!(launched.await.is_some(), "{:#?}", rig.transcript);
    assert_eq!(
        buffer_condition(&rig, "spare", "ReadyForProvisioning"),
        "True Resolved"
    );
    rig.pass(secs(900)).await;
    assert_eq!(
        alive(&rig),
        1,
        "the empty node stays: {:#?}",
        rig.transcript
    );
    assert_eq!(
        buffer_condition(&rig, "spare", "Provisioning"),
        "True FitsExistingCapacity"
    );
    rig.scale(1);
    let bound = rig.until(secs(20), all_bound).await;
    assert!(bound.is_some_and(|took| took < 20), "no pod had to wait");
    let again = rig.until(secs(300), |world| world.account.alive().count() == 2);
    assert!(again.await.is_some(), "there is capacity again");
    rig.sim.with(|world| world.api.capacity_buffers.clear());
    let gone = rig.until(secs(900), |world| world.account.alive().count() == 1);
    assert!(gone.await.is_some(), "{:#?}", rig.transcript);
    rig.pass(secs(60)).await;
    assert!(rig.sim.with(consistent) && rig.sim.with(settled));
    transcript!(rig);
}

/// A drifted node with a running pod and a buffer of `replicas`: the replacement has capacity for both.
async fn drifts_with_a_buffer(replicas: usize, overlay: bool) -> Rig {
    let mut rig = with_gates(true).await;
    if overlay {
        let priced = json!({"requirements": [], "priceAdjustment": "+1%"});
        self::overlay(&rig, "dearer", priced);
    }
    rig.scale(1);
    let wish = json!({"scalableRef": {"kind": "Deployment", "name": "web"}, "replicas": replicas});
    buffer(&rig, "spare", wish);
    let bound = rig.until(secs(300), all_bound).await;
    assert!(bound.is_some(), "{:#?}", rig.transcript);
    rig.pass(secs(300)).await;
    let fits_existing_capacity =
        |rig: &Rig| buffer_condition(rig, "spare", "Provisioning") == "True FitsExistingCapacity";
    assert!(fits_existing_capacity(&rig), "{:#?}", rig.transcript);
    let old: Vec<_> = rig
        .sim
        .with(|world| world.api.node_claims.keys().cloned().collect());
    rig.sim.with(|world| {
        let pool = world.api.node_pools.get_mut("default").unwrap();
        pool.metadata.generation = Some(2);
        let metadata = pool.spec.template.metadata.get_or_insert_default();
        let labels = metadata.labels.get_or_insert_default();
        labels.insert("team".to_owned(), "new".to_owned());
    });
    let replaced = |world: &mut fakes::World| {
        let claims = &world.api.node_claims;
        !old.iter().any(|name| claims.contains_key(name)) && all_bound(world) && consistent(world)
    };
    let took = rig.until(secs(420), replaced).await;
    assert!(
        took.is_some(),
        "{replicas} {overlay}: {:#?}",
        rig.transcript
    );
    rig.pass(secs(120)).await;
    assert!(fits_existing_capacity(&rig), "{:#?}", rig.transcript);
    rig
}

#[tokio::test]
async fn node_with_room_for_a_buffer_is_replaced_when_it_drifts() {
    for (replicas, overlay) in [(1, true), (4, false), (4, true)] {
        drifts_with_a_buffer(replicas, overlay).await;
    }
    let rig = drifts_with_a_buffer(1, false).await;
    transcript!(rig);
}

#[tokio::test]
async fn unresolvable_or_empty_capacity_buffer_has_a_condition() {
    let mut rig = with_gates(true).await;
    buffer(
        &rig,
        "lost",
        json!({"podTemplateRef": {"name": "no-such"}, "replicas": 1}),
    );
    buffer(
        &rig,
        "odd",
        json!({"scalableRef": {"kind": "Job", "name": "web"}, "replicas": 1}),
    );
    buffer(
        &rig,
        "none",
        json!({"scalableRef": {"kind": "Deployment", "name": "web"}, "replicas": 0}),
    );
    rig.scale(0);
    rig.pass(secs(300)).await;
    let reported = |name: &str| {
        let ready = buffer_condition(&rig, name, "ReadyForProvisioning");
        (ready, buffer_condition(&rig, name, "Provisioning"))
    };
    let not_ready = "False NotReadyForProvisioning";
    let expected = |ready: &str, provisioning: &str| (ready.to_owned(), provisioning.to_owned());
    assert_eq!(
        reported("lost"),
        expected("False PodTemplateNotFound", not_ready)
    );
    assert_eq!(
        reported("odd"),
        expected("False ResolutionFailed", not_ready)
    );
    assert_eq!(
        reported("none"),
        expected("True Resolved", "False BufferEmpty")
    );
    assert_eq!(alive(&rig), 0);
    transcript!(rig);
}

#[tokio::test]
async fn overlay_prices_decide_launches_and_invalid_overlays_have_a_condition() {
    let mut rig = with_gates(true).await;
    let of_xlarge = json!([{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.xlarge"]}]);
    overlay(
        &rig,
        "b-cheap",
        json!({"requirements": of_xlarge, "price": "0.001"}),
    );
    overlay(
        &rig,
        "a-conflicting",
        json!({"requirements": of_xlarge, "price": "9"}),
    );
    overlay(
        &rig,
        "wrong",
        json!({"requirements": [{"key": "karpenter.sh/nonsense", "operator": "Exists"}], "price": "0"}),
    );
    rig.pass(secs(120)).await;
    let kind = "ValidationSucceeded";
    assert_eq!(
        overlay_condition(&rig, "b-cheap", kind),
        "True ValidationSucceeded"
    );
    assert_eq!(overlay_condition(&rig, "b-cheap", "Ready"), "True Ready");
    assert_eq!(
        overlay_condition(&rig, "a-conflicting", kind),
        "False Conflict"
    );
    assert_eq!(
        overlay_condition(&rig, "wrong", kind),
        "False RuntimeValidation"
    );
    rig.scale(1);
    assert!(rig.until(secs(180), all_bound).await.is_some());
    let types = rig.sim.with(|world| {
        let alive = world.account.alive();
        let types = alive.map(|instance| instance.instance_type.clone());
        types.collect::<Vec<_>>()
    });
    assert_eq!(types, ["m5.xlarge"]);
    transcript!(rig);
}

#[tokio::test]
async fn unpriced_instance_type_is_launched_once_an_overlay_prices_it() {
    for gate in [true, false] {
        let mut rig = with_gates(gate).await;
        let only = json!([{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.xlarge"]}]);
        rig.sim.with(|world| {
            let types = world.catalog.iter_mut();
            let previews = types.filter(|kind| kind.name == "m5.xlarge");
            for offering in previews.flat_map(|kind| &mut kind.offerings) {
                (offering.price, offering.available) = (NanosPerHour(0), false);
                offering.unpriced = true;
            }
            let mut pool = world.api.node_pools["default"].clone();
            pool.spec.template.spec.requirements = serde_json::from_value(only.clone()).unwrap();
            for name in ["default", "other"] {
                pool.metadata.name = name.into();
                pool.metadata.uid = format!("{name}-uid");
                world.api.node_pools.insert(name.into(), pool.clone());
                world.api.scale(name, 1, cpu(POD));
                let pods = world.api.deployments.get_mut(name).unwrap();
                let label = "karpenter.sh/nodepool".to_owned();
                pods.node_selector.insert(label, name.into());
            }
        });
        overlay(
            &rig,
            "preview",
            json!({"requirements": only, "price": "0.5"}),
        );
        let bound = rig.until(secs(600), all_bound).await;
        assert_eq!(bound.is_some(), gate, "{:#?}", rig.transcript);
        let launched = rig.sim.with(|world| {
            let claims = world.api.node_claims.values();
            let pools = claims.filter_map(|claim| claim.node_pool());
            let mut pools: Vec<String> = pools.map(|pool| pool.to_string()).collect();
            pools.sort();
            pools
        });
        let expected = ["default", "other"].iter().filter(|_| gate);
        assert_eq!(launched, expected.copied().collect::<Vec<_>>());
        transcript!(rig, if gate { "priced" } else { "unpriced" });
    }
}

#[tokio::test]
async fn gated_kinds_without_gate_or_crd_are_ignored() {
    for missing in [false, true] {
        let mut rig = with_gates(missing).await;
        if missing {
            rig.sim.with(|world| {
                world.api.missing.extend(["NodeOverlay", "CapacityBuffer"]);
            });
        }
        let wish = json!({"scalableRef": {"kind": "Deployment", "name": "web"}, "replicas": 8});
        buffer(&rig, "spare", wish);
        overlay(&rig, "free", json!({"requirements": [], "price": "0"}));
        rig.scale(1);
        let bound = rig.until(secs(180), all_bound).await;
        assert!(bound.is_some(), "{:#?} {:#?}", rig.transcript, rig.errors);
        assert_eq!(alive(&rig), 1);
        assert_eq!(buffer_condition(&rig, "spare", "ReadyForProvisioning"), "");
        assert_eq!(overlay_condition(&rig, "free", "ValidationSucceeded"), "");
        transcript!(rig, if missing { "crd" } else { "gate" });
    }
}
