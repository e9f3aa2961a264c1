use std::{collections::VecDeque, sync::Arc, time::Duration};

use axum::{
    body::{Body, Bytes},
    http::{HeaderValue, header},
    response::Response,
};
use serde_json::{Value, json};
use tokio::{sync::watch::Receiver, time::Instant};

use super::{
    ResourceRequest,
    accept::{self, Representation, RowObject},
    list::{matches, too_large},
    query::ListQuery,
    respond, table,
};
use crate::{
    error::{ApiError, ApiResult},
    kinds::ResourceType,
    sandbox::Shared,
    store::{Change, Object, Start},
};

/// Duration of a watch without `timeoutSeconds`, as in API servers.
const DEFAULT_TIMEOUT: Duration = Duration::from_mins(45);
/// Time before the end of a watch with a timeout at which the last bookmark is sent, as in API servers.
const LAST_BOOKMARK: Duration = Duration::from_secs(2);
/// Approximate size of a chunk of events, so that a burst is not held in memory twice.
const CHUNK_BYTES: usize = 64 * 1024;

/// Watch in progress: a position in the history that advances with every write.
struct Watcher {
    shared: Arc<Shared>,
    kind: Arc<ResourceType>,
    namespace: Option<String>,
    name: Option<String>,
    query: ListQuery,
    shape: Representation,
    /// Revision that the client has received.
    seen: u64,
    waiting: VecDeque<String>,
    writes: Receiver<u64>,
    ends: Receiver<u64>,
    deadline: Instant,
    next_bookmark: Instant,
    is_first: bool,
    is_over: bool,
}

pub(super) fn answer(shared: &Arc<Shared>, request: &ResourceRequest) -> ApiResult<Response> {
    let query = request.query.list(&request.kind)?;
    let shape = accept::shape(&request.headers, &request.query)?;
    let writes = shared.subscribe();
    let (start, initial) = initial_state(shared, request, &query)?;
    let now = Instant::now();
    let deadline = now + query.timeout.unwrap_or(DEFAULT_TIMEOUT);
    let mut watcher = Watcher {
        shared: shared.clone(),
        kind: request.kind.clone(),
        namespace: request.path.namespace.clone(),
        name: request.path.name.clone(),
        shape,
        seen: start,
        waiting: VecDeque::new(),
        writes,
        ends: shared.watch_ends(),
        deadline,
        next_bookmark: next_bookmark(now, deadline, shared.bookmark_interval()),
        is_first: true,
        is_over: false,
        query,
    };
    for object in initial {
        if watcher.selects(&object) {
            watcher.push("ADDED", &object);
        }
    }
    if watcher.query.initial_events {
        watcher.push_bookmark(true);
    }
    let zips = shared.compresses_watches() && respond::takes_gzip(&request.headers);
    let lines = futures::stream::unfold(watcher, move |mut watcher| async move {
        let chunk = watcher.next().await?;
        let chunk = match zips {
            true => respond::compress(&chunk).into(),
            false => Bytes::from(chunk),
        };
        Some((Ok::<_, std::convert::Infallible>(chunk), watcher))
    });
    let mut response = Response::new(Body::from_stream(lines));
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static(respond::JSON),
    );
    if zips {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    Ok(response)
}

/// Revision at which the watch begins, and the initial events.
fn initial_state(
    shared: &Shared,
    request: &ResourceRequest,
    query: &ListQuery,
) -> ApiResult<(u64, Vec<Arc<Object>>)> {
    let table = &request.kind.table;
    let namespace = request.path.namespace.as_deref();
    if query.initial_events {
        let is_valid = query.bookmarks && query.revision_match.as_deref() == Some("NotOlderThan");
        if !shared.streams_lists() || !is_valid {
            return Err(ApiError::new(
                422,
                "Invalid",
                "ListOptions.meta.k8s.io \"\" is invalid: sendInitialEvents: Forbidden: sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled",
            ));
        }
    }
    shared.read(|world| {
        let store = &world.server.store;
        let wants_state = query.revision.unwrap_or(0) == 0 || query.initial_events;
        match query.revision {
            Some(requested) if requested > store.revision() => {
                Err(too_large(requested, store.revision()))
            }
            Some(requested) if !wants_state => Ok((requested, Vec::new())),
            Some(_) | None => {
                let listing = store.list(table, namespace, &Start::Beginning);
                Ok((listing.revision, listing.objects))
            }
        }
    })
}

fn next_bookmark(now: Instant, deadline: Instant, interval: Duration) -> Instant {
    let regular = now + interval;
    match deadline.checked_sub(LAST_BOOKMARK) {
        Some(last) if last > now => last.min(regular),
        Some(_) | None => regular,
    }
}

