//! The relay: the one part of Whittle inside the cluster. It watches, and tells the functions outside when to look.
//!
//! Nothing depends on it for correctness: a wake that is lost or sent twice changes latency only, and with the relay
//! gone the sweep finds that out from its heartbeat. It decides nothing, writes nothing to the cluster, and keeps no
//! object whole.
//!
//! Reading order: [`routing`] (the table of which change wakes whom), [`relay`] (the state machine around it),
//! [`objects`] (what is read and kept of each kind), [`watch`] and [`run`] (the I/O). [`told`] stands apart: what the
//! functions tell of the cluster, shown on `/metrics`.
//!
//! Where it publishes pods ([`published`]), functions of large clusters need not list them; it keeps a few hundred bytes of each.
//!
//! Of this workspace it knows `model`, and for pods `api` and `view`, so that they are read as functions read them; of AWS SQS,
//! DynamoDB and the stack's bucket. Only
//! [`aws`], [`watch`], [`told`], [`http`] and [`run`] do I/O; everything else is given the time.

pub mod aws;
pub mod backoff;
pub mod batcher;
pub mod change;
pub mod cluster_metrics;
pub mod config;
pub mod counters;
pub mod events;
pub mod heartbeat;
pub mod http;
pub mod kind;
pub mod measured;
pub mod metrics;
pub mod objects;
pub mod outbox;
pub mod published;
pub mod relay;
pub mod routing;
pub mod run;
pub mod sink;
pub mod state;
pub mod told;
pub mod watch;
pub mod watches;
