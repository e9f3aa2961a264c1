//! Simulated kubelets and the node part of a cloud controller manager. They only send requests, so they work with any
//! API server.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use futures::{
    StreamExt, TryStreamExt,
    stream::{self, Stream},
};
use http::{Method, Request, header};
use jiff::Timestamp;
use kube::Client;
use serde_json::{Value, json};
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

/// Interval at which machines and pods take their next steps.
const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// Upper bound on concurrent requests about machines, and on those about pods: the kubelets of a cluster work independently,
/// but those of thousands of nodes in one process would use up its connections.
const REQUESTS_AT_ONCE: usize = 16;
/// Upper bound on the wait for an answer. A request that gets none must not silence all kubelets.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Time from the start of an instance to its Node, and from there to Ready.
const BOOT: Duration = Duration::from_secs(1);
const READY_AFTER: Duration = Duration::from_secs(1);
const HEARTBEAT: Duration = Duration::from_secs(10);
/// Lease duration in seconds: without a heartbeat for this long, the node's state is unknown.
const LEASE_SECONDS: u64 = 40;
const BOUND_PODS: &str = "/api/v1/pods?fieldSelector=spec.nodeName!%3D";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";

/// Kubelets of all instances: a task for machines and one for pods, which end with the runtime that they were started in.
pub struct Kubelets {
    machines: Arc<Mutex<BTreeMap<String, Machine>>>,
}

/// Instance, keyed by the name of its node.
#[derive(Clone)]
struct Machine {
    /// Node object as registered.
    node: Value,
    state: State,
}

#[derive(Clone, Copy)]
enum State {
    Booting(Instant),
    Registered(Instant),
    /// Ready; the time of the last lease renewal.
    Ready(Instant),
    /// The kubelet is silent until its node is deleted.
    Ended,
}

impl Kubelets {
    pub fn start(client: Client) -> Self {
        let machines = Arc::default();
        tokio::spawn(serve_machines(client.clone(), Arc::clone(&machines)));
        tokio::spawn(serve_pods(client, Arc::clone(&machines)));
        Self { machines }
    }

    /// Starts a machine that will register this node.
    pub fn boot(&self, node: Value) {
        let name = node["metadata"]["name"].as_str().unwrap().to_owned();
        let state = State::Booting(Instant::now());
        let mut machines = self.machines.lock().unwrap();
        machines.insert(name, Machine { node, state });
    }

    /// Stops the machine of a node.
    pub fn end(&self, node: &str) {
        if let Some(machine) = self.machines.lock().unwrap().get_mut(node) {
            machine.state = State::Ended;
        }
    }
}

async fn serve_machines(client: Client, machines: Arc<Mutex<BTreeMap<String, Machine>>>) {
    loop {
        let now = machines.lock().unwrap().clone();
        stream::iter(now)
            .for_each_concurrent(REQUESTS_AT_ONCE, async |(name, machine)| {
                let next = step(&client, &name, &machine).await;
                let next = next.unwrap_or_else(|error| {
                    eprintln!("the kubelet of {name}: {error}");
                    Some(machine.state)
                });
                let mut machines = machines.lock().unwrap();
                match (machines.get_mut(&name), next) {
                    // The machine ended meanwhile.
                    (Some(machine), Some(_)) if matches!(machine.state, State::Ended) => {}
                    (Some(machine), Some(next)) => machine.state = next,
                    _ => drop(machines.remove(&name)),
                }
            })
            .await;
        sleep(POLL_INTERVAL).await;
    }
}

async fn serve_pods(client: Client, machines: Arc<Mutex<BTreeMap<String, Machine>>>) {
    let mut terminating = BTreeMap::new();
    loop {
        if let Err(error) = follow_pods(&client, &machines, &mut terminating).await {
            eprintln!("the kubelets' pods: {error}");
        }
        sleep(POLL_INTERVAL).await;
    }
}

/// Runs bound pods, read by a list and a watch, until the watch ends.
async fn follow_pods(
    client: &Client,
    machines: &Mutex<BTreeMap<String, Machine>>,
    terminating: &mut BTreeMap<String, Instant>,
) -> Result<(), kube::Error> {
    let mut listed = call(client, Method::GET, BOUND_PODS, &Value::Null).await?;
    let version = listed["metadata"]["resourceVersion"]
        .as_str()
        .unwrap_or("0");
    let watch = format!("{BOUND_PODS}&watch=1&allowWatchBookmarks=1&resourceVersion={version}");
    let mut events = watch_events(client, &watch).await?;
    let items = listed["items"].as_array_mut().map(std::mem::take);
    let mut pods: BTreeMap<String, Value> = items
        .into_iter()
        .flatten()
        .map(|pod| (uid(&pod), pod))
        .collect();
    let mut due = interval(POLL_INTERVAL);
    // Ticks that are missed while the requests of one are under way are not made up for.
    due.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            event = events.next() => {
                let Some(mut event) = event.transpose()? else { return Ok(()) };
                let pod = event["object"].take();
                match event["type"].as_str() {
                    Some("ADDED" | "MODIFIED") => drop(pods.insert(uid(&pod), pod)),
                    Some("DELETED") => drop(pods.remove(&uid(&pod))),
                    Some("BOOKMARK") => {}
                    // The watch is too old: list again.
                    _ => return Ok(()),
                }
            }
            _ = due.tick() => {
                let now = machines.lock().unwrap().clone();
                run_pods(client, &now, &mut pods, terminating).await?;
            }
        }
    }
}

