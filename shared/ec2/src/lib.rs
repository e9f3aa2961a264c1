//! EC2 adapter.
