use model::Resources;

use super::*;
use crate::test_world;

fn taint(key: &str, value: &str, effect: TaintEffect) -> Taint {
    Taint {
        key: key.to_owned(),
        value: value.to_owned(),
        effect,
    }
}

/// What a Node with this taint waits for, where the NodeClaim has a startup taint.
fn waits_for(of_node: Taint) -> Option<String> {
    let mut claim = test_world::claim("a", &[]);
    claim.spec.startup_taints = vec![taint("cilium", "", TaintEffect::NoSchedule)];
    let mut node = test_world::node("n", &claim);
    node.taints = vec![of_node];
    judge(&claim, &node).err().map(|waiting| waiting.message)
}

#[test]
fn a_node_waits_for_taints_that_are_to_go() {
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
fn a_node_waits_for_what_was_requested_of_it() {
    let mut claim = test_world::claim("a", &[]);
    claim.spec.requests = Resources::from([("cpu", 1), ("gpu", 1), ("memory", 0)]);
    let mut node = test_world::node("n", &claim);
    let waiting = judge(&claim, &node).err().unwrap();
    assert_eq!(
        waiting.message,
        "Resource \"gpu\" was requested but not registered"
    );
    node.allocatable.set("gpu", 1);
    assert!(judge(&claim, &node).is_ok());
}

#[test]
fn the_label_is_put_on_the_node_once() {
    let mut node = test_world::node("n", &test_world::claim("a", &[]));
    let update = label(&node).unwrap();
    assert_eq!((update.name.as_str(), update.uid.as_str()), ("n", "uid-n"));
    node.labels.extend(update.set_labels);
    assert_eq!(label(&node), None);
}
