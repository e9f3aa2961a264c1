use k8s_openapi::api::core::v1::Pod;
use kube::{Api, api::ListParams};
use sandbox::server::WriteOptions;
use serde_json::json;

use crate::support::{Fixture, eventually};

/// Number of nodes. The test asserts counts, not times: that lists of this size work at all, in pages and compressed.
const NODES: usize = 100;
const PODS: usize = 1001;

#[tokio::test]
async fn cluster_of_100_nodes_fills_up_and_lists_in_pages() {
    let fixture = Fixture::start().await;
    for index in 0..NODES {
        fixture.join_node(&format!("node-{index}"));
    }
    let deployment = json!({
        "metadata": {"name": "web"},
        "spec": {
            "replicas": PODS, "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [
                {"name": "web", "image": "web:1", "resources": {"requests": {"cpu": "250m"}}},
            ]}},
        },
    });
    fixture.sandbox.with(|world, now| {
        let kind = world
            .server
            .kinds
            .by_kind("apps/v1", "Deployment")
            .unwrap()
            .clone();
        let options = WriteOptions::default();
        world
            .server
            .create(&kind, "default", deployment, &options, now)
            .unwrap();
    });
    let pods: Api<Pod> = Api::all(fixture.client().await);
    let running = ListParams::default().fields("status.phase=Running");
    eventually("all pods run", async || {
        pods.list(&running).await.unwrap().items.len() == PODS
    })
    .await;
    let mut page = pods.list(&ListParams::default().limit(200)).await.unwrap();
    let mut found = page.items.len();
    while let Some(token) = page.metadata.continue_.filter(|token| !token.is_empty()) {
        page = pods
            .list(&ListParams::default().limit(200).continue_token(&token))
            .await
            .unwrap();
        found += page.items.len();
    }
    assert_eq!(found, PODS);
    let whole = pods.list(&ListParams::default()).await.unwrap();
    assert_eq!(whole.items.len(), PODS, "streamed, and compressed");
}
