//! What the relay knows of the cluster: a digest per object, and from it what changed.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use model::status::Status;

use crate::change::{Change, Place, Situation, What};
use crate::kind::Kind;
use crate::measured::Measured;
use crate::objects::facts::Facts;
use crate::objects::node::NodeDigest;
use crate::objects::{Digest, Key, differences};

/// One object as a watch or a list showed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sighting {
    pub key: Key,
    /// `namespace/name`, or the name alone.
    pub name: String,
    pub digest: Digest,
    /// Parts that `/metrics` tells of.
    pub facts: Option<Facts>,
    /// A pod as functions plan with it, where the relay publishes pods.
    pub pod: Option<Box<model::pod::Pod>>,
}

/// The digests of all watched objects.
#[derive(Debug, Default)]
pub struct State {
    kinds: BTreeMap<Kind, Objects>,
    waiting: usize,
    draining: usize,
    /// How many pods there are on each node, without those of daemons and those that end.
    occupants: BTreeMap<Key, usize>,
    measured: Measured,
    keeps_details: bool,
    /// The time at which objects are gone, where that is measured.
    clock: Option<fn() -> Timestamp>,
}

#[derive(Debug, Default)]
struct Objects {
    known: BTreeMap<Key, Known>,
    /// What the list under way has shown so far; a list that is given up leaves nothing behind.
    listing: Option<BTreeSet<Key>>,
    listed: bool,
}

#[derive(Debug)]
struct Known {
    digest: Digest,
    facts: Option<Facts>,
}

impl State {
    /// Keeps what tells pods apart, for series of their own.
    pub fn keeping_details(self) -> Self {
        Self {
            keeps_details: true,
            ..self
        }
    }

    /// Measures how long objects take from their deletion until they are gone.
    pub fn timing_terminations(self, clock: fn() -> Timestamp) -> Self {
        Self {
            clock: Some(clock),
            ..self
        }
    }

    /// A list of this kind begins: what it does not show by its end is gone.
    pub fn begin_list(&mut self, kind: Kind) {
        self.objects(kind).listing = Some(BTreeSet::new());
    }

    /// An object is as shown.
    pub fn see(&mut self, kind: Kind, sighting: Sighting) -> Vec<Change> {
        let objects = self.objects(kind);
        if let Some(listing) = &mut objects.listing {
            listing.insert(sighting.key);
        }
        let Sighting {
            key,
            name,
            digest,
            facts,
            ..
        } = sighting;
        let new = Known { digest, facts };
        let changes = self.replace(kind, key, Some(new), Some(object_name(kind, &name)));
        if self.objects(kind).listed {
            changes
        } else {
            changes
                .into_iter()
                .filter(|change| change.what.is_standing())
                .collect()
        }
    }

    /// An object was deleted.
    pub fn lose(&mut self, kind: Kind, sighting: &Sighting) -> Vec<Change> {
        if let (Some(clock), Some(facts)) = (self.clock, &sighting.facts) {
            self.measured.finish(kind, facts, clock());
        }
        self.replace(
            kind,
            sighting.key,
            None,
            Some(object_name(kind, &sighting.name)),
        )
    }

