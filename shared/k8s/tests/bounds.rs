//! A server may send what it likes: what is too much is an error that says so, and no memory and no time is lost on it.
#![expect(clippy::unwrap_used, reason = "what is not there fails the test")]

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
/// More than a page.
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

/// The error of a list of nodes whose answer is this.
async fn list_under(effect: Effect) -> ClusterError {
    let sandbox = server().await;
    let cluster = connect(&sandbox);
    sandbox.inject(Fault::new(effect, 1).on_verb("list").on_resource("nodes"));
    let error = cluster.nodes().await.unwrap_err();
    assert_eq!(sandbox.pending_faults(), 0);
    assert!(cluster.nodes().await.is_ok(), "the next one is as ever");
    error
}

fn is_refused_with(error: &ClusterError, part: &str) {
    assert!(matches!(error, ClusterError::Unavailable { .. }), "{error}");
    assert!(error.to_string().contains(part), "{error}");
}

#[tokio::test]
async fn list_without_an_end_is_refused() {
    let error = list_under(Effect::Endless).await;
    is_refused_with(&error, "larger than 64 MiB");
}

#[tokio::test]
async fn list_that_unpacks_beyond_any_page_is_refused() {
    let error = list_under(Effect::Unpacks(128)).await;
    is_refused_with(&error, "larger than 64 MiB");
}

#[tokio::test]
async fn object_without_an_end_is_refused() {
    let sandbox = server().await;
    let cluster = connect(&sandbox);
    for effect in [Effect::Endless, Effect::Unpacks(8)] {
        sandbox.inject(Fault::new(effect, 1).on_resource("leases"));
        let error = cluster.leader_lease().await.unwrap_err();
        is_refused_with(&error, "larger than 4 MiB");
    }
}

#[tokio::test]
async fn page_of_more_objects_than_anybody_asked_for_is_refused() {
    let items = vec!["{}"; 1_000_000].join(",");
    let list = format!(r#"{{"kind":"NodeList","metadata":{{}},"items":[{items}]}}"#);
    let error = list_under(Effect::Answer(list)).await;
    is_refused_with(&error, "more than 10000 items");
}

/// Short keys are small on the wire and large in memory.
#[tokio::test]
async fn list_of_more_keys_than_any_cluster_has_is_refused() {
    let labels: Vec<String> = (0..4_000_000).map(|n| format!("\"{n:x}\" :\"\"")).collect();
    let labels = labels.join(",");
    let list = format!(
        r#"{{"kind":"NodeList","metadata":{{}},"items":[{{"metadata":{{"name":"a","labels":{{{labels}}}}}}}]}}"#
    );
    let error = list_under(Effect::Answer(list)).await;
    is_refused_with(&error, "more than 4000000 keys");
}

#[tokio::test]
async fn answer_that_is_no_list_is_no_empty_list() {
    for answer in [
        r#"{"metadata":{}}"#,
        r#"{"kind":"Status","metadata":{},"status":"Success"}"#,
        r#"{"metadata":{},"items":[]}"#,
        "[]",
        "",
    ] {
        let error = list_under(Effect::Answer(answer.to_owned())).await;
        is_refused_with(&error, "cannot be read");
    }
}

#[tokio::test]
async fn watch_of_one_endless_line_is_a_list() {
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

/// Within the patience of one answer, which is shorter than any turn's slice.
#[tokio::test]
async fn server_that_answers_byte_by_byte_is_given_up() {
    let sandbox = server().await;
    let cluster = connect(&sandbox);
    let slow = Effect::Drip(Duration::from_secs(1));
    sandbox.inject(Fault::new(slow, 1).on_resource("nodes"));
    let error = cluster.nodes().await.unwrap_err();
    is_refused_with(&error, "not complete after");
}

/// A list of one page whose answer is this.
async fn page(kind: &str, items: serde_json::Value) -> (Sandbox, KubeCluster) {
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

/// Decisions about its node must know that it is there.
#[tokio::test]
async fn pod_that_cannot_be_read_is_shown_on_its_node_and_protected() {
    let odd = json!({
        "metadata": {"name": "odd", "namespace": "default", "uid": "u", "labels": {"app": "odd"}},
        "spec": {"nodeName": "node-a", "priority": "high", "containers": [{"name": "web"}]},
        "status": {"phase": "Running"},
    });
    let (_sandbox, cluster) = page("Pod", json!([odd])).await;
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
async fn pod_that_waits_and_cannot_be_read_is_bought_nothing() {
    let odd = json!({
        "metadata": {"name": "odd", "namespace": "default"},
        "spec": {"priority": "high", "containers": []},
        "status": {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]},
    });
    let (_sandbox, cluster) = page("Pod", json!([odd])).await;
    let pods = cluster.pods().await.unwrap();
    assert_eq!(pods.len(), 1);
    assert!(pods.iter().all(|pod| !pod.unschedulable));
}

#[tokio::test]
async fn node_that_cannot_be_read_is_there_takes_no_pods_and_is_protected() {
    let odd = json!({
        "metadata": {"name": "node-a", "uid": "u"},
        "spec": {"providerID": "aws:///us-east-1a/i-1", "taints": "none"},
        "status": {"allocatable": {"cpu": "2"}},
    });
    let (_sandbox, cluster) = page("Node", json!([odd])).await;
    let nodes = cluster.nodes().await.unwrap();
    let [node] = nodes.as_slice() else {
        panic!("{nodes:?}")
    };
    assert_eq!(node.provider_id, "aws:///us-east-1a/i-1");
    assert!(node.unschedulable);
    assert!(node.annotations.contains_key("karpenter.sh/do-not-disrupt"));
}

/// Purchases have to know of its instance, and nothing else may come of it.
#[tokio::test]
async fn node_claim_that_cannot_be_read_is_there_and_of_no_node_class_that_we_serve() {
    let class = json!({"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"});
    let metadata = json!({"name": "default-x7f2p", "uid": "u", "labels": {"karpenter.sh/nodepool": "default"}});
    for spec in [
        json!("none"),
        json!({"nodeClassRef": class, "requirements": [], "taints": "none"}),
        json!({"nodeClassRef": class, "requirements": "none"}),
    ] {
        let odd = json!({
            "metadata": metadata,
            "spec": spec,
            "status": {"providerID": "aws:///us-east-1a/i-1", "capacity": {"cpu": "2"}},
        });
        let (_sandbox, cluster) = page("NodeClaim", json!([odd])).await;
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
async fn list_with_a_node_claim_whose_name_cannot_be_read_is_an_error() {
    let odd = json!({"metadata": {"name": 7}, "spec": "none"});
    let (_sandbox, cluster) = page("NodeClaim", json!([odd])).await;
    assert!(cluster.node_claims().await.is_err());
}
