//! Stand-ins for what acts on a cluster by itself: controllers, scheduler, kubelets. They work in turns: each looks at
//! the whole state, level-triggered, and only time and the store move them, so that a run can be repeated.

mod budget;
mod client;
mod collector;
mod daemon_set;
mod deployment;
mod events;
mod job;
mod kubelet;
mod machines;
mod node_lifecycle;
mod owned;
mod replica_set;
mod scheduler;
#[cfg(test)]
mod tests;
mod volumes;

use jiff::{SignedDuration, Timestamp};

pub(crate) use client::Client;
pub use kubelet::KubeletOptions;
pub use machines::{Machine, MachineState, Machines, NodeJoin};
pub(crate) use owned::fnv as digest;

use crate::{error::ApiResult, server::ApiServer, store::TableId};

pub(crate) const PODS: TableId = TableId::named("pods");
pub(crate) const NODES: TableId = TableId::named("nodes");
pub(crate) const NAMESPACES: TableId = TableId::named("namespaces");
pub(crate) const EVENTS: TableId = TableId::named("events");
pub(crate) const LEASES: TableId = TableId::named("leases.coordination.k8s.io");
pub(crate) const DEPLOYMENTS: TableId = TableId::named("deployments.apps");
pub(crate) const REPLICA_SETS: TableId = TableId::named("replicasets.apps");
pub(crate) const DAEMON_SETS: TableId = TableId::named("daemonsets.apps");
pub(crate) const JOBS: TableId = TableId::named("jobs.batch");
pub(crate) const BUDGETS: TableId = TableId::named("poddisruptionbudgets.policy");
pub(crate) const CSI_NODES: TableId = TableId::named("csinodes.storage.k8s.io");
pub(crate) const STORAGE_CLASSES: TableId = TableId::named("storageclasses.storage.k8s.io");
pub(crate) const VOLUMES: TableId = TableId::named("persistentvolumes");
pub(crate) const CLAIMS: TableId = TableId::named("persistentvolumeclaims");
pub(crate) const ATTACHMENTS: TableId = TableId::named("volumeattachments.storage.k8s.io");
pub(crate) const CRDS: TableId = TableId::named("customresourcedefinitions.apiextensions.k8s.io");

/// One stand-in.
trait Controller: std::fmt::Debug + Send {
    fn name(&self) -> &'static str;

    /// The tables whose changes wake it; none: every change does.
    fn inputs(&self) -> &'static [TableId];

    /// Looks at everything and does what is to be done now; answers with the time at which there is more to do.
    fn run(&mut self, client: &mut Client<'_>) -> ApiResult<Option<Timestamp>>;
}

/// All stand-ins, and when each has to look again.
#[derive(Debug)]
pub struct Controllers {
    runners: Vec<Runner>,
    /// What went wrong, by controller: none of it is expected.
    problems: Vec<String>,
}

#[derive(Debug)]
struct Runner {
    controller: Box<dyn Controller>,
    /// The revision of the store at its last look.
    seen: u64,
    due: Option<Timestamp>,
}

/// One step is over after this many rounds even if controllers go on; the next step continues.
const MOST_ROUNDS: usize = 100;
/// Problems kept until somebody takes them: the first ones and the latest tell the most.
const MOST_PROBLEMS: usize = 100;
/// A controller that failed looks again after this time.
const RETRY: SignedDuration = SignedDuration::from_secs(1);

impl Controllers {
    pub(crate) fn new(kubelet: &KubeletOptions) -> Self {
        let controllers: Vec<Box<dyn Controller>> = vec![
            Box::new(deployment::Deployments),
            Box::new(replica_set::ReplicaSets),
            Box::new(daemon_set::DaemonSets),
            Box::new(job::Jobs),
            Box::new(volumes::Volumes),
            Box::new(scheduler::Scheduler::default()),
            Box::new(kubelet::NodeAgents {
                options: kubelet.clone(),
            }),
            Box::new(kubelet::PodWorkers {
                options: kubelet.clone(),
            }),
            Box::new(node_lifecycle::NodeLifecycle::new(kubelet)),
            Box::new(budget::Budgets),
            Box::new(collector::Collector),
            Box::new(events::Expiry::default()),
        ];
        Self {
            runners: controllers
                .into_iter()
                .map(|controller| Runner {
                    controller,
                    seen: 0,
                    due: None,
                })
                .collect(),
            problems: Vec::new(),
        }
    }

    /// Runs everybody who has something to look at until nobody has; answers with the time of the next look.
    pub(crate) fn step(
        &mut self,
        server: &mut ApiServer,
        machines: &mut Machines,
        now: Timestamp,
    ) -> Option<Timestamp> {
        for _ in 0..MOST_ROUNDS {
            let mut ran = false;
            for runner in &mut self.runners {
                if !runner.has_work(server, machines, now) {
                    continue;
                }
                ran = true;
                runner.seen = server.store.revision();
                machines.take_changed(runner.controller.name());
                let mut client = Client::new(server, machines, now);
                match runner.controller.run(&mut client) {
                    Ok(due) => runner.due = due,
                    Err(error) => {
                        let name = runner.controller.name();
                        self.problems.truncate(MOST_PROBLEMS - 1);
                        self.problems.push(format!("{now} {name}: {error}"));
                        runner.due = now.checked_add(RETRY).ok();
                    }
                }
            }
            if !ran {
                return self.runners.iter().filter_map(|runner| runner.due).min();
            }
        }
        Some(now)
    }

    /// Takes what went wrong so far.
    pub fn take_problems(&mut self) -> Vec<String> {
        std::mem::take(&mut self.problems)
    }
}

impl Runner {
    fn has_work(&self, server: &ApiServer, machines: &Machines, now: Timestamp) -> bool {
        let inputs = self.controller.inputs();
        let store = &server.store;
        let written = if inputs.is_empty() {
            store.revision()
        } else {
            let tables = inputs.iter().map(|table| store.table_revision(table));
            tables.max().unwrap_or(0)
        };
        written > self.seen
            || self.due.is_some_and(|due| due <= now)
            || machines.has_changed(self.controller.name())
    }
}
