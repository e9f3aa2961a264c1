//! The ledger's protocol over one table of rows: [`ports::Ledger`], [`ports::Journal`] and [`ports::Shelf`]
//! (docs/design.md#ledger, docs/protocol.md).
//!
//! One table, `pk` and `sk`, on-demand. Every write is conditional or idempotent and every read strongly consistent;
//! expiry is a number compared in conditions, DynamoDB's TTL (`expires`) only collects garbage. This crate says which rows there
//! are and how they change; [`table::Table`] is what it needs of DynamoDB. It must never decide, and never depend on planning or
//! on an SDK: the same code runs over DynamoDB and over the tests' table in memory.

#[cfg(test)]
mod arbitrary;
mod budget;
mod commands;
mod commit;
mod experience;
mod glances;
mod journal;
mod key;
mod lanes;
mod launches;
mod memory;
mod ownership;
mod pauses;
mod protocol;
mod purge;
mod purse;
pub mod records;
mod requests;
#[cfg(test)]
mod round_trips;
mod row;
mod shelf;
mod spending;
mod staging;
mod store;
pub mod table;

pub use protocol::TableLedger;
pub use purse::Purse;
