//! Cached kinds: a warm function follows changes by watches, and lists again with the same result if the cache cannot be brought
//! up to date.
#![expect(clippy::unwrap_used, reason = "a missing value fails the test")]

use std::time::Duration;

use k8s::{Access, Credentials, KubeCluster};
use model::pod::Pod;
use ports::{Cluster, cluster::Traffic};
use sandbox::{
    Credential, Sandbox, SandboxOptions,
    faults::{Effect, Fault},
    store::{ObjectKey, TableId},
};
use serde_json::{Value, json};

const PODS: TableId = TableId::named("pods");
/// More than a page, so that the kind is cached.
const MANY: usize = 510;

fn pod(name: &str, node: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"namespace": "default", "name": name, "uid": format!("uid-of-{name}")},
        "spec": {"nodeName": node, "containers": [{"name": "web", "image": "web:1"}]},
        "status": {"phase": "Running"},
    })
}

/// A cluster of many pods without controllers, and a client that has listed them.
async fn warm() -> (Sandbox, KubeCluster) {
    let sandbox = populated(Vec::new()).await;
    let cluster = connect(&sandbox);
    assert_eq!(cluster.pods().await.unwrap().len(), MANY);
    assert_eq!(read_counts(&cluster), (1, 0));
    (sandbox, cluster)
}

/// A cluster of many pods that no client has listed. Besides the administrator, these members have access.
async fn populated(members: Vec<Credential>) -> Sandbox {
    let mut options = SandboxOptions {
        clock: sandbox::WorldClock::starting_at("2026-01-01T00:00:00Z".parse().unwrap()),
        // Clients decode only the first event of a stream that is compressed event by event.
        compressed_watches: true,
        ..SandboxOptions::default()
    };
    options.credentials.extend(members);
    let sandbox = Sandbox::start(options).await.unwrap();
    sandbox.with(|world, _| {
        for index in 0..MANY {
            let pod = pod(&format!("pod-{index:04}"), "node-a");
            world.server.store.put(&PODS, pod);
        }
    });
    sandbox
}

fn connect(sandbox: &Sandbox) -> KubeCluster {
    KubeCluster::new(client(sandbox, sandbox.token()), "kube-system")
}

fn client(sandbox: &Sandbox, token: &str) -> k8s::Client {
    let access = Access {
        endpoint: sandbox.url(),
        certificate_authority: None,
        credentials: Credentials::BearerToken(token.into()),
    };
    access.client().unwrap()
}

/// Number of lists and of watch catch-ups for pods.
fn read_counts(cluster: &KubeCluster) -> (u64, u64) {
    let Traffic {
        listed, followed, ..
    } = cluster.traffic();
    (listed, followed)
}

/// Creates a pod, moves one and deletes one.
fn change_pods(sandbox: &Sandbox) {
    sandbox.with(|world, _| {
        let store = &mut world.server.store;
        store.put(&PODS, pod("young", "node-b"));
        store.put(&PODS, pod("pod-0001", "node-b"));
        store.remove(&PODS, &ObjectKey::new("default", "pod-0002"));
    });
}

/// Lists the pods with a client that has no cache.
async fn listed_pods(sandbox: &Sandbox) -> Vec<Pod> {
    sorted(connect(sandbox).pods().await.unwrap())
}

fn sorted(mut pods: Vec<Pod>) -> Vec<Pod> {
    pods.sort_by(|a, b| a.key.cmp(&b.key));
    pods
}

#[tokio::test]
async fn changes_are_followed_without_another_list() {
    let (sandbox, cluster) = warm().await;
    for _ in 0..3 {
        change_pods(&sandbox);
        let before = cluster.traffic();
        let pods = sorted(cluster.pods().await.unwrap());
        assert_eq!(pods, listed_pods(&sandbox).await);
        let cost = cluster.traffic().since(before);
        assert_eq!((cost.requests, cost.listed, cost.followed), (2, 0, 1));
    }
}

/// More than one chunk of a watch, each of which may be compressed by itself.
#[tokio::test]
async fn many_changes_are_followed_completely() {
    let (sandbox, cluster) = warm().await;
    sandbox.with(|world, _| {
        for index in 0..MANY {
            let mut moved = pod(&format!("pod-{index:04}"), "node-b");
            moved["metadata"]["annotations"] = json!({"note": "n".repeat(500)});
            world.server.store.put(&PODS, moved);
        }
    });
    let pods = sorted(cluster.pods().await.unwrap());
    assert_eq!(pods, listed_pods(&sandbox).await);
    assert_eq!(read_counts(&cluster), (1, 1));
}

#[tokio::test]
async fn unassigned_pods_are_read_from_cache() {
    let (sandbox, cluster) = warm().await;
    sandbox.with(|world, _| world.server.store.put(&PODS, pod("waits", "")));
    let waiting = cluster.unassigned_pods().await.unwrap();
    let names: Vec<_> = waiting.iter().map(|pod| pod.key.name.as_str()).collect();
    assert_eq!(names, ["waits"]);
    assert_eq!(read_counts(&cluster), (1, 1));
}

