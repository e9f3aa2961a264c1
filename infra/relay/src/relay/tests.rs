//! A relay observes a cluster second by second; the tests name the lanes that are woken, and when.

use model::Batch;
use serde_json::{Value, json};

use super::*;
use crate::objects::Key;
use crate::objects::WatchedObject;
use crate::objects::node::Node;
use crate::objects::node_pool::NodePool;
use crate::objects::pod::Pod;
use crate::objects::pod_disruption_budget::PodDisruptionBudget;
use crate::watches::WatchStatus;

const WINDOW: Window = Window {
    idle: Duration::from_secs(1),
    max: Duration::from_secs(10),
};

struct TestRelay {
    relay: Relay,
    now: Duration,
}

impl TestRelay {
    /// A relay that has listed an empty cluster, at second 100, with its first wakes sent.
    fn new() -> Self {
        let mut relay = Self {
            relay: Relay::new(ClusterName::from("demo"), WINDOW, 1),
            now: Duration::ZERO,
        };
        for kind in Kind::ALL {
            relay.observe(kind, Event::ListBegun);
            relay.observe(kind, Event::ListEnded);
        }
        relay.pass(100_000);
        relay
    }

    fn observe(&mut self, kind: Kind, event: Event) {
        self.relay.observe(Observation { kind, event }, self.now);
    }

    fn see<T: WatchedObject>(&mut self, object: Value) {
        self.observe(T::KIND, Event::Changed(observed::<T>(object)));
    }

    fn lose<T: WatchedObject>(&mut self, object: Value) {
        self.observe(T::KIND, Event::Deleted(observed::<T>(object)));
    }

    /// Advances the time from one due output to the next, and sends everything; returns lane, reason and hints of each wake.
    fn pass(&mut self, millis: u64) -> Vec<String> {
        let end = self.now + Duration::from_millis(millis);
        let mut log = Vec::new();
        loop {
            for wake in self.relay.take_wakes(self.now) {
                self.relay.wake_sent(wake.lane);
                let open = match wake.batch {
                    Batch::Open => " so far",
                    Batch::Closed => "",
                };
                log.push(format!(
                    "{} {}{open} [{}]",
                    wake.lane,
                    wake.reason,
                    wake.hints.join(" ")
                ));
            }
            if self.relay.take_beat(self.now).is_some() {
                self.relay.beat_written();
            }
            match self.relay.due(self.now).filter(|due| *due <= end) {
                Some(due) => self.now = due.max(self.now),
                None => break,
            }
        }
        self.now = end;
        log
    }
}

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

fn pending(name: &str) -> Value {
    json!({
        "metadata": {"name": name, "namespace": "default"},
        "status": {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]},
    })
}

fn running(name: &str, node: &str) -> Value {
    json!({"metadata": {"name": name, "namespace": "default"}, "spec": {"nodeName": node}})
}

fn node(name: &str) -> Value {
    json!({
        "metadata": {"name": name, "labels": {"karpenter.sh/nodepool": "default"}},
        "spec": {"providerID": format!("aws:///us-east-1a/{name}")},
    })
}

