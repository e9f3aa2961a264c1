//! Changes that come close to a violation but keep the plan valid.

use model::{node_pool::ConsolidationPolicy, pod::Deletion, taint::Taint};

use super::{budgeted::make_replicas, *};

/// A change to the cluster or the plan, with its name.
type Change = (&'static str, fn(&mut World));

fn allowed(changes: &[Change]) {
    let mut refused = String::new();
    for (name, change) in changes {
        let mut world = World::valid();
        change(&mut world);
        let violations = check(&world.snapshot, &world.plan);
        if !violations.is_empty() {
            refused += &format!("{name}: {violations:#?}\n");
        }
    }
    assert!(refused.is_empty(), "{refused}");
}

/// Changes the pod template of a DaemonSet without running pods.
fn daemon_to_come(w: &mut World, change: impl Fn(&mut Pod)) {
    w.snapshot.pods.retain(|pod| pod.owner.is_none());
    change(&mut w.snapshot.daemon_sets[0].pod);
}

/// Ties the last volume to a machine by its hostname.
pub(crate) fn tie_to_machine(w: &mut World) {
    let terms = &mut w.snapshot.storage.volumes[2].node_affinity;
    let of_machine = one_of(model::labels::HOSTNAME, &["gone"]);
    terms[0].match_expressions.push(of_machine);
}

#[test]
fn unblocked_deletions_are_allowed() {
    allowed(&[
        ("a node with pods of DaemonSets alone is empty", |w| {
            w.pool("default").disruption.policy = ConsolidationPolicy::WhenEmpty
        }),
        ("a pod without eviction cost does not keep its node", |w| {
            let mut free = running("free-0", 100, "n-4");
            free.annotations =
                labels(&[("controller.kubernetes.io/pod-deletion-cost", "-134217728")]);
            w.snapshot.pods.push(free);
        }),
        (
            "a pod without disruption cost does not keep its node",
            |w| {
                let mut free = running("free-0", 100, "n-4");
                free.annotations = labels(&[
                    ("karpenter.sh/disruption-cost", "-134217728"),
                    ("controller.kubernetes.io/pod-deletion-cost", "1"),
                ]);
                w.snapshot.pods.push(free);
            },
        ),
        ("a nomination ends at its time", |w| {
            w.snapshot.nominated.insert("n-4".into(), now());
        }),
        ("consolidateAfter is over at its end", |w| {
            w.pool("default").disruption.consolidate_after = ConsolidateAfter::Seconds(7_200)
        }),
        ("a pod that has finished protects nothing", |w| {
            let pod = w.pod("logs-n-4");
            pod.annotations = labels(&[("karpenter.sh/do-not-disrupt", "true")]);
            pod.phase = PodPhase::Succeeded;
        }),
        ("a pod being deleted protects nothing", |w| {
            let pod = w.pod("logs-n-4");
            pod.annotations = labels(&[("karpenter.sh/do-not-disrupt", "true")]);
            pod.deletion = Some(Deletion {
                at: now(),
                grace_seconds: 30,
            });
        }),
        ("a pod is protected until the end of its window", |w| {
            w.pod("logs-n-4").annotations = labels(&[("karpenter.sh/do-not-disrupt", "1h")])
        }),
    ]);
}

#[test]
fn deleting_pods_that_nodes_need_not_wait_for_is_allowed() {
    allowed(&[
        ("a node's deadline allows deleting its pods", |w| {
            w.pod("stuck-0").deletion = None
        }),
        ("a finished pod may be deleted", |w| {
            w.pod("stuck-0").deletion = None;
            w.pod("stuck-0").phase = PodPhase::Succeeded;
            w.claim("claim-n-3").annotations.clear();
        }),
        ("a pod being deleted may be deleted", |w| {
            w.claim("claim-n-3").annotations.clear()
        }),
        ("a pod of an unready node may be deleted", |w| {
            w.pod("stuck-0").deletion = None;
            w.claim("claim-n-3").annotations.clear();
            w.node("n-3").ready.status = ConditionStatus::Unknown;
        }),
    ]);
}

#[test]
fn updates_of_managed_objects_are_allowed() {
    allowed(&[
        ("a node of a NodeClaim without labels", |w| {
            w.plan.nominations.remove(0);
            w.node("n-1").labels.remove(model::labels::NODE_POOL);
        }),
        ("other finalizers may be removed at any time", |w| {
            let Action::UpdateNode(update) = &mut w.plan.actions[UPDATE_NODE].action else {
                panic!("no update")
            };
            update.remove_finalizers = vec!["example.com/other".into()];
        }),
    ]);
}

#[test]
fn placements_without_applicable_obstacles_are_allowed() {
    allowed(&[
        (
            "a pod of another DaemonSet's kind of node takes no room",
            |w| {
                daemon_to_come(w, |pod| {
                    pod.requests.set("cpu", 7_000);
                    pod.node_selector = labels(&[("team", "nobody")]);
                })
            },
        ),
        ("a pod is near the daemon that its new node will run", |w| {
            w.daemon(|pod| pod.labels = labels(&[("app", "logs")]));
            let near = near("logs", model::labels::HOSTNAME);
            w.pod("apart-0").pod_affinity.required = vec![near];
        }),
        (
            "a daemon that does not tolerate the node takes no room",
            |w| {
                let only_n_2 = Taint {
                    effect: model::taint::TaintEffect::PreferNoSchedule,
                    ..taint("maintenance")
                };
                w.node("n-2").taints = vec![only_n_2];
            },
        ),
        (
            "a pod without requests for an overcommitted resource fits",
            |w| {
                w.pod("web-1").requests.set("cpu", 9_000);
                w.pod("late-0").requests.set("cpu", 0);
            },
        ),
        (
            "a pod that tolerates everything may run on a cordoned node",
            |w| {
                w.node("n-2").unschedulable = true;
                w.pod("late-0").tolerations = vec![tolerates("")];
            },
        ),
        (
            "a pod without volumes fits a node with too many volumes",
            |w| {
                let limits = &mut w.snapshot.storage.attach_limits;
                limits.insert("n-1".into(), [(EBS.to_owned(), 0)].into());
                w.pod("small-0").volumes.clear();
            },
        ),
        ("a volume of one machine counts by its zone alone", |w| {
            tie_to_machine(w);
            w.snapshot.storage.volumes[2].local = true;
        }),
    ]);
}

#[test]
fn more_instance_types_than_bits_of_a_word_are_distinguished() {
    let mut snapshot = snapshot();
    let others = (0..70).map(|number| {
        let mut other = instance_type(&format!("arm.{number}"), 4);
        other
            .offerings
            .iter_mut()
            .for_each(|offering| offering.available = false);
        other
    });
    let known = &snapshot.instance_types[&"default".into()];
    let types = std::sync::Arc::new(others.chain(known.iter().cloned()).collect::<Vec<_>>());
    for one in snapshot.instance_types.values_mut() {
        *one = std::sync::Arc::clone(&types);
    }
    assert_eq!(check(&snapshot, &plan(&snapshot)), []);
}

#[test]
fn launches_within_their_node_pool_are_allowed() {
    allowed(&[
        (
            "a static NodePool replaces what the plan takes from it",
            |w| {
                make_replicas(w, 1);
                w.pool("dedicated").disruption.budgets[0].nodes = "0".into();
            },
        ),
        (
            "missing nodes of a static NodePool within its budgets",
            |w| {
                make_replicas(w, 3);
                w.pool("dedicated").disruption.budgets[0].nodes = "3".into();
            },
        ),
        ("missing nodes of a static NodePool beyond its limit", |w| {
            make_replicas(w, 3);
            let pool = w.pool("dedicated");
            pool.disruption.budgets[0].nodes = "0".into();
            pool.limits.set("nodes", 1);
        }),
        ("as many requirements as are possible", |w| require(w, 100)),
        ("a label beside a requirement that no value meets", |w| {
            w.launch(ZONAL).labels.insert("rack".into(), "a".into());
            let none = wants("rack", Operator::DoesNotExist, &[]);
            w.launch(ZONAL).spec.requirements.push(none);
        }),
        ("a reservation that was chosen after the types were", |w| {
            let launch = w.launch(RESERVED);
            launch.instance_types.push("c.large".into());
            let mut requirements = launch.spec.requirements.iter_mut();
            let types = requirements
                .find(|requirement| requirement.key == INSTANCE_TYPE)
                .unwrap();
            types.values.insert(0, "c.large".into());
        }),
        ("a gate that is closed, whatever overlays there are", |w| {
            w.snapshot.node_overlays = vec![overlay(&[])]
        }),
        ("an overlay of other offerings", |w| {
            let gates = &mut w.snapshot.settings.feature_gates;
            gates.insert("NodeOverlay".into(), true);
            w.snapshot.node_overlays = vec![overlay(&[
                one_of(model::labels::NODE_POOL, &["default"]),
                one_of(CAPACITY_TYPE, &["spot"]),
            ])];
        }),
    ]);
}

pub(crate) fn make_static(w: &mut World) {
    w.pool("dedicated").replicas = Some(1);
    w.launch(DEDICATED).pods.clear();
}

/// Extends the requirements of a launch to `count`.
pub(crate) fn require(w: &mut World, count: usize) {
    let requirements = &mut w.launch(ZONAL).spec.requirements;
    for number in requirements.len()..count {
        requirements.push(wants(&format!("label-{number}"), Operator::NotIn, &["x"]));
    }
}

fn overlay(
    requirements: &[model::selector::NodeSelectorRequirement],
) -> model::snapshot::NodeOverlay {
    model::snapshot::NodeOverlay {
        name: "dear".into(),
        weight: 1,
        requirements: requirements.to_vec(),
        price: Some("9".into()),
        price_adjustment: None,
        capacity: Resources::default(),
    }
}
