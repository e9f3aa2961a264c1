use std::{collections::BTreeMap, fs, time::Duration};

use jiff::SignedDuration;
use model::{Lane, ids::TurnId};
use stories::{Relay, Rig, all_bound, secs};

/// Compute time and number of waits of quiet turns.
pub(crate) struct Times {
    /// Median of each lane, as printed by the bench `turns`, which does not run the sweep.
    computes: BTreeMap<Lane, Duration>,
    /// Number of sequential calls; concurrent calls count once.
    waits: BTreeMap<Lane, f64>,
}

impl Times {
    pub(crate) async fn read(file: &str) -> Self {
        let text = fs::read_to_string(file).unwrap_or_else(|error| panic!("{file}: {error}"));
        let lanes = Lane::WOKEN.into_iter().map(|lane| {
            let found = text.lines().find_map(|line| {
                let (of, times) = line.strip_prefix("turns: quiet, ")?.split_once(':')?;
                let median = times.trim().strip_prefix("median")?;
                let median = median.trim().split(' ').next()?;
                (of == lane.as_str()).then(|| median.parse().ok())?
            });
            let median = found.unwrap_or_else(|| panic!("{file} has no median of {lane}"));
            (lane, Duration::from_millis(median))
        });
        Self {
            computes: lanes.collect(),
            waits: waits().await,
        }
    }

    pub(crate) fn computes(&self, lane: Lane) -> Option<Duration> {
        self.computes.get(&lane).copied()
    }

    pub(crate) fn waits(&self, lane: Lane) -> f64 {
        self.waits[&lane]
    }
}

/// Counts waits by giving every call a latency of one virtual second, which concurrent calls share.
async fn waits() -> BTreeMap<Lane, f64> {
    let mut rig = Rig::ready(Relay::Watching).await;
    rig.scale(1);
    rig.until(secs(180), all_bound).await.unwrap();
    rig.pass(secs(180)).await;
    let mut waits = BTreeMap::new();
    for lane in Lane::WOKEN.into_iter().chain([Lane::Housekeeper]) {
        rig.sim.advance(secs(60));
        let (began, deadline) = rig.sim.with(|world| {
            (world.latency, world.overlapping) = (secs(1), true);
            (world.now, world.now + SignedDuration::from_mins(10))
        });
        let turn = TurnId(format!("waits-{lane}"));
        if lane == Lane::Housekeeper {
            drop(turns::housekeep(&rig.world, &turn).await.unwrap());
        } else {
            let cluster = Rig::cluster();
            let run = Box::pin(turns::run(&rig.world, &cluster, lane, &turn, deadline));
            drop(run.await.unwrap());
        }
        let ended = rig.sim.with(|world| {
            (world.latency, world.overlapping) = (SignedDuration::ZERO, false);
            world.now
        });
        waits.insert(lane, ended.duration_since(began).as_secs_f64());
    }
    waits
}
