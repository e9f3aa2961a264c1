//! What the functions tell, all the way: written with the rights of the chart, seen with the relay's, shown on `/metrics`.

use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::http::Request;
use k8s::{Access, Client, Credentials, KubeCluster};
use model::status::{CONFIG_MAP, Status};
use model::{ClusterName, Lane};
use ports::{Cluster as _, ClusterError, cluster::StatusDocument};
use relay::batcher::Window;
use relay::http::router;
use relay::metrics::Metrics;
use relay::relay::Relay;
use relay::run::Shared;
use relay::told::follow;
use sandbox::server::WriteOptions;
use sandbox::{Credential, Sandbox, SandboxOptions};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tower::ServiceExt as _;

use crate::chart::render;
use crate::support::until;

const NAMESPACE: &str = "karpenter";

/// A cluster in which functions and the relay are what the chart makes of them.
struct Stage {
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

impl Stage {
    /// With these kinds of the chart's objects.
    async fn set(kinds: &[&str]) -> Self {
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
        let mut stage = Self {
            server,
            shared,
            following: JoinSet::new(),
        };
        stage.create(
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}),
        );
        stage.install(kinds);
        let client = client(&stage.server, "relay");
        let follow = follow(client, NAMESPACE.to_owned(), metrics);
        stage.following.spawn(follow);
        stage
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

async fn tell(function: &KubeCluster, lane: Lane, text: String) {
    let before = function.status_document(lane).await.unwrap().unwrap();
    let document = StatusDocument { text, ..before };
    function
        .store_status_document(lane, &document)
        .await
        .unwrap();
}

const RIGHTS: [&str; 3] = ["ConfigMap", "Role", "RoleBinding"];

#[tokio::test]
async fn what_functions_tell_is_shown_beside_the_relays_own_metrics() {
    let stage = Stage::set(&RIGHTS).await;
    let (provisioner, disruption) = (stage.function("provisioner"), stage.function("disruption"));
    tell(&provisioner, Lane::Provisioner, counted("default", 2.0)).await;
    let line = r#"karpenter_nodeclaims_created_total{nodepool="default"} 2.0"#;
    stage.shows("/metrics", line).await;
    tell(&disruption, Lane::Disruption, counted("default", 3.0)).await;
    let line = r#"karpenter_nodeclaims_created_total{nodepool="default"} 5.0"#;
    stage.shows("/metrics", line).await;

    let metrics = stage.get("/metrics").await;
    assert!(
        metrics.contains("whittle_relay_pods_waiting 0"),
        "{metrics}"
    );
    assert!(metrics.ends_with("\n# EOF\n"), "{metrics}");
    assert_eq!(metrics.matches("# EOF").count(), 1, "{metrics}");
    let line = "metrics of the functions: told by 2 functions";
    stage.shows("/readyz", line).await;
}

#[tokio::test]
async fn a_function_replaces_nothing_but_what_it_saw_of_its_own() {
    let stage = Stage::set(&RIGHTS).await;
    let (provisioner, disruption) = (stage.function("provisioner"), stage.function("disruption"));
    let read = provisioner.status_document(Lane::Provisioner).await;
    let seen = read.unwrap().unwrap();
    assert_eq!(seen.text, "");
    tell(&disruption, Lane::Disruption, counted("a", 1.0)).await;

    let late = provisioner
        .store_status_document(Lane::Provisioner, &seen)
        .await;
    assert!(
        matches!(late, Err(ClusterError::Conflict { .. })),
        "{late:?}"
    );
    tell(&provisioner, Lane::Provisioner, counted("b", 1.0)).await;
    let told = disruption.status_document(Lane::Disruption).await;
    assert_eq!(told.unwrap().unwrap().text, counted("a", 1.0));
}

#[tokio::test]
async fn a_chart_without_the_right_is_said_and_costs_nothing_else() {
    let stage = Stage::set(&[]).await;
    let provisioner = stage.function("provisioner");
    let denied = provisioner.status_document(Lane::Provisioner).await;
    assert!(
        matches!(denied, Err(ClusterError::Denied { .. })),
        "{denied:?}"
    );
    until("the relay says why", async || {
        let ready = stage.get("/readyz").await;
        ready.contains("metrics of the functions: failing: ")
            && ready.contains("(is the Role whittle:status-reader of the chart bound to the relay's service account?)")
    })
    .await;
    let metrics = stage.get("/metrics").await;
    assert!(
        metrics.contains("whittle_relay_pods_waiting 0"),
        "{metrics}"
    );

    stage.install(&RIGHTS);
    tell(&provisioner, Lane::Provisioner, counted("default", 1.0)).await;
    let line = r#"karpenter_nodeclaims_created_total{nodepool="default"} 1.0"#;
    stage.shows("/metrics", line).await;
}

#[tokio::test]
async fn without_the_config_map_nobody_is_told_and_nobody_complains() {
    let stage = Stage::set(&["Role", "RoleBinding"]).await;
    let provisioner = stage.function("provisioner");
    let none = provisioner.status_document(Lane::Provisioner).await;
    assert_eq!(none.unwrap(), None);
    let gone = provisioner
        .store_status_document(Lane::Provisioner, &StatusDocument::default())
        .await;
    assert!(
        matches!(gone, Err(ClusterError::NotFound { .. })),
        "{gone:?}"
    );
    let line = "metrics of the functions: nothing told";
    stage.shows("/readyz", line).await;
}

#[tokio::test]
async fn no_other_config_map_is_open_to_functions_or_the_relay() {
    let stage = Stage::set(&RIGHTS).await;
    stage.create(json!({
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
        let answer = client(&stage.server, token).request_text(request).await;
        assert_eq!(answer.is_ok(), allowed, "{token} {path}: {answer:?}");
    }
}
