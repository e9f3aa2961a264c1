//! Memory of the relay: the real process watches a synthetic cluster.
//!
//!     cargo bench -p relay --bench memory -- [NODES] [PODS]
//!
//! The cluster's objects are as large as real ones. Every kind is listed; then pods change; then their watch returns 410, so that
//! the relay lists all of them again while it still stores the old state. Then 200 pods change each second. The benchmark prints
//! peak memory and CPU time, for a relay that only wakes and for one that publishes pods. A line that misses its goal ends with
//! "missed"; CPU time is checked only in optimized builds.
#![expect(clippy::print_stdout, reason = "a benchmark prints its results")]

use std::convert::Infallible;
use std::error::Error;
use std::fmt::Write as _;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Query, State};
use axum::http::{Method, Uri};
use axum::response::{IntoResponse, Response};
use relay::kind::Kind;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::time::sleep;

/// Pods that change while the relay watches.
const CHANGES: usize = 5_000;

/// Pods that change each second after the second list, and for how long.
const RATE: usize = 200;
const STEADY: Duration = Duration::from_secs(20);
/// Upper bound on CPU usage during that time, in millicores.
const MILLICORES: u128 = 50;
/// Changes of one step, and the time between steps.
const STEP: usize = 20;
const PAUSE: Duration = Duration::from_millis(100);

struct Cluster {
    nodes: usize,
    pods: usize,
    /// Completed lists of pods.
    pod_lists: AtomicUsize,
    /// Objects that were put into the bucket.
    published: AtomicUsize,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut sizes = std::env::args()
        .skip(1)
        .filter(|argument| !argument.starts_with('-'));
    let nodes = sizes.next().map_or(Ok(500), |nodes| nodes.parse())?;
    let pods = sizes.next().map_or(Ok(5_000), |pods| pods.parse())?;
    for publishing in [false, true] {
        measure(nodes, pods, publishing).await?;
    }
    Ok(())
}

async fn measure(nodes: usize, pods: usize, publishing: bool) -> Result<(), Box<dyn Error>> {
    let cluster = Arc::new(Cluster {
        nodes,
        pods,
        pod_lists: AtomicUsize::new(0),
        published: AtomicUsize::new(0),
    });
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}", listener.local_addr()?);
    tokio::spawn(
        axum::serve(
            listener,
            Router::new()
                .fallback(answer)
                .with_state(Arc::clone(&cluster)),
        )
        .into_future(),
    );

    let directory = tempfile::tempdir()?;
    let mut relay = start(&url, &directory.path().join("config"), publishing)?;
    while cluster.pod_lists.load(Ordering::Relaxed) < 2 {
        if let Some(status) = relay.try_wait()? {
            return Err(format!("the relay ended: {status}").into());
        }
        sleep(Duration::from_millis(50)).await;
    }
    sleep(Duration::from_secs(1)).await;
    let before = cpu_time(relay.id())?;
    let published = cluster.published.load(Ordering::Relaxed);
    sleep(STEADY).await;
    let published = cluster.published.load(Ordering::Relaxed) - published;
    let used = cpu_time(relay.id())?.saturating_sub(before);
    let status = std::fs::read_to_string(format!("/proc/{}/status", relay.id()))?;
    relay.kill()?;
    relay.wait()?;
    let kib = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name))?;
        line.split_whitespace().nth(1)?.parse::<u64>().ok()
    };
    let (Some(peak), Some(now)) = (kib("VmHWM:"), kib("VmRSS:")) else {
        return Err("this system does not say how much memory a process takes".into());
    };
    let (does, target) = match publishing {
        false => ("wakes", 64),
        true => ("wakes and publishes", 128),
    };
    let millicores = used.as_millis() / u128::from(STEADY.as_secs());
    let is_quick = cfg!(debug_assertions) || millicores < MILLICORES;
    let verdict = match is_quick && peak.div_ceil(1024) < target {
        true => "",
        false => ": missed",
    };
    println!(
        "relay that {does}: {nodes} nodes, {pods} pods ({} KiB each): peak RSS {} MiB, now {} MiB (target: under {target}); \
         with {RATE} changes a second {millicores} millicores (target: under {MILLICORES}, in a release build), {published} versions \
         of pods in {} s{verdict}",
        pod(0, 1).to_string().len() / 1024,
        peak.div_ceil(1024),
        now.div_ceil(1024),
        STEADY.as_secs(),
    );
    Ok(())
}