fn uid(object: &Value) -> String {
    object["metadata"]["uid"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

/// Next state of a machine; `None` if its node is gone.
async fn step(
    client: &Client,
    name: &str,
    machine: &Machine,
) -> Result<Option<State>, kube::Error> {
    let node = format!("/api/v1/nodes/{name}");
    match machine.state {
        State::Booting(since) if since.elapsed() > BOOT => {
            heartbeat(client, name).await?;
            let registered = call(client, Method::POST, "/api/v1/nodes", &machine.node).await;
            // 409: the node is registered already.
            ignoring(registered, 409)?;
            Ok(Some(State::Registered(Instant::now())))
        }
        State::Registered(since) if since.elapsed() > READY_AFTER => {
            let status = json!({"status": {"conditions": [ready("True", "KubeletReady")]}});
            let patched = call(client, Method::PATCH, &format!("{node}/status"), &status).await;
            ignoring(patched, 404)?;
            Ok(Some(State::Ready(Instant::now())))
        }
        State::Ready(since) if since.elapsed() > HEARTBEAT => {
            heartbeat(client, name).await?;
            Ok(Some(State::Ready(Instant::now())))
        }
        State::Ended => {
            let gone = json!({"apiVersion": "v1", "kind": "DeleteOptions"});
            match call(client, Method::DELETE, &node, &gone).await {
                // The Node stays until the controllers behind its finalizers have removed them.
                Ok(_) => Ok(Some(State::Ended)),
                Err(kube::Error::Api(status)) if status.code == 404 => {
                    let lease = format!("{LEASES}/{name}");
                    ignoring(call(client, Method::DELETE, &lease, &gone).await, 404)?;
                    Ok(None)
                }
                Err(error) => Err(error),
            }
        }
        State::Booting(_) | State::Registered(_) | State::Ready(_) => Ok(Some(machine.state)),
    }
}

pub(crate) fn ready(status: &str, reason: &str) -> Value {
    let now = now().to_string();
    json!({
        "type": "Ready", "status": status, "reason": reason, "message": "by a stand-in",
        "lastHeartbeatTime": now, "lastTransitionTime": now,
    })
}

#[expect(clippy::disallowed_methods, reason = "API servers look at the clock")]
fn now() -> Timestamp {
    let seconds = Timestamp::now().as_second();
    Timestamp::from_second(seconds).unwrap()
}

async fn heartbeat(client: &Client, name: &str) -> Result<(), kube::Error> {
    let renewed = now().strftime("%Y-%m-%dT%H:%M:%S.000000Z").to_string();
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name},
        "spec": {"holderIdentity": name, "leaseDurationSeconds": LEASE_SECONDS, "renewTime": renewed},
    });
    match call(client, Method::PATCH, &format!("{LEASES}/{name}"), &lease).await {
        Err(kube::Error::Api(status)) if status.code == 404 => {
            call(client, Method::POST, LEASES, &lease).await.map(drop)
        }
        renewed => renewed.map(drop),
    }
}

/// Starts bound pods, and ends deleted ones when their preStop hooks have run or their grace period is over.
///
/// `terminating` maps the UID of each deleted pod to the time at which the kubelet saw the deletion.
async fn run_pods(
    client: &Client,
    machines: &BTreeMap<String, Machine>,
    pods: &mut BTreeMap<String, Value>,
    terminating: &mut BTreeMap<String, Instant>,
) -> Result<(), kube::Error> {
    terminating.retain(|uid, _| pods.contains_key(uid));
    for (uid, pod) in &*pods {
        if pod["metadata"]["deletionTimestamp"].is_string() {
            terminating.entry(uid.clone()).or_insert_with(Instant::now);
        }
    }
    let serves = |machine: &Machine| matches!(machine.state, State::Ready(_));
    let is_served = |pod: &Value| {
        let node = pod["spec"]["nodeName"].as_str().unwrap_or("");
        machines.get(node).is_some_and(serves)
    };
    let terminating = &*terminating;
    let served = pods.iter_mut().filter(|(_, pod)| is_served(pod));
    stream::iter(served.map(Ok))
        .try_for_each_concurrent(REQUESTS_AT_ONCE, async |(uid, pod)| {
            run_pod(client, pod, terminating.get(uid)).await
        })
        .await
}

