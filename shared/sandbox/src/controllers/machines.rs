use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use model::{Resources, taint::Taint};

/// The computers under the nodes. A kubelet runs on each from the moment it joins until it is gone.
#[derive(Debug, Default)]
pub struct Machines {
    by_name: BTreeMap<String, Machine>,
    /// Counts changes, so that controllers know whether to look.
    revision: u64,
    seen: BTreeMap<&'static str, u64>,
}

#[derive(Clone, Debug)]
pub struct Machine {
    pub join: NodeJoin,
    pub joins_at: Timestamp,
    pub state: MachineState,
    /// Boots before this one.
    pub reboots: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MachineState {
    Booting,
    /// Its kubelet has registered the node.
    Running {
        since: Timestamp,
    },
    Gone,
}

/// What a kubelet tells of its node when it registers.
#[derive(Clone, Debug, Default)]
pub struct NodeJoin {
    /// The Node's name.
    pub name: String,
    /// Such as `aws:///us-east-1a/i-0123456789abcdef0`.
    pub provider_id: String,
    pub instance_type: String,
    pub zone: String,
    /// `amd64` or `arm64`.
    pub architecture: String,
    pub capacity: Resources,
    pub allocatable: Resources,
    /// Beyond those of name, type, zone and architecture, which follow from the rest.
    pub labels: BTreeMap<String, String>,
    /// Of registration, such as `karpenter.sh/unregistered:NoExecute`.
    pub taints: Vec<Taint>,
    pub internal_ip: String,
    /// Volumes that may be attached, by CSI driver.
    pub volume_limits: BTreeMap<String, i64>,
    /// From registration to Ready; `None` takes the kubelet's default.
    pub ready_after: Option<SignedDuration>,
}

impl Machines {
    /// Starts a machine whose node joins at a time.
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

    /// Boots a machine again, which is there so far: its kubelet is silent until it joins.
    pub fn reboot(&mut self, name: &str, joins_at: Timestamp) {
        let machine = self.by_name.get_mut(name);
        if let Some(machine) = machine.filter(|machine| machine.state != MachineState::Gone) {
            machine.state = MachineState::Booting;
            machine.joins_at = joins_at;
            machine.reboots += 1;
            self.revision += 1;
        }
    }

    /// Switches a machine off: its kubelet says nothing any more. Whether there was such a machine.
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

    /// Whether a node is served: by its machine, or by hand if it has none.
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

    /// Forgets a machine that is gone and whose node is too.
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
