//! State that every step of a turn is given: the ports and caches of the process, and the turn that holds a lane.

pub(crate) mod error;
pub(crate) mod heartbeats;
pub(crate) mod identity;
pub(crate) mod isolation;
pub(crate) mod node_claims;
pub(crate) mod time_limit;
mod turn;
mod views;
mod world;

pub(crate) use self::turn::Turn;
pub use self::{error::TurnError, heartbeats::Heartbeats, views::Views, world::World};
