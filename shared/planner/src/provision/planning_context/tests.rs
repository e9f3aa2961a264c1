use std::collections::BTreeMap;

use jiff::SignedDuration;
use model::{
    PodKey,
    pod::{HostPort, NodeSelectorTerm, Owner, PodVolume},
    selector::{NodeSelectorRequirement, Operator},
    snapshot::DaemonSet,
};

use super::*;
use crate::fixtures;

fn term(key: &str) -> NodeSelectorTerm {
    NodeSelectorTerm {
        match_expressions: vec![NodeSelectorRequirement {
            key: key.to_owned(),
            operator: Operator::Exists,
            values: Vec::new(),
            min_values: None,
        }],
        match_fields: Vec::new(),
    }
}

/// A pod of DaemonSet `agent` of this age in minutes, which admission gave this much cpu and its own node affinity.
fn daemon(name: &str, minutes: i64, cpu: i64) -> Pod {
    let mut pod = fixtures::pod(name, "n-1");
    pod.created_at = Some(fixtures::now() - SignedDuration::from_mins(minutes));
    pod.requests = Resources::from([("cpu", cpu)]);
    pod.node_affinity.required = vec![term("pinned")];
    pod.owner = Some(Owner {
        api_version: "apps/v1".into(),
        kind: "DaemonSet".into(),
        name: "agent".into(),
        uid: "agent".into(),
    });
    pod
}

/// Assumed cpu request of the DaemonSet, and the keys that it requires of nodes.
fn thought(pods: &[Pod], required: &[&str]) -> (i64, Vec<String>) {
    let mut template = fixtures::pod("template", "");
    template.requests = Resources::from([("cpu", 100)]);
    template.node_affinity.required = required.iter().map(|key| term(key)).collect();
    let mut snapshot = fixtures::snapshot();
    snapshot.daemon_sets = vec![DaemonSet {
        key: PodKey::new("default", "agent"),
        pod: template,
    }];
    snapshot.pods = pods.to_vec();
    let [daemon] = daemons(&snapshot).try_into().unwrap();
    let terms = daemon.node_affinity.required.iter();
    let keys = terms.map(|term| term.match_expressions[0].key.clone());
    (daemon.requests.get("cpu"), keys.collect())
}

#[test]
fn daemon_set_requests_are_those_of_its_newest_pod() {
    assert_eq!(thought(&[], &[]).0, 100);
    let (old, new) = (daemon("b", 60, 200), daemon("a", 5, 300));
    assert_eq!(thought(&[old.clone(), new.clone()], &[]).0, 300);
    assert_eq!(thought(&[new, old], &[]).0, 300);
}

#[test]
fn daemon_set_affinity_is_that_of_its_template() {
    let pods = [daemon("a", 5, 300)];
    assert_eq!(thought(&pods, &["gpu"]), (300, vec!["gpu".to_owned()]));
    let unsaid = thought(&pods, &[]);
    assert_eq!(unsaid, (300, vec!["pinned".to_owned()]), "by admission");
}

#[test]
fn daemon_set_with_claims_counts_only_with_device_claims() {
    let counted = |device_claims| {
        let mut template = fixtures::pod("template", "");
        template.resource_claims = true;
        let mut snapshot = fixtures::snapshot();
        snapshot.settings.device_claims = device_claims;
        snapshot.daemon_sets = vec![DaemonSet {
            key: PodKey::new("default", "driver"),
            pod: template,
        }];
        daemons(&snapshot).len()
    };
    assert_eq!((counted(false), counted(true)), (0, 1));
}

/// A node with these pods, of a NodePool limited to two nodes, beside one without a limit.
fn world(pods: Vec<Pod>) -> Snapshot {
    let mut snapshot = fixtures::snapshot();
    for name in ["default", "other"] {
        let kind = InstanceType {
            ebs_attach_limit: None,
            devices: Vec::new(),
            name: "small".to_owned(),
            requirements: model::requirement::Requirements::default(),
            capacity: Resources::default(),
            overhead: model::catalog::Overhead::default(),
            offerings: Vec::new(),
        };
        snapshot.node_pools.push(fixtures::pool(name, 0));
        let types = Arc::new(vec![kind]);
        snapshot.instance_types.insert(name.into(), types);
    }
    snapshot.node_pools[0].limits = Resources::from([("nodes", 2)]);
    let claim = fixtures::claim("a", &[]);
    snapshot.nodes = vec![fixtures::node("n-1", &claim)];
    snapshot.node_claims = vec![claim];
    snapshot.pods = pods;
    snapshot
}

#[test]
fn remaining_limits_exclude_usage() {
    let snapshot = world(Vec::new());
    let (inventory, planning) = (Inventory::new(&snapshot), PlanningContext::new(&snapshot));
    let nodes = |gone: &[usize]| -> BTreeMap<&str, i64> {
        let remaining = planning.remaining(&inventory, &gone.iter().copied().collect());
        let pools = planning.offering().map(|(pool, _)| pool.name.as_str());
        let left = remaining.iter().map(|left| left.get("nodes"));
        pools.zip(left).collect()
    };
    assert_eq!(nodes(&[]), [("default", 1), ("other", 0)].into());
    assert_eq!(nodes(&[0]), [("default", 2), ("other", 0)].into());
    assert_eq!(planning.pools.len(), 2);
}

#[test]
fn existing_node_lists_pods_with_ports_or_volumes() {
    let [idle, mut port, mut volume] = ["idle", "port", "volume"].map(|n| fixtures::pod(n, "n-1"));
    port.host_ports = vec![HostPort {
        port: 80,
        protocol: "TCP".into(),
        ip: String::new(),
    }];
    volume.volumes = vec![PodVolume::Claim {
        claim: "data".to_owned(),
    }];
    let snapshot = world(vec![idle, port, volume]);
    let (inventory, planning) = (Inventory::new(&snapshot), PlanningContext::new(&snapshot));
    let node = planning.existing_node(&inventory.state_nodes[0]);
    let names = node.pods.iter().map(|pod| pod.key.name.as_str());
    assert_eq!(names.collect::<Vec<_>>(), ["port", "volume"]);
    assert_eq!(node.available.get("cpu"), 1_900 - 3 * 100);
}