/// User and system time of a process.
fn cpu_time(process: u32) -> Result<Duration, Box<dyn Error>> {
    // Linux counts CPU time in hundredths of a second.
    const TICK: u64 = 10;
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat"))?;
    let fields = stat.rsplit(')').next().unwrap_or_default();
    let times = fields.split_whitespace().skip(11).take(2);
    let ticks: u64 = times.map(|time| time.parse().unwrap_or(0_u64)).sum();
    Ok(Duration::from_millis(ticks * TICK))
}

fn start(
    url: &str,
    kubeconfig: &std::path::Path,
    publishing: bool,
) -> Result<Child, Box<dyn Error>> {
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": url}}],
        "users": [{"name": "c", "user": {}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
    });
    std::fs::write(kubeconfig, config.to_string())?;
    let mut command = Command::new(env!("CARGO_BIN_EXE_relay"));
    command
        .env_clear()
        .env("KUBECONFIG", kubeconfig)
        .env("WHITTLE_CLUSTER", "bench")
        .env("WHITTLE_TABLE", "whittle")
        .env("WHITTLE_LISTEN", "127.0.0.1:0")
        .envs(["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"].map(|name| (name, "bench")))
        .env("AWS_REGION", "us-east-1")
        .env("AWS_ENDPOINT_URL", url)
        .stdout(Stdio::null());
    if publishing {
        command.env("WHITTLE_VIEW_BUCKET", "bucket");
    }
    for (_, queue) in relay::config::QUEUES {
        command.env(queue, format!("{url}/queue"));
    }
    Ok(command.spawn()?)
}

async fn answer(
    State(cluster): State<Arc<Cluster>>,
    method: Method,
    uri: Uri,
    Query(query): Query<std::collections::BTreeMap<String, String>>,
) -> Response {
    if method == Method::PUT {
        cluster.published.fetch_add(1, Ordering::Relaxed);
    }
    if method == Method::POST || method == Method::PUT {
        // AWS services accept an empty response.
        return json_response("{}".to_owned());
    }
    let Some(kind) = Kind::ALL.into_iter().find(|kind| kind.path() == uri.path()) else {
        return axum::http::StatusCode::NOT_FOUND.into_response();
    };
    let number = |name: &str| {
        query
            .get(name)
            .and_then(|value| value.parse::<usize>().ok())
    };
    if query.contains_key("watch") {
        return watch(kind, &cluster);
    }
    let begin = number("continue").unwrap_or_default();
    let end = (begin + number("limit").unwrap_or(usize::MAX)).min(count(kind, &cluster));
    let mut text = String::new();
    let next = if end < count(kind, &cluster) {
        end.to_string()
    } else {
        String::new()
    };
    let _ = write!(
        text,
        r#"{{"metadata":{{"resourceVersion":"1","continue":"{next}"}},"items":["#
    );
    for index in begin..end {
        let comma = if index > begin { "," } else { "" };
        let _ = write!(text, "{comma}{}", object(kind, index));
    }
    text.push_str("]}");
    if kind == Kind::Pod && next.is_empty() {
        cluster.pod_lists.fetch_add(1, Ordering::Relaxed);
    }
    json_response(text)
}

