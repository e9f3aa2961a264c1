//! The search against a plain one: for small random clusters both decide alike, pod by pod, type by type.

#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a wrong index fails the test"
)]

mod naive;
mod world;

use std::collections::BTreeSet;

use proptest::prelude::*;
use scheduling::{Answer, Input, solve};

use self::naive::Decision;

/// The answer in the words of the reference.
fn named(answer: &Answer, input: &Input<'_>) -> Decision {
    let name = |at: &usize| input.pods[*at].key.name.clone();
    let names = |pods: &[usize]| -> BTreeSet<String> { pods.iter().map(name).collect() };
    let new = answer.new_nodes.iter().map(|node| {
        let pool = &input.pools[node.pool];
        let types = node.choices.iter();
        let types = types.map(|choice| pool.types[choice.instance_type()].name.clone());
        (pool.name.0.clone(), names(&node.pods), types.collect())
    });
    let existing = answer.existing.iter();
    Decision {
        new: new.collect(),
        existing: existing
            .map(|(node, pods)| (input.nodes[*node].name.to_owned(), names(pods)))
            .collect(),
        unplaced: answer.unplaced.iter().map(|left| name(&left.pod)).collect(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_search_decides_as_a_plain_one_does(world in world::world()) {
        world.ask(|input| {
            prop_assert_eq!(named(&solve(input), input), naive::decide(input));
            Ok(())
        })?;
    }
}
