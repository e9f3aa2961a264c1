//! The ledger in DynamoDB and the wakes in SQS: [`ports::Ledger`], [`ports::Journal`], [`ports::Shelf`] and [`ports::Wakes`]
//! on AWS (DESIGN §4, PROTOCOL).
//!
//! One table, `pk` and `sk`, on-demand. Every write is conditional or idempotent and every read strongly consistent;
//! expiry is a number compared in conditions, DynamoDB's TTL (`expires`) only collects garbage. This crate translates:
//! it must never decide, and never depend on planning.
#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "the SDK's enums are not exhaustive"
)]

mod budget;
mod commands;
mod commit;
mod dynamo;
mod experience;
mod glances;
mod journal;
mod key;
mod lanes;
mod launches;
mod memory;
mod ownership;
mod pauses;
mod purge;
mod purse;
mod requests;
mod row;
mod shelf;
mod spending;
mod table;
mod wakes;

pub use dynamo::DynamoLedger;
pub use purse::Purse;
pub use wakes::SqsWakes;
