//! Which functions work for a cluster: there is one set of them for each place from where API servers are reached.

use model::ledger::Meta;
use serde_json::Value;

/// Of entries that say nothing, and of functions that are attached to no VPC of a cluster.
pub const PUBLIC: &str = "public";

/// Before `vpc-…`.
const VPC: &str = "vpc:";

/// What an entry may say.
pub(crate) const EXPECTED: &str = "\"public\" or \"vpc:<id of the VPC>\"";

/// The reach that an entry asks for, if that is one.
pub(crate) fn read(entry: &Value) -> Option<&str> {
    match entry.get("reach") {
        None => Some(PUBLIC),
        Some(reach) => reach.as_str().filter(|reach| {
            *reach == PUBLIC
                || reach
                    .strip_prefix(VPC)
                    .is_some_and(|id| id.starts_with("vpc-"))
        }),
    }
}

/// The reach of a cluster. What cannot be read is everybody's to complain about, so it is the public functions'.
pub(crate) fn of(meta: &Meta) -> &str {
    read(&meta.registry).unwrap_or(PUBLIC)
}
