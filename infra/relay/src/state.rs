//! The relay's knowledge of the cluster: a digest per object, from which changes are derived.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use model::status::Status;

use crate::change::{Change, ChangeContext, ChangeKind, NodeState};
use crate::kind::Kind;
use crate::measurements::Measurements;
use crate::objects::metric_data::MetricData;
use crate::objects::node::NodeDigest;
use crate::objects::{Digest, Key, differences};

/// An object as observed by a watch or a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservedObject {
    pub key: Key,
    /// `namespace/name`, or the name of a cluster-scoped object.
    pub name: String,
    pub digest: Digest,
    /// Data for `/metrics`.
    pub metric_data: Option<MetricData>,
    /// The complete pod, if the relay publishes pods.
    pub pod: Option<Box<model::pod::Pod>>,
}

/// The digests of all watched objects.
#[derive(Debug, Default)]
pub struct State {
    kinds: BTreeMap<Kind, Objects>,
    waiting: usize,
    draining: usize,
    /// Number of pods on each node, without pods of DaemonSets and terminating ones.
    occupants: BTreeMap<Key, usize>,
    measured: Measurements,
    keeps_details: bool,
    /// Clock that times the deletion of objects, if that is measured.
    clock: Option<fn() -> Timestamp>,
}

#[derive(Debug, Default)]
struct Objects {
    known: BTreeMap<Key, KnownObject>,
    /// Objects that the list in progress has shown; an abandoned list has no effect.
    listing: Option<BTreeSet<Key>>,
    listed: bool,
}

#[derive(Debug)]
struct KnownObject {
    digest: Digest,
    metric_data: Option<MetricData>,
}

impl State {
    /// Keeps details of pods, for individual series.
    pub fn keeping_details(self) -> Self {
        Self {
            keeps_details: true,
            ..self
        }
    }

    /// Measures the time from objects' deletion until they are gone.
    pub fn timing_terminations(self, clock: fn() -> Timestamp) -> Self {
        Self {
            clock: Some(clock),
            ..self
        }
    }

    /// Begins a list of a kind: objects that it does not show until its end are gone.
    pub fn begin_list(&mut self, kind: Kind) {
        self.objects_of(kind).listing = Some(BTreeSet::new());
    }

    /// Updates an object; returns the changes.
    pub fn apply(&mut self, kind: Kind, observed: ObservedObject) -> Vec<Change> {
        let objects = self.objects_of(kind);
        if let Some(listing) = &mut objects.listing {
            listing.insert(observed.key);
        }
        let ObservedObject {
            key,
            name,
            digest,
            metric_data,
            ..
        } = observed;
        let new = KnownObject {
            digest,
            metric_data,
        };
        let changes = self.replace(kind, key, Some(new), Some(object_name(kind, &name)));
        if self.objects_of(kind).listed {
            changes
        } else {
            changes
                .into_iter()
                .filter(|change| change.kind.is_current_state())
                .collect()
        }
    }

    /// Removes a deleted object; returns the changes.
    pub fn remove(&mut self, kind: Kind, observed: &ObservedObject) -> Vec<Change> {
        if let (Some(clock), Some(metric_data)) = (self.clock, &observed.metric_data) {
            self.measured.finish(kind, metric_data, clock());
        }
        self.replace(
            kind,
            observed.key,
            None,
            Some(object_name(kind, &observed.name)),
        )
    }

    /// Ends the list that [`State::begin_list`] began; returns the changes.
    pub fn end_list(&mut self, kind: Kind) -> Vec<Change> {
        let objects = self.objects_of(kind);
        let shown = objects.listing.take().unwrap_or_default();
        if !objects.listed {
            objects.listed = true;
            if kind.is_gated() {
                // Turns that read such kinds run each minute anyway.
                return Vec::new();
            }
            let key = Key::new("", kind.resource());
            return vec![Change {
                kind: ChangeKind::FirstListed,
                key,
                object: None,
                node: None,
            }];
        }
        let gone: Vec<Key> = objects
            .known
            .keys()
            .filter(|key| !shown.contains(key))
            .copied()
            .collect();
        gone.into_iter()
            .flat_map(|key| self.replace(kind, key, None, None))
            .collect()
    }

