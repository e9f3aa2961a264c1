//! Settings of users: the cluster's registry entry, and annotations of NodePools.

pub(crate) mod destinations;
pub(crate) mod entry;
pub(crate) mod interruption_annotations;
pub(crate) mod reach;
pub(crate) mod shadow_mode;
mod template;
