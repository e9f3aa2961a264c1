use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use model::{Resources, taint::Taint};

/// Machines under the nodes. A kubelet runs on each from the time it joins until it is stopped.
#[derive(Debug, Default)]
pub struct Machines {
    by_name: BTreeMap<String, Machine>,
    /// Counter of changes, by which controllers notice that machines changed.
    revision: u64,
    seen: BTreeMap<&'static str, u64>,
}

#[derive(Clone, Debug)]
pub struct Machine {
    pub join: NodeJoin,
    pub joins_at: Timestamp,
    pub state: MachineState,
    /// Number of reboots so far.
    pub reboots: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MachineState {
    Booting,
    /// The kubelet has registered the node.
    Running {
        since: Timestamp,
    },
    Gone,
}

/// Properties with which a kubelet registers its node.
#[derive(Clone, Debug, Default)]
pub struct NodeJoin {
    /// Name of the Node.
    pub name: String,
    /// Provider id, such as `aws:///us-east-1a/i-0123456789abcdef0`.
    pub provider_id: String,
    pub instance_type: String,
    pub zone: String,
    /// `amd64` or `arm64`.
    pub architecture: String,
    pub capacity: Resources,
    pub allocatable: Resources,
    /// Labels besides those of name, type, zone and architecture, which are derived from the other fields.
    pub labels: BTreeMap<String, String>,
    /// Taints at registration, such as `karpenter.sh/unregistered:NoExecute`.
    pub taints: Vec<Taint>,
    pub internal_ip: String,
    /// Attachable volumes, by CSI driver.
    pub volume_limits: BTreeMap<String, i64>,
    /// Time from registration to Ready; `None` takes the kubelet's default.
    pub ready_after: Option<SignedDuration>,
}

impl Machines {
    /// Starts a machine whose node registers at `joins_at`.
    pub fn start(&mut self, join: NodeJoin, joins_at: Timestamp) {
        let name = join.name.clone();
        let machine = Machine {
            join,
            joins_at,
            state: MachineState::Booting,
            reboots: 0,
        };
        self.by_name.insert(name, machine);
        self.revision += 1;
    }

    /// Reboots a running machine: its kubelet is silent until `joins_at`.
    pub fn reboot(&mut self, name: &str, joins_at: Timestamp) {
        let machine = self.by_name.get_mut(name);
        if let Some(machine) = machine.filter(|machine| machine.state != MachineState::Gone) {
            machine.state = MachineState::Booting;
            machine.joins_at = joins_at;
            machine.reboots += 1;
            self.revision += 1;
        }
    }

    /// Stops a machine, and with it the kubelet. Returns whether the machine existed.
    pub fn stop(&mut self, name: &str) -> bool {
        self.revision += 1;
        match self.by_name.get_mut(name) {
            Some(machine) => {
                machine.state = MachineState::Gone;
                true
            }
            None => false,
        }
    }

    pub fn get(&self, name: &str) -> Option<&Machine> {
        self.by_name.get(name)
    }

    pub fn all(&self) -> impl Iterator<Item = &Machine> {
        self.by_name.values()
    }

    /// Returns whether a kubelet serves the node: always true for a node without a machine, which tests drive by hand.
    pub(super) fn is_served(&self, name: &str) -> bool {
        self.by_name
            .get(name)
            .is_none_or(|machine| matches!(machine.state, MachineState::Running { .. }))
    }

    pub(super) fn is_gone(&self, name: &str) -> bool {
        self.by_name
            .get(name)
            .is_some_and(|machine| machine.state == MachineState::Gone)
    }

    pub(super) fn registered(&mut self, name: &str, now: Timestamp) {
        if let Some(machine) = self.by_name.get_mut(name) {
            machine.state = MachineState::Running { since: now };
            self.revision += 1;
        }
    }

    /// Drops a stopped machine whose node is gone.
    pub(super) fn forget(&mut self, name: &str) {
        self.by_name.remove(name);
    }

    pub(super) fn has_changed(&self, watcher: &'static str) -> bool {
        self.seen.get(watcher).copied().unwrap_or(0) < self.revision
    }

    pub(super) fn take_changed(&mut self, watcher: &'static str) {
        self.seen.insert(watcher, self.revision);
    }
}
