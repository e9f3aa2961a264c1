//! Reach of clusters: one set of functions serves each network from which API servers are reached.

use model::ledger::Meta;
use serde_json::Value;

/// Reach of entries that name none, and of functions that are attached to no VPC of a cluster.
pub const PUBLIC: &str = "public";

/// Prefix of a reach that names a VPC's id.
const VPC: &str = "vpc:";

/// Expected values of an entry's reach, for error messages.
pub(crate) const EXPECTED: &str = "\"public\" or \"vpc:<id of the VPC>\"";

/// The reach that an entry names; `None` if the entry's value is invalid.
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

/// The reach of a cluster. An unreadable entry belongs to the public functions, which report it.
pub(crate) fn of_cluster(meta: &Meta) -> &str {
    read(&meta.registry).unwrap_or(PUBLIC)
}