    /// The context of a change that was just returned.
    pub fn context(&self, change: &Change) -> ChangeContext {
        ChangeContext {
            node: match change.node.map(|node| self.node(node)) {
                None | Some(None) => NodeState::Unknown,
                Some(Some(node)) if node.is_draining() => NodeState::Draining,
                Some(Some(node)) if node.managed => NodeState::Managed,
                Some(Some(_)) => NodeState::Unmanaged,
            },
            draining: self.draining > 0,
            waiting: self.waiting > 0,
        }
    }

    pub fn node_name(&self, node: Key) -> Option<&str> {
        self.node(node).map(|node| node.name.as_ref())
    }

    /// Number of known objects of a kind.
    pub fn count(&self, kind: Kind) -> usize {
        self.kinds
            .get(&kind)
            .map_or(0, |objects| objects.known.len())
    }

    /// Number of unschedulable pods.
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// Objects of a kind with data for `/metrics`.
    pub fn metric_data(&self, kind: Kind) -> impl Iterator<Item = (Key, &MetricData)> {
        let objects = self.kinds.get(&kind).into_iter();
        let known = objects.flat_map(|objects| &objects.known);
        known.filter_map(|(key, known)| Some((*key, known.metric_data.as_ref()?)))
    }

    /// Counts and durations since the relay started.
    pub fn measured(&self) -> &Status {
        self.measured.status()
    }

    fn node(&self, key: Key) -> Option<&NodeDigest> {
        let Digest::Node(node) = &self.kinds.get(&Kind::Node)?.known.get(&key)?.digest else {
            return None;
        };
        Some(node)
    }

    fn objects_of(&mut self, kind: Kind) -> &mut Objects {
        self.kinds.entry(kind).or_default()
    }

    fn replace(
        &mut self,
        kind: Kind,
        key: Key,
        new: Option<KnownObject>,
        object: Option<String>,
    ) -> Vec<Change> {
        let known = &mut self.kinds.entry(kind).or_default().known;
        let digest = new.as_ref().map(|new| new.digest.clone());
        let old = match new {
            Some(mut new) => {
                let old = known.get(&key).and_then(|old| old.metric_data.as_ref());
                if let Some(metric_data) = &mut new.metric_data {
                    self.measured.update(kind, old, metric_data);
                    if let MetricData::Pod(pod) = metric_data
                        && !self.keeps_details
                    {
                        pod.details = None;
                    }
                }
                known.insert(key, new)
            }
            None => known.remove(&key),
        };
        let (old, new) = (old.map(|old| old.digest), digest);
        self.waiting = self.waiting + usize::from(is_waiting(&new)) - usize::from(is_waiting(&old));
        self.draining =
            self.draining + usize::from(is_draining(&new)) - usize::from(is_draining(&old));
        let node = new.as_ref().or(old.as_ref()).and_then(Digest::node);
        let changes = differences(old.as_ref(), new.as_ref());
        let changes = changes.into_iter().map(|change| Change {
            kind: change,
            key,
            object: object.clone(),
            node,
        });
        let mut changes: Vec<Change> = changes.collect();
        changes.extend(self.move_occupant(occupied(&old), occupied(&new)));
        changes
    }

    /// Counts a pod that left a node or was bound to one. Returns a change if the node it left is empty.
    fn move_occupant(&mut self, from: Option<Key>, to: Option<Key>) -> Option<Change> {
        if from == to {
            return None;
        }
        if let Some(node) = to {
            *self.occupants.entry(node).or_default() += 1;
        }
        let node = from?;
        let left = self.occupants.remove(&node)?.saturating_sub(1);
        if left > 0 {
            self.occupants.insert(node, left);
            return None;
        }
        Some(Change {
            kind: ChangeKind::NodeEmptied,
            key: node,
            object: None,
            node: Some(node),
        })
    }
}

