//! Two concurrent turns of every function on one cluster, in many interleavings of their calls.

use model::{InstanceId, Interruption, InterruptionKind, Lane};
use stories::{Relay, Rig, all_bound, all_gone, consistent, cpu, secs, settled};

use crate::{claim, is_gone};

/// Runs one turn of a lane; a held lane is run again later.
async fn run(rig: &Rig, lane: Lane, turn: model::ids::TurnId) {
    let done = turns::run(&rig.world, &Rig::cluster(), lane, &turn, rig.deadline(lane)).await;
    assert!(done.is_ok(), "{lane}: {done:?}");
}

/// Runs every lane twice at once, and delivers interruptions twice.
async fn run_all_twice(rig: &mut Rig, announced: &[Interruption]) {
    let turns: Vec<_> = (0..12).map(|_| rig.next_turn()).collect();
    let [a, b, c, d, e, f, g, h, i, j, k, l] = turns.as_slice() else {
        return;
    };
    let rig = &*rig;
    let (_, _, _, _, _, _, _, _, once, again, first, second) = tokio::join!(
        run(rig, Lane::Provisioner, a.clone()),
        run(rig, Lane::Provisioner, b.clone()),
        run(rig, Lane::Lifecycle, c.clone()),
        run(rig, Lane::Lifecycle, d.clone()),
        run(rig, Lane::Terminator, e.clone()),
        run(rig, Lane::Terminator, f.clone()),
        run(rig, Lane::Disruption, g.clone()),
        run(rig, Lane::Disruption, h.clone()),
        turns::interrupt(&rig.world, announced, k),
        turns::interrupt(&rig.world, announced, l),
        turns::housekeep(&rig.world, i),
        turns::housekeep(&rig.world, j),
    );
    assert!(first.is_ok() && second.is_ok(), "{first:?} {second:?}");
    assert!(
        once.iter().chain(&again).all(Result::is_ok),
        "{once:?} {again:?}"
    );
}

#[tokio::test]
async fn concurrent_turns_of_every_function_equal_sequential_ones() {
    for seed in 1..=20 {
        let mut rig = Rig::ready(Relay::Dead).await;
        rig.sim.with(|world| {
            world.interleaving = seed;
            world.api.scale("web", 6, cpu(stories::POD));
        });
        for _ in 0..40 {
            rig.sim.advance(secs(5));
            rig.sim.take_wakes();
            Box::pin(run_all_twice(&mut rig, &[])).await;
        }
        assert!(rig.sim.with(all_bound), "seed {seed}");
        let deleted = claim(&rig);
        let instance: InstanceId = deleted
            .status
            .provider_id
            .rsplit('/')
            .next()
            .unwrap()
            .into();
        rig.make_spot(&instance);
        let reclaimed = Interruption {
            instance,
            kind: InterruptionKind::SpotInterrupted,
            at: None,
            deadline: Some(rig.sim.with(|world| world.now) + secs(120)),
            hook: None,
            event: String::new(),
            reboots: false,
        };
        Box::pin(run_all_twice(&mut rig, &[reclaimed])).await;
        for _ in 0..40 {
            rig.sim.advance(secs(5));
            rig.sim.take_wakes();
            Box::pin(run_all_twice(&mut rig, &[])).await;
        }
        assert!(rig.sim.with(is_gone(&deleted)), "seed {seed}");
        assert!(rig.sim.with(all_bound), "seed {seed}");
        assert!(
            rig.sim.with(consistent) && rig.sim.with(settled),
            "seed {seed}"
        );
        let launched = rig.sim.with(|world| world.account.instances.len());
        rig.sim
            .with(|world| world.api.scale("web", 0, cpu(stories::POD)));
        for _ in 0..80 {
            rig.sim.advance(secs(5));
            rig.sim.take_wakes();
            Box::pin(run_all_twice(&mut rig, &[])).await;
        }
        assert!(rig.sim.with(all_gone), "seed {seed}");
        assert_eq!(
            rig.sim.with(|world| world.account.instances.len()),
            launched,
            "seed {seed}: no instance was launched"
        );
    }
}
