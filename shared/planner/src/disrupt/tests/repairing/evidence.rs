//! Failures that several clusters share, or all NodePools of one.

use model::{
    Evidence, NodePoolName,
    evidence::{Failure, Shared},
    labels::NODE_POOL,
    node_pool::BootImage,
    requirement::Requirements,
};

use super::*;
use crate::{Failures, failures};

fn ours(snapshot: &mut Snapshot) {
    snapshot.settings.optimize = Optimize::Cost;
}

/// Nodes with this AMI, which the NodePool launches. The first of them is not ready.
fn booted(image: &str) -> TestCluster {
    unhealthy(6, 31).with(|snapshot| {
        for claim in &mut snapshot.node_claims {
            claim.status.image_id = image.to_owned();
        }
        launches(snapshot, image);
        ours(snapshot);
    })
}

fn launches(snapshot: &mut Snapshot, image: &str) {
    snapshot.node_pools[0].images = vec![BootImage {
        id: image.to_owned(),
        requirements: Requirements::default(),
    }];
}

/// Adds reports of these clusters that nodes with this property are not ready.
fn report_failures(snapshot: &mut Snapshot, clusters: &[&str], shared: &Shared) {
    snapshot.evidence = clusters
        .iter()
        .map(|cluster| Evidence {
            cluster: (*cluster).into(),
            failures: [Failure {
                condition: "Ready=False".to_owned(),
                shared: shared.clone(),
            }]
            .into(),
            until: snapshot.now + SignedDuration::from_hours(1),
        })
        .collect();
}

fn image(id: &str) -> Shared {
    Shared::Image(id.to_owned())
}

const CLUSTERS: [&str; 3] = ["a", "b", "c"];

#[test]
fn repair_waits_while_three_clusters_fail_on_the_ami_to_launch() {
    let cluster =
        booted("ami-1").with(|snapshot| report_failures(snapshot, &CLUSTERS, &image("ami-1")));
    let result = disrupt(&cluster.0);
    assert!(result.commands.is_empty());
    let message = "repair is held back: many nodes with AMI ami-1 have Ready=False in clusters a, b, c, and new nodes could have it, too";
    let reported: Vec<_> = result
        .notes
        .iter()
        .map(|note| note.message.as_str())
        .collect();
    assert_eq!(
        reported, [message; 3],
        "of the node, its NodeClaim and its NodePool"
    );
    assert!(
        result
            .exhausted
            .contains(&("default".into(), message.to_owned()))
    );
    let report = node_reports(&cluster.0).remove(0);
    assert_eq!(report.kept.as_deref(), Some(message));
}

#[test]
fn repair_continues_with_two_failing_clusters_or_another_ami() {
    let evidence =
        booted("ami-1").with(|snapshot| report_failures(snapshot, &CLUSTERS, &image("ami-1")));
    assert!(evidence.removes().is_empty());
    let two = |snapshot: &mut Snapshot| report_failures(snapshot, &["a", "b"], &image("ami-1"));
    assert_eq!(booted("ami-1").with(two).removes(), ["n0"]);
    let other = |snapshot: &mut Snapshot| report_failures(snapshot, &CLUSTERS, &image("ami-2"));
    assert_eq!(booted("ami-1").with(other).removes(), ["n0"]);
    let mended = |snapshot: &mut Snapshot| {
        report_failures(snapshot, &CLUSTERS, &image("ami-1"));
        launches(snapshot, "ami-2");
    };
    assert_eq!(booted("ami-1").with(mended).removes(), ["n0"]);
    let upstream = |snapshot: &mut Snapshot| {
        report_failures(snapshot, &CLUSTERS, &image("ami-1"));
        snapshot.settings.optimize = Optimize::Upstream;
    };
    assert_eq!(booted("ami-1").with(upstream).removes(), ["n0"]);
}

#[test]
fn another_failure_of_the_ami_is_repaired() {
    let cluster = booted("ami-1").with(|snapshot| {
        report_failures(snapshot, &CLUSTERS, &image("ami-1"));
        snapshot.nodes[0].ready.status = ConditionStatus::Unknown;
    });
    assert_eq!(cluster.removes(), ["n0"]);
}

#[test]
fn cluster_counts_itself_if_a_fifth_of_its_nodes_fail_alike() {
    let of_own = |nodes: usize| {
        booted("ami-1").with(move |snapshot| {
            snapshot.nodes.truncate(nodes);
            snapshot.node_claims.truncate(nodes);
            report_failures(snapshot, &["a", "b"], &image("ami-1"));
        })
    };
    assert_eq!(of_own(5).removes(), ["n0"], "a fifth");
    assert!(of_own(4).removes().is_empty(), "a quarter");
}

