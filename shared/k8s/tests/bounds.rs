//! Limits on responses of API servers: a response beyond them is an error that names the limit, and costs neither memory nor
//! time.
#![expect(clippy::unwrap_used, reason = "a missing value fails the test")]

use std::time::Duration;

use k8s::{Access, Credentials, KubeCluster};
use ports::{Cluster, ClusterError};
use sandbox::{
    Sandbox, SandboxOptions,
    faults::{Effect, Fault},
    store::TableId,
};
use serde_json::json;

const PODS: TableId = TableId::named("pods");
/// More than the objects of a page.
const MANY: usize = 510;

async fn server() -> Sandbox {
    let sandbox = Sandbox::start(SandboxOptions {
        clock: sandbox::WorldClock::starting_at("2026-01-01T00:00:00Z".parse().unwrap()),
        ..SandboxOptions::default()
    });
    sandbox.await.unwrap()
}

fn connect(sandbox: &Sandbox) -> KubeCluster {
    let access = Access {
        endpoint: sandbox.url(),
        certificate_authority: None,
        credentials: Credentials::BearerToken(sandbox.token().into()),
    };
    KubeCluster::new(access.client().unwrap(), "kube-system")
}

/// Returns the error of a list of nodes whose response is this.
async fn error_of_list(effect: Effect) -> ClusterError {
    let sandbox = server().await;
    let cluster = connect(&sandbox);
    sandbox.inject(Fault::new(effect, 1).on_verb("list").on_resource("nodes"));
    let error = cluster.nodes().await.unwrap_err();
    assert_eq!(sandbox.pending_faults(), 0);
    assert!(cluster.nodes().await.is_ok(), "the next list succeeds");
    error
}

fn assert_unavailable(error: &ClusterError, part: &str) {
    assert!(matches!(error, ClusterError::Unavailable { .. }), "{error}");
    assert!(error.to_string().contains(part), "{error}");
}

#[tokio::test]
async fn endless_list_is_rejected() {
    let error = error_of_list(Effect::Endless).await;
    assert_unavailable(&error, "larger than 64 MiB");
}

#[tokio::test]
async fn list_that_decompresses_beyond_page_limit_is_rejected() {
    let error = error_of_list(Effect::Unpacks(128)).await;
    assert_unavailable(&error, "larger than 64 MiB");
}

#[tokio::test]
async fn endless_object_is_rejected() {
    let sandbox = server().await;
    let cluster = connect(&sandbox);
    for effect in [Effect::Endless, Effect::Unpacks(8)] {
        sandbox.inject(Fault::new(effect, 1).on_resource("leases"));
        let error = cluster.leader_lease().await.unwrap_err();
        assert_unavailable(&error, "larger than 4 MiB");
    }
}

