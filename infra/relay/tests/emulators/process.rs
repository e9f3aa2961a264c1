//! The process, from its environment to its end.

use std::process::{Child, Command, Stdio};

use axum::Router;
use axum::extract::RawQuery;
use axum::http::Uri;
use model::Lane;
use relay::kind::Kind;
use serde_json::json;

use crate::stack::Stack;
use crate::support::until;

/// Kills the process at the end of its test, also of a failing one.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // The process may have ended by itself.
        let _ = self.0.kill();
    }
}

/// An API server with one pod, whose watches never send events.
async fn serve_one_pending_pod() -> String {
    let answer = async |uri: Uri, RawQuery(query): RawQuery| {
        if query.is_some_and(|query| query.contains("watch=true")) {
            std::future::pending::<()>().await;
        }
        let pod = json!({
            "metadata": {"name": "web-0", "namespace": "default"},
            "status": {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]},
        });
        let items = if uri.path() == Kind::Pod.path() {
            vec![pod]
        } else {
            Vec::new()
        };
        json!({"metadata": {"resourceVersion": "1"}, "items": items}).to_string()
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(axum::serve(listener, Router::new().fallback(answer)).into_future());
    url
}

#[tokio::test]
async fn process_relays_wakes_until_terminated() {
    let stack = Stack::start().await;
    let server = serve_one_pending_pod().await;
    let directory = tempfile::tempdir().unwrap();
    let kubeconfig = directory.path().join("config");
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "demo",
        "clusters": [{"name": "demo", "cluster": {"server": server}}],
        "users": [{"name": "demo", "user": {}}],
        "contexts": [{"name": "demo", "context": {"cluster": "demo", "user": "demo"}}],
    });
    std::fs::write(&kubeconfig, config.to_string()).unwrap();
    let relay = Command::new(env!("CARGO_BIN_EXE_relay"))
        .env_clear()
        .envs(&stack.environment)
        .env("KUBECONFIG", kubeconfig)
        .env("WHITTLE_LISTEN", "127.0.0.1:0")
        .stdout(Stdio::null())
        .spawn();
    let mut relay = Process(relay.unwrap());

    until("the wake is in the queue", async || {
        stack
            .messages(Lane::Provisioner)
            .await
            .iter()
            .any(|wake| wake.hints == ["default/web-0"])
    })
    .await;
    until("the heartbeat is in the ledger", async || {
        stack
            .row()
            .await
            .is_some_and(|row| row["apiServer"].as_s().unwrap().starts_with(&server))
    })
    .await;

    let asked = Command::new("kill")
        .args(["-TERM", &relay.0.id().to_string()])
        .status()
        .unwrap();
    assert!(asked.success());
    assert!(relay.0.wait().unwrap().success());
}

#[test]
fn unconfigured_process_reports_all_missing_variables() {
    let output = Command::new(env!("CARGO_BIN_EXE_relay"))
        .env_clear()
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let log = String::from_utf8(output.stdout).unwrap();
    for name in ["WHITTLE_CLUSTER", "WHITTLE_QUEUE_TERMINATE", "AWS_REGION"] {
        assert!(log.contains(&format!("{name} is not set")), "{log}");
    }
}
