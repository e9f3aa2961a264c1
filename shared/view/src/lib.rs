//! A cluster's pods as its relay publishes them, so that a function need not list them: full states, and the changes between
//! them. Lists of 50,000 pods are 200 MB; a full state is 2 MB, and changes are less.
//!
//! [`Publisher`] is the relay's side: it keeps a few hundred bytes for each pod. [`View`] is the functions' side. Both use
//! [`document`], the format of the objects in the bucket. Pods that differ only in name and node share their
//! [`PodShape`](model::pod::PodShape).
//!
//! A view is trusted no more than a watch: a function reads the objects that it acts on again. This crate is pure, and
//! `model` must stay its only dependency in this workspace.

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
