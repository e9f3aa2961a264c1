//! A warm function follows what has changed; at any doubt it lists anew, and sees the same.
#![expect(clippy::unwrap_used, reason = "what is not there fails the test")]

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
/// More than a page, so that they are worth remembering.
const MANY: usize = 510;

fn pod(name: &str, node: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"namespace": "default", "name": name, "uid": format!("uid-of-{name}")},
        "spec": {"nodeName": node, "containers": [{"name": "web", "image": "web:1"}]},
        "status": {"phase": "Running"},
    })
}

/// A cluster of many pods in which nothing acts, and a function that has listed them.
async fn warm() -> (Sandbox, KubeCluster) {
    let sandbox = populated(Vec::new()).await;
    let cluster = connect(&sandbox);
    assert_eq!(cluster.pods().await.unwrap().len(), MANY);
    assert_eq!(how(&cluster), (1, 0));
    (sandbox, cluster)
}

/// A cluster of many pods that no function has listed; besides the administrator, these may come in.
async fn populated(members: Vec<Credential>) -> Sandbox {
    let mut options = SandboxOptions {
        clock: sandbox::WorldClock::starting_at("2026-01-01T00:00:00Z".parse().unwrap()),
        // Clients read the first piece of what is compressed piece by piece.
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

/// How often pods were listed and followed.
fn how(cluster: &KubeCluster) -> (u64, u64) {
    let Traffic {
        listed, followed, ..
    } = cluster.traffic();
    (listed, followed)
}

/// One comes, one goes, one moves.
fn change(sandbox: &Sandbox) {
    sandbox.with(|world, _| {
        let store = &mut world.server.store;
        store.put(&PODS, pod("young", "node-b"));
        store.put(&PODS, pod("pod-0001", "node-b"));
        store.remove(&PODS, &ObjectKey::new("default", "pod-0002"));
    });
}

/// What the cluster shows to somebody who has seen nothing yet.
async fn fresh(sandbox: &Sandbox) -> Vec<Pod> {
    sorted(connect(sandbox).pods().await.unwrap())
}

fn sorted(mut pods: Vec<Pod>) -> Vec<Pod> {
    pods.sort_by(|a, b| a.key.cmp(&b.key));
    pods
}

#[tokio::test]
async fn what_has_changed_is_followed_and_nothing_is_listed_again() {
    let (sandbox, cluster) = warm().await;
    for _ in 0..3 {
        change(&sandbox);
        let before = cluster.traffic();
        let pods = sorted(cluster.pods().await.unwrap());
        assert_eq!(pods, fresh(&sandbox).await);
        let cost = cluster.traffic().since(before);
        assert_eq!((cost.requests, cost.listed, cost.followed), (2, 0, 1));
    }
}

/// More than one piece of a watch, each of which may be compressed apart.
#[tokio::test]
async fn much_that_has_changed_is_followed_to_its_end() {
    let (sandbox, cluster) = warm().await;
    sandbox.with(|world, _| {
        for index in 0..MANY {
            let mut moved = pod(&format!("pod-{index:04}"), "node-b");
            moved["metadata"]["annotations"] = json!({"note": "n".repeat(500)});
            world.server.store.put(&PODS, moved);
        }
    });
    let pods = sorted(cluster.pods().await.unwrap());
    assert_eq!(pods, fresh(&sandbox).await);
    assert_eq!(how(&cluster), (1, 1));
}

#[tokio::test]
async fn pods_without_a_node_are_known_without_another_question() {
    let (sandbox, cluster) = warm().await;
    sandbox.with(|world, _| world.server.store.put(&PODS, pod("waits", "")));
    let waiting = cluster.unassigned_pods().await.unwrap();
    let names: Vec<_> = waiting.iter().map(|pod| pod.key.name.as_str()).collect();
    assert_eq!(names, ["waits"]);
    assert_eq!(how(&cluster), (1, 1));
}

/// Something goes wrong while a warm function catches up: it sees the same, by another list.
async fn lists_anew(spoil: impl FnOnce(&Sandbox)) {
    let (sandbox, cluster) = warm().await;
    change(&sandbox);
    spoil(&sandbox);
    let pods = sorted(cluster.pods().await.unwrap());
    sandbox.clear_faults();
    assert_eq!(pods, fresh(&sandbox).await);
    assert_eq!(how(&cluster), (2, 0));
}

fn on_watches(effect: Effect, times: u32) -> Fault {
    Fault::new(effect, times)
        .on_verb("watch")
        .on_resource("pods")
}

#[tokio::test]
async fn a_server_that_has_forgotten_is_listed() {
    lists_anew(|sandbox| sandbox.with(|world, _| world.server.store.compact())).await;
}

#[tokio::test]
async fn a_watch_that_is_refused_is_a_list() {
    lists_anew(|sandbox| sandbox.inject(on_watches(Effect::expired(), 1))).await;
    lists_anew(|sandbox| sandbox.inject(on_watches(Effect::internal_error(), 1))).await;
}

#[tokio::test]
async fn a_watch_that_is_closed_at_once_each_time_is_a_list() {
    lists_anew(|sandbox| sandbox.inject(on_watches(Effect::EndAtOnce, 100))).await;
}

#[tokio::test]
async fn a_watch_that_is_closed_once_is_resumed() {
    let (sandbox, cluster) = warm().await;
    change(&sandbox);
    sandbox.inject(on_watches(Effect::EndAtOnce, 1));
    let pods = sorted(cluster.pods().await.unwrap());
    assert_eq!(pods, fresh(&sandbox).await);
    assert_eq!(how(&cluster), (1, 1));
}

#[tokio::test]
async fn a_server_that_answers_byte_by_byte_holds_nobody_up() {
    let slow = Effect::Drip(Duration::from_millis(200));
    lists_anew(|sandbox| sandbox.inject(on_watches(slow, 1))).await;
}

#[tokio::test]
async fn what_fits_into_a_page_is_always_listed() {
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
    assert_eq!(how(&cluster), (0, 0), "nothing to remember");
}

#[tokio::test]
async fn a_list_waits_where_the_server_asks_for_it() {
    let (sandbox, _) = warm().await;
    let busy = Fault::new(Effect::throttle(1), 1);
    sandbox.inject(busy.on_verb("list").on_resource("pods"));
    let cluster = connect(&sandbox);
    assert_eq!(cluster.pods().await.unwrap().len(), MANY);
}

#[tokio::test]
async fn a_server_that_stays_busy_is_left_alone() {
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
async fn new_credentials_do_not_make_a_function_forget() {
    let (sandbox, cluster) = warm().await;
    change(&sandbox);
    let renewed = cluster.through(client(&sandbox, sandbox.token()));
    let pods = sorted(renewed.pods().await.unwrap());
    assert_eq!(pods, fresh(&sandbox).await);
    assert_eq!(how(&renewed), (0, 1));
    assert_eq!(renewed.remembered().await, MANY);
    renewed.forget().await;
    assert_eq!(renewed.remembered().await, 0);
}

/// Rights of the chart: `watch` is a verb of its own, and a role without it makes each turn list everything.
#[tokio::test]
async fn functions_that_plan_may_follow_large_kinds() {
    let functions = ["provisioner", "lifecycle", "disruption", "terminator"];
    let member = |function| Credential::member(function, &[&format!("whittle:{function}")]);
    let sandbox = populated(functions.map(member).into()).await;
    sandbox.install(&harness::chart_rbac()).unwrap();
    for function in functions {
        let client = client(&sandbox, &member(function).token);
        let cluster = KubeCluster::new(client, "kube-system");
        for _ in 0..2 {
            change(&sandbox);
            let pods = sorted(cluster.pods().await.unwrap());
            assert_eq!(pods, fresh(&sandbox).await, "{function}");
        }
        assert_eq!(
            how(&cluster),
            (1, 1),
            "{function}: {:?}",
            sandbox.accesses()
        );
    }
}

/// As after a restored snapshot of etcd, or where a cluster was made anew under its name.
#[tokio::test]
async fn a_server_whose_versions_went_backwards_is_listed() {
    let (sandbox, cluster) = warm().await;
    for _ in 0..3 {
        change(&sandbox);
        cluster.pods().await.unwrap();
    }
    let earlier = populated(Vec::new()).await;
    let moved = cluster.through(client(&earlier, earlier.token()));
    let pods = sorted(moved.pods().await.unwrap());
    assert_eq!(pods, fresh(&earlier).await);
    assert_eq!(how(&moved), (1, 0));
}
