//! What an EC2NodeClass selects, and what its status says about it (spec/aws §2.3–§2.6, §9).

mod selectors;
mod status;

pub use selectors::{Filters, security_group_queries, subnet_queries, tag_filters};
pub use status::{Discovered, Discovery, SubnetFact, status};
