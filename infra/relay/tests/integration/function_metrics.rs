//! Metrics of the functions end to end: published with the chart's rights of a function, read with the relay's, shown on
//! `/metrics`.

use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::http::Request;
use k8s::{Access, Client, Credentials, KubeCluster};
use model::status::{CONFIG_MAP, Status};
use model::{ClusterName, Lane};
use ports::{Cluster as _, ClusterError, cluster::StatusDocument};
use relay::batcher::Window;
use relay::function_metrics::follow::follow;
use relay::http::router;
use relay::metrics::Metrics;
use relay::relay::Relay;
use relay::run::Shared;
use sandbox::server::WriteOptions;
use sandbox::{Credential, Sandbox, SandboxOptions};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tower::ServiceExt as _;

use crate::chart::render;
use crate::support::until;

const NAMESPACE: &str = "karpenter";

/// A cluster with the chart's rights for functions and the relay.
struct TestCluster {
    server: Sandbox,
    shared: Shared,
    following: JoinSet<()>,
}

fn credential(token: &str, user: &str, group: &str) -> Credential {
    Credential {
        token: token.to_owned(),
        user: user.to_owned(),
        groups: vec![group.to_owned()],
    }
}

impl TestCluster {
    /// Creates the cluster with these kinds of the chart's objects.
    async fn new(kinds: &[&str]) -> Self {
        let relay = "system:serviceaccount:whittle:whittle-relay";
        let credentials = vec![
            Credential::administrator("administrator"),
            credential("provisioner", "role/provisioner", "whittle:provisioner"),
            credential("disruption", "role/disruption", "whittle:disruption"),
            credential("relay", relay, "system:serviceaccounts"),
        ];
        let server = Sandbox::start(SandboxOptions {
            credentials,
            compressed_watches: true,
            ..SandboxOptions::default()
        })
        .await
        .unwrap();
        let metrics = Metrics::default();
        let window = Window {
            idle: Duration::from_secs(1),
            max: Duration::from_secs(10),
        };
        let shared = Shared::new(
            Relay::new(ClusterName::from("demo"), window, 0),
            metrics.clone(),
        );
        let mut cluster = Self {
            server,
            shared,
            following: JoinSet::new(),
        };
        cluster.create(
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}),
        );
        cluster.install(kinds);
        let client = client(&cluster.server, "relay");
        let follow = follow(client, NAMESPACE.to_owned(), metrics);
        cluster.following.spawn(follow);
        cluster
    }

    fn install(&self, kinds: &[&str]) {
        let objects = render(&["leaderElection.namespace=karpenter"]);
        let wanted = |object: &&Value| kinds.iter().any(|kind| object["kind"] == *kind);
        for object in objects.iter().filter(wanted) {
            self.create(object.clone());
        }
    }

    fn create(&self, object: Value) {
        self.server.with(|world, now| {
            let (version, kind) = (object["apiVersion"].as_str(), object["kind"].as_str());
            let kinds = &world.server.kinds;
            let kind = kinds.by_kind(version.unwrap(), kind.unwrap()).unwrap();
            let kind = kind.clone();
            let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
            let namespace = namespace.to_owned();
            let options = WriteOptions::default();
            world
                .server
                .create(&kind, &namespace, object, &options, now)
                .unwrap();
        });
    }

    fn function(&self, token: &str) -> KubeCluster {
        KubeCluster::new(client(&self.server, token), NAMESPACE)
    }

    async fn get(&self, path: &str) -> String {
        let request = Request::get(path).body(Body::empty()).unwrap();
        let response = router(self.shared.clone()).oneshot(request).await.unwrap();
        let body = to_bytes(response.into_body(), usize::MAX).await.unwrap();
        String::from_utf8(body.to_vec()).unwrap()
    }

    async fn shows(&self, path: &str, line: &str) {
        until(line, async || {
            self.get(path).await.lines().any(|shown| shown == line)
        })
        .await;
    }
}

fn client(server: &Sandbox, token: &str) -> Client {
    let access = Access {
        endpoint: server.url(),
        certificate_authority: None,
        credentials: Credentials::BearerToken(token.into()),
    };
    access.client().unwrap()
}

fn counted(pool: &str, more: f64) -> String {
    let mut status = Status::default();
    let labels = [("nodepool".to_owned(), pool.to_owned())].into();
    status.count("karpenter_nodeclaims_created_total", labels, more);
    status.keep().unwrap().text
}

async fn publish(function: &KubeCluster, lane: Lane, text: String) {
    let before = function.status_document(lane).await.unwrap().unwrap();
    let document = StatusDocument { text, ..before };
    function
        .store_status_document(lane, &document)
        .await
        .unwrap();
}

const RIGHTS: [&str; 3] = ["ConfigMap", "Role", "RoleBinding"];

