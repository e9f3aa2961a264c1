//! Annotations and pods that block repair, and those that do not.

use super::*;

const DO_NOT_REPAIR: &str = "karpenter.sh/do-not-repair";

#[test]
fn do_not_disrupt_does_not_block_repair() {
    let cluster = unhealthy(1, 31).with(|snapshot| annotate(snapshot, DO_NOT_DISRUPT, "true"));
    assert_eq!(cluster.removes(), ["n0"]);
}

#[test]
fn do_not_repair_blocks_repair_and_is_reported_once_due() {
    let reported = "repair is blocked through the \"karpenter.sh/do-not-repair\" annotation";
    let on_node = |minutes| unhealthy(1, minutes).with(|it| annotate(it, DO_NOT_REPAIR, "true"));
    assert!(on_node(31).removes().is_empty());
    assert!(
        on_node(31)
            .blocked()
            .contains(&("n0".into(), reported.into()))
    );
    assert!(
        !on_node(29)
            .blocked()
            .iter()
            .any(|(_, message)| message == reported)
    );
    let on_claim = unhealthy(1, 31).with(|snapshot| {
        let annotations = &mut snapshot.node_claims[0].annotations;
        annotations.insert(DO_NOT_REPAIR.to_owned(), "true".to_owned());
    });
    assert!(on_claim.removes().is_empty());
    assert!(on_claim.blocked().contains(&("n0".into(), reported.into())));
    let other_value = unhealthy(1, 31).with(|snapshot| annotate(snapshot, DO_NOT_REPAIR, "yes"));
    assert_eq!(other_value.removes(), ["n0"]);
}

#[test]
fn do_not_repair_does_not_block_drift() {
    let cluster = cluster(1).with(|snapshot| {
        annotate(snapshot, DO_NOT_REPAIR, "true");
        drift(snapshot, "n0-claim", 1);
    });
    assert_eq!(cluster.commands()[0].0, Reason::Drifted);
}

#[test]
fn node_without_node_pool_is_not_repaired() {
    let of_none = unhealthy(1, 31).with(|snapshot| {
        snapshot.nodes[0].labels.remove("karpenter.sh/nodepool");
        snapshot.node_claims[0]
            .labels
            .remove("karpenter.sh/nodepool");
    });
    let reported = "repair requires a NodePool to construct and budget a safe replacement";
    assert!(of_none.removes().is_empty());
    assert!(of_none.blocked().contains(&("n0".into(), reported.into())));
    let of_unknown = unhealthy(1, 31).with(|snapshot| snapshot.node_pools.clear());
    let reported = "NodePool not found (NodePool=default)";
    assert!(
        of_unknown
            .blocked()
            .contains(&("n0".into(), reported.into()))
    );
}

#[test]
fn unplaced_pods_block_repair() {
    let cluster = unhealthy(1, 31).with(|snapshot| {
        snapshot.pods[0]
            .node_selector
            .insert(ZONE.into(), "nowhere".into());
    });
    assert!(cluster.removes().is_empty());
    let blocked = cluster.blocked();
    let (_, reported) = blocked.iter().find(|(node, _)| node == "n0").unwrap();
    assert!(
        reported.starts_with("Not all pods would schedule, default/n0-0"),
        "{reported}"
    );
}

#[test]
fn pods_placed_on_an_uninitialized_node_block_repair() {
    let cluster = unhealthy(1, 31)
        .node("young", "large", &[])
        .with(|snapshot| {
            snapshot.nodes[1].labels.remove("karpenter.sh/initialized");
            let conditions = &mut snapshot.node_claims[1].status.conditions;
            conditions.retain(|condition| condition.kind != INITIALIZED);
        });
    assert!(cluster.removes().is_empty());
    let reported = cluster.blocked();
    let waits = |(node, reported): &(String, String)| {
        node == "n0" && reported.contains("which is not initialized")
    };
    assert!(reported.iter().any(waits), "{reported:?}");
}

#[test]
fn nominated_and_commanded_nodes_are_not_repaired() {
    let nominated = unhealthy(1, 31).with(|snapshot| {
        let until = snapshot.now + SignedDuration::from_secs(20);
        snapshot.nominated.insert("n0".into(), until);
    });
    assert!(nominated.removes().is_empty());
    assert_eq!(
        disrupt(&nominated.0).due,
        Some(nominated.0.now + SignedDuration::from_secs(20))
    );
    let commanded = unhealthy(1, 31).with(|snapshot| {
        taken_back(snapshot, 0);
        snapshot.commands[0].state = CommandState::Replacing;
    });
    assert!(commanded.removes().is_empty());
    let drifting = commanded.with(|snapshot| {
        let command = &mut snapshot.commands[0];
        command.reason = "Drifted".to_owned();
        let choice = command.choice.as_mut().unwrap();
        (choice.method, choice.repair) = (Method::Drift, None);
    });
    assert!(drifting.removes().is_empty());
    let over = drifting.with(|it| it.commands[0].state = CommandState::RolledBack);
    assert_eq!(over.removes(), ["n0"]);
}
