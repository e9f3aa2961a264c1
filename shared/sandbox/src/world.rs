use jiff::{SignedDuration, Timestamp};

use crate::{
    controllers::{Controllers, KubeletOptions, Machines, NodeJoin},
    server::ApiServer,
    store::HISTORY_LIMIT,
};

/// The whole simulated world: one API server, and everything that acts on it.
#[derive(Debug)]
pub struct World {
    pub server: ApiServer,
    pub controllers: Controllers,
    pub machines: Machines,
}

/// What a world is made with.
#[derive(Clone, Debug)]
pub struct WorldOptions {
    /// Unique identifiers and generated names follow from it.
    pub seed: u64,
    /// Events kept per kind; older resource versions answer 410.
    pub history_limit: usize,
    pub kubelet: KubeletOptions,
}

impl Default for WorldOptions {
    fn default() -> Self {
        Self {
            seed: 1,
            history_limit: HISTORY_LIMIT,
            kubelet: KubeletOptions::default(),
        }
    }
}

impl World {
    pub fn new(options: &WorldOptions, now: Timestamp) -> Self {
        Self {
            server: ApiServer::new(options.seed, options.history_limit, now),
            controllers: Controllers::new(&options.kubelet),
            machines: Machines::default(),
        }
    }

    /// Lets everybody act who has something to do; answers with the time of the next thing to do.
    pub fn step(&mut self, now: Timestamp) -> Option<Timestamp> {
        self.controllers
            .step(&mut self.server, &mut self.machines, now)
    }

    /// Starts a machine that joins as a node after a while.
    pub fn join_node(&mut self, join: NodeJoin, delay: SignedDuration, now: Timestamp) {
        let joins_at = now.checked_add(delay).unwrap_or(now);
        self.machines.start(join, joins_at);
    }

    /// Takes a node's machine away. Whether it had one.
    pub fn lose_node(&mut self, name: &str) -> bool {
        self.machines.stop(name)
    }
}
