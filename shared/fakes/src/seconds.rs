//! One second of what happens by itself. Most seconds change nothing: after one that did not, the next ones are passed over until
//! somebody changes something, or something is due.

use jiff::Timestamp;

use crate::{
    sim::World,
    stand_ins::{JOINS_AFTER, READY_AFTER},
};

/// A world in which nothing was left to happen by itself.
pub(crate) struct Settled {
    /// [`World::changes`] of then.
    changes: u64,
    /// The next thing is due.
    until: Timestamp,
    /// Looks at kubelets in each second.
    looks: u64,
}

impl World {
    pub(crate) fn step(&mut self) {
        if let Some(settled) = &self.settled
            && settled.changes == self.changes
            && self.now < settled.until
        {
            self.api.count_looks(settled.looks);
            return;
        }
        let mut happened = self.account.step(self.now);
        for cluster in self.clusters() {
            self.turn_to(&cluster);
            // Each of them happens, whatever the others did.
            let here = [
                self.run_kubelets(),
                self.run_deployments(),
                self.remove_deleted_pods(),
                self.schedule(),
                self.run_disruption_controller(),
            ];
            happened |= here.contains(&true);
        }
        if happened {
            self.changes += 1;
            self.settled = None;
        } else {
            self.settled = Some(self.settle());
        }
    }

    fn settle(&self) -> Settled {
        let instances = self.account.instances.values();
        let launched = instances.filter_map(|instance| instance.launched_at);
        let kubelets = launched.flat_map(|at| [at + JOINS_AFTER, at + READY_AFTER]);
        let all = self.other_api_servers().chain([&self.api]);
        let pods = all.flat_map(|api| api.pods.values());
        let deletions = pods.filter_map(|pod| Some(pod.deletion.as_ref()?.at));
        let due = self.account.due().chain(kubelets).chain(deletions);
        let looks = self.account.instances.values();
        let looks = looks.filter(|instance| instance.private_dns.is_some());
        Settled {
            changes: self.changes,
            until: due
                .filter(|at| *at > self.now)
                .min()
                .unwrap_or(Timestamp::MAX),
            looks: u64::try_from(looks.count()).unwrap_or(u64::MAX),
        }
    }
}
