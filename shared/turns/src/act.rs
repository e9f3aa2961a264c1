//! Steps of plans in the cluster and in EC2, shared by the lanes. Any turn can repeat or resume them.

pub(crate) mod addresses;
pub(crate) mod adopt;
pub(crate) mod apply;
pub(crate) mod approval;
pub(crate) mod backoff;
pub(crate) mod forget;
pub(crate) mod launching;
pub(crate) mod missing_in_ec2;
pub(crate) mod nominate;
pub(crate) mod refusals;
pub(crate) mod spending;
pub(crate) mod terminations;