    /// The list that [`State::begin_list`] announced is complete.
    pub fn end_list(&mut self, kind: Kind) -> Vec<Change> {
        let objects = self.objects(kind);
        let shown = objects.listing.take().unwrap_or_default();
        if !objects.listed {
            objects.listed = true;
            if kind.is_gated() {
                // Turns that read them look each minute anyway.
                return Vec::new();
            }
            let key = Key::new("", kind.resource());
            return vec![Change {
                what: What::FirstListed,
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

    /// What surrounds a change that was just returned.
    pub fn situation(&self, change: &Change) -> Situation {
        Situation {
            place: match change.node.map(|node| self.node(node)) {
                None | Some(None) => Place::Unknown,
                Some(Some(node)) if node.is_draining() => Place::Draining,
                Some(Some(node)) if node.managed => Place::Managed,
                Some(Some(_)) => Place::Unmanaged,
            },
            draining: self.draining > 0,
            waiting: self.waiting > 0,
        }
    }

    pub fn node_name(&self, node: Key) -> Option<&str> {
        self.node(node).map(|node| node.name.as_ref())
    }

    /// How many objects of a kind are known.
    pub fn count(&self, kind: Kind) -> usize {
        self.kinds
            .get(&kind)
            .map_or(0, |objects| objects.known.len())
    }

    /// Pods that wait for capacity.
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// The objects of a kind that `/metrics` tells of.
    pub fn facts(&self, kind: Kind) -> impl Iterator<Item = (Key, &Facts)> {
        let objects = self.kinds.get(&kind).into_iter();
        let known = objects.flat_map(|objects| &objects.known);
        known.filter_map(|(key, known)| Some((*key, known.facts.as_ref()?)))
    }

    /// Counts and times of changes since the relay started.
    pub fn measured(&self) -> &Status {
        self.measured.status()
    }

    fn node(&self, key: Key) -> Option<&NodeDigest> {
        let Digest::Node(node) = &self.kinds.get(&Kind::Node)?.known.get(&key)?.digest else {
            return None;
        };
        Some(node)
    }

    fn objects(&mut self, kind: Kind) -> &mut Objects {
        self.kinds.entry(kind).or_default()
    }

    fn replace(
        &mut self,
        kind: Kind,
        key: Key,
        new: Option<Known>,
        object: Option<String>,
    ) -> Vec<Change> {
        let known = &mut self.kinds.entry(kind).or_default().known;
        let digest = new.as_ref().map(|new| new.digest.clone());
        let old = match new {
            Some(mut new) => {
                let old = known.get(&key).and_then(|old| old.facts.as_ref());
                if let Some(facts) = &mut new.facts {
                    self.measured.follow(kind, old, facts);
                    if let Facts::Pod(pod) = facts
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
        let changes = changes.into_iter().map(|what| Change {
            what,
            key,
            object: object.clone(),
            node,
        });
        let mut changes: Vec<Change> = changes.collect();
        changes.extend(self.move_occupant(occupied(&old), occupied(&new)));
        changes
    }

    /// Counts a pod that left a node or came to one. Tells of a node that it left empty.
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
            what: What::NodeEmptied,
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
    use crate::objects::Watched;
    use crate::objects::node::Node;
    use crate::objects::pod::Pod;

    fn sighting<T: Watched>(object: Value) -> Sighting {
        let object: T = serde_json::from_value(object).unwrap();
        Sighting {
            key: Key::new(&object.meta().namespace, &object.meta().name),
            name: object.meta().full_name(),
            digest: object.digest(),
            facts: object.facts(),
            pod: None,
        }
    }

    fn pending(name: &str) -> Sighting {
        sighting::<Pod>(json!({
            "metadata": {"name": name, "namespace": "default"},
            "status": {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]},
        }))
    }

    fn running(name: &str, node: &str) -> Sighting {
        sighting::<Pod>(
            json!({"metadata": {"name": name, "namespace": "default"}, "spec": {"nodeName": node}}),
        )
    }

    fn node(name: &str, deleting: bool) -> Sighting {
        let labels = json!({"karpenter.sh/nodepool": "default"});
        let deleted = deleting.then_some("2026-01-01T00:00:00Z");
        sighting::<Node>(json!({
            "metadata": {"name": name, "labels": labels, "deletionTimestamp": deleted},
            "spec": {"providerID": "aws:///us-east-1a/i-1"},
        }))
    }

    fn whats(changes: &[Change]) -> Vec<What> {
        changes.iter().map(|change| change.what).collect()
    }

    fn listed(kind: Kind, sightings: impl IntoIterator<Item = Sighting>) -> (State, Vec<Change>) {
        let mut state = State::default();
        state.begin_list(kind);
        let mut changes: Vec<Change> = sightings
            .into_iter()
            .flat_map(|sighting| state.see(kind, sighting))
            .collect();
        changes.extend(state.end_list(kind));
        (state, changes)
    }

    #[test]
    fn the_first_list_tells_what_stands_and_does_not_pass_for_transitions() {
        let (_, changes) = listed(Kind::Pod, [pending("a"), running("b", "n1")]);
        assert_eq!(whats(&changes), [What::PodUnschedulable, What::FirstListed]);
        assert_eq!(changes[0].object.as_deref(), Some("default/a"));
        let (_, changes) = listed(Kind::Node, [node("n1", false), node("n2", true)]);
        assert_eq!(whats(&changes), [What::NodeDisrupted, What::FirstListed]);
        assert_eq!(changes[0].object.as_deref(), Some("node/n2"));
    }

    #[test]
    fn a_list_after_a_gap_tells_exactly_what_changed_in_it() {
        let (mut state, _) = listed(Kind::Pod, [running("stays", "n1"), running("goes", "n1")]);
        state.begin_list(Kind::Pod);
        let mut changes = state.see(Kind::Pod, running("stays", "n1"));
        changes.extend(state.see(Kind::Pod, pending("comes")));
        changes.extend(state.end_list(Kind::Pod));
        assert_eq!(
            whats(&changes),
            [What::PodUnschedulable, What::PodMoved { daemon: false }]
        );
        assert_eq!(changes[1].object, None, "its name was not kept");
        assert_eq!(changes[1].node, Some(Key::node("n1")));
        assert_eq!(state.count(Kind::Pod), 2);
    }

    #[test]
    fn a_node_is_told_of_when_its_last_pod_goes() {
        let (mut state, _) = listed(Kind::Pod, [running("a", "n1"), running("b", "n1")]);
        let moved = What::PodMoved { daemon: false };
        let changes = state.lose(Kind::Pod, &running("a", "n1"));
        assert_eq!(whats(&changes), [moved]);
        let ending = sighting::<Pod>(json!({
            "metadata": {"name": "b", "namespace": "default", "deletionTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"nodeName": "n1"},
        }));
        let changes = state.see(Kind::Pod, ending);
        assert_eq!(whats(&changes), [moved, What::NodeEmptied]);
        assert_eq!(changes[1].node, Some(Key::node("n1")));
        let changes = state.lose(Kind::Pod, &running("b", "n1"));
        assert_eq!(whats(&changes), [moved], "it was told already");
    }

    #[test]
    fn daemons_keep_no_node_from_being_empty() {
        let daemon = sighting::<Pod>(json!({
            "metadata": {
                "name": "daemon", "namespace": "default",
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "daemon"}],
            },
            "spec": {"nodeName": "n1"},
        }));
        let (mut state, _) = listed(Kind::Pod, [daemon, running("a", "n1")]);
        let changes = state.lose(Kind::Pod, &running("a", "n1"));
        assert!(whats(&changes).contains(&What::NodeEmptied), "{changes:?}");
    }

    #[test]
    fn a_list_that_was_given_up_removes_nothing() {
        let (mut state, _) = listed(Kind::Pod, [running("a", "n1"), running("b", "n1")]);
        state.begin_list(Kind::Pod);
        state.see(Kind::Pod, running("a", "n1"));
        state.begin_list(Kind::Pod);
        state.see(Kind::Pod, running("a", "n1"));
        state.see(Kind::Pod, running("b", "n1"));
        assert_eq!(state.end_list(Kind::Pod), []);
        assert_eq!(state.count(Kind::Pod), 2);
    }

    #[test]
    fn the_situation_follows_pods_that_wait_and_nodes_that_drain() {
        let (mut state, _) = listed(Kind::Node, [node("n1", false)]);
        let change = |node: &str| Change {
            what: What::PodReady,
            key: Key::node(node),
            object: None,
            node: Some(Key::node(node)),
        };
        let situation = |state: &State, node| {
            let situation = state.situation(&change(node));
            (situation.place, situation.draining, situation.waiting)
        };
        assert_eq!(situation(&state, "n1"), (Place::Managed, false, false));
        assert_eq!(
            situation(&state, "elsewhere"),
            (Place::Unknown, false, false)
        );

        state.see(Kind::Node, node("n1", true));
        state.see(Kind::Pod, pending("a"));
        assert_eq!(situation(&state, "n1"), (Place::Draining, true, true));

        state.see(Kind::Pod, running("a", "n1"));
        state.lose(Kind::Node, &node("n1", true));
        assert_eq!(situation(&state, "n1"), (Place::Unknown, false, false));
    }

    #[test]
    fn a_node_seen_draining_twice_is_done_draining_when_it_is_gone() {
        let (mut state, _) = listed(Kind::Node, [node("n1", true)]);
        state.see(Kind::Node, node("n1", true));
        let changes = state.lose(Kind::Node, &node("n1", true));
        assert_eq!(whats(&changes), [What::NodeGone { managed: true }]);
        assert!(!state.situation(&changes[0]).draining);
    }
}
