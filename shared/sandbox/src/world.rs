use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use crate::{
    controllers::{Controllers, KubeletOptions, Machines, NodeJoin},
    ec2::{Account, AccountOptions},
    server::ApiServer,
    store::HISTORY_LIMIT,
};

/// Simulation: the API server, the components that act on it, and the AWS account that its nodes come from.
#[derive(Debug)]
pub struct World {
    pub server: ApiServer,
    pub controllers: Controllers,
    pub machines: Machines,
    pub account: Account,
}

/// Configuration of a simulation.
#[derive(Clone, Debug)]
pub struct WorldOptions {
    /// Seed of unique identifiers and generated names.
    pub seed: u64,
    /// Events kept per kind; requests for older resource versions fail with 410.
    pub history_limit: usize,
    pub kubelet: KubeletOptions,
    pub account: AccountOptions,
}

impl Default for WorldOptions {
    fn default() -> Self {
        Self {
            seed: 1,
            history_limit: HISTORY_LIMIT,
            kubelet: KubeletOptions::default(),
            account: AccountOptions::us_east_1(Arc::new(Vec::new()), "sandbox"),
        }
    }
}

impl World {
    pub fn new(options: &WorldOptions, now: Timestamp) -> Self {
        Self {
            server: ApiServer::new(options.seed, options.history_limit, now),
            controllers: Controllers::new(&options.kubelet),
            machines: Machines::default(),
            account: Account::new(options.account.clone(), now),
        }
    }

    /// Runs every component that has work; returns the time at which one becomes due.
    pub fn step(&mut self, now: Timestamp) -> Option<Timestamp> {
        let in_account = self.account.step(&mut self.machines, now);
        let in_cluster = self
            .controllers
            .step(&mut self.server, &mut self.machines, now);
        [in_account, in_cluster].into_iter().flatten().min()
    }

    /// Starts a machine that joins as a node after a delay.
    pub fn join_node(&mut self, join: NodeJoin, delay: SignedDuration, now: Timestamp) {
        let joins_at = now.checked_add(delay).unwrap_or(now);
        self.machines.start(join, joins_at);
    }

    /// Stops the machine of a node. Returns whether it existed.
    pub fn stop_machine(&mut self, name: &str) -> bool {
        self.machines.stop(name)
    }
}