/// Changes pods, and then forces another list once; all other kinds are unchanged.
fn watch(kind: Kind, cluster: &Cluster) -> Response {
    let busy = kind == Kind::Pod && cluster.pod_lists.load(Ordering::Relaxed) < 2;
    let changes = if busy { CHANGES.min(cluster.pods) } else { 0 };
    let steady = kind == Kind::Pod && !busy;
    let all = cluster.pods.max(1);
    let stream = futures::stream::unfold(0, move |index| async move {
        if steady {
            sleep(PAUSE).await;
            let mut events = String::new();
            for number in index * STEP..(index + 1) * STEP {
                let event = json!({"type": "MODIFIED", "object": pod(number % all, 2 + index % 2)});
                let _ = writeln!(events, "{event}");
            }
            return Some((Ok::<_, Infallible>(Bytes::from(events)), index + 1));
        }
        let event = if index < changes {
            json!({"type": "MODIFIED", "object": pod(index, 2)})
        } else if busy {
            json!({"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}})
        } else {
            sleep(Duration::from_secs(1)).await;
            json!({"type": "BOOKMARK", "object": {"kind": "Any", "apiVersion": "v1", "metadata": {"resourceVersion": "2"}}})
        };
        Some((
            Ok::<_, Infallible>(Bytes::from(format!("{event}\n"))),
            index + 1,
        ))
    });
    Body::from_stream(stream).into_response()
}

fn count(kind: Kind, cluster: &Cluster) -> usize {
    match kind {
        Kind::Pod => cluster.pods,
        Kind::Node | Kind::NodeClaim | Kind::VolumeAttachment | Kind::CsiNode => cluster.nodes,
        Kind::PodDisruptionBudget => cluster.pods / 20,
        Kind::DaemonSet | Kind::NodePool | Kind::Ec2NodeClass => 20,
        Kind::CapacityBuffer | Kind::NodeOverlay => 0,
    }
}

fn object(kind: Kind, index: usize) -> Value {
    match kind {
        Kind::Pod => pod(index, 1),
        Kind::Node => node(index),
        Kind::NodeClaim
        | Kind::NodePool
        | Kind::Ec2NodeClass
        | Kind::PodDisruptionBudget
        | Kind::VolumeAttachment
        | Kind::DaemonSet
        | Kind::CsiNode
        | Kind::CapacityBuffer
        | Kind::NodeOverlay => json!({
            "metadata": {"name": format!("{}-{index}", kind.singular()), "namespace": "default", "generation": 1, "managedFields": bulk(2)},
            "spec": {"nodeName": node_name(index)},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        }),
    }
}

fn node_name(index: usize) -> String {
    format!(
        "ip-10-{}-{}-{}.ec2.internal",
        index >> 16,
        (index >> 8) & 255,
        index & 255
    )
}

/// A pod of about 10 KiB, like one of a Deployment with two containers and managed fields.
fn pod(index: usize, version: usize) -> Value {
    // Pods are running, unschedulable, or bound and not ready, so that lanes are woken and read the published view.
    let (node, scheduled, ready) = match version % 3 {
        1 => (Some(node_name(index / 10)), "True", "True"),
        2 => (None, "False", "False"),
        _ => (Some(node_name(index / 10)), "True", "False"),
    };
    let mut spec = json!({"containers": [{"name": "web", "image": "web:1", "env": bulk(3)}]});
    if let (Some(node), Some(spec)) = (&node, spec.as_object_mut()) {
        spec.insert("nodeName".to_owned(), node.as_str().into());
    }
    json!({
        "metadata": {
            "name": format!("web-7d4b9c6f5-{index:06}"), "namespace": "default", "uid": format!("00000000-{index}"),
            "generation": 1, "resourceVersion": version.to_string(), "managedFields": bulk(6),
            "labels": {"app": "web", "pod-template-hash": "7d4b9c6f5", "team": "shop"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-7d4b9c6f5"}],
        },
        "spec": spec,
        "status": {"phase": if ready == "True" { "Running" } else { "Pending" }, "containerStatuses": bulk(1), "conditions": [
            {"type": "PodScheduled", "status": scheduled, "reason": if node.is_none() { "Unschedulable" } else { "" }},
            {"type": "Ready", "status": ready},
        ]},
    })
}

/// A node of about 15 KiB, with a list of 50 images.
fn node(index: usize) -> Value {
    json!({
        "metadata": {
            "name": node_name(index), "resourceVersion": "1", "managedFields": bulk(5),
            "labels": {"karpenter.sh/nodepool": "default", "topology.kubernetes.io/zone": "us-east-1a"},
        },
        "spec": {"providerID": format!("aws:///us-east-1a/i-{index:017x}")},
        "status": {
            "images": bulk(10), "capacity": {"cpu": "4", "memory": "16Gi"}, "allocatable": {"cpu": "3920m"},
            "conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-01-01T00:00:00Z"}],
        },
    })
}

/// `kib` KiB of fields that real objects have and the relay does not decode.
fn bulk(kib: usize) -> Value {
    let field = json!({"f:metadata": {"f:labels": {"f:app.kubernetes.io/name": {}}, "f:annotations": {}}, "path": "k".repeat(28)});
    Value::Array(vec![field; kib * 1024 / 128])
}

fn json_response(text: String) -> Response {
    ([("content-type", "application/json")], text).into_response()
}
