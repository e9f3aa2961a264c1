//! Plans for all nodes: search input, steps, and the order of steps.

use model::ledger::{Place, PlannedRemoval, PodAssignment};

use super::{
    super::{
        balanced::Totals,
        candidates::{Candidate, Candidates, Class},
        consolidation::Move,
        context::DisruptionContext,
        rearranging,
    },
    *,
};

/// Calls `shown` with the context and candidates of a world.
fn of<T>(
    cluster: &TestCluster,
    shown: impl for<'a> FnOnce(&DisruptionContext<'a>, &[&Candidate<'a>], &Totals) -> T,
) -> T {
    at_present(&cluster.0, |context| {
        let known = Candidates::new(&context, Class::Graceful);
        let totals = Totals::new(&context, &known.all);
        shown(&context, &known.all.iter().collect::<Vec<_>>(), &totals)
    })
}

/// Nodes to remove together, without an assignment of their pods.
fn together(nodes: &[&str]) -> PlannedRemoval {
    let claims = nodes.iter().map(|node| format!("{node}-claim"));
    PlannedRemoval {
        nodes: claims.map(|claim| claim.as_str().into()).collect(),
        wanted: Vec::new(),
    }
}

/// Nodes to remove together, with this many pods of each assigned to a new node.
fn for_new_ones(nodes: &[(&str, usize)]) -> PlannedRemoval {
    let wanted = nodes.iter().map(|(node, count)| {
        let uids = (0..*count).map(|number| format!("uid-{node}-{number}"));
        PodAssignment {
            place: Place::New("default".into()),
            pods: uids.map(|uid| uid.as_str().into()).collect(),
        }
    });
    let names = nodes.iter().map(|(node, _)| *node);
    PlannedRemoval {
        wanted: wanted.collect(),
        ..together(&names.collect::<Vec<_>>())
    }
}

/// Nodes that a step removes.
fn nodes<'m>(step: &'m Move<'_>) -> Vec<&'m str> {
    let nodes = step
        .candidates
        .iter()
        .map(|candidate| candidate.node.name.0.as_str());
    nodes.collect()
}

#[test]
fn search_input_has_pods_and_budget_of_each_candidate() {
    let mut cluster = TestCluster::new()
        .node("one", "small", &[100, 100])
        .node("other", "medium", &[100])
        .node_of("third", "large", "spot", &[]);
    let mut second = cluster.0.node_pools[0].clone();
    second.name = "another".into();
    cluster.0.node_pools.push(second);
    let types = cluster.0.instance_types[&"default".into()].clone();
    cluster.0.instance_types.insert("another".into(), types);
    for labels in [
        &mut cluster.0.node_claims[1].labels,
        &mut cluster.0.nodes[1].labels,
    ] {
        labels.insert("karpenter.sh/nodepool".to_owned(), "another".to_owned());
    }
    of(&cluster, |context, candidates, totals| {
        let pools = rearranging::node_pools_of(candidates);
        let names = pools.iter().map(|pool| pool.0.as_str());
        assert_eq!(names.collect::<Vec<_>>(), ["another", "default"]);
        let removable = rearranging::removable(context, candidates, totals, &pools);
        let mut inputs: Vec<_> = removable
            .iter()
            .map(|leaver| {
                let at = context.destinations()[leaver.node];
                let pods = leaver
                    .pods
                    .iter()
                    .map(|pod| context.reschedulable.get(*pod).unwrap());
                let pods: Vec<&str> = pods.map(|pod| pod.key.name.as_str()).collect();
                let node = context.inventory.state_nodes[at].name;
                (
                    node,
                    &leaver.instance_type[..],
                    pods,
                    leaver.is_spot,
                    leaver.budget,
                )
            })
            .collect();
        inputs.sort_unstable();
        assert_eq!(
            inputs,
            [
                ("one", "small", vec!["one-0", "one-1"], false, 1),
                ("other", "medium", vec!["other-0"], false, 0),
                ("third", "large", vec![], true, 1),
            ]
        );
    });
}

/// The node lives for four of ten hours. For six more it would cost nothing to keep it.
#[test]
fn disturbance_is_spread_over_the_horizon_beyond_expiration() {
    let cluster = TestCluster::new()
        .node("one", "large", &[100, 100, 100, 100])
        .with(|snapshot| {
            snapshot.settings.optimize = Optimize::Cost;
            let annotations = &mut snapshot.node_pools[0].annotations;
            for (key, value) in [("consolidation-horizon", "10h"), ("eviction-price", "0.1")] {
                annotations.insert(format!("whittle.sh/{key}"), value.to_owned());
            }
            let claim = &mut snapshot.node_claims[0];
            claim.created_at = Some(fixtures::now() - SignedDuration::from_hours(2));
            claim.spec.expire_after = Some("6h".to_owned());
        });
    let disturbance = |cluster: &TestCluster| {
        of(cluster, |context, candidates, _| {
            (
                candidates[0].price.0,
                context.move_costs.disturbance(context, candidates[0]).0,
            )
        })
    };
    let (price, each) = disturbance(&cluster);
    assert_eq!(price, 400_000_000);
    // Four evictions, and six hours.
    assert_eq!(each, (400_000_000 + 6 * price) / 10);
    let upstream = cluster.with(|snapshot| snapshot.settings.optimize = Optimize::Upstream);
    assert_eq!(disturbance(&upstream), (price, 0));
}

/// The node has six of eight evictions, so it must save half of six eighths of the total cost.
#[test]
fn policy_balanced_sets_least_savings_by_share_of_disruption() {
    let cluster = TestCluster::new()
        .node("one", "large", &[200; 5])
        .node("other", "large", &[900])
        .with(|snapshot| {
            snapshot.node_pools[0].disruption.policy = ConsolidationPolicy::Balanced;
        });
    let plan = [for_new_ones(&[("one", 5)])];
    of(&cluster, |context, candidates, totals| {
        let [one, other] = candidates else {
            panic!("{} candidates", candidates.len());
        };
        let price = one.price.0;
        let least =
            |totals: &Totals| [one, other].map(|candidate| totals.least_saving(candidate).0);
        assert_eq!(least(totals), [price * 2 * 3 / 8, price * 2 / 8]);
        assert_eq!(
            least(&totals.scaled(3, 4)),
            [price * 2 * 9 / 32, price * 2 * 3 / 32]
        );
        let steps = rearranging::remaining_steps(context, candidates, &plan);
        let saved = price - steps[0].after().0;
        assert!(0 < saved && saved < price);
        let mut then = totals.clone();
        then.apply_move(&steps[0]);
        assert_eq!(least(&then)[0], (price * 2 - saved) * 3 / 8);
    });
    let plain = cluster.with(|snapshot| {
        snapshot.node_pools[0].disruption.policy = ConsolidationPolicy::default();
    });
    of(&plain, |_, candidates, totals| {
        assert_eq!(totals.least_saving(candidates[0]), NanosPerHour(0));
    });
}

/// Karpenter's gate decides whether spot replaces spot.
#[test]
fn plan_replaces_spot_by_spot_only_with_its_gate() {
    let planned = |gate: bool| {
        let cluster = TestCluster::new()
            .node_of("one", "large", "spot", &[900, 900])
            .node_of("other", "large", "spot", &[900, 900])
            .with(|snapshot| {
                snapshot.node_pools[0].template.requirements =
                    vec![one_of(CAPACITY_TYPE, &["spot"])];
                let gates = &mut snapshot.settings.feature_gates;
                gates.insert("SpotToSpotConsolidation".to_owned(), gate);
                // Neither node has room for the pods of the other.
                for node in &mut snapshot.nodes {
                    node.allocatable = Resources::from([("cpu", 2_000), ("pods", 29)]);
                }
            });
        of(&cluster, |context, candidates, totals| {
            let mut replacements = 0;
            let budgets = Methods::new(context, context).budgets(context, Reason::Underutilized);
            let none = NanosPerHour(0);
            rearranging::plan(context, candidates, totals, &budgets, none, |steps| {
                let each = steps.iter().map(|step| step.replacements.len());
                replacements = each.sum();
                None
            });
            replacements
        })
    };
    assert_eq!((planned(false), planned(true)), (0, 1));
}

#[test]
fn step_of_a_plan_records_the_assignment_of_each_pod() {
    let cluster = TestCluster::new()
        .node("one", "large", &[900, 900])
        .node("other", "large", &[900])
        .node("roomy", "large", &[5_000]);
    of(&cluster, |context, candidates, totals| {
        let budgets = Methods::new(context, context).budgets(context, Reason::Underutilized);
        let mut wanted = Vec::new();
        rearranging::plan(
            context,
            candidates,
            totals,
            &budgets,
            NanosPerHour(0),
            |steps| {
                for step in &steps {
                    let pods = step
                        .simulation
                        .wanted
                        .iter()
                        .map(|wanted| wanted.pods.len());
                    wanted.push((step.evicted(), pods.sum::<usize>()));
                }
                None
            },
        );
        assert!(!wanted.is_empty());
        assert!(
            wanted.iter().all(|(moved, wanted)| moved == wanted),
            "{wanted:?}"
        );
    });
}

/// Number of remaining steps, for a step that assigns this many pods.
#[test]
fn step_assigns_at_most_two_thousand_pods() {
    let cluster = TestCluster::new().node("one", "large", &[900]);
    let kept = |count| {
        let plan = [for_new_ones(&[("one", count)])];
        of(&cluster, |context, candidates, _| {
            rearranging::remaining_steps(context, candidates, &plan).len()
        })
    };
    assert_eq!((kept(1), kept(2_000), kept(2_001)), (1, 1, 0));
}

#[test]
fn remaining_plan_assigns_at_most_two_thousand_pods() {
    let cluster = TestCluster::new()
        .node("one", "large", &[900])
        .node("other", "large", &[900])
        .node("third", "large", &[900]);
    let left = |counts: [usize; 3]| {
        let [one, other, third] = counts;
        let plan = [("one", one), ("other", other), ("third", third)];
        let plan = plan.map(|step| for_new_ones(&[step]));
        of(&cluster, |context, candidates, _| {
            let steps = rearranging::remaining_steps(context, candidates, &plan);
            assert_eq!(steps.len(), 3);
            rearranging::steps_after(&steps, None).len()
        })
    };
    assert_eq!(left([800, 800, 400]), 3);
    assert_eq!(left([800, 800, 401]), 2);
    assert_eq!(left([1_000, 1_001, 1]), 1);
}

#[test]
fn finished_steps_are_not_in_the_remaining_plan() {
    let cluster = TestCluster::new()
        .node("one", "large", &[900])
        .node("other", "large", &[900]);
    let plan = ["one", "other"].map(|node| for_new_ones(&[(node, 1)]));
    of(&cluster, |context, candidates, _| {
        let steps = rearranging::remaining_steps(context, candidates, &plan);
        assert_eq!(rearranging::steps_after(&steps, None), plan);
        assert_eq!(rearranging::steps_after(&steps, steps.first()), plan[1..]);
    });
}

#[test]
fn several_steps_merge_and_a_single_one_does_not() {
    let cluster = TestCluster::new()
        .node("one", "small", &[900])
        .node("other", "small", &[900])
        .node("roomy", "large", &[900]);
    let plan = ["one", "other"].map(|node| together(&[node]));
    of(&cluster, |context, candidates, _| {
        let steps = rearranging::remaining_steps(context, candidates, &plan);
        let [one, other] = &steps[..] else {
            panic!("{} steps", steps.len());
        };
        let both = rearranging::merged(context, &[one, other]).unwrap();
        assert_eq!(nodes(&both), ["one", "other"]);
        assert!(rearranging::merged(context, &[one]).is_none());
        assert!(rearranging::merged(context, &[]).is_none());
    });
}

/// Keeping one of the nodes is better.
#[test]
fn several_nodes_are_not_merged_into_their_own_instance_type() {
    let steps = |millicores: [i64; 2]| {
        let [one, other] = millicores;
        let cluster =
            TestCluster::new()
                .node("one", "medium", &[one])
                .node("other", "medium", &[other]);
        let [mut plan, of_other] = ["one", "other"].map(|node| for_new_ones(&[(node, 1)]));
        plan.nodes.extend(of_other.nodes);
        let pods = of_other.wanted.into_iter().flat_map(|wanted| wanted.pods);
        plan.wanted[0].pods.extend(pods);
        of(&cluster, |context, candidates, _| {
            rearranging::remaining_steps(context, candidates, &[plan]).len()
        })
    };
    assert_eq!(steps([900, 900]), 1, "for a small one");
    assert_eq!(steps([1_900, 1_900]), 0, "for a medium one");
}

/// `few` saves a little for one eviction, `many` more for four, and `pair-a` with `pair-b` most, with two new nodes.
#[test]
fn steps_are_ordered_by_replacements_then_savings_per_eviction() {
    let cluster = TestCluster::new()
        .node("few", "medium", &[900])
        .node("many", "large", &[900, 900, 900, 900])
        .node("pair-a", "large", &[1_900])
        .node("pair-b", "large", &[1_900])
        .with(|snapshot| {
            let types = snapshot.instance_types.get_mut(&"default".into()).unwrap();
            Arc::make_mut(types).push(kind("odd", 8, 450));
            let others = one_of(INSTANCE_TYPE, &["small", "medium", "odd"]);
            snapshot.node_pools[0].template.requirements.push(others);
            // No other node has room.
            for node in &mut snapshot.nodes {
                let used = snapshot.pods.iter().filter(|pod| {
                    pod.node_name
                        .as_ref()
                        .is_some_and(|name| *name == node.name)
                });
                let used: i64 = used.map(|pod| pod.shape.requests.get("cpu")).sum();
                node.allocatable = Resources::from([("cpu", used), ("pods", 29)]);
            }
        });
    let plan = [
        for_new_ones(&[("pair-a", 1), ("pair-b", 1)]),
        for_new_ones(&[("many", 4)]),
        for_new_ones(&[("few", 1)]),
    ];
    of(&cluster, |context, candidates, totals| {
        let steps = rearranging::remaining_steps(context, candidates, &plan);
        let each = steps.iter().map(|step| {
            let saved = step.before().0 - step.after().0;
            (step.replacements.len(), step.evicted(), saved / 1_000_000)
        });
        assert_eq!(
            each.collect::<Vec<_>>(),
            [(2, 2, 600), (1, 4, 200), (1, 1, 100)]
        );
        // Any instance type of the replacement that EC2 may launch is cheaper than both nodes.
        let most_expensive = steps[0].replacements.iter().map(|node| {
            let prices = node.choices.iter().map(|choice| choice.price.0);
            prices.max().unwrap()
        });
        assert!(most_expensive.sum::<i64>() < steps[0].before().0);
        let steps = rearranging::ordered(steps, totals);
        let order = steps.iter().map(|step| nodes(step)[0]);
        assert_eq!(order.collect::<Vec<_>>(), ["few", "many", "pair-a"]);
    });
}
