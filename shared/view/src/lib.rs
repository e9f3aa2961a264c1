//! A cluster's pods as its relay publishes them, so that a function need not list them: a full state now and then, and what
//! changed between. Lists of 50,000 pods are 200 MB; this is 2 MB, and what changed since is less.
//!
//! [`Publisher`] is the relay's side: it keeps a few hundred bytes for each pod. [`View`] is the functions' side. Both know
//! [`document`], which is what lies in the bucket. Pods alike but for their names and places share
//! their [`PodShape`](model::pod::PodShape).
//!
//! What is read here is never believed more than a watch: whoever acts reads the objects that it acts on again. This crate is pure,
//! and of this workspace it must never depend on anything but `model`.

pub mod document;
mod pods;
mod publisher;
mod reader;
pub mod shape;

#[cfg(test)]
mod tests;

pub use pods::Pods;
pub use publisher::{CHAIN_MAX, Issue, Publisher};
pub use reader::{Doubt, View};
