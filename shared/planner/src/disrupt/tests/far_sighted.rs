//! What a longer view is for: a cheaper end, with hardly more evictions, than one step after the other leads to.

use super::{
    super::{course::Course, scene::Sight},
    *,
};

/// A dozen nodes of many sizes, hardly two of them alike, about half full.
fn wasteful(seed: u64) -> World {
    let mut state = seed;
    let mut below = move |limit: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % limit
    };
    let mut world = World::new().with(|snapshot| {
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
        world = world.node(&format!("n-{at:02}"), kind, &pods);
    }
    world
}

/// Where looks of this sight lead.
fn end(world: &World, sight: Sight, at_any_price: bool) -> (Course, Vec<Command>) {
    let mut snapshot = world.0.clone();
    let (mut moved, mut commands) = (0, Vec::new());
    for _ in 0..100 {
        let stance = Stance {
            sight,
            at_any_price,
            ..Stance::new(&snapshot)
        };
        let found = first(&snapshot, stance).commands;
        if found.is_empty() {
            let cost = foresight::cost(&snapshot).0;
            return (Course { cost, moved }, commands);
        }
        for command in &found {
            moved += foresight::carry_out(command, &mut snapshot);
        }
        commands.extend(found);
    }
    panic!("after 100 steps there is still something to do");
}

#[test]
fn the_end_is_never_dearer_and_as_a_rule_cheaper_than_step_by_step() {
    for at_any_price in [false, true] {
        let (mut by_steps, mut far_sighted) = (0, 0);
        for seed in 0..12 {
            let world = wasteful(seed);
            let (next, _) = end(&world, Sight::Next, at_any_price);
            let (far, _) = end(&world, Sight::Far, at_any_price);
            assert!(far.cost <= next.cost, "seed {seed}: {far:?}, {next:?}");
            assert!(
                far.moved * 12 <= next.moved * 13,
                "seed {seed}: {far:?}, {next:?}"
            );
            by_steps += next.cost;
            far_sighted += far.cost;
        }
        assert!(far_sighted < by_steps, "{far_sighted}, {by_steps}");
    }
}

#[test]
fn several_nodes_go_for_several_only_where_moves_have_a_price() {
    let most = |at_any_price| {
        let commands = (0..12).flat_map(|seed| end(&wasteful(seed), Sight::Far, at_any_price).1);
        let most = commands.map(|command| command.replacements.len()).max();
        most.unwrap_or_default()
    };
    assert!(most(false) > 1);
    assert_eq!(most(true), 1);
}

#[test]
fn budgets_bound_what_goes_together() {
    for seed in 0..12 {
        let world = wasteful(seed).with(|snapshot| {
            snapshot.node_pools[0].disruption.budgets = vec![budget("3")];
        });
        let commands = disrupt(&world.0).commands;
        assert!(commands.iter().all(|command| command.nodes.len() <= 3));
    }
}

#[test]
fn what_replaces_them_is_cheaper_together_whatever_is_launched() {
    for seed in 0..12 {
        let world = wasteful(seed);
        let price = |name: &str| {
            let types = &world.0.instance_types[&"default".into()];
            let kind = types.iter().find(|kind| kind.name == name).unwrap();
            kind.offerings[0].price.0
        };
        for command in disrupt(&world.0).commands {
            let before = world.0.nodes.iter();
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
fn a_joint_move_is_judged_again_as_it_was_found() {
    let joint = (0..12).map(wasteful).find(|world| {
        let commands = disrupt(&world.0).commands;
        commands
            .iter()
            .any(|command| command.replacements.len() > 1)
    });
    let world = joint.expect("some world is worth a joint move");
    let command = disrupt(&world.0).commands.remove(0);
    let proposal = validating::proposal(&world);
    let again = validate(&world.0, &proposal).unwrap();
    assert_eq!(again.nodes, command.nodes);
    let types = |command: &Command| -> Vec<_> {
        let launches = command.replacements.iter();
        launches.map(|one| one.instance_types.clone()).collect()
    };
    assert_eq!(types(&again), types(&command));
    let mut fewer = proposal;
    fewer.choice.as_mut().unwrap().others.pop();
    assert_eq!(validate(&world.0, &fewer).unwrap_err().class, "scheduling");
}