#[tokio::test]
async fn function_metrics_are_shown_with_relay_metrics() {
    let cluster = TestCluster::new(&RIGHTS).await;
    let (provisioner, disruption) = (
        cluster.function("provisioner"),
        cluster.function("disruption"),
    );
    publish(&provisioner, Lane::Provisioner, counted("default", 2.0)).await;
    let line = r#"karpenter_nodeclaims_created_total{nodepool="default"} 2.0"#;
    cluster.shows("/metrics", line).await;
    publish(&disruption, Lane::Disruption, counted("default", 3.0)).await;
    let line = r#"karpenter_nodeclaims_created_total{nodepool="default"} 5.0"#;
    cluster.shows("/metrics", line).await;

    let metrics = cluster.get("/metrics").await;
    assert!(
        metrics.contains("whittle_relay_pods_waiting 0"),
        "{metrics}"
    );
    assert!(metrics.ends_with("\n# EOF\n"), "{metrics}");
    assert_eq!(metrics.matches("# EOF").count(), 1, "{metrics}");
    let line = "metrics of the functions: reported by 2 functions";
    cluster.shows("/readyz", line).await;
}

#[tokio::test]
async fn function_replaces_only_the_document_it_read() {
    let cluster = TestCluster::new(&RIGHTS).await;
    let (provisioner, disruption) = (
        cluster.function("provisioner"),
        cluster.function("disruption"),
    );
    let read = provisioner.status_document(Lane::Provisioner).await;
    let seen = read.unwrap().unwrap();
    assert_eq!(seen.text, "");
    publish(&disruption, Lane::Disruption, counted("a", 1.0)).await;

    let late = provisioner
        .store_status_document(Lane::Provisioner, &seen)
        .await;
    assert!(
        matches!(late, Err(ClusterError::Conflict { .. })),
        "{late:?}"
    );
    publish(&provisioner, Lane::Provisioner, counted("b", 1.0)).await;
    let document = disruption.status_document(Lane::Disruption).await;
    assert_eq!(document.unwrap().unwrap().text, counted("a", 1.0));
}

#[tokio::test]
async fn missing_right_is_reported_and_affects_only_function_metrics() {
    let cluster = TestCluster::new(&[]).await;
    let provisioner = cluster.function("provisioner");
    let denied = provisioner.status_document(Lane::Provisioner).await;
    assert!(
        matches!(denied, Err(ClusterError::Denied { .. })),
        "{denied:?}"
    );
    until("the relay says why", async || {
        let ready = cluster.get("/readyz").await;
        ready.contains("metrics of the functions: failing: ")
            && ready.contains("(is the Role whittle:status-reader of the chart bound to the relay's service account?)")
    })
    .await;
    let metrics = cluster.get("/metrics").await;
    assert!(
        metrics.contains("whittle_relay_pods_waiting 0"),
        "{metrics}"
    );

    cluster.install(&RIGHTS);
    publish(&provisioner, Lane::Provisioner, counted("default", 1.0)).await;
    let line = r#"karpenter_nodeclaims_created_total{nodepool="default"} 1.0"#;
    cluster.shows("/metrics", line).await;
}

#[tokio::test]
async fn missing_config_map_is_no_error() {
    let cluster = TestCluster::new(&["Role", "RoleBinding"]).await;
    let provisioner = cluster.function("provisioner");
    let none = provisioner.status_document(Lane::Provisioner).await;
    assert_eq!(none.unwrap(), None);
    let gone = provisioner
        .store_status_document(Lane::Provisioner, &StatusDocument::default())
        .await;
    assert!(
        matches!(gone, Err(ClusterError::NotFound { .. })),
        "{gone:?}"
    );
    let line = "metrics of the functions: none reported";
    cluster.shows("/readyz", line).await;
}

#[tokio::test]
async fn no_other_config_map_is_open_to_functions_or_the_relay() {
    let cluster = TestCluster::new(&RIGHTS).await;
    cluster.create(json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "aws-auth", "namespace": NAMESPACE},
    }));
    let maps = format!("/api/v1/namespaces/{NAMESPACE}/configmaps");
    for (token, path, allowed) in [
        ("provisioner", format!("{maps}/{CONFIG_MAP}"), true),
        ("provisioner", format!("{maps}/aws-auth"), false),
        ("provisioner", maps.clone(), false),
        (
            "relay",
            format!("{maps}?fieldSelector=metadata.name%3D{CONFIG_MAP}"),
            true,
        ),
        (
            "relay",
            format!("{maps}?fieldSelector=metadata.name%3Daws-auth"),
            false,
        ),
        (
            "relay",
            format!("{maps}/aws-auth?fieldSelector=metadata.name%3D{CONFIG_MAP}"),
            false,
        ),
        ("relay", maps.clone(), false),
        ("relay", "/api/v1/configmaps".to_owned(), false),
    ] {
        let request = http::Request::get(&path).body(Vec::new()).unwrap();
        let answer = client(&cluster.server, token).request_text(request).await;
        assert_eq!(answer.is_ok(), allowed, "{token} {path}: {answer:?}");
    }
}
