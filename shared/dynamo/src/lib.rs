//! The ledger's table in DynamoDB and the wakes in SQS: [`ledger::table::Table`] and [`ports::Wakes`] on AWS.
//!
//! This crate translates requests and classifies the SDK's errors by the caller's next step. It must never decide, and never depend on
//! planning.
#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "the SDK's enums are not exhaustive"
)]

mod attributes;
mod table;
mod wakes;

use std::sync::Arc;

use aws_config::SdkConfig;
use ledger::TableLedger;

pub use table::DynamoTable;
pub use wakes::SqsWakes;

/// The ledger of an account and Region, stored in this DynamoDB table.
pub fn ledger(config: &SdkConfig, table: &str, account: &str, region: &str) -> TableLedger {
    TableLedger::new(Arc::new(DynamoTable::new(config, table)), account, region)
}
