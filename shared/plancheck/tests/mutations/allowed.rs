//! What comes close to an offence and is none: a valid plan stays valid.

use model::{node_pool::ConsolidationPolicy, pod::Deletion, taint::Taint};

use super::{budgeted::make_replicas, *};

/// What is changed about the cluster or the plan.
type Change = (&'static str, fn(&mut World));

fn allowed(changes: &[Change]) {
    let mut refused = String::new();
    for (name, change) in changes {
        let mut world = World::valid();
        change(&mut world);
        let offences = check(&world.snapshot, &world.plan);
        if !offences.is_empty() {
            refused += &format!("{name}: {offences:#?}\n");
        }
    }
    assert!(refused.is_empty(), "{refused}");
}

/// The DaemonSet has no pods yet, and this is what it will make.
fn daemon_to_come(w: &mut World, change: impl Fn(&mut Pod)) {
    w.snapshot.pods.retain(|pod| pod.owner.is_none());
    change(&mut w.snapshot.daemon_sets[0].pod);
}

/// The last volume says which machine it is on.
pub(crate) fn tie_to_machine(w: &mut World) {
    let terms = &mut w.snapshot.storage.volumes[2].node_affinity;
    let of_machine = one_of(model::labels::HOSTNAME, &["gone"]);
    terms[0].match_expressions.push(of_machine);
}

#[test]
fn deleting_what_nothing_keeps_is_allowed() {
    allowed(&[
        ("a node with pods of DaemonSets alone is empty", |w| {
            w.pool("default").disruption.policy = ConsolidationPolicy::WhenEmpty
        }),
        ("a pod that costs nothing to move keeps no node", |w| {
            let mut free = running("free-0", 100, "n-4");
            free.annotations =
                labels(&[("controller.kubernetes.io/pod-deletion-cost", "-134217728")]);
            w.snapshot.pods.push(free);
        }),
        ("a pod whose disruption costs nothing keeps no node", |w| {
            let mut free = running("free-0", 100, "n-4");
            free.annotations = labels(&[
                ("karpenter.sh/disruption-cost", "-134217728"),
                ("controller.kubernetes.io/pod-deletion-cost", "1"),
            ]);
            w.snapshot.pods.push(free);
        }),
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
        ("a pod that is going protects nothing", |w| {
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
fn ending_what_need_not_be_waited_for_is_allowed() {
    allowed(&[
        ("a node's deadline is reason enough", |w| {
            w.pod("stuck-0").deletion = None
        }),
        ("so is that the pod has finished", |w| {
            w.pod("stuck-0").deletion = None;
            w.pod("stuck-0").phase = PodPhase::Succeeded;
            w.claim("claim-n-3").annotations.clear();
        }),
        ("or goes already", |w| {
            w.claim("claim-n-3").annotations.clear()
        }),
        ("or that its node is lost", |w| {
            w.pod("stuck-0").deletion = None;
            w.claim("claim-n-3").annotations.clear();
            w.node("n-3").ready.status = ConditionStatus::Unknown;
        }),
    ]);
}

#[test]
fn changing_what_is_ours_is_allowed() {
    allowed(&[
        ("a node of a NodeClaim, whatever its labels are", |w| {
            w.plan.nominations.remove(0);
            w.node("n-1").labels.remove(model::labels::NODE_POOL);
        }),
        ("other finalizers go when they like", |w| {
            let Action::UpdateNode(update) = &mut w.plan.actions[UPDATE_NODE].action else {
                panic!("no update")
            };
            update.remove_finalizers = vec!["example.com/other".into()];
        }),
    ]);
}

#[test]
fn pods_may_go_where_what_is_in_the_way_is_not_there_for_them() {
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
        ("nor one that does not tolerate the node", |w| {
            let only_n_2 = Taint {
                effect: model::taint::TaintEffect::PreferNoSchedule,
                ..taint("maintenance")
            };
            w.node("n-2").taints = vec![only_n_2];
        }),
        (
            "who needs nothing of what is overcommitted is no burden",
            |w| {
                w.pod("web-1").requests.set("cpu", 9_000);
                w.pod("late-0").requests.set("cpu", 0);
            },
        ),
        (
            "a pod that tolerates everything goes to a cordoned node",
            |w| {
                w.node("n-2").unschedulable = true;
                w.pod("late-0").tolerations = vec![tolerates("")];
            },
        ),
        (
            "who brings no volume burdens no node that has too many",
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
fn more_types_than_fit_a_word_are_told_apart() {
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
fn launching_what_the_node_pool_allows_is_allowed() {
    allowed(&[
        (
            "a static NodePool replaces what the plan takes from it",
            |w| {
                make_replicas(w, 1);
                w.pool("dedicated").disruption.budgets[0].nodes = "0".into();
            },
        ),
        ("as many nodes of it are missing as budgets allow", |w| {
            make_replicas(w, 3);
            w.pool("dedicated").disruption.budgets[0].nodes = "3".into();
        }),
        ("its limit leaves no room for what is missing", |w| {
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
            let types = requirements.find(|one| one.key == INSTANCE_TYPE).unwrap();
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

/// Fills up the requirements of a launch to so many.
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
