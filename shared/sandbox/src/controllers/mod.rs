//! Simulated control plane: controllers, scheduler and kubelets. Each is level-triggered: a run reads the whole state.
//! Only time and writes to the store cause runs, so a simulation can be repeated exactly.

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

use crate::{error::ApiResult, server::ApiServer, store::TableId};

pub(crate) const PODS: TableId = TableId::named("pods");
pub(crate) const NODES: TableId = TableId::named("nodes");
pub(crate) const NAMESPACES: TableId = TableId::named("namespaces");
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

/// Simulated component that acts on the cluster.
trait Controller: std::fmt::Debug + Send {
    fn name(&self) -> &'static str;

    /// Tables whose changes trigger a run; an empty slice means every table.
    fn inputs(&self) -> &'static [TableId];

    /// Reads the whole state and applies the changes that are due; returns the time at which more becomes due.
    fn run(&mut self, client: &mut Client<'_>) -> ApiResult<Option<Timestamp>>;
}

/// All simulated components, and the time at which each is due.
#[derive(Debug)]
pub struct Controllers {
    runners: Vec<Runner>,
    /// Errors of the components, none of which are expected.
    errors: Vec<String>,
}

#[derive(Debug)]
struct Runner {
    controller: Box<dyn Controller>,
    /// Revision of the store at the last run.
    last_revision: u64,
    due: Option<Timestamp>,
}

/// Upper bound on the rounds of one step; the next step continues where controllers have not settled.
const ROUNDS_MAX: usize = 100;
/// Upper bound on kept errors: the first ones and the latest, which explain the most.
const ERRORS_MAX: usize = 100;
/// Delay before a failed controller runs again.
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
            Box::new(collector::GarbageCollector),
            Box::new(events::EventExpiry::default()),
        ];
        Self {
            runners: controllers
                .into_iter()
                .map(|controller| Runner {
                    controller,
                    last_revision: 0,
                    due: None,
                })
                .collect(),
            errors: Vec::new(),
        }
    }

    /// Runs every component that has work until none has; returns the time at which one becomes due.
    pub(crate) fn step(
        &mut self,
        server: &mut ApiServer,
        machines: &mut Machines,
        now: Timestamp,
    ) -> Option<Timestamp> {
        for _ in 0..ROUNDS_MAX {
            let mut ran = false;
            for runner in &mut self.runners {
                if !runner.has_work(server, machines, now) {
                    continue;
                }
                ran = true;
                runner.last_revision = server.store.revision();
                machines.take_changed(runner.controller.name());
                let mut client = Client::new(server, machines, now);
                match runner.controller.run(&mut client) {
                    Ok(due) => runner.due = due,
                    Err(error) => {
                        let name = runner.controller.name();
                        self.errors.truncate(ERRORS_MAX - 1);
                        self.errors.push(format!("{now} {name}: {error}"));
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

    /// Takes the errors recorded so far.
    pub fn take_errors(&mut self) -> Vec<String> {
        std::mem::take(&mut self.errors)
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
        written > self.last_revision
            || self.due.is_some_and(|due| due <= now)
            || machines.has_changed(self.controller.name())
    }
}
