//! The relay: the only part of Whittle inside the cluster. It watches the cluster and wakes the functions outside when something
//! changes.
//!
//! Correctness does not depend on it: a lost or duplicated wake only changes latency, and without heartbeats the sweep notices
//! that the relay is gone. The relay makes no decisions, writes nothing to the cluster, and stores no complete objects.
//!
//! Reading order: [`routing`] (the table of changes and lanes), [`relay`] (the state machine around it), [`objects`] (decoding of
//! each kind, and the digest that is kept), [`watch`] and [`run`] (the I/O). [`function_metrics`] is separate: metrics that the
//! functions publish, shown on `/metrics`.
//!
//! If the relay publishes pods ([`view_publisher`]), functions of large clusters need not list them; the publisher stores a few
//! hundred bytes per pod.
//!
//! Of this workspace, the relay depends on `model`, and on `api` and `view` so that pods are decoded as by the functions; of AWS,
//! on SQS, DynamoDB and the stack's bucket. Only [`aws`], [`watch`], [`function_metrics`], [`http`] and [`run`] do I/O; all other
//! modules get the time as an argument.

pub mod aws;
pub mod backoff;
pub mod batcher;
pub mod change;
pub mod cluster_metrics;
pub mod config;
pub mod counters;
pub mod events;
pub mod function_metrics;
pub mod heartbeat;
pub mod http;
pub mod kind;
pub mod measurements;
pub mod metrics;
pub mod objects;
pub mod outbox;
pub mod relay;
pub mod routing;
pub mod run;
pub mod sink;
pub mod state;
pub mod view_publisher;
pub mod watch;
pub mod watches;
