use std::collections::BTreeMap;

use model::{InstanceId, Snapshot, node::Node, node_claim::NodeClaim};

use crate::managed::is_managed;

/// Objects by their provider id; objects without one are left out (docs/spec/lifecycle.md#object-matching).
pub(crate) struct ByInstance<'a, T>(BTreeMap<&'a str, Vec<&'a T>>);

impl<'a> ByInstance<'a, Node> {
    pub(crate) fn of_nodes(snapshot: &'a Snapshot) -> Self {
        Self::new(
            snapshot
                .nodes
                .iter()
                .map(|node| (node.provider_id.as_str(), node)),
        )
    }
}

impl<'a> ByInstance<'a, NodeClaim> {
    pub(crate) fn of_claims(snapshot: &'a Snapshot) -> Self {
        let ours = snapshot
            .node_claims
            .iter()
            .filter(|claim| is_managed(claim));
        Self::new(ours.map(|claim| (claim.status.provider_id.as_str(), claim)))
    }
}

impl ByInstance<'_, NodeClaim> {
    /// Whether an older NodeClaim has the same provider id, and therefore the instance.
    pub(crate) fn is_taken(&self, claim: &NodeClaim) -> bool {
        let age = |claim: &NodeClaim| (claim.created_at, claim.name.clone());
        let others = self.of(&claim.status.provider_id).iter();
        others
            .map(|other| age(other))
            .any(|other| other < age(claim))
    }
}

impl<'a, T> ByInstance<'a, T> {
    fn new(objects: impl Iterator<Item = (&'a str, &'a T)>) -> Self {
        let mut all: BTreeMap<&str, Vec<&T>> = BTreeMap::new();
        for (id, object) in objects.filter(|(id, _)| !id.is_empty()) {
            all.entry(id).or_default().push(object);
        }
        Self(all)
    }

    pub(crate) fn of(&self, provider_id: &str) -> &[&'a T] {
        self.0.get(provider_id).map_or(&[], Vec::as_slice)
    }

    /// Returns the object if there is exactly one.
    pub(crate) fn only(&self, provider_id: &str) -> Option<&'a T> {
        match self.of(provider_id) {
            [only] => Some(only),
            _ => None,
        }
    }
}

/// Parses the instance id from `aws:///zone/i-…`.
pub(crate) fn instance_of(provider_id: &str) -> Option<InstanceId> {
    let id = provider_id.strip_prefix("aws:///")?.split_once('/')?.1;
    id.starts_with("i-").then(|| id.into())
}
