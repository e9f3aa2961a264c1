//! Lookahead ends cheaper than single moves, with hardly more evictions.

use super::{
    super::{context::Lookahead, trajectory::Trajectory},
    *,
};

/// A dozen nodes of many sizes, hardly two of them alike, about half full.
pub(super) fn wasteful(seed: u64) -> TestCluster {
    let mut state = seed;
    let mut below = move |limit: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % limit
    };
    let mut cluster = TestCluster::new().with(|snapshot| {
        snapshot.settings.optimize = Optimize::Cost;
        let types = snapshot.instance_types.get_mut(&"default".into()).unwrap();
        let odd = [("dear", 8, 700), ("wide", 16, 720), ("slim", 2, 90)];
        Arc::make_mut(types).extend(odd.map(|(name, cpu, mills)| kind(name, cpu, mills)));
    });
    let sizes = [
        ("small", 2),
        ("medium", 4),
        ("large", 8),
        ("dear", 8),
        ("wide", 16),
    ];
    for at in 0..12 {
        let (kind, cpu) = sizes[usize::try_from(below(5)).unwrap()];
        let mut room = cpu * 1_000 * i64::try_from(20 + below(60)).unwrap() / 100;
        let mut pods = Vec::new();
        while room > 200 {
            let pod = i64::try_from(200 + 100 * below(18)).unwrap().min(room);
            pods.push(pod);
            room -= pod;
        }
        cluster = cluster.node(&format!("n-{at:02}"), kind, &pods);
    }
    cluster
}

/// Final trajectory of evaluations with this lookahead, and each command with the world that it was decided on.
pub(super) fn end(
    cluster: &TestCluster,
    lookahead: Lookahead,
    at_any_price: bool,
) -> (Trajectory, Vec<(TestCluster, Command)>) {
    let mut cluster = TestCluster(cluster.0.clone());
    let (mut moved, mut seen) = (0, Vec::new());
    for _ in 0..100 {
        let options = SearchOptions {
            lookahead,
            at_any_price,
            ..SearchOptions::new(&cluster.0)
        };
        let result = evaluate(&cluster.0, options);
        let Some(command) = result.commands.first() else {
            let cost = simulate_apply::cost(&cluster.0).0;
            let price = cost;
            return (Trajectory { cost, price, moved }, seen);
        };
        seen.push((TestCluster(cluster.0.clone()), command.clone()));
        for command in &result.commands {
            moved += simulate_apply::carry_out(command, &mut cluster.0);
        }
        cluster.0.cursor = result.cursor;
    }
    panic!("after 100 steps there is still something to do");
}

#[test]
fn lookahead_never_ends_more_expensive_and_usually_ends_cheaper() {
    for at_any_price in [false, true] {
        let (mut by_steps, mut lookahead, mut replacements_max) = (0, 0, 0);
        for seed in 0..12 {
            let cluster = wasteful(seed);
            let (next, _) = end(&cluster, Lookahead::NextStep, at_any_price);
            let (converged, seen) = end(&cluster, Lookahead::ToConvergence, at_any_price);
            let replacements = seen.iter().map(|(_, command)| command.replacements.len());
            replacements_max = replacements.chain([replacements_max]).max().unwrap();
            assert!(
                converged.cost <= next.cost,
                "seed {seed}: {converged:?}, {next:?}"
            );
            assert!(
                converged.moved * 18 <= next.moved * 19,
                "an eighteenth more at most, seed {seed}: {converged:?}, {next:?}"
            );
            by_steps += next.cost;
            lookahead += converged.cost;
        }
        assert!(lookahead < by_steps, "{lookahead}, {by_steps}");
        assert!(replacements_max > 1, "several nodes may go for several");
    }
}

#[test]
fn trajectory_is_followed_regardless_of_the_share() {
    let share = Share {
        simulated: 1,
        ..Share::WHOLE
    };
    for seed in 0..3 {
        let TestCluster(snapshot) = wasteful(seed);
        let within = disrupt_within(&snapshot, share, &BTreeSet::new());
        let nodes = |result: &DisruptionResult| result.commands[0].nodes.clone();
        assert_eq!(nodes(&within), nodes(&disrupt(&snapshot)), "seed {seed}");
    }
}

#[test]
fn budgets_bound_nodes_of_one_command() {
    for seed in 0..12 {
        let cluster = wasteful(seed).with(|snapshot| {
            snapshot.node_pools[0].disruption.budgets = vec![budget("3")];
        });
        let commands = disrupt(&cluster.0).commands;
        assert!(commands.iter().all(|command| command.nodes.len() <= 3));
    }
}

#[test]
fn replacements_are_cheaper_together_at_any_launch_price() {
    for seed in 0..12 {
        let cluster = wasteful(seed);
        let price = |name: &str| {
            let types = &cluster.0.instance_types[&"default".into()];
            let kind = types.iter().find(|kind| kind.name == name).unwrap();
            kind.offerings[0].price.0
        };
        for command in disrupt(&cluster.0).commands {
            let before = cluster.0.nodes.iter();
            let before = before.filter(|node| command.nodes.contains(&node.name.to_string()));
            let before: i64 = before.map(|node| price(&node.labels[INSTANCE_TYPE])).sum();
            let after = command.replacements.iter().map(|launch| {
                let types = launch.instance_types.iter();
                types.map(|kind| price(kind.as_str())).max().unwrap()
            });
            assert!(after.sum::<i64>() < before, "seed {seed}");
        }
    }
}

#[test]
fn joint_move_is_validated_with_its_recorded_assignment() {
    let mut seen = (0..12).flat_map(|seed| end(&wasteful(seed), Lookahead::ToConvergence, false).1);
    let joint = seen.find(|(_, command)| command.replacements.len() > 1);
    let (cluster, command) = joint.expect("a cluster with a joint move that pays");
    let proposal = validating::proposal(&cluster);
    let again = validate(&cluster.0, &proposal).unwrap();
    assert_eq!(again.nodes, command.nodes);
    let types = |command: &Command| -> Vec<_> {
        let launches = command.replacements.iter();
        launches
            .map(|launch| launch.instance_types.clone())
            .collect()
    };
    assert_eq!(types(&again), types(&command));
    let mut fewer = proposal;
    fewer.choice.as_mut().unwrap().others.pop();
    assert_eq!(
        validate(&cluster.0, &fewer).unwrap_err().class,
        "scheduling"
    );
}
