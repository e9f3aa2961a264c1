//! AWS services of which one call each is used, and whose SDKs would be crates of their own for that: requests signed and sent
//! here, by the client and credentials of the others; the stack's bucket, which is made of two of them; and what errors of SDKs say.
//!
//! It must never depend on an SDK of a service: the relay is built of it, too.

mod bucket;
mod describe;
mod request;

pub use bucket::Bucket;
pub use describe::describe;
pub use request::{Request, escaped, exchange, send};

/// Beginnings of the names of Regions, with the domain of their endpoints. All other Regions are of the partitions `aws` and
/// `aws-us-gov`.
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