fn object_name(kind: Kind, name: &str) -> String {
    if kind == Kind::Pod {
        name.to_owned()
    } else {
        format!("{}/{name}", kind.singular())
    }
}

fn occupied(digest: &Option<Digest>) -> Option<Key> {
    let Some(Digest::Pod(pod)) = digest else {
        return None;
    };
    pod.occupied()
}

fn is_waiting(digest: &Option<Digest>) -> bool {
    matches!(digest, Some(Digest::Pod(pod)) if pod.provisionable)
}

fn is_draining(digest: &Option<Digest>) -> bool {
    matches!(digest, Some(Digest::Node(node)) if node.is_draining())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::objects::WatchedObject;
    use crate::objects::node::Node;
    use crate::objects::pod::Pod;

    fn observed<T: WatchedObject>(object: Value) -> ObservedObject {
        let object: T = serde_json::from_value(object).unwrap();
        ObservedObject {
            key: Key::new(&object.meta().namespace, &object.meta().name),
            name: object.meta().full_name(),
            digest: object.digest(),
            metric_data: object.metric_data(),
            pod: None,
        }
    }

    fn pending(name: &str) -> ObservedObject {
        observed::<Pod>(json!({
            "metadata": {"name": name, "namespace": "default"},
            "status": {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]},
        }))
    }

    fn running(name: &str, node: &str) -> ObservedObject {
        observed::<Pod>(
            json!({"metadata": {"name": name, "namespace": "default"}, "spec": {"nodeName": node}}),
        )
    }

    fn node(name: &str, deleting: bool) -> ObservedObject {
        let labels = json!({"karpenter.sh/nodepool": "default"});
        let deleted = deleting.then_some("2026-01-01T00:00:00Z");
        observed::<Node>(json!({
            "metadata": {"name": name, "labels": labels, "deletionTimestamp": deleted},
            "spec": {"providerID": "aws:///us-east-1a/i-1"},
        }))
    }

    fn kinds_of(changes: &[Change]) -> Vec<ChangeKind> {
        changes.iter().map(|change| change.kind).collect()
    }

    fn listed(
        kind: Kind,
        objects: impl IntoIterator<Item = ObservedObject>,
    ) -> (State, Vec<Change>) {
        let mut state = State::default();
        state.begin_list(kind);
        let mut changes: Vec<Change> = objects
            .into_iter()
            .flat_map(|observed| state.apply(kind, observed))
            .collect();
        changes.extend(state.end_list(kind));
        (state, changes)
    }

    #[test]
    fn first_list_reports_current_state_without_transitions() {
        let (_, changes) = listed(Kind::Pod, [pending("a"), running("b", "n1")]);
        assert_eq!(
            kinds_of(&changes),
            [ChangeKind::PodUnschedulable, ChangeKind::FirstListed]
        );
        assert_eq!(changes[0].object.as_deref(), Some("default/a"));
        let (_, changes) = listed(Kind::Node, [node("n1", false), node("n2", true)]);
        assert_eq!(
            kinds_of(&changes),
            [ChangeKind::NodeDisrupted, ChangeKind::FirstListed]
        );
        assert_eq!(changes[0].object.as_deref(), Some("node/n2"));
    }

    #[test]
    fn list_after_gap_reports_exactly_its_changes() {
        let (mut state, _) = listed(Kind::Pod, [running("stays", "n1"), running("goes", "n1")]);
        state.begin_list(Kind::Pod);
        let mut changes = state.apply(Kind::Pod, running("stays", "n1"));
        changes.extend(state.apply(Kind::Pod, pending("comes")));
        changes.extend(state.end_list(Kind::Pod));
        assert_eq!(
            kinds_of(&changes),
            [
                ChangeKind::PodUnschedulable,
                ChangeKind::PodMoved { daemon: false }
            ]
        );
        assert_eq!(changes[1].object, None, "its name was not kept");
        assert_eq!(changes[1].node, Some(Key::node("n1")));
        assert_eq!(state.count(Kind::Pod), 2);
    }

    #[test]
    fn node_is_reported_empty_when_last_pod_leaves() {
        let (mut state, _) = listed(Kind::Pod, [running("a", "n1"), running("b", "n1")]);
        let moved = ChangeKind::PodMoved { daemon: false };
        let changes = state.remove(Kind::Pod, &running("a", "n1"));
        assert_eq!(kinds_of(&changes), [moved]);
        let ending = observed::<Pod>(json!({
            "metadata": {"name": "b", "namespace": "default", "deletionTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"nodeName": "n1"},
        }));
        let changes = state.apply(Kind::Pod, ending);
        assert_eq!(kinds_of(&changes), [moved, ChangeKind::NodeEmptied]);
        assert_eq!(changes[1].node, Some(Key::node("n1")));
        let changes = state.remove(Kind::Pod, &running("b", "n1"));
        assert_eq!(kinds_of(&changes), [moved], "already reported");
    }

    #[test]
    fn daemon_pods_do_not_occupy_node() {
        let daemon = observed::<Pod>(json!({
            "metadata": {
                "name": "daemon", "namespace": "default",
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "daemon"}],
            },
            "spec": {"nodeName": "n1"},
        }));
        let (mut state, _) = listed(Kind::Pod, [daemon, running("a", "n1")]);
        let changes = state.remove(Kind::Pod, &running("a", "n1"));
        assert!(
            kinds_of(&changes).contains(&ChangeKind::NodeEmptied),
            "{changes:?}"
        );
    }

    #[test]
    fn abandoned_list_removes_nothing() {
        let (mut state, _) = listed(Kind::Pod, [running("a", "n1"), running("b", "n1")]);
        state.begin_list(Kind::Pod);
        state.apply(Kind::Pod, running("a", "n1"));
        state.begin_list(Kind::Pod);
        state.apply(Kind::Pod, running("a", "n1"));
        state.apply(Kind::Pod, running("b", "n1"));
        assert_eq!(state.end_list(Kind::Pod), []);
        assert_eq!(state.count(Kind::Pod), 2);
    }

    #[test]
    fn context_reflects_pending_pods_and_draining_nodes() {
        let (mut state, _) = listed(Kind::Node, [node("n1", false)]);
        let change = |node: &str| Change {
            kind: ChangeKind::PodReady,
            key: Key::node(node),
            object: None,
            node: Some(Key::node(node)),
        };
        let context = |state: &State, node| {
            let context = state.context(&change(node));
            (context.node, context.draining, context.waiting)
        };
        assert_eq!(context(&state, "n1"), (NodeState::Managed, false, false));
        assert_eq!(
            context(&state, "elsewhere"),
            (NodeState::Unknown, false, false)
        );

        state.apply(Kind::Node, node("n1", true));
        state.apply(Kind::Pod, pending("a"));
        assert_eq!(context(&state, "n1"), (NodeState::Draining, true, true));

        state.apply(Kind::Pod, running("a", "n1"));
        state.remove(Kind::Node, &node("n1", true));
        assert_eq!(context(&state, "n1"), (NodeState::Unknown, false, false));
    }

    #[test]
    fn node_seen_draining_twice_stops_draining_when_deleted() {
        let (mut state, _) = listed(Kind::Node, [node("n1", true)]);
        state.apply(Kind::Node, node("n1", true));
        let changes = state.remove(Kind::Node, &node("n1", true));
        assert_eq!(kinds_of(&changes), [ChangeKind::NodeGone { managed: true }]);
        assert!(!state.context(&changes[0]).draining);
    }
}
