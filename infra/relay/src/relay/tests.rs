//! A relay is shown a cluster second by second; the tests name which lanes are woken when.

use model::Batch;
use serde_json::{Value, json};

use super::*;
use crate::objects::Key;
use crate::objects::Watched;
use crate::objects::node::Node;
use crate::objects::node_pool::NodePool;
use crate::objects::pod::Pod;
use crate::objects::pod_disruption_budget::PodDisruptionBudget;
use crate::watches::Watching;

const WINDOW: Window = Window {
    idle: Duration::from_secs(1),
    max: Duration::from_secs(10),
};

struct Scene {
    relay: Relay,
    now: Duration,
}

impl Scene {
    /// A relay that has read an empty cluster, at second 100, its first wakes sent.
    fn new() -> Self {
        let mut scene = Self {
            relay: Relay::new(ClusterName::from("demo"), WINDOW, 1),
            now: Duration::ZERO,
        };
        for kind in Kind::ALL {
            scene.observe(kind, Event::ListBegun);
            scene.observe(kind, Event::ListEnded);
        }
        scene.pass(100_000);
        scene
    }

    fn observe(&mut self, kind: Kind, event: Event) {
        self.relay.observe(Observation { kind, event }, self.now);
    }

    fn see<T: Watched>(&mut self, object: Value) {
        self.observe(T::KIND, Event::Changed(sighting::<T>(object)));
    }

    fn lose<T: Watched>(&mut self, object: Value) {
        self.observe(T::KIND, Event::Deleted(sighting::<T>(object)));
    }

