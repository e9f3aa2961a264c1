//! A stack of many clusters of which some hang, and the sweeps of its housekeeper.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use model::{ClusterName, Lane};
use turns::SweepReport;

use crate::{Relay, Rig, secs};

/// Duration of a call that is answered promptly.
const PROMPT: SignedDuration = SignedDuration::from_millis(20);
/// Duration of each call to a hanging API server, just below the client's timeout.
const HANGS: SignedDuration = SignedDuration::from_secs(20);

/// A stack of many clusters besides the first, without relays. Whittle leads all of them, and their Leases are due for renewal when
/// some of them begin to hang. From then on only calls advance the clock.
pub struct HangingStack {
    pub rig: Rig,
    clusters: usize,
    /// Time at which the clusters begin to hang.
    pub begun: Timestamp,
}

impl HangingStack {
    pub async fn new(clusters: usize, hangs: impl Fn(usize) -> bool) -> Self {
        let mut rig = Rig::new(Relay::Dead);
        for number in 0..clusters {
            rig.sim.add_cluster(&Self::name(number).0);
        }
        rig.pass(secs(2)).await;
        let begun = rig.sim.with(|world| {
            world.now += secs(15 * 60);
            world.wakes.clear();
            world.calls.clear();
            world.looked_up.clear();
            world.overlapping = true;
            world.latency = PROMPT;
            let hanging = (0..clusters).filter(|number| hangs(*number));
            world.slow = hanging.map(|number| (Self::name(number), HANGS)).collect();
            world.now
        });
        Self {
            rig,
            clusters,
            begun,
        }
    }

    pub fn name(number: usize) -> ClusterName {
        ClusterName(format!("cluster-{number:03}"))
    }

    /// Runs a sweep now, returns its report and duration, and advances the clock to the next minute.
    ///
    /// # Errors
    ///
    /// Returns an error if the sweep itself fails.
    pub async fn sweep(&mut self) -> Result<(SweepReport, SignedDuration), turns::TurnError> {
        let now = |rig: &Rig| rig.sim.with(|world| world.now);
        let begun = now(&self.rig);
        let turn = self.rig.next_turn();
        let report = Box::pin(turns::housekeep(&self.rig.world, &turn)).await?;
        let took = now(&self.rig).duration_since(begun);
        self.rig.sim.with(|world| world.now = begun + secs(60));
        Ok((report, took))
    }

    /// Numbers of the clusters whose leader Lease was renewed after `begun`.
    pub fn renewed(&self) -> BTreeSet<usize> {
        let is_renewed = |number: &usize| {
            let sim = self.rig.sim.in_cluster(&Self::name(*number));
            sim.look(|world| {
                let renewed = world.api.leader.as_ref().and_then(|lease| lease.renewed_at);
                renewed.is_some_and(|at| at >= self.begun)
            })
        };
        (0..self.clusters).filter(is_renewed).collect()
    }

    /// The clusters all of whose lanes have a wake that arrives within a minute after `begun`.
    pub fn woken(&self) -> BTreeSet<ClusterName> {
        let by = self.begun + secs(60);
        self.rig.sim.with(|world| {
            let woken = |cluster: &ClusterName| {
                Lane::WOKEN.into_iter().all(|lane| {
                    let mut wakes = world.wakes.iter();
                    wakes.any(|(at, wake)| {
                        *at <= by && wake.lane == lane && wake.cluster == *cluster
                    })
                })
            };
            let clusters = world.clusters().into_iter();
            clusters
                .filter(|cluster| *cluster != Rig::cluster() && woken(cluster))
                .collect()
        })
    }
}
