//! The ledger's protocol over one table of rows: [`ports::Ledger`], [`ports::Journal`] and [`ports::ObjectStore`]
//! (docs/design.md#ledger, docs/protocol.md).
//!
//! One table, `pk` and `sk`, on-demand. Every write is conditional or idempotent and every read strongly consistent;
//! expiry is a number compared in conditions, DynamoDB's TTL (`expires`) only collects garbage. The crate defines the rows and
//! their changes; [`table::Table`] is its interface to DynamoDB. It makes no decisions and depends neither on planning nor on an
//! SDK: the same code runs over DynamoDB and over the tests' table in memory.

#[cfg(test)]
mod arbitrary;
mod budget;
mod cluster_summaries;
mod commands;
mod commit;
mod experience;
mod journal;
mod key;
mod lanes;
mod launches;
mod memory;
mod object_store;
mod ownership;
mod pauses;
mod plan_header;
mod protocol;
mod purge;
mod rate_limiter;
pub mod records;
mod requests;
#[cfg(test)]
mod round_trips;
mod row;
mod spending;
mod staging;
mod store;
pub mod table;

pub use protocol::TableLedger;
pub use rate_limiter::RateLimiter;
