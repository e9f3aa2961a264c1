//! Repair by rebooting nodes in place.

use api::names::annotation::REBOOTS;
use model::node_claim::Condition;

use super::*;

/// Nodes with reboots enabled. The first one has shown a GPU error for this many minutes.
fn failing(nodes: usize, xid: u32, minutes: i64) -> TestCluster {
    cluster(nodes).with(|snapshot| {
        let gates = &mut snapshot.settings.feature_gates;
        gates.insert("RebootForRepair".to_owned(), true);
        snapshot.nodes[0].conditions.push(NodeCondition {
            kind: "AcceleratedHardwareReady".to_owned(),
            status: ConditionStatus::False,
            reason: format!("NvidiaXID{xid}Error"),
            since: Some(snapshot.now - SignedDuration::from_mins(minutes)),
        });
    })
}

/// NodeClaims to reboot, and NodeClaims to delete.
fn taken(cluster: &TestCluster) -> (Vec<String>, Vec<String>) {
    let names = |targets: Vec<&model::plan::Target>| {
        let names = targets.into_iter().map(|target| target.name.to_string());
        names.collect()
    };
    let commands = disrupt(&cluster.0).commands;
    let reboots = commands
        .iter()
        .filter_map(|command| command.reboot.as_ref());
    let deletions = commands.iter().flat_map(|command| &command.delete);
    (names(reboots.collect()), names(deletions.collect()))
}

fn reboots(cluster: &TestCluster) -> bool {
    let (rebooted, deleted) = taken(cluster);
    assert!(rebooted.is_empty() || deleted.is_empty());
    !rebooted.is_empty()
}

fn rebooted_before(hours: &[i64]) -> impl Fn(&mut Snapshot) {
    let hours = hours.to_vec();
    move |snapshot| {
        let before = |ago: &i64| {
            let at = snapshot.now - SignedDuration::from_hours(*ago);
            format!("{at:.0}")
        };
        let written = hours.iter().map(before).collect::<Vec<_>>().join(",");
        let annotations = &mut snapshot.node_claims[0].annotations;
        annotations.insert(REBOOTS.to_owned(), written);
    }
}

fn over(reason: &str, minutes_ago: i64) -> impl Fn(&mut Snapshot) {
    let reason = reason.to_owned();
    move |snapshot| {
        let last_transition = snapshot.now - SignedDuration::from_mins(minutes_ago);
        snapshot.node_claims[0].status.conditions.push(Condition {
            kind: "Rebooting".to_owned(),
            status: ConditionStatus::False,
            reason: reason.clone(),
            message: String::new(),
            last_transition,
            observed_generation: Some(1),
        });
    }
}

#[test]
fn error_repaired_by_reboot_reboots_the_node_in_place() {
    let unhealthy = failing(1, 46, 11);
    assert!(reboots(&unhealthy));
    let command = disrupt(&unhealthy.0).commands.remove(0);
    assert!(command.replacements.is_empty() && command.evicts.is_empty());
    assert_eq!(command.savings, model::NanosPerHour(0));
    assert!(
        command.because.contains("rebooted in place"),
        "{}",
        command.because
    );
    let repair = command.repair.unwrap();
    assert_eq!(repair.reason, "NvidiaXID46Error");
    assert!(!reboots(&failing(1, 79, 11)), "lost for good");
    assert!(!reboots(&failing(1, 46, 31)), "a reboot comes too late");
    let off = |snapshot: &mut Snapshot| {
        snapshot.settings.feature_gates.remove("RebootForRepair");
    };
    let (_, deleted) = taken(&failing(1, 46, 11).with(off));
    assert_eq!(deleted.len(), 1);
}

#[test]
fn third_reboot_within_a_day_becomes_a_replacement() {
    assert!(reboots(&failing(1, 46, 11).with(rebooted_before(&[5]))));
    assert!(!reboots(
        &failing(1, 46, 11).with(rebooted_before(&[23, 5]))
    ));
    assert!(reboots(&failing(1, 46, 11).with(rebooted_before(&[25, 5]))));
}