/// Asserts that a failure while a warm client catches up causes another list with the same result.
async fn assert_relisted(inject: impl FnOnce(&Sandbox)) {
    let (sandbox, cluster) = warm().await;
    change_pods(&sandbox);
    inject(&sandbox);
    let pods = sorted(cluster.pods().await.unwrap());
    sandbox.clear_faults();
    assert_eq!(pods, listed_pods(&sandbox).await);
    assert_eq!(read_counts(&cluster), (2, 0));
}

fn on_watches(effect: Effect, times: u32) -> Fault {
    Fault::new(effect, times)
        .on_verb("watch")
        .on_resource("pods")
}

#[tokio::test]
async fn compacted_version_causes_relist() {
    assert_relisted(|sandbox| sandbox.with(|world, _| world.server.store.compact())).await;
}

#[tokio::test]
async fn rejected_watch_causes_relist() {
    assert_relisted(|sandbox| sandbox.inject(on_watches(Effect::expired(), 1))).await;
    assert_relisted(|sandbox| sandbox.inject(on_watches(Effect::internal_error(), 1))).await;
}

#[tokio::test]
async fn watches_that_close_immediately_cause_relist() {
    assert_relisted(|sandbox| sandbox.inject(on_watches(Effect::EndAtOnce, 100))).await;
}

#[tokio::test]
async fn watch_that_closes_early_is_resumed() {
    let (sandbox, cluster) = warm().await;
    change_pods(&sandbox);
    sandbox.inject(on_watches(Effect::EndAtOnce, 1));
    let pods = sorted(cluster.pods().await.unwrap());
    assert_eq!(pods, listed_pods(&sandbox).await);
    assert_eq!(read_counts(&cluster), (1, 1));
}

#[tokio::test]
async fn slow_watch_causes_relist() {
    let slow = Effect::Drip(Duration::from_millis(200));
    assert_relisted(|sandbox| sandbox.inject(on_watches(slow, 1))).await;
}

#[tokio::test]
async fn kind_of_one_page_is_always_listed() {
    let (sandbox, _) = warm().await;
    sandbox.with(|world, _| {
        for index in 10..MANY {
            let key = ObjectKey::new("default", format!("pod-{index:04}"));
            world.server.store.remove(&PODS, &key);
        }
    });
    let cluster = connect(&sandbox);
    for _ in 0..2 {
        assert_eq!(cluster.pods().await.unwrap().len(), 10);
    }
    assert_eq!(read_counts(&cluster), (0, 0), "nothing is cached");
}

#[tokio::test]
async fn throttled_list_is_retried() {
    let (sandbox, _) = warm().await;
    let busy = Fault::new(Effect::throttle(1), 1);
    sandbox.inject(busy.on_verb("list").on_resource("pods"));
    let cluster = connect(&sandbox);
    assert_eq!(cluster.pods().await.unwrap().len(), MANY);
}

#[tokio::test]
async fn list_fails_after_two_throttled_retries() {
    let (sandbox, _) = warm().await;
    let busy = Fault::new(Effect::throttle(1), 100);
    sandbox.inject(busy.on_verb("list").on_resource("pods"));
    let refused = connect(&sandbox).pods().await.unwrap_err();
    assert!(
        matches!(refused, ports::ClusterError::Throttled { .. }),
        "{refused}"
    );
    assert_eq!(
        sandbox.pending_faults(),
        1,
        "asked three times of a hundred"
    );
}

#[tokio::test]
async fn cache_survives_new_credentials() {
    let (sandbox, cluster) = warm().await;
    change_pods(&sandbox);
    let renewed = cluster.through(client(&sandbox, sandbox.token()));
    let pods = sorted(renewed.pods().await.unwrap());
    assert_eq!(pods, listed_pods(&sandbox).await);
    assert_eq!(read_counts(&renewed), (0, 1));
    assert_eq!(renewed.remembered().await, MANY);
    renewed.forget().await;
    assert_eq!(renewed.remembered().await, 0);
}

/// RBAC of the chart: `watch` is a separate verb, and a role without it makes each turn list all objects.
#[tokio::test]
async fn chart_allows_planning_functions_to_watch_large_kinds() {
    let functions = ["provisioner", "lifecycle", "disruption", "terminator"];
    let member = |function| Credential::member(function, &[&format!("whittle:{function}")]);
    let sandbox = populated(functions.map(member).into()).await;
    sandbox.install(&harness::chart_rbac()).unwrap();
    for function in functions {
        let client = client(&sandbox, &member(function).token);
        let cluster = KubeCluster::new(client, "kube-system");
        for _ in 0..2 {
            change_pods(&sandbox);
            let pods = sorted(cluster.pods().await.unwrap());
            assert_eq!(pods, listed_pods(&sandbox).await, "{function}");
        }
        assert_eq!(
            read_counts(&cluster),
            (1, 1),
            "{function}: {:?}",
            sandbox.accesses()
        );
    }
}

/// Happens after a restored snapshot of etcd, or if a cluster was recreated under the same name.
#[tokio::test]
async fn server_with_older_version_is_listed() {
    let (sandbox, cluster) = warm().await;
    for _ in 0..3 {
        change_pods(&sandbox);
        cluster.pods().await.unwrap();
    }
    let earlier = populated(Vec::new()).await;
    let moved = cluster.through(client(&earlier, earlier.token()));
    let pods = sorted(moved.pods().await.unwrap());
    assert_eq!(pods, listed_pods(&earlier).await);
    assert_eq!(read_counts(&moved), (1, 0));
}
