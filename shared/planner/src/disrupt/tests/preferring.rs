//! Preferences of pods, and NodePools between which nothing but prices decides.

use model::pod::NodeSelectorTerm;

use super::*;

#[test]
fn a_consolidation_pays_for_the_preferences_that_pods_lose() {
    let world = |worth| {
        World::new()
            .node("liked", "small", &[500])
            .node("other", "small", &[1_400])
            .with(|snapshot| {
                snapshot.settings.optimize = Optimize::Cost;
                snapshot.settings.preference_worth = NanosPerHour(worth);
                for (at, disk) in [(0, "fast"), (1, "slow")] {
                    let labels = &mut snapshot.nodes[at].labels;
                    labels.insert("disk".to_owned(), disk.to_owned());
                }
                let fast = NodeSelectorTerm {
                    match_expressions: vec![one_of("disk", &["fast"])],
                    match_fields: Vec::new(),
                };
                snapshot.pods[0].node_affinity.preferred = vec![(100, fast)];
                let selector = &mut snapshot.pods[1].node_selector;
                selector.insert("disk".to_owned(), "slow".to_owned());
            })
    };
    // A small node costs $0.1/h.
    assert_eq!(world(10_000_000).removes(), ["liked"]);
    assert!(world(200_000_000).removes().is_empty());
}

#[test]
fn a_node_goes_for_a_cheaper_one_of_a_nodepool_of_equal_weight() {
    let world = |optimize, weight| {
        World::new().node("n", "medium", &[3_000]).with(|snapshot| {
            snapshot.settings.optimize = optimize;
            let mut cheaper = snapshot.node_pools[0].clone();
            cheaper.name = "cheaper".into();
            cheaper.weight = weight;
            snapshot.node_pools.push(cheaper);
            let types = vec![kind("bargain", 4, 100)];
            let cheaper = "cheaper".into();
            snapshot.instance_types.insert(cheaper, Arc::new(types));
        })
    };
    let replacements = |world: World| {
        let commands = world.commands().into_iter();
        commands
            .flat_map(|(_, _, replacements)| replacements)
            .collect::<Vec<_>>()
    };
    assert_eq!(replacements(world(Optimize::Cost, 0)), [["bargain"]]);
    // The names decide, or the weights.
    assert!(replacements(world(Optimize::Upstream, 0)).is_empty());
    assert!(replacements(world(Optimize::Cost, -1)).is_empty());
}