#[test]
fn node_is_replaced_after_a_failed_reboot() {
    let (_, deleted) = taken(&failing(1, 46, 11).with(over("RebootFailed", 5)));
    assert_eq!(deleted.len(), 1);
    assert!(reboots(
        &failing(1, 46, 11).with(over("RebootFailed", 1_500))
    ));
}

#[test]
fn toleration_starts_again_after_a_reboot() {
    let after = |minutes| failing(1, 46, 60).with(over("RebootSucceeded", minutes));
    assert_eq!(taken(&after(9)), (Vec::new(), Vec::new()));
    assert!(reboots(&after(11)));
}

/// Marks the reboot of the first node as requested and not issued.
fn rebooting(snapshot: &mut Snapshot) {
    over("RebootRequested", 1)(snapshot);
    let conditions = &mut snapshot.node_claims[0].status.conditions;
    conditions.last_mut().unwrap().status = ConditionStatus::True;
}

fn allowed(nodes: &'static str) -> impl Fn(&mut Snapshot) {
    move |snapshot| snapshot.node_pools[0].disruption.budgets = vec![budget(nodes)]
}

#[test]
fn rebooting_node_is_not_repaired_and_counts_against_the_budget() {
    assert_eq!(
        taken(&failing(1, 46, 11).with(rebooting)),
        (Vec::new(), Vec::new())
    );
    let two = |snapshot: &mut Snapshot| lost(snapshot, 1, 60);
    let of = |nodes| {
        let cluster = failing(10, 46, 11).with(rebooting).with(two);
        taken(&cluster.with(allowed(nodes))).1.len()
    };
    assert_eq!((of("1"), of("2")), (0, 1));
}

/// Makes the node at this index a candidate for a method.
type Disrupt = fn(&mut Snapshot, usize);

const DISRUPTIONS: [(Reason, Disrupt); 3] = [
    (Reason::Drifted, |snapshot, at| {
        let claim = snapshot.node_claims[at].name.to_string();
        drift(snapshot, &claim, 1);
    }),
    (Reason::Empty, |snapshot, at| {
        snapshot.node_pools[0].disruption.consolidate_after = ConsolidateAfter::Seconds(0);
        let node = Some(snapshot.nodes[at].name.clone());
        snapshot.pods.retain(|pod| pod.node_name != node);
    }),
    (Reason::Underutilized, |snapshot, _| {
        snapshot.node_pools[0].disruption.consolidate_after = ConsolidateAfter::Seconds(0);
    }),
];

/// Large nodes with a small pod each.
fn large(nodes: usize) -> TestCluster {
    let names = (0..nodes).map(|at| format!("n{at}"));
    let all = names.fold(cluster(0), |cluster, name| {
        cluster.node(&name, "large", &[1_500])
    });
    all.with(|snapshot| {
        let gates = &mut snapshot.settings.feature_gates;
        gates.insert("RebootForRepair".to_owned(), true);
    })
}

fn reasons(cluster: &TestCluster) -> Vec<Reason> {
    let commands = cluster.commands().into_iter();
    commands.map(|(reason, ..)| reason).collect()
}

#[test]
fn rebooting_node_is_not_a_candidate() {
    for (reason, disrupt) in DISRUPTIONS {
        let one = || large(1).with(|snapshot| disrupt(snapshot, 0));
        assert_eq!(reasons(&one()), [reason]);
        let reboots = one().with(rebooting);
        assert_eq!(reasons(&reboots), [], "{reason:?}");
        let reported = ("n0".to_owned(), "Node is rebooting".to_owned());
        assert!(reboots.blocked().contains(&reported), "{reason:?}");
    }
}

#[test]
fn rebooting_node_counts_against_every_budget() {
    for (reason, disrupt) in DISRUPTIONS {
        let two = || {
            let cluster = large(2).with(rebooting);
            cluster.with(|snapshot| disrupt(snapshot, 1))
        };
        assert_eq!(reasons(&two().with(allowed("1"))), [], "{reason:?}");
        assert_eq!(reasons(&two().with(allowed("2"))), [reason]);
    }
}