#[tokio::test]
async fn page_with_more_objects_than_limit_is_rejected() {
    let items = vec!["{}"; 1_000_000].join(",");
    let list = format!(r#"{{"kind":"NodeList","metadata":{{}},"items":[{items}]}}"#);
    let error = error_of_list(Effect::Answer(list)).await;
    assert_unavailable(&error, "more than 10000 items");
}

/// Short keys are small on the wire and large in memory.
#[tokio::test]
async fn list_with_too_many_keys_is_rejected() {
    let labels: Vec<String> = (0..4_000_000).map(|n| format!("\"{n:x}\" :\"\"")).collect();
    let labels = labels.join(",");
    let list = format!(
        r#"{{"kind":"NodeList","metadata":{{}},"items":[{{"metadata":{{"name":"a","labels":{{{labels}}}}}}}]}}"#
    );
    let error = error_of_list(Effect::Answer(list)).await;
    assert_unavailable(&error, "more than 4000000 keys");
}

#[tokio::test]
async fn response_other_than_list_is_an_error() {
    for answer in [
        r#"{"metadata":{}}"#,
        r#"{"kind":"Status","metadata":{},"status":"Success"}"#,
        r#"{"metadata":{},"items":[]}"#,
        "[]",
        "",
    ] {
        let error = error_of_list(Effect::Answer(answer.to_owned())).await;
        assert_unavailable(&error, "cannot be read");
    }
}

#[tokio::test]
async fn endless_watch_event_causes_relist() {
    let sandbox = server().await;
    sandbox.with(|world, _| {
        for index in 0..MANY {
            let name = format!("pod-{index:04}");
            let pod = json!({"metadata": {"namespace": "default", "name": name, "uid": name}, "spec": {"containers": []}});
            world.server.store.put(&PODS, pod);
        }
    });
    let cluster = connect(&sandbox);
    assert_eq!(cluster.pods().await.unwrap().len(), MANY);
    sandbox.with(|world, _| {
        let pod = json!({"metadata": {"namespace": "default", "name": "late", "uid": "late"}, "spec": {"containers": []}});
        world.server.store.put(&PODS, pod);
    });
    sandbox.inject(Fault::new(Effect::Endless, 1).on_verb("watch"));
    assert_eq!(cluster.pods().await.unwrap().len(), MANY + 1);
    assert_eq!(cluster.traffic().listed, 2);
    assert!(
        cluster.traffic().bytes < 16 << 20,
        "{:?}",
        cluster.traffic()
    );
}

/// Within the timeout of one response, which is shorter than the time of any turn.
#[tokio::test]
async fn slow_response_times_out() {
    let sandbox = server().await;
    let cluster = connect(&sandbox);
    let slow = Effect::Drip(Duration::from_secs(1));
    sandbox.inject(Fault::new(slow, 1).on_resource("nodes"));
    let error = cluster.nodes().await.unwrap_err();
    assert_unavailable(&error, "not complete after");
}

/// A list of one page with these items.
async fn list_of_one_page(kind: &str, items: serde_json::Value) -> (Sandbox, KubeCluster) {
    let sandbox = server().await;
    let crds = api::schema::crds();
    let crds: Vec<_> = crds.into_iter().map(|crd| crd.manifest).collect();
    sandbox.install(&crds).unwrap();
    let cluster = connect(&sandbox);
    let list = json!({"kind": format!("{kind}List"), "metadata": {"resourceVersion": "7"}, "items": items});
    let answer = Effect::Answer(list.to_string());
    sandbox.inject(Fault::new(answer, 1).on_verb("list"));
    (sandbox, cluster)
}

/// Decisions about the pod's node must know that the pod exists.
#[tokio::test]
async fn undecodable_pod_is_kept_on_its_node_with_do_not_disrupt() {
    let undecodable = json!({
        "metadata": {"name": "odd", "namespace": "default", "uid": "u", "labels": {"app": "odd"}},
        "spec": {"nodeName": "node-a", "priority": "high", "containers": [{"name": "web"}]},
        "status": {"phase": "Running"},
    });
    let (_sandbox, cluster) = list_of_one_page("Pod", json!([undecodable])).await;
    let pods = cluster.pods().await.unwrap();
    let [pod] = pods.as_slice() else {
        panic!("{pods:?}")
    };
    assert_eq!(pod.key.name, "odd");
    assert_eq!(pod.uid.as_str(), "u");
    assert_eq!(pod.node_name, Some("node-a".into()));
    assert!(!pod.unschedulable);
    let protected = pod.shape.annotations.get("karpenter.sh/do-not-disrupt");
    assert_eq!(protected.map(String::as_str), Some("true"));
}

#[tokio::test]
async fn undecodable_pending_pod_is_not_unschedulable() {
    let undecodable = json!({
        "metadata": {"name": "odd", "namespace": "default"},
        "spec": {"priority": "high", "containers": []},
        "status": {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]},
    });
    let (_sandbox, cluster) = list_of_one_page("Pod", json!([undecodable])).await;
    let pods = cluster.pods().await.unwrap();
    assert_eq!(pods.len(), 1);
    assert!(pods.iter().all(|pod| !pod.unschedulable));
}

#[tokio::test]
async fn undecodable_node_is_kept_unschedulable_with_do_not_disrupt() {
    let undecodable = json!({
        "metadata": {"name": "node-a", "uid": "u"},
        "spec": {"providerID": "aws:///us-east-1a/i-1", "taints": "none"},
        "status": {"allocatable": {"cpu": "2"}},
    });
    let (_sandbox, cluster) = list_of_one_page("Node", json!([undecodable])).await;
    let nodes = cluster.nodes().await.unwrap();
    let [node] = nodes.as_slice() else {
        panic!("{nodes:?}")
    };
    assert_eq!(node.provider_id, "aws:///us-east-1a/i-1");
    assert!(node.unschedulable);
    assert!(node.annotations.contains_key("karpenter.sh/do-not-disrupt"));
}

/// Launches have to count the NodeClaim's instance; nothing else may happen to it.
#[tokio::test]
async fn undecodable_node_claim_is_kept_without_node_class() {
    let class = json!({"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"});
    let metadata = json!({"name": "default-x7f2p", "uid": "u", "labels": {"karpenter.sh/nodepool": "default"}});
    for spec in [
        json!("none"),
        json!({"nodeClassRef": class, "requirements": [], "taints": "none"}),
        json!({"nodeClassRef": class, "requirements": "none"}),
    ] {
        let undecodable = json!({
            "metadata": metadata,
            "spec": spec,
            "status": {"providerID": "aws:///us-east-1a/i-1", "capacity": {"cpu": "2"}},
        });
        let (_sandbox, cluster) = list_of_one_page("NodeClaim", json!([undecodable])).await;
        let claims = cluster.node_claims().await.unwrap();
        let [claim] = claims.as_slice() else {
            panic!("{claims:?}")
        };
        assert_eq!(claim.status.provider_id, "aws:///us-east-1a/i-1");
        assert_eq!(claim.status.capacity.get("cpu"), 2_000);
        assert_eq!(claim.node_pool(), Some("default".into()));
        assert_eq!(claim.spec.node_class.kind, "");
        assert_eq!(claim.spec.expire_after.as_deref(), Some("Never"));
    }
}

#[tokio::test]
async fn list_with_node_claim_of_undecodable_name_is_an_error() {
    let undecodable = json!({"metadata": {"name": 7}, "spec": "none"});
    let (_sandbox, cluster) = list_of_one_page("NodeClaim", json!([undecodable])).await;
    assert!(cluster.node_claims().await.is_err());
}
