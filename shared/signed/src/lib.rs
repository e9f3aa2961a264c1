//! AWS services of which one call each is used, and whose SDKs would be crates of their own for that: requests signed and sent
//! here, by the client and credentials of the others; and the stack's bucket, which is made of two of them.
//!
//! It must never depend on an SDK of a service: the relay is built of it, too.

mod bucket;
mod request;

pub use bucket::Bucket;
pub use request::{Request, escaped, exchange, send};

/// Where a Region's endpoints are.
pub fn domain(region: &str) -> &'static str {
    if region.starts_with("cn-") {
        "amazonaws.com.cn"
    } else {
        "amazonaws.com"
    }
}
