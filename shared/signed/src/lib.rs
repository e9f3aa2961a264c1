//! AWS services of which a single call is used and whose SDKs would be separate crates: requests are signed and sent here, with the
//! HTTP client and credentials of the other SDKs; the stack's bucket, which needs two such calls; and descriptions of SDK errors.
//!
//! The crate must never depend on the SDK of a service: the relay uses this crate, too.

mod bucket;
mod describe;
mod request;

pub use bucket::Bucket;
pub use describe::describe;
pub use request::{Request, escaped, exchange, send};

/// Prefixes of Region names, with the domain of their endpoints. All other Regions are in the partitions `aws` and `aws-us-gov`.
const DOMAINS: [(&str, &str); 6] = [
    ("cn-", "amazonaws.com.cn"),
    ("eusc-", "amazonaws.eu"),
    ("us-iso-", "c2s.ic.gov"),
    ("us-isob-", "sc2s.sgov.gov"),
    ("us-isof-", "csp.hci.ic.gov"),
    ("eu-isoe-", "cloud.adc-e.uk"),
];

/// The domain of a Region's endpoints.
pub fn domain(region: &str) -> &'static str {
    let of_partition = DOMAINS
        .iter()
        .find(|(prefix, _)| region.starts_with(prefix));
    of_partition.map_or("amazonaws.com", |(_, domain)| domain)
}
