//! Nodes without a NodePool whose owners opted in.

use std::collections::BTreeSet;

use api::names::nth::OUT_OF_SERVICE;
use model::taint::{Taint, TaintEffect};

use super::*;
use crate::{CompletedNotices, terminate_unmanaged, unmanaged::UnmanagedNodeSettings};

/// A cordoned node whose instance is announced to end in ten minutes.
fn leaving(pods: Vec<Pod>) -> Snapshot {
    let (claim, mut node) = draining();
    node.unschedulable = true;
    let excluded = api::names::label::EXCLUDE_FROM_LOAD_BALANCERS;
    node.labels.insert(excluded.to_owned(), "ops".to_owned());
    let mut snapshot = world((claim, node), pods);
    snapshot.node_claims.clear();
    noticed(&mut snapshot, 600, 1);
    snapshot.notices[0].unmanaged = true;
    snapshot
}

fn out_of_service() -> Taint {
    Taint {
        key: OUT_OF_SERVICE.to_owned(),
        value: "nodeshutdown".to_owned(),
        effect: TaintEffect::NoExecute,
    }
}

#[test]
fn drained_node_gets_the_out_of_service_taint_if_set() {
    let wanted = UnmanagedNodeSettings {
        out_of_service_taint: true,
        ..UnmanagedNodeSettings::default()
    };
    let mut snapshot = leaving(Vec::new());
    let other = Taint {
        key: "other".to_owned(),
        ..out_of_service()
    };
    snapshot.nodes[0].taints = vec![other.clone()];
    let (plain, done) = terminate_unmanaged(&snapshot, &UnmanagedNodeSettings::default());
    assert_eq!((plain.plan.actions, done.drained.len()), (Vec::new(), 1));

    let (decision, done) = terminate_unmanaged(&snapshot, &wanted);
    let [planned] = &decision.plan.actions[..] else {
        panic!("{decision:?}")
    };
    let Action::UpdateNode(update) = &planned.action else {
        panic!("{decision:?}")
    };
    assert_eq!(update.taints, Some(vec![other, out_of_service()]));
    assert_eq!(update.resource_version, "1");
    assert_eq!(done, CompletedNotices::default());

    snapshot.nodes[0].taints = update.taints.clone().unwrap();
    let (again, done) = terminate_unmanaged(&snapshot, &wanted);
    assert_eq!((again.plan.actions, done.drained.len()), (Vec::new(), 1));

    let mut open = leaving(Vec::new());
    open.nodes[0].unschedulable = false;
    let (decision, _) = terminate_unmanaged(&open, &wanted);
    let taints = decision.plan.actions.iter().filter(
        |planned| matches!(&planned.action, Action::UpdateNode(update) if update.taints.is_some()),
    );
    assert_eq!(taints.count(), 0, "it is cordoned first: {decision:?}");
}

#[test]
fn settings_may_shorten_the_grace_period_of_pods() {
    let capped = UnmanagedNodeSettings {
        pod_grace_seconds: Some(30),
        ..UnmanagedNodeSettings::default()
    };
    let pods = ["a", "b", "c"].map(pod).into_iter().zip([29, 30, 31]);
    let pods = pods.map(|(pod, grace)| with_grace(pod, grace)).collect();
    let (decision, _) = terminate_unmanaged(&leaving(pods), &capped);
    assert_eq!(
        evicted_and_deleted(&decision),
        [
            ("a".into(), "evict", None),
            ("b".into(), "evict", None),
            ("c".into(), "evict", Some(30))
        ]
    );
    let because = &decision.plan.actions[2].because;
    assert!(
        because.ends_with(
            "the cluster's settings limit the grace period to 30 s, below the pod's 31 s"
        ),
        "{because}"
    );
}

#[test]
fn instance_without_a_listed_node_is_not_drained() {
    let mut snapshot = leaving(Vec::new());
    snapshot.nodes.clear();
    let (decision, completed) = terminate_unmanaged(&snapshot, &UnmanagedNodeSettings::default());
    assert!(decision.plan.actions.is_empty() && completed.drained.is_empty());
    let instance = snapshot.notices[0].instance.clone();
    assert_eq!(completed.unlisted, BTreeSet::from([instance]));
}
