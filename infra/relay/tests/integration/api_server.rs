//! A minimal API server: paged lists, watches with versions and bookmarks, and the failures of real servers.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Query, State};
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use relay::kind::Kind;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// Interval at which a watch checks for events and sends a bookmark.
const TICK: Duration = Duration::from_millis(10);

/// Behavior of the server for one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Behaviour {
    #[default]
    Normal,
    /// Lists and new watches get this status; running watches are interrupted.
    Refusing(u16),
    /// Watches are accepted and stay silent.
    Silent,
}

pub(crate) struct ApiServer {
    world: Arc<Mutex<World>>,
    url: String,
    serving: JoinHandle<()>,
}

#[derive(Default)]
struct World {
    version: u64,
    kinds: BTreeMap<&'static str, Objects>,
}

#[derive(Default)]
struct Objects {
    behaviour: Behaviour,
    objects: BTreeMap<String, Value>,
    /// Version, event type and object.
    log: Vec<(u64, &'static str, Value)>,
    /// Watches from before this version get 410 Gone.
    oldest: u64,
    /// Incremented to end the running watches.
    generation: u64,
    lists: usize,
    /// The version from which each watch began.
    watches: Vec<u64>,
}

impl ApiServer {
    pub(crate) async fn start() -> Self {
        let world = Arc::new(Mutex::new(World::default()));
        for kind in Kind::ALL {
            world
                .lock()
                .unwrap()
                .kinds
                .insert(kind.path(), Objects::default());
        }
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let router = Router::new()
            .fallback(answer)
            .with_state(Arc::clone(&world));
        let serving = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self {
            world,
            url,
            serving,
        }
    }

    pub(crate) fn url(&self) -> String {
        self.url.clone()
    }

    /// Creates or replaces an object.
    pub(crate) fn put(&self, kind: Kind, mut object: Value) {
        self.change(kind, |objects, version| {
            object["metadata"]["resourceVersion"] = json!(version.to_string());
            let known = objects.objects.insert(key(&object), object.clone());
            let event = if known.is_some() { "MODIFIED" } else { "ADDED" };
            objects.log.push((version, event, object));
        });
    }

    pub(crate) fn delete(&self, kind: Kind, object: &Value) {
        self.change(kind, |objects, version| {
            let mut object = objects.objects.remove(&key(object)).unwrap();
            object["metadata"]["resourceVersion"] = json!(version.to_string());
            objects.log.push((version, "DELETED", object));
        });
    }

    pub(crate) fn set_behaviour(&self, kind: Kind, behaviour: Behaviour) {
        self.change(kind, |objects, _| objects.behaviour = behaviour);
    }

    /// Ends the running watches without an error.
    pub(crate) fn end_watches(&self, kind: Kind) {
        self.change(kind, |objects, _| objects.generation += 1);
    }

    /// Discards all events so far, and ends the running watches, which cannot be resumed.
    pub(crate) fn compact(&self, kind: Kind) {
        self.change(kind, |objects, version| {
            objects.oldest = version;
            objects.generation += 1;
        });
    }

    /// Number of pages that were requested.
    pub(crate) fn lists(&self, kind: Kind) -> usize {
        self.change(kind, |objects, _| objects.lists)
    }

    /// The versions from which the watches began.
    pub(crate) fn watches(&self, kind: Kind) -> Vec<u64> {
        self.change(kind, |objects, _| objects.watches.clone())
    }

    fn change<R>(&self, kind: Kind, change: impl FnOnce(&mut Objects, u64) -> R) -> R {
        let mut world = self.world.lock().unwrap();
        world.version += 1;
        let version = world.version;
        change(world.kinds.get_mut(kind.path()).unwrap(), version)
    }
}

impl Drop for ApiServer {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

fn key(object: &Value) -> String {
    let part = |name: &str| object["metadata"][name].as_str().unwrap_or_default();
    format!("{}/{}", part("namespace"), part("name"))
}

async fn answer(
    State(world): State<Arc<Mutex<World>>>,
    uri: Uri,
    Query(query): Query<BTreeMap<String, String>>,
) -> Response {
    let path = uri.path().to_owned();
    let mut locked = world.lock().unwrap();
    let version = locked.version;
    let Some(objects) = locked.kinds.get_mut(path.as_str()) else {
        return status(404);
    };
    if let Behaviour::Refusing(code) = objects.behaviour {
        return status(code);
    }
    if !query.contains_key("watch") {
        objects.lists += 1;
        return list(objects, version, &query);
    }
    let from: u64 = query["resourceVersion"].parse().unwrap();
    assert_eq!(query["allowWatchBookmarks"], "true");
    if from < objects.oldest {
        return status(410);
    }
    objects.watches.push(from);
    let generation = objects.generation;
    drop(locked);
    watch(world, path, from, generation)
}

fn list(objects: &Objects, version: u64, query: &BTreeMap<String, String>) -> Response {
    assert!(
        !query.contains_key("resourceVersion"),
        "lists must be read from the store itself"
    );
    let limit: usize = query["limit"].parse().unwrap();
    let begin: usize = query
        .get("continue")
        .map_or(0, |token| token.parse().unwrap());
    let items: Vec<&Value> = objects.objects.values().skip(begin).take(limit).collect();
    let end = begin + items.len();
    let next = if end < objects.objects.len() {
        end.to_string()
    } else {
        String::new()
    };
    let metadata = json!({"resourceVersion": version.to_string(), "continue": next});
    // Go encodes an empty list of a custom resource that never existed like this.
    let items = if items.is_empty() {
        Value::Null
    } else {
        json!(items)
    };
    json_response(
        StatusCode::OK,
        &json!({"metadata": metadata, "items": items}),
    )
}

fn watch(world: Arc<Mutex<World>>, path: String, from: u64, generation: u64) -> Response {
    let stream = futures::stream::unfold(from, move |mut seen| {
        let (world, path) = (Arc::clone(&world), path.clone());
        async move {
            loop {
                tokio::time::sleep(TICK).await;
                let world = world.lock().unwrap();
                let objects = &world.kinds[path.as_str()];
                if objects.generation != generation
                    || matches!(objects.behaviour, Behaviour::Refusing(_))
                {
                    return None;
                }
                if objects.behaviour == Behaviour::Silent {
                    continue;
                }
                let mut lines = String::new();
                for (_, event, object) in objects.log.iter().filter(|(version, ..)| *version > seen)
                {
                    lines += &format!("{}\n", json!({"type": event, "object": object}));
                }
                seen = seen.max(world.version);
                let bookmark = json!({"kind": "Any", "apiVersion": "v1", "metadata": {"resourceVersion": seen.to_string()}});
                lines += &format!("{}\n", json!({"type": "BOOKMARK", "object": bookmark}));
                return Some((Ok::<_, Infallible>(Bytes::from(lines)), seen));
            }
        }
    });
    Body::from_stream(stream).into_response()
}

fn status(code: u16) -> Response {
    let reason = match code {
        403 => "Forbidden",
        404 => "NotFound",
        410 => "Expired",
        _ => "InternalError",
    };
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "as the test wants it", "reason": reason, "code": code,
    });
    json_response(StatusCode::from_u16(code).unwrap(), &status)
}

fn json_response(status: StatusCode, body: &Value) -> Response {
    (
        status,
        [("content-type", "application/json")],
        body.to_string(),
    )
        .into_response()
}
