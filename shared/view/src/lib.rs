//! A cluster's pods as its relay publishes them, so that a function need not list them: a full state now and then, and the
//! changes between. Lists of 50,000 pods are 200 MB; this is 2 MB, and changes are less.
//!
//! [`Publisher`] is the relay's side: it keeps a few hundred bytes for each pod. [`View`] is the functions' side. Both use
//! [`document`], the format of the objects in the bucket. Pods that differ only in name and node share their
//! [`PodShape`](model::pod::PodShape).
//!
//! A view is believed no more than a watch: a function reads the objects that it acts on again. This crate is pure, and of this
//! workspace it must never depend on anything but `model`.

pub mod document;
mod pods;
mod publisher;
mod reader;
pub mod shape;

#[cfg(test)]
mod tests;

pub use pods::Pods;
pub use publisher::{CHAIN_MAX, Publisher, ViewVersion};
pub use reader::{View, ViewError};
