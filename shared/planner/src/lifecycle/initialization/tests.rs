use model::{Resources, devices::ResourceSlice};

use super::*;
use crate::fixtures;

fn taint(key: &str, value: &str, effect: TaintEffect) -> Taint {
    Taint {
        key: key.to_owned(),
        value: value.to_owned(),
        effect,
    }
}

/// Reason for which a Node with this taint is not initialized; the NodeClaim has a startup taint.
fn waits_for(of_node: Taint) -> Option<String> {
    let mut claim = fixtures::claim("a", &[]);
    claim.spec.startup_taints = vec![taint("cilium", "", TaintEffect::NoSchedule)];
    let mut node = fixtures::node("n", &claim);
    node.taints = vec![of_node];
    judge(&claim, &node, None)
        .err()
        .map(|waiting| waiting.message)
}

#[test]
fn node_waits_for_startup_and_ephemeral_taints() {
    use TaintEffect::{NoExecute, NoSchedule};
    let started = |taint: &str| Some(format!("StartupTaint \"{taint}\" still exists"));
    let passing = |taint: &str| Some(format!("KnownEphemeralTaint \"{taint}\" still exists"));
    let uninitialized = "node.cloudprovider.kubernetes.io/uninitialized";
    for (of_node, expected) in [
        (
            taint("cilium", "", NoSchedule),
            started("cilium:NoSchedule"),
        ),
        (
            taint("cilium", "x", NoSchedule),
            started("cilium=x:NoSchedule"),
        ),
        (taint("cilium", "", NoExecute), None),
        (taint("mine", "", NoSchedule), None),
        (
            taint("node.kubernetes.io/not-ready", "", NoSchedule),
            passing("node.kubernetes.io/not-ready:NoSchedule"),
        ),
        (
            taint("node.kubernetes.io/not-ready", "", NoExecute),
            passing("node.kubernetes.io/not-ready:NoExecute"),
        ),
        (
            taint("node.kubernetes.io/unreachable", "", NoSchedule),
            passing("node.kubernetes.io/unreachable:NoSchedule"),
        ),
        (taint("node.kubernetes.io/unreachable", "", NoExecute), None),
        (
            taint(uninitialized, "true", NoSchedule),
            passing(&format!("{uninitialized}=true:NoSchedule")),
        ),
        (taint(uninitialized, "", NoSchedule), None),
        (taint(uninitialized, "true", NoExecute), None),
    ] {
        assert_eq!(waits_for(of_node.clone()), expected, "{of_node:?}");
    }
}

#[test]
fn node_waits_for_requested_resources() {
    let mut claim = fixtures::claim("a", &[]);
    claim.spec.requests = Resources::from([("cpu", 1), ("gpu", 1), ("memory", 0)]);
    let mut node = fixtures::node("n", &claim);
    let waiting = judge(&claim, &node, None).err().unwrap();
    assert_eq!(
        waiting.message,
        "Resource \"gpu\" was requested but not registered"
    );
    node.allocatable.set("gpu", 1);
    assert!(judge(&claim, &node, None).is_ok());
}

#[test]
fn initialized_label_is_written_once() {
    let mut node = fixtures::node("n", &fixtures::claim("a", &[]));
    let update = label(&node).unwrap();
    assert_eq!((update.name.as_str(), update.uid.as_str()), ("n", "uid-n"));
    node.labels.extend(update.set_labels);
    assert_eq!(label(&node), None);
}

/// Message about a Node whose NodeClaim has devices of two drivers, with these pools published.
fn waits_for_drivers(counts: bool, published: &[(&str, &str, i64)]) -> Option<String> {
    let mut claim = fixtures::claim("a", &[LAUNCHED]);
    claim.annotations.insert(
        REQUESTED_DRA_DRIVERS.to_owned(),
        "dra.net,gpu.nvidia.com".to_owned(),
    );
    let node = fixtures::node("n", &claim);
    let mut snapshot = fixtures::snapshot();
    snapshot.settings.device_claims = counts;
    let slices = published
        .iter()
        .map(|(driver, node, slices)| ResourceSlice {
            driver: (*driver).to_owned(),
            pool: "n".to_owned(),
            generation: 1,
            slices: *slices,
            node: Some((*node).into()),
            devices: Vec::new(),
        });
    snapshot.devices.slices = slices.collect();
    let published = Published::from_snapshot(&snapshot);
    let waiting = judge(&claim, &node, published.as_ref()).err()?;
    assert_eq!(waiting.reason, NOT_PUBLISHED);
    Some(waiting.message)
}

#[test]
fn node_waits_until_every_driver_has_published_its_devices() {
    let waits = |driver: &str| {
        Some(format!(
            "Driver \"{driver}\" has not published the node's devices completely (ResourceSlices)"
        ))
    };
    let (net, gpu) = ("dra.net", "gpu.nvidia.com");
    assert_eq!(waits_for_drivers(true, &[]), waits(net));
    assert_eq!(waits_for_drivers(true, &[(net, "n", 1)]), waits(gpu));
    assert_eq!(
        waits_for_drivers(true, &[(net, "n", 1), (gpu, "n", 2)]),
        waits(gpu)
    );
    assert_eq!(
        waits_for_drivers(true, &[(net, "n", 1), (gpu, "other", 1)]),
        waits(gpu)
    );
    assert_eq!(
        waits_for_drivers(true, &[(net, "n", 1), (gpu, "n", 1)]),
        None
    );
    assert_eq!(waits_for_drivers(false, &[]), None);
}

#[test]
fn driver_that_never_publishes_is_reported_after_five_minutes() {
    let reported = |minutes: i64| {
        let mut claim = fixtures::claim("a", &[LAUNCHED]);
        let launched = &mut claim.status.conditions[0].last_transition;
        *launched = fixtures::now() - SignedDuration::from_mins(minutes);
        let waiting = Waiting {
            reason: NOT_PUBLISHED,
            message: "Driver".to_owned(),
        };
        let mut decision = Decision::default();
        recheck_at(&claim, &waiting, fixtures::now(), &mut decision);
        assert_eq!(decision.due, Some(fixtures::now() + RECHECK_AFTER));
        decision.notes.len()
    };
    assert_eq!([4, 5].map(reported), [0, 1]);
}
