//! Domains of topology spread: those of nodes that stay, and those in which NodePools can launch nodes.

use model::pod::NodeInclusionPolicy;

use super::*;

/// A pod runs in zone a in addition to the planned one; zones b and c have one each.
fn two_in_a() -> World {
    let mut world = World::valid();
    run_in_a(&mut world, "spread-9");
    assert_eq!(check(&world.snapshot, &world.plan), []);
    world
}

fn run_in_a(w: &mut World, name: &str) {
    let mut pod = running(name, 100, "n-1");
    pod.labels = labels(&[("app", "spread")]);
    w.snapshot.pods.push(pod);
}

fn constraints(w: &mut World, change: impl Fn(&mut model::pod::TopologySpread)) {
    for name in ["spread-0", "spread-1", "spread-2"] {
        change(&mut w.pod(name).topology_spread[0]);
    }
}

/// Adds a node affinity term for each list of zones.
fn only_in(w: &mut World, terms: &[&[&str]]) {
    let terms = terms.iter().map(|zones| term(&[one_of(ZONE, zones)]));
    let terms: Vec<_> = terms.collect();
    for name in ["spread-0", "spread-1", "spread-2"] {
        w.pod(name).node_affinity.required = terms.clone();
    }
}

/// Adds a NodePool with offerings in zone d, changed by `change`.
fn offer_d(w: &mut World, change: impl Fn(&mut NodePool)) {
    let mut pool = node_pool("further");
    pool.template.requirements = vec![one_of(ZONE, &["d"])];
    change(&mut pool);
    let mut types = w.snapshot.instance_types[&"default".into()]
        .as_ref()
        .clone();
    for offering in types
        .iter_mut()
        .flat_map(|instance_type| &mut instance_type.offerings)
    {
        offering.zone = "d".into();
    }
    w.snapshot
        .instance_types
        .insert(pool.name.clone(), types.into());
    w.snapshot.node_pools.push(pool);
}

type Change = (&'static str, fn(&mut World));

fn judge(changes: &[Change], begin: fn() -> World, is_refused: bool) {
    for (name, change) in changes {
        let mut world = begin();
        change(&mut world);
        let violations = check(&world.snapshot, &world.plan);
        let spread = violations
            .iter()
            .any(|violation| violation.text.contains("would be number"));
        assert_eq!(spread, is_refused, "{name}: {violations:#?}");
        assert!(spread || violations.is_empty(), "{name}: {violations:#?}");
    }
}

#[test]
fn eligible_domain_without_pods_is_the_smallest() {
    let empty: [Change; 5] = [
        ("the pods may not run there, but affinity is ignored", |w| {
            add_node(&mut w.snapshot, "n-9", "d");
            only_in(w, &[&["a", "b", "c"]]);
            constraints(w, |spread| {
                spread.node_affinity_policy = Some(NodeInclusionPolicy::Ignore)
            });
        }),
        ("the pods may run there by another term", |w| {
            add_node(&mut w.snapshot, "n-9", "d");
            only_in(w, &[&["a", "b", "c"], &["d"]]);
        }),
        ("a NodePool can make nodes there", |w| offer_d(w, |_| {})),
        ("a node is there", |w| add_node(&mut w.snapshot, "n-9", "d")),
        ("a tolerated NodePool counts", |w| {
            offer_d(w, |_| {});
            constraints(w, |spread| {
                spread.node_taints_policy = Some(NodeInclusionPolicy::Honor)
            });
        }),
    ];
    judge(&empty, two_in_a, true);
}

#[test]
fn ineligible_domain_does_not_count() {
    let none: [Change; 10] = [
        ("the NodePool's limit is used up", |w| {
            offer_d(w, |pool| pool.limits = [("cpu", 0)].into())
        }),
        (
            "the NodePool has a taint that the pods do not tolerate",
            |w| offer_d(w, |pool| pool.template.taints = vec![taint("other")]),
        ),
        ("nothing is on offer there", |w| {
            offer_d(w, |_| {});
            let types = w.snapshot.instance_types[&"default".into()].clone();
            w.snapshot.instance_types.insert("further".into(), types);
        }),
        ("the pods may not run there", |w| {
            offer_d(w, |_| {});
            only_in(w, &[&["a", "b", "c"]]);
        }),
        ("the NodePool is not ready", |w| {
            offer_d(w, |pool| pool.not_ready = Some("no subnets".into()))
        }),
        ("the NodePool is being deleted", |w| {
            offer_d(w, |pool| pool.deleted_at = Some(now()))
        }),
        ("the NodePool is static", |w| {
            offer_d(w, |pool| pool.replicas = Some(1))
        }),
        (
            "the pods do not tolerate it, and ask for that to count",
            |w| {
                offer_d(w, |pool| pool.template.taints = vec![taint("other")]);
                constraints(w, |spread| {
                    spread.node_taints_policy = Some(NodeInclusionPolicy::Honor)
                });
            },
        ),
        ("its node is being deleted", |w| {
            add_node(&mut w.snapshot, "n-9", "d");
            w.claim("claim-n-9").deleted_at = Some(now());
            w.pool("default").disruption.budgets[0].nodes = "3".into();
        }),
        ("its node has not joined", |w| {
            add_node(&mut w.snapshot, "n-9", "d");
            w.snapshot.nodes.pop();
            w.snapshot.pods.retain(|pod| pod.key.name != "logs-n-9");
            let claim = w.claim("claim-n-9");
            claim.status.node_name = None;
        }),
    ];
    judge(&none, two_in_a, false);
}

fn three_in_a() -> World {
    let mut world = two_in_a();
    run_in_a(&mut world, "spread-8");
    world
}

#[test]
fn only_pods_on_nodes_included_by_the_constraint_count() {
    fn of_family_c(w: &mut World) {
        for index in [ZONE_A, ZONE_B, ZONE_C] {
            w.only_type(index, "c.large");
        }
        for name in ["spread-0", "spread-1", "spread-2"] {
            w.pod(name).node_affinity.required = vec![term(&[one_of(FAMILY, &["c"])])];
        }
    }
    fn taint_a(w: &mut World) {
        w.plan.nominations.remove(0);
        w.node("n-1").taints = vec![taint("maintenance")];
    }
    let looked_at: [Change; 3] = [
        ("any", |_| {}),
        ("another kind of node, if affinity is ignored", |w| {
            of_family_c(w);
            constraints(w, |spread| {
                spread.node_affinity_policy = Some(NodeInclusionPolicy::Ignore)
            });
        }),
        ("one that is not tolerated, as a rule", taint_a),
    ];
    judge(&looked_at, three_in_a, true);
    let looked_past: [Change; 2] = [
        ("a kind of node that the pods may not run on", of_family_c),
        ("one that is not tolerated, if taints are honored", |w| {
            taint_a(w);
            constraints(w, |spread| {
                spread.node_taints_policy = Some(NodeInclusionPolicy::Honor)
            });
        }),
    ];
    judge(&looked_past, three_in_a, false);
}

#[test]
fn spread_is_checked_without_any_affinity() {
    let mut world = World::valid();
    for name in ["apart-0", "apart-1"] {
        world.pod(name).pod_anti_affinity.required.clear();
    }
    for name in ["follower-0", "peer-0", "peer-1"] {
        world.pod(name).pod_affinity.required.clear();
    }
    assert_eq!(check(&world.snapshot, &world.plan), []);
    let moved = world.launch(ZONE_C).pods.remove(0);
    world.launch(ZONE_A).pods.push(moved);
    assert!(!check(&world.snapshot, &world.plan).is_empty());
}