fn draining(name: &str) -> Value {
    let mut node = node(name);
    node["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    node
}

fn node_pool(generation: i64) -> Value {
    let class = json!({"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"});
    json!({"metadata": {"name": "default", "generation": generation}, "spec": {"template": {"spec": {"nodeClassRef": class}}}})
}

#[test]
fn many_pending_pods_wake_provisioner_early() {
    let mut relay = TestRelay::new();
    for index in 0..12 {
        relay.see::<Pod>(pending(&format!("web-{index}")));
    }
    let wakes = relay.pass(2_000);
    let (first, last) = (&wakes[0], &wakes[1]);
    assert!(
        first.starts_with("provisioner pods-unschedulable so far [default/web-0 "),
        "{first}"
    );
    assert!(
        last.starts_with("provisioner pods-unschedulable [default/web-0 "),
        "{last}"
    );
    assert_eq!(wakes.len(), 2, "{wakes:?}");
}

#[test]
fn pending_pods_wake_provisioner_once_window_is_idle() {
    let mut relay = TestRelay::new();
    relay.see::<Pod>(pending("a"));
    assert_eq!(relay.pass(900), [""; 0]);
    relay.see::<Pod>(pending("b"));
    assert_eq!(relay.pass(900), [""; 0], "b restarted the idle second");
    assert_eq!(
        relay.pass(200),
        ["provisioner pods-unschedulable [default/a default/b]"]
    );
    assert_eq!(relay.pass(60_000), [""; 0]);
}

#[test]
fn steady_stream_of_pods_wakes_provisioner_at_window_maximum() {
    let mut relay = TestRelay::new();
    let mut wakes = Vec::new();
    for index in 0..20 {
        relay.see::<Pod>(pending(&format!("web-{index}")));
        wakes.extend(relay.pass(500));
    }
    let is_glance = |wake: &&String| wake.contains(" so far ");
    let early_wakes = wakes.iter().filter(is_glance).count();
    assert_eq!(
        (early_wakes, wakes.len() - early_wakes),
        (1, 1),
        "{wakes:?}"
    );
}

#[test]
fn pods_and_budgets_of_a_drain_wake_terminator() {
    let mut relay = TestRelay::new();
    relay.see::<Node>(node("n1"));
    relay.see::<Node>(node("n2"));
    relay.see::<Pod>(running("on-1", "n1"));
    relay.see::<Pod>(running("on-2", "n2"));
    relay.pass(60_000);

    relay.see::<Node>(draining("n1"));
    assert_eq!(
        relay.pass(2_000),
        [
            "lifecycle node-draining [node/n1]",
            "terminator node-draining [node/n1]",
            "provisioner pods-unschedulable []"
        ]
    );
    relay.lose::<Pod>(running("on-1", "n1"));
    assert_eq!(relay.pass(200), ["terminator pods-moved [node/n1]"]);
    let budget = |allowed: i64| json!({"metadata": {"name": "web", "namespace": "default"}, "status": {"disruptionsAllowed": allowed}});
    relay.see::<PodDisruptionBudget>(budget(0));
    relay.pass(1_000);
    relay.see::<PodDisruptionBudget>(budget(1));
    assert_eq!(
        relay.pass(200),
        ["terminator pdb-allows [poddisruptionbudget/default/web]"]
    );
    relay.lose::<Node>(draining("n1"));
    relay.pass(60_000);
    relay.see::<PodDisruptionBudget>(budget(0));
    relay.see::<PodDisruptionBudget>(budget(1));
    assert_eq!(relay.pass(60_000), [""; 0], "no node drains");
}

#[test]
fn moved_pods_wake_lifecycle_spaced_and_count_immediately() {
    let mut relay = TestRelay::new();
    relay.see::<Node>(node("n1"));
    relay.pass(60_000);
    let before = relay.relay.counters().get(Lane::Lifecycle);
    let mut wakes = 0;
    for index in 0..100 {
        relay.see::<Pod>(running(&format!("job-{index}"), "n1"));
        wakes += relay.pass(250).len();
    }
    assert_eq!(wakes, 3, "at once, after 10 s, after 20 s");
    assert_eq!(relay.relay.counters().get(Lane::Lifecycle), before + 100);
}

#[test]
fn node_pool_applied_with_pods_waits_for_window() {
    let mut relay = TestRelay::new();
    relay.see::<Pod>(pending("a"));
    relay.see::<NodePool>(node_pool(1));
    assert_eq!(
        relay.pass(900),
        [
            "lifecycle nodepool-changed [nodepool/default]",
            "disruption nodepool-changed [nodepool/default]"
        ]
    );
    assert_eq!(
        relay.pass(200),
        ["provisioner pods-unschedulable [default/a]"]
    );
}

#[test]
fn node_pool_change_wakes_provisioner_while_pods_are_pending() {
    let mut relay = TestRelay::new();
    relay.see::<Pod>(pending("a"));
    relay.see::<NodePool>(node_pool(1));
    relay.pass(60_000);
    relay.see::<NodePool>(node_pool(2));
    assert!(
        relay
            .pass(200)
            .contains(&"provisioner nodepool-changed []".to_owned())
    );
    relay.see::<Pod>(running("a", "n1"));
    relay.pass(60_000);
    relay.see::<NodePool>(node_pool(3));
    assert!(
        relay
            .pass(60_000)
            .iter()
            .all(|wake| !wake.starts_with("provisioner")),
        "no pod waits"
    );
}

#[test]
fn starting_relay_wakes_lanes_with_work() {
    let mut relay = TestRelay {
        relay: Relay::new(ClusterName::from("demo"), WINDOW, 1),
        now: Duration::ZERO,
    };
    for kind in Kind::ALL {
        relay.observe(kind, Event::ListBegun);
        if kind == Kind::Node {
            let nodes = vec![
                observed::<Node>(node("n1")),
                observed::<Node>(draining("n2")),
            ];
            relay.observe(kind, Event::Page(nodes));
        }
        relay.observe(kind, Event::ListEnded);
    }
    assert_eq!(
        relay.pass(60_000),
        [
            "lifecycle relay-started []",
            "terminator relay-started []",
            "provisioner pods-unschedulable []"
        ]
    );
}

#[test]
fn heartbeat_after_change_has_new_counters() {
    let mut relay = TestRelay::new();
    relay.pass(5_000);
    assert!(
        relay.relay.take_beat(relay.now).is_none(),
        "nothing moved and the last beat is fresh"
    );
    relay.see::<Pod>(pending("a"));
    let beat = relay.relay.take_beat(relay.now).unwrap();
    assert_eq!(beat.get(Lane::Provisioner), 1);
    assert_eq!(
        relay.pass(0),
        [""; 0],
        "the wake itself still waits for the window"
    );
}

#[test]
fn silent_watch_stops_heartbeats_but_not_wakes() {
    let mut relay = TestRelay::new();
    for kind in Kind::ALL.into_iter().filter(|kind| *kind != Kind::CsiNode) {
        relay.observe(kind, Event::Bookmark);
    }
    relay.pass(25_000);
    for kind in Kind::ALL.into_iter().filter(|kind| *kind != Kind::CsiNode) {
        relay.observe(kind, Event::Bookmark);
    }
    relay.see::<Pod>(pending("a"));
    assert!(
        relay.relay.take_beat(relay.now).is_none(),
        "CSINodes were last heard of more than two minutes ago"
    );
    assert_eq!(
        relay.pass(1_100),
        ["provisioner pods-unschedulable [default/a]"]
    );
    relay.observe(Kind::CsiNode, Event::Bookmark);
    assert!(relay.relay.take_beat(relay.now).is_some());
}

#[test]
fn attempted_list_does_not_mark_watch_alive() {
    let mut relay = TestRelay::new();
    relay.pass(15_000);
    for _ in 0..10 {
        relay.observe(Kind::Pod, Event::ListBegun);
        relay.observe(Kind::Pod, Event::Failed("503".to_owned()));
        for kind in Kind::ALL.into_iter().filter(|kind| *kind != Kind::Pod) {
            relay.observe(kind, Event::Bookmark);
        }
        relay.pass(30_000);
    }
    assert!(relay.relay.take_beat(relay.now).is_none());
    assert_eq!(
        relay.relay.watches().get(Kind::Pod),
        WatchStatus::Failing("503".to_owned())
    );
}

#[test]
fn pending_wakes_are_sent_at_shutdown() {
    let mut relay = TestRelay::new();
    relay.see::<Pod>(pending("a"));
    relay.relay.flush(relay.now);
    let wakes = relay.relay.take_wakes(relay.now);
    assert_eq!(wakes.len(), 1);
    assert_eq!(wakes[0].hints, ["default/a"]);
}