    /// Lets time pass in steps of what is due, sending everything; returns lane, reason and hints of each wake.
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
fn many_pending_pods_wake_the_provisioner_before_the_last_of_them_has_come() {
    let mut scene = Scene::new();
    for index in 0..12 {
        scene.see::<Pod>(pending(&format!("web-{index}")));
    }
    let wakes = scene.pass(2_000);
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
fn pending_pods_wake_the_provisioner_once_when_no_more_come() {
    let mut scene = Scene::new();
    scene.see::<Pod>(pending("a"));
    assert_eq!(scene.pass(900), [""; 0]);
    scene.see::<Pod>(pending("b"));
    assert_eq!(scene.pass(900), [""; 0], "b restarted the idle second");
    assert_eq!(
        scene.pass(200),
        ["provisioner pods-unschedulable [default/a default/b]"]
    );
    assert_eq!(scene.pass(60_000), [""; 0]);
}

#[test]
fn a_steady_stream_of_pods_wakes_the_provisioner_after_ten_seconds() {
    let mut scene = Scene::new();
    let mut wakes = Vec::new();
    for index in 0..20 {
        scene.see::<Pod>(pending(&format!("web-{index}")));
        wakes.extend(scene.pass(500));
    }
    let is_glance = |wake: &&String| wake.contains(" so far ");
    let glances = wakes.iter().filter(is_glance).count();
    assert_eq!((glances, wakes.len() - glances), (1, 1), "{wakes:?}");
}

#[test]
fn a_drain_is_moved_along_by_its_pods_and_by_budgets() {
    let mut scene = Scene::new();
    scene.see::<Node>(node("n1"));
    scene.see::<Node>(node("n2"));
    scene.see::<Pod>(running("on-1", "n1"));
    scene.see::<Pod>(running("on-2", "n2"));
    scene.pass(60_000);

    scene.see::<Node>(draining("n1"));
    assert_eq!(
        scene.pass(2_000),
        [
            "lifecycle node-draining [node/n1]",
            "terminator node-draining [node/n1]",
            "provisioner pods-unschedulable []"
        ]
    );
    scene.lose::<Pod>(running("on-1", "n1"));
    assert_eq!(scene.pass(200), ["terminator pods-moved [node/n1]"]);
    let budget = |allowed: i64| json!({"metadata": {"name": "web", "namespace": "default"}, "status": {"disruptionsAllowed": allowed}});
    scene.see::<PodDisruptionBudget>(budget(0));
    scene.pass(1_000);
    scene.see::<PodDisruptionBudget>(budget(1));
    assert_eq!(
        scene.pass(200),
        ["terminator pdb-allows [poddisruptionbudget/default/web]"]
    );
    scene.lose::<Node>(draining("n1"));
    scene.pass(60_000);
    scene.see::<PodDisruptionBudget>(budget(0));
    scene.see::<PodDisruptionBudget>(budget(1));
    assert_eq!(scene.pass(60_000), [""; 0], "nothing drains any more");
}

#[test]
fn pods_coming_and_going_wake_the_lifecycle_lane_at_a_distance_and_count_at_once() {
    let mut scene = Scene::new();
    scene.see::<Node>(node("n1"));
    scene.pass(60_000);
    let before = scene.relay.counters().get(Lane::Lifecycle);
    let mut wakes = 0;
    for index in 0..100 {
        scene.see::<Pod>(running(&format!("job-{index}"), "n1"));
        wakes += scene.pass(250).len();
    }
    assert_eq!(wakes, 3, "at once, after 10 s, after 20 s");
    assert_eq!(scene.relay.counters().get(Lane::Lifecycle), before + 100);
}

#[test]
fn a_nodepool_applied_together_with_pods_waits_for_the_window() {
    let mut scene = Scene::new();
    scene.see::<Pod>(pending("a"));
    scene.see::<NodePool>(node_pool(1));
    assert_eq!(
        scene.pass(900),
        [
            "lifecycle nodepool-changed [nodepool/default]",
            "disruption nodepool-changed [nodepool/default]"
        ]
    );
    assert_eq!(
        scene.pass(200),
        ["provisioner pods-unschedulable [default/a]"]
    );
}

#[test]
fn a_nodepool_that_changes_while_pods_wait_wakes_the_provisioner_at_once() {
    let mut scene = Scene::new();
    scene.see::<Pod>(pending("a"));
    scene.see::<NodePool>(node_pool(1));
    scene.pass(60_000);
    scene.see::<NodePool>(node_pool(2));
    assert!(
        scene
            .pass(200)
            .contains(&"provisioner nodepool-changed []".to_owned())
    );
    scene.see::<Pod>(running("a", "n1"));
    scene.pass(60_000);
    scene.see::<NodePool>(node_pool(3));
    assert!(
        scene
            .pass(60_000)
            .iter()
            .all(|wake| !wake.starts_with("provisioner")),
        "no pod waits"
    );
}

#[test]
fn a_relay_that_starts_tells_the_lanes_that_have_something_to_do() {
    let mut scene = Scene {
        relay: Relay::new(ClusterName::from("demo"), WINDOW, 1),
        now: Duration::ZERO,
    };
    for kind in Kind::ALL {
        scene.observe(kind, Event::ListBegun);
        if kind == Kind::Node {
            let nodes = vec![
                sighting::<Node>(node("n1")),
                sighting::<Node>(draining("n2")),
            ];
            scene.observe(kind, Event::Page(nodes));
        }
        scene.observe(kind, Event::ListEnded);
    }
    assert_eq!(
        scene.pass(60_000),
        [
            "lifecycle relay-started []",
            "terminator relay-started []",
            "provisioner pods-unschedulable []"
        ]
    );
}

#[test]
fn counters_move_in_the_beat_that_follows_a_change() {
    let mut scene = Scene::new();
    scene.pass(5_000);
    assert!(
        scene.relay.take_beat(scene.now).is_none(),
        "nothing moved and the last beat is fresh"
    );
    scene.see::<Pod>(pending("a"));
    let beat = scene.relay.take_beat(scene.now).unwrap();
    assert_eq!(beat.get(Lane::Provisioner), 1);
    assert_eq!(
        scene.pass(0),
        [""; 0],
        "the wake itself still waits for the window"
    );
}

#[test]
fn silence_of_one_watch_stops_the_heartbeat_but_not_the_wakes() {
    let mut scene = Scene::new();
    for kind in Kind::ALL.into_iter().filter(|kind| *kind != Kind::CsiNode) {
        scene.observe(kind, Event::Bookmark);
    }
    scene.pass(25_000);
    for kind in Kind::ALL.into_iter().filter(|kind| *kind != Kind::CsiNode) {
        scene.observe(kind, Event::Bookmark);
    }
    scene.see::<Pod>(pending("a"));
    assert!(
        scene.relay.take_beat(scene.now).is_none(),
        "CSINodes were last heard of more than two minutes ago"
    );
    assert_eq!(
        scene.pass(1_100),
        ["provisioner pods-unschedulable [default/a]"]
    );
    scene.observe(Kind::CsiNode, Event::Bookmark);
    assert!(scene.relay.take_beat(scene.now).is_some());
}

#[test]
fn trying_to_list_is_no_sign_of_life() {
    let mut scene = Scene::new();
    scene.pass(15_000);
    for _ in 0..10 {
        scene.observe(Kind::Pod, Event::ListBegun);
        scene.observe(Kind::Pod, Event::Failed("503".to_owned()));
        for kind in Kind::ALL.into_iter().filter(|kind| *kind != Kind::Pod) {
            scene.observe(kind, Event::Bookmark);
        }
        scene.pass(30_000);
    }
    assert!(scene.relay.take_beat(scene.now).is_none());
    assert_eq!(
        scene.relay.watches().get(Kind::Pod),
        Watching::Failing("503".to_owned())
    );
}

#[test]
fn the_last_wakes_leave_when_the_process_ends() {
    let mut scene = Scene::new();
    scene.see::<Pod>(pending("a"));
    scene.relay.hurry(scene.now);
    let wakes = scene.relay.take_wakes(scene.now);
    assert_eq!(wakes.len(), 1);
    assert_eq!(wakes[0].hints, ["default/a"]);
}
