//! One simulated second of EC2, kubelets and controllers. Most seconds change nothing: after one without changes, the following
//! ones are skipped until a test or a call changes something, or something is due.

use jiff::Timestamp;

use crate::{
    controllers::{JOINS_AFTER, READY_AFTER},
    sim::World,
};

/// A world in which no component has anything left to do.
pub(crate) struct Settled {
    /// [`World::changes`] at that time.
    changes: u64,
    /// Next due time of any component.
    until: Timestamp,
    /// Kubelets checked in each second.
    kubelets_checked: u64,
}

impl World {
    pub(crate) fn step(&mut self) {
        if let Some(settled) = &self.settled
            && settled.changes == self.changes
            && self.now < settled.until
        {
            self.api.count_kubelet_checks(settled.kubelets_checked);
            return;
        }
        let mut changed = self.account.step(self.now);
        for cluster in self.clusters() {
            self.use_cluster(&cluster);
            // An array, so that every controller runs regardless of the results of the others.
            let changes = [
                self.run_kubelets(),
                self.run_deployments(),
                self.remove_deleted_pods(),
                self.schedule(),
                self.run_disruption_controller(),
            ];
            changed |= changes.contains(&true);
        }
        if changed {
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
        let kubelets_checked = self.account.instances.values();
        let kubelets_checked = kubelets_checked.filter(|instance| instance.private_dns.is_some());
        Settled {
            changes: self.changes,
            until: due
                .filter(|at| *at > self.now)
                .min()
                .unwrap_or(Timestamp::MAX),
            kubelets_checked: u64::try_from(kubelets_checked.count()).unwrap_or(u64::MAX),
        }
    }
}