impl Watcher {
    /// Next chunk of the stream; `None` at its end.
    async fn next(&mut self) -> Option<String> {
        loop {
            if let Some(chunk) = self.take_waiting() {
                return Some(chunk);
            }
            if self.is_over {
                return None;
            }
            self.writes.borrow_and_update();
            self.collect();
            if !self.waiting.is_empty() || self.is_over {
                continue;
            }
            tokio::select! {
                changed = self.writes.changed() => self.is_over = changed.is_err(),
                _ = self.ends.changed() => self.is_over = true,
                () = tokio::time::sleep_until(self.next_bookmark.min(self.deadline)) => {
                    self.is_over = Instant::now() >= self.deadline;
                    if self.query.bookmarks {
                        self.push_bookmark(false);
                    }
                    let interval = self.shared.bookmark_interval();
                    self.next_bookmark = next_bookmark(Instant::now(), self.deadline, interval);
                }
            }
        }
    }

    fn take_waiting(&mut self) -> Option<String> {
        let mut chunk = self.waiting.pop_front()?;
        while chunk.len() < CHUNK_BYTES
            && let Some(line) = self.waiting.pop_front()
        {
            chunk.push_str(&line);
        }
        Some(chunk)
    }

    /// Encodes the writes since the last call. A client that fell behind the history gets an error at its first call,
    /// and later a plain end of stream.
    fn collect(&mut self) {
        let shared = self.shared.clone();
        let is_first = std::mem::replace(&mut self.is_first, false);
        let events = shared.read(|world| {
            let store = &world.server.store;
            let events = store.events_after(&self.kind.table, self.seen)?;
            let changes: Vec<Change> = events.map(|event| event.change.clone()).collect();
            Some((store.revision(), changes))
        });
        match events {
            Some((revision, changes)) => {
                for change in &changes {
                    self.push_change(change);
                }
                self.seen = revision;
            }
            None => {
                if is_first {
                    let error = ApiError::expired(format!(
                        "too old resource version: {} ({})",
                        self.seen,
                        shared.read(|world| world.server.store.revision())
                    ));
                    self.push_line("ERROR", &error.to_status().to_string());
                }
                self.is_over = true;
            }
        }
    }

    fn push_change(&mut self, change: &Change) {
        match change {
            Change::Added(new) if self.selects(new) => self.push("ADDED", new),
            Change::Added(_) => {}
            Change::Modified { old, new } => match (self.selects(old), self.selects(new)) {
                (true, true) => self.push("MODIFIED", new),
                (false, true) => self.push("ADDED", new),
                (true, false) => self.push("DELETED", new),
                (false, false) => {}
            },
            Change::Deleted { old, last } => {
                if self.selects(old) {
                    self.push("DELETED", last);
                }
            }
        }
    }

    fn selects(&self, object: &Object) -> bool {
        self.namespace
            .as_deref()
            .is_none_or(|namespace| object.namespace() == namespace)
            && self
                .name
                .as_deref()
                .is_none_or(|name| object.name() == name)
            && matches(object, &self.query)
    }

    fn push(&mut self, event: &str, object: &Object) {
        let presented = self.shared.read(|world| {
            (!world.server.is_stored_as(&self.kind))
                .then(|| world.server.present(&self.kind, object.value()))
        });
        let value = presented.as_ref().unwrap_or(object.value());
        match self.shape {
            Representation::Object => match &presented {
                Some(value) => self.push_line(event, &value.to_string()),
                None => self.push_line(event, object.encoded()),
            },
            Representation::Metadata => self.push_line(event, &table::partial(value).to_string()),
            Representation::Table(carried) => {
                let now = self.shared.now();
                let metadata = json!({"resourceVersion": object.revision().to_string()});
                let objects = std::iter::once(value);
                let table = table::of_objects(&self.kind, &metadata, objects, carried, now);
                self.push_line(event, &table.to_string());
            }
        }
    }

    /// Appends a bookmark with the revision that the client has received.
    fn push_bookmark(&mut self, ends_initial_events: bool) {
        let mut metadata = json!({"resourceVersion": self.seen.to_string()});
        if ends_initial_events {
            crate::json::set(
                &mut metadata,
                &["annotations", "k8s.io/initial-events-end"],
                "true",
            );
        }
        let object = match self.shape {
            Representation::Object => json!({
                "kind": self.kind.kind, "apiVersion": self.kind.api_version(), "metadata": metadata,
            }),
            Representation::Metadata => table::partial(&json!({"metadata": metadata})),
            Representation::Table(_) => {
                let nothing = std::iter::empty::<&Value>();
                table::of_objects(
                    &self.kind,
                    &metadata,
                    nothing,
                    RowObject::None,
                    self.shared.now(),
                )
            }
        };
        self.push_line("BOOKMARK", &object.to_string());
    }

    fn push_line(&mut self, event: &str, object: &str) {
        self.waiting
            .push_back(format!("{{\"type\":\"{event}\",\"object\":{object}}}\n"));
    }
}