#[test]
fn repair_waits_for_a_zone_or_type_failing_in_three_clusters() {
    for shared in [
        Shared::Zone("a".to_owned()),
        Shared::InstanceType("small".to_owned()),
    ] {
        let cluster =
            booted("ami-1").with(|snapshot| report_failures(snapshot, &CLUSTERS, &shared));
        assert!(cluster.removes().is_empty(), "{shared}");
    }
}

#[test]
fn drift_to_an_ami_failing_in_three_clusters_waits() {
    let cluster = cluster(2).with(|snapshot| {
        for claim in ["n0-claim", "n1-claim"] {
            drift(snapshot, claim, 1);
        }
        launches(snapshot, "ami-2");
        ours(snapshot);
    });
    assert!(!cluster.removes().is_empty());
    let evidence = cluster.with(|snapshot| report_failures(snapshot, &CLUSTERS, &image("ami-2")));
    let result = disrupt(&evidence.0);
    assert!(result.commands.is_empty());
    let message =
        "drift to AMI ami-2 is held back: many nodes with it have Ready=False in clusters a, b, c";
    assert_eq!(result.blocked[0].message, message);
    assert_eq!(node_reports(&evidence.0)[0].kept.as_deref(), Some(message));
    let fallen_back = evidence.with(|snapshot| launches(snapshot, "ami-3"));
    assert!(!fallen_back.removes().is_empty());
}

#[test]
fn repair_waits_if_nodes_of_several_node_pools_stop_reporting() {
    let silent = |pools: usize, nodes: usize| {
        cluster(nodes).with(move |snapshot| {
            let first = snapshot.node_pools[0].clone();
            for at in 1..pools {
                let name: NodePoolName = format!("other-{at}").as_str().into();
                let types = snapshot.instance_types[&"default".into()].clone();
                snapshot.instance_types.insert(name.clone(), types);
                let mut other = first.clone();
                other.name = name;
                snapshot.node_pools.push(other);
            }
            for at in 0..pools {
                let name = snapshot.node_pools[at].name.to_string();
                for labels in [
                    &mut snapshot.nodes[at].labels,
                    &mut snapshot.node_claims[at].labels,
                ] {
                    labels.insert(NODE_POOL.to_owned(), name.clone());
                }
                lost(snapshot, at, 31);
            }
            ours(snapshot);
        })
    };
    let removes = |pools: usize, nodes: usize| disrupt(&silent(pools, nodes).0).commands.len();
    assert_eq!(removes(2, 5), 1, "two nodes are no evidence");
    assert_eq!(removes(3, 16), 1, "less than a fifth");
    assert_eq!(removes(3, 5), 0);
    let notes = disrupt(&silent(3, 5).0).notes;
    let message = "repair is held back: 3 of 5 nodes in several NodePools have Ready=False, and new nodes could have it, too";
    assert_eq!(notes[0].message, message);
}

#[test]
fn failures_are_reported_after_a_minute_or_five_for_starting_nodes() {
    let reported = |cluster: &TestCluster| {
        let failures = failures(&cluster.0).unwrap();
        (failures.shared.len(), failures.next)
    };
    let of = |minutes: i64| unhealthy(1, minutes).with(ours);
    let later = |minutes: i64| Some(of(0).0.now + SignedDuration::from_mins(minutes));
    assert_eq!(reported(&of(0)), (0, later(1)));
    assert_eq!(reported(&of(1)), (2, None), "of its type and in its zone");
    let starts = |minutes: i64| {
        of(minutes).with(|snapshot| {
            let labels = &mut snapshot.nodes[0].labels;
            labels.remove("karpenter.sh/initialized");
        })
    };
    assert_eq!(reported(&starts(4)), (0, later(1)));
    assert_eq!(reported(&starts(5)), (2, None));
}

#[test]
fn failures_of_nodes_that_refuse_repair_are_not_reported() {
    let refused = unhealthy(1, 5).with(|snapshot| {
        ours(snapshot);
        annotate(snapshot, "karpenter.sh/do-not-repair", "true");
    });
    assert_eq!(failures(&refused.0), Some(Failures::default()));
    let off = unhealthy(1, 5).with(|snapshot| snapshot.settings.feature_gates.clear());
    assert_eq!(failures(&off.0), None);
}
