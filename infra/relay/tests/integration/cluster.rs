//! The relay against an API server and AWS with realistic failures.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::api_server::{ApiServer, Behaviour};
use crate::running::Running;
use crate::support::until;
use axum::http::StatusCode;
use model::view::{ViewPointer, object_name};
use model::{ClusterName, Lane};
use relay::counters::Counters;
use relay::kind::Kind;
use serde_json::{Value, json};
use view::View;

fn pending(name: &str) -> Value {
    json!({
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"containers": [{"name": "web", "image": "web"}]},
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

impl Running {
    /// Waits until the lane is woken about the object.
    async fn woken(&self, lane: Lane, hint: &str) {
        until(&format!("{lane} is woken about {hint}"), async || {
            self.sink
                .wakes(lane)
                .iter()
                .any(|wake| wake.hints.iter().any(|named| named == hint))
        })
        .await;
    }
}

/// Reads the view as a function with an empty cache does.
fn view_of(relay: &Running, pointer: &ViewPointer) -> View {
    let cluster = ClusterName::from("demo");
    let object = |version| {
        let name = object_name(&cluster, &pointer.epoch, version);
        relay.sink.view(&name).unwrap_or_else(|| panic!("{name}"))
    };
    let full = object(pointer.full);
    let mut view = View::open(&cluster, &pointer.epoch, pointer.full, &full).unwrap();
    for version in pointer.full + 1..=pointer.version {
        view.follow(&cluster, &object(version)).unwrap();
    }
    view.is(pointer).unwrap();
    view
}

#[tokio::test]
async fn wake_names_view_with_its_pods() {
    let server = ApiServer::start().await;
    server.put(Kind::Pod, running("old", "node-a"));
    let relay = Running::start(&server);
    relay.ready().await;
    server.put(Kind::Pod, pending("web-0"));
    relay.woken(Lane::Provisioner, "default/web-0").await;

    let wake = relay.sink.wakes(Lane::Provisioner).remove(0);
    let pods = view_of(&relay, &wake.view.unwrap()).pods();
    let seen: Vec<_> = pods
        .iter()
        .map(|pod| (pod.key.name.as_str(), pod.unschedulable))
        .collect();
    assert_eq!(seen, [("old", false), ("web-0", true)]);

    // The heartbeat names the view as well, with the changes that it contains.
    until("a heartbeat names the view", async || {
        let beat = relay.sink.last_beat();
        beat.and_then(|beat| Some(beat.view?.counters == counters(&beat.counters)))
            .unwrap_or_default()
    })
    .await;
}

fn counters(counters: &Counters) -> BTreeMap<String, u64> {
    let each = counters.iter();
    each.map(|(lane, count)| (lane.to_string(), count))
        .collect()
}

#[tokio::test]
async fn moved_pods_are_published_with_next_wake() {
    let server = ApiServer::start().await;
    server.put(Kind::Pod, running("old", "node-a"));
    let relay = Running::start(&server);
    relay.ready().await;
    server.delete(Kind::Pod, &running("old", "node-a"));
    server.put(Kind::Pod, pending("web-0"));
    relay.woken(Lane::Provisioner, "default/web-0").await;
    let wake = relay.sink.wakes(Lane::Provisioner).remove(0);
    assert_eq!(view_of(&relay, &wake.view.unwrap()).len(), 1);
}

#[tokio::test]
async fn unavailable_bucket_does_not_delay_wakes() {
    let server = ApiServer::start().await;
    let relay = Running::start(&server);
    relay.ready().await;
    relay.sink.refuse_views();
    server.put(Kind::Pod, pending("web-0"));
    relay.woken(Lane::Provisioner, "default/web-0").await;
}

#[tokio::test]
async fn pending_pod_wakes_provisioner_and_increments_counter() {
    let server = ApiServer::start().await;
    let relay = Running::start(&server);
    relay.ready().await;
    server.put(Kind::Pod, pending("web-0"));
    relay.woken(Lane::Provisioner, "default/web-0").await;

    let wake = relay.sink.wakes(Lane::Provisioner).remove(0);
    assert_eq!(wake.cluster.as_str(), "demo");
    assert_eq!(wake.reason, "pods-unschedulable");
    until("the counter is in a heartbeat", async || {
        relay
            .sink
            .last_beat()
            .is_some_and(|beat| beat.counters.get(Lane::Provisioner) == 1)
    })
    .await;
    let beat = relay.sink.last_beat().unwrap();
    assert_eq!(
        (beat.cluster.as_str(), beat.epoch.as_str()),
        ("demo", "epoch")
    );
    assert_eq!(beat.api_server, server.url());
}

#[tokio::test]
async fn each_kind_is_watched_and_wakes_its_lanes() {
    let server = ApiServer::start().await;
    let class_ref =
        json!({"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"});
    let claim = json!({"metadata": {"name": "default-abc"}, "spec": {"nodeClassRef": class_ref}});
    let pool = json!({"metadata": {"name": "default", "generation": 1}, "spec": {"template": {"spec": {"nodeClassRef": class_ref}}}});
    let class = json!({"metadata": {"name": "default", "generation": 1}});
    let budget = |allowed: u64| json!({"metadata": {"name": "web", "namespace": "default"}, "status": {"disruptionsAllowed": allowed}});
    let attachment = json!({"metadata": {"name": "csi-1"}, "spec": {"nodeName": "n1"}});
    server.put(Kind::Node, node("n1"));
    server.put(Kind::Pod, running("web-0", "n1"));
    server.put(Kind::PodDisruptionBudget, budget(0));
    server.put(Kind::VolumeAttachment, attachment.clone());
    let relay = Running::start(&server);
    relay.ready().await;

    server.put(Kind::NodePool, pool);
    relay.woken(Lane::Disruption, "nodepool/default").await;
    server.put(Kind::Ec2NodeClass, class);
    relay.woken(Lane::Lifecycle, "ec2nodeclass/default").await;
    server.put(Kind::NodeClaim, claim);
    relay.woken(Lane::Lifecycle, "nodeclaim/default-abc").await;
    server.put(Kind::Node, draining("n1"));
    relay.woken(Lane::Lifecycle, "node/n1").await;
    relay.woken(Lane::Terminator, "node/n1").await;
    server.put(Kind::PodDisruptionBudget, budget(1));
    relay
        .woken(Lane::Terminator, "poddisruptionbudget/default/web")
        .await;

    for (what, kind, object) in [
        ("pod gone", Kind::Pod, running("web-0", "n1")),
        ("volume detached", Kind::VolumeAttachment, attachment),
    ] {
        let wakes = relay.sink.wakes(Lane::Terminator).len();
        server.delete(kind, &object);
        until(what, async || {
            relay.sink.wakes(Lane::Terminator).len() > wakes
        })
        .await;
    }
    for (kind, object) in [
        (
            Kind::DaemonSet,
            json!({"metadata": {"name": "agent", "namespace": "kube-system", "generation": 1}}),
        ),
        (
            Kind::CsiNode,
            json!({"metadata": {"name": "n1"}, "spec": {"drivers": [{"name": "ebs.csi.aws.com"}]}}),
        ),
    ] {
        let count = relay.count(Lane::Disruption);
        server.put(kind, object);
        until(kind.resource(), async || {
            relay.count(Lane::Disruption) > count
        })
        .await;
    }
}

#[tokio::test]
async fn long_lists_are_read_page_by_page() {
    let server = ApiServer::start().await;
    for index in 0..600 {
        server.put(Kind::Pod, running(&format!("web-{index}"), "n1"));
    }
    let relay = Running::start(&server);
    relay.ready().await;
    assert_eq!(server.lists(Kind::Pod), 3);
    assert!(
        relay
            .get("/readyz")
            .await
            .1
            .contains("pods: watching 600 objects")
    );
}

#[tokio::test]
async fn watch_that_ends_without_error_is_resumed() {
    let server = ApiServer::start().await;
    let relay = Running::start(&server);
    relay.ready().await;
    server.put(Kind::Pod, pending("web-0"));
    relay.woken(Lane::Provisioner, "default/web-0").await;
    server.end_watches(Kind::Pod);
    server.put(Kind::Pod, pending("web-1"));
    relay.woken(Lane::Provisioner, "default/web-1").await;
    assert_eq!(server.lists(Kind::Pod), 1);
    let watches = server.watches(Kind::Pod);
    assert_eq!(watches.len(), 2);
    assert!(watches[1] > watches[0], "{watches:?}");
}

#[tokio::test]
async fn expired_version_causes_list_that_reports_gap() {
    let server = ApiServer::start().await;
    server.put(Kind::Node, draining("n1"));
    server.put(Kind::Pod, running("stays", "n1"));
    server.put(Kind::Pod, running("goes", "n1"));
    let relay = Running::start(&server);
    relay.ready().await;
    server.set_behaviour(Kind::Pod, Behaviour::Refusing(503));
    server.delete(Kind::Pod, &running("goes", "n1"));
    server.put(Kind::Pod, pending("comes"));
    server.compact(Kind::Pod);
    server.set_behaviour(Kind::Pod, Behaviour::Normal);
    relay.woken(Lane::Terminator, "node/n1").await;
    relay.woken(Lane::Provisioner, "default/comes").await;
    assert_eq!(server.lists(Kind::Pod), 2);
    assert!(
        relay
            .get("/metrics")
            .await
            .1
            .contains(r#"watch_restarts_total{resource="pods",cause="gone"} 1"#)
    );
}

#[tokio::test]
async fn server_errors_are_retried_and_reported() {
    let server = ApiServer::start().await;
    let relay = Running::start(&server);
    relay.ready().await;
    server.set_behaviour(Kind::Pod, Behaviour::Refusing(500));
    until("/readyz names the failure", async || {
        let (status, text) = relay.get("/readyz").await;
        status == StatusCode::SERVICE_UNAVAILABLE
            && text.contains("pods: failing: 500 InternalError")
    })
    .await;
    server.put(Kind::Pod, pending("web-0"));
    server.set_behaviour(Kind::Pod, Behaviour::Normal);
    relay.woken(Lane::Provisioner, "default/web-0").await;
    relay.ready().await;
    assert_eq!(server.lists(Kind::Pod), 1, "resumed, not started over");
}

#[tokio::test]
async fn forbidden_list_names_remedy() {
    let server = ApiServer::start().await;
    server.set_behaviour(Kind::PodDisruptionBudget, Behaviour::Refusing(403));
    let relay = Running::start(&server);
    until("/readyz names the remedy", async || {
        relay
            .get("/readyz")
            .await
            .1
            .contains("poddisruptionbudgets: failing: 403 Forbidden")
            && relay.get("/readyz").await.1.contains("ClusterRole")
    })
    .await;
}

#[tokio::test]
async fn missing_crd_affects_only_its_kind() {
    let server = ApiServer::start().await;
    server.set_behaviour(Kind::Ec2NodeClass, Behaviour::Refusing(404));
    let relay = Running::start(&server);
    until("/readyz names the missing kind", async || {
        let (status, text) = relay.get("/readyz").await;
        status == StatusCode::SERVICE_UNAVAILABLE && text.contains("ec2nodeclasses: missing")
    })
    .await;
    server.put(Kind::Pod, pending("web-0"));
    relay.woken(Lane::Provisioner, "default/web-0").await;
    until("the heart beats", async || relay.sink.last_beat().is_some()).await;

    server.set_behaviour(Kind::Ec2NodeClass, Behaviour::Normal);
    relay.ready().await;
    server.put(
        Kind::Ec2NodeClass,
        json!({"metadata": {"name": "default", "generation": 1}}),
    );
    relay.woken(Lane::Lifecycle, "ec2nodeclass/default").await;
}

#[tokio::test]
async fn silent_connection_is_replaced() {
    let server = ApiServer::start().await;
    let relay = Running::start(&server);
    relay.ready().await;
    server.set_behaviour(Kind::Pod, Behaviour::Silent);
    until("the watch is begun again", async || {
        server.watches(Kind::Pod).len() > 1
    })
    .await;
    server.set_behaviour(Kind::Pod, Behaviour::Normal);
    server.put(Kind::Pod, pending("web-0"));
    relay.woken(Lane::Provisioner, "default/web-0").await;
}

/// API servers that have seen no event of a kind may send nothing about it, not even a bookmark.
#[tokio::test]
async fn silent_kind_is_listed_without_warning() {
    let server = ApiServer::start().await;
    server.set_behaviour(Kind::VolumeAttachment, Behaviour::Silent);
    let relay = Running::start(&server);
    relay.ready().await;
    until("it is listed again and again", async || {
        let (_, text) = relay.get("/readyz").await;
        assert!(!text.contains("volumeattachments: failing"), "{text}");
        server.lists(Kind::VolumeAttachment) > 3
    })
    .await;
    relay.ready().await;
}

#[tokio::test]
async fn undecodable_object_is_skipped_and_others_are_watched() {
    let odd = |name: &str| json!({"metadata": {"name": name, "namespace": "default", "labels": 7}});
    let server = ApiServer::start().await;
    server.put(Kind::Pod, odd("listed"));
    let relay = Running::start(&server);
    relay.ready().await;
    server.put(Kind::Pod, odd("watched"));
    server.put(Kind::Pod, pending("web-0"));
    relay.woken(Lane::Provisioner, "default/web-0").await;
    assert_eq!(server.lists(Kind::Pod), 1);
    let (_, metrics) = relay.get("/metrics").await;
    let line = r#"resource="pods",event="unreadable"} 2"#;
    assert!(metrics.contains(line), "{metrics}");
}

#[tokio::test]
async fn buffers_and_overlays_wake_the_lifecycle_and_may_be_absent_or_forbidden() {
    let server = ApiServer::start().await;
    server.set_behaviour(Kind::CapacityBuffer, Behaviour::Refusing(404));
    server.set_behaviour(Kind::NodeOverlay, Behaviour::Refusing(403));
    let relay = Running::start(&server);
    relay.ready().await;
    until("the heart beats", async || relay.sink.last_beat().is_some()).await;

    for (kind, namespace, hint) in [
        (
            Kind::CapacityBuffer,
            "default",
            "capacitybuffer/default/spare",
        ),
        (Kind::NodeOverlay, "", "nodeoverlay/spare"),
    ] {
        server.set_behaviour(kind, Behaviour::Normal);
        until("it is watched", async || !server.watches(kind).is_empty()).await;
        let metadata = json!({"name": "spare", "namespace": namespace, "generation": 1});
        server.put(kind, json!({"metadata": metadata}));
        relay.woken(Lane::Lifecycle, hint).await;
    }
}

#[tokio::test]
async fn aws_outage_delays_wakes_without_loss() {
    let server = ApiServer::start().await;
    let relay = Running::start(&server);
    relay.ready().await;
    relay.sink.set_down(true);
    for index in 0..3 {
        server.put(Kind::Pod, pending(&format!("web-{index}")));
        let refused = relay.sink.refused();
        until("a call is refused", async || relay.sink.refused() > refused).await;
    }
    relay.sink.set_down(false);
    for index in 0..3 {
        relay
            .woken(Lane::Provisioner, &format!("default/web-{index}"))
            .await;
    }
    until("the counter is in a heartbeat", async || {
        relay
            .sink
            .last_beat()
            .is_some_and(|beat| beat.counters.get(Lane::Provisioner) == 3)
    })
    .await;
    let refusals = r#"whittle_relay_wakes_total{lane="provisioner",outcome="error"}"#;
    assert!(relay.get("/metrics").await.1.contains(refusals));
}

#[tokio::test]
async fn pending_wakes_are_sent_before_process_ends() {
    let server = ApiServer::start().await;
    let relay = Running::start_with_window(&server, Duration::from_secs(3_600));
    relay.ready().await;
    server.put(Kind::Pod, pending("web-0"));
    until("the pod is seen", async || {
        relay.count(Lane::Provisioner) == 1
    })
    .await;
    let sink = relay.end().await;
    assert_eq!(sink.wakes(Lane::Provisioner)[0].hints, ["default/web-0"]);
}

#[tokio::test]
async fn endpoints_serve_probes_and_metrics() {
    let server = ApiServer::start().await;
    server.put(Kind::Node, node("n1"));
    server.put(Kind::Pod, pending("web-0"));
    let relay = Running::start(&server);
    relay.ready().await;
    assert_eq!(
        relay.get("/healthz").await,
        (StatusCode::OK, "ok\n".to_owned())
    );
    let metrics = relay.get("/metrics").await.1;
    for line in [
        r#"whittle_relay_objects{resource="nodes"} 1"#,
        r#"whittle_relay_changes_total{lane="provisioner"} 1"#,
        "whittle_relay_pods_waiting 1",
        r#"whittle_relay_watch_silence_seconds{resource="csinodes"} 0"#,
        "# EOF",
    ] {
        assert!(metrics.contains(line), "{line} is missing from {metrics}");
    }
}
