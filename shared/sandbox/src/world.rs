use jiff::Timestamp;

use crate::{server::ApiServer, store::HISTORY_LIMIT};

/// The whole simulated world: one API server, and everything that acts on it.
#[derive(Debug)]
pub struct World {
    pub server: ApiServer,
}

/// What a world is made with.
#[derive(Clone, Debug)]
pub struct WorldOptions {
    /// Unique identifiers and generated names follow from it.
    pub seed: u64,
    /// Events kept per kind; older resource versions answer 410.
    pub history_limit: usize,
}

impl Default for WorldOptions {
    fn default() -> Self {
        Self {
            seed: 1,
            history_limit: HISTORY_LIMIT,
        }
    }
}

impl World {
    pub fn new(options: &WorldOptions, now: Timestamp) -> Self {
        Self {
            server: ApiServer::new(options.seed, options.history_limit, now),
        }
    }
}