/// Starts or ends one pod, and changes `pod` as the API server will show it.
async fn run_pod(
    client: &Client,
    pod: &mut Value,
    terminating_since: Option<&Instant>,
) -> Result<(), kube::Error> {
    let field = |name: &str| pod["metadata"][name].as_str().unwrap_or("").to_owned();
    let path = format!(
        "/api/v1/namespaces/{}/pods/{}",
        field("namespace"),
        field("name")
    );
    if let Some(since) = terminating_since {
        let deadline: Timestamp = field("deletionTimestamp").parse().unwrap();
        if since.elapsed() < pre_stop(&pod["spec"]) && now() < deadline {
            return Ok(());
        }
        let end = json!({
            "apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0,
            "preconditions": {"uid": field("uid")},
        });
        let ended = call(client, Method::DELETE, &path, &end).await;
        ignoring(ignoring(ended, 404), 409)?;
    } else if pod["status"]["phase"] == "Pending" {
        let conditions = ["Initialized", "ContainersReady", "Ready"].map(
            |kind| json!({"type": kind, "status": "True", "lastTransitionTime": now().to_string()}),
        );
        let status = json!({"status": {"phase": "Running", "startTime": now().to_string(), "conditions": conditions}});
        let path = format!("{path}/status");
        ignoring(call(client, Method::PATCH, &path, &status).await, 404)?;
        pod["status"]["phase"] = "Running".into();
    }
    Ok(())
}

/// Duration of the longest preStop hook of a pod: `sleep` as an action or at the end of a command. Containers end as
/// soon as it is over.
fn pre_stop(spec: &Value) -> Duration {
    let containers = spec["containers"].as_array().into_iter().flatten();
    let seconds = containers.filter_map(|container| {
        let hook = &container["lifecycle"]["preStop"];
        let command = hook["exec"]["command"].as_array();
        let last_word = || {
            let words = command?.iter().filter_map(Value::as_str);
            let line = words.collect::<Vec<_>>().join(" ");
            line.rsplit_once("sleep ")?.1.trim().parse().ok()
        };
        hook["sleep"]["seconds"].as_u64().or_else(last_word)
    });
    Duration::from_secs(seconds.max().unwrap_or(0))
}

/// Treats an error with this status code as success.
fn ignoring(answer: Result<Value, kube::Error>, code: u16) -> Result<Value, kube::Error> {
    match answer {
        Err(kube::Error::Api(status)) if status.code == code => Ok(Value::Null),
        answer => answer,
    }
}

/// Events of a watch, one JSON object per line.
async fn watch_events(
    client: &Client,
    path: &str,
) -> Result<impl Stream<Item = Result<Value, kube::Error>> + Unpin, kube::Error> {
    let request = Request::get(path).body(Vec::new());
    let lines = client.request_stream(request.map_err(kube::Error::HttpError)?);
    let lines = futures::AsyncBufReadExt::lines(within(REQUEST_TIMEOUT, path, lines).await?);
    let events = lines
        .map_err(kube::Error::ReadEvents)
        .and_then(async |line| serde_json::from_str(&line).map_err(kube::Error::SerdeError));
    Ok(Box::pin(events))
}

async fn call(
    client: &Client,
    method: Method,
    path: &str,
    body: &Value,
) -> Result<Value, kube::Error> {
    let kind = match method {
        Method::PATCH => "application/strategic-merge-patch+json",
        _ => "application/json",
    };
    let body = match body.is_null() {
        true => Vec::new(),
        false => body.to_string().into_bytes(),
    };
    let request = Request::builder().method(method).uri(path);
    let request = request.header(header::CONTENT_TYPE, kind).body(body);
    let answer = client.request(request.map_err(kube::Error::HttpError)?);
    within(REQUEST_TIMEOUT, path, answer).await
}

/// The answer to a request, or an error with its path after `limit`.
async fn within<T>(
    limit: Duration,
    path: &str,
    answer: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, kube::Error> {
    let answer = timeout(limit, answer).await;
    answer.unwrap_or_else(|_| {
        let message = format!("{path}: the API server has not answered within {limit:?}");
        Err(kube::Error::Service(message.into()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn request_without_an_answer_fails_with_its_path() {
        let answer = std::future::pending::<Result<Value, kube::Error>>();
        let limit = Duration::from_millis(1);
        let error = within(limit, "/api/v1/nodes", answer).await.unwrap_err();
        assert!(error.to_string().contains("/api/v1/nodes"), "{error}");
    }

    #[test]
    fn pre_stop_hooks_delay_the_end_of_a_pod() {
        let hook = |hook: Value| json!({"containers": [{}, {"lifecycle": {"preStop": hook}}]});
        let command = json!({"exec": {"command": ["/bin/sh", "-c", "sleep 30"]}});
        assert_eq!(pre_stop(&hook(command)), Duration::from_secs(30));
        let action = json!({"sleep": {"seconds": 7}});
        assert_eq!(pre_stop(&hook(action)), Duration::from_secs(7));
        assert_eq!(pre_stop(&json!({"containers": [{}]})), Duration::ZERO);
    }
}
