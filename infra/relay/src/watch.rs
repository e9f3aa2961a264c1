//! Lists and watches one kind for as long as the relay runs.
//!
//! A list is read page by page and decoded into slim objects; then a watch continues from its version. A watch that ends without
//! an error is resumed immediately; after an error it is resumed with a delay; a silent one is replaced by a list if the list has
//! one page, and resumed otherwise. 410 Gone restarts with a list. A kind that the API server does not serve is retried now and
//! then. An object that cannot be decoded is skipped and logged by name; the others of its kind are watched.

use std::marker::PhantomData;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderValue, header};
use kube::Client;
use kube::api::{ListParams, WatchParams};
use kube::core::{Request, Status};
use ports::with_causes;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tracing::{debug, info, warn};

use crate::backoff::Backoff;
use crate::events::{EventReader, ObjectHeader, WatchEvent};
use crate::metrics::Metrics;
use crate::objects::capacity::{CsiNode, DaemonSet};
use crate::objects::gated::{CapacityBuffer, NodeOverlay};
use crate::objects::meta::null_is_empty;
use crate::objects::node::Node;
use crate::objects::node_claim::NodeClaim;
use crate::objects::node_class::NodeClass;
use crate::objects::node_pool::NodePool;
use crate::objects::pod_disruption_budget::PodDisruptionBudget;
use crate::objects::volume_attachment::VolumeAttachment;
use crate::objects::whole_pod::WholePod;
use crate::objects::{Key, WatchedObject};
use crate::relay::{Event, Observation};
use crate::state::ObservedObject;

/// Timeouts and delays of a watch.
#[derive(Clone, Copy, Debug)]
pub struct WatchTimeouts {
    /// Timeout of the response to a request: one page, or the beginning of a watch.
    pub response: Duration,
    /// Timeout of the next event or bookmark, after which the kind is listed. API servers send a bookmark each minute, unless
    /// they have seen no event of the kind since they started and their etcd does not send progress notifications.
    pub silence: Duration,
    /// Delay between attempts to list a missing kind.
    pub missing: Duration,
    /// Delay after failures.
    pub backoff: Backoff,
}

impl WatchTimeouts {
    /// Default timeouts; `seed` determines the relay's back-off jitter.
    pub fn new(seed: u64) -> Self {
        Self {
            response: Duration::from_mins(1),
            silence: Duration::from_secs(90),
            missing: Duration::from_secs(30),
            backoff: Backoff {
                first: Duration::from_millis(500),
                max: Duration::from_secs(30),
                seed,
            },
        }
    }
}

/// Objects per page of a list. A page is the largest object in memory: pods of 20 KiB make it 5 MiB of text.
const PAGE: u32 = 250;

/// Resources that all watches share.
#[derive(Clone)]
pub struct Watcher {
    pub client: Client,
    pub observations: mpsc::Sender<Observation>,
    pub timeouts: WatchTimeouts,
    pub metrics: Metrics,
    /// Allows one page at a time across all kinds, to limit the peak of memory.
    pub pages: Arc<Semaphore>,
}

/// Error that ended a list or watch.
#[derive(Debug, thiserror::Error)]
enum WatchError {
    #[error("the API server does not know the resource")]
    Missing,
    #[error("the resource version is too old")]
    Gone,
    #[error("{0}")]
    Failed(String),
    /// The receiver of observations is gone: the relay ends.
    #[error("the relay is ending")]
    Closed,
}

impl Watcher {
    /// Watches every kind in its own task. The tasks end when the receiver of observations is dropped.
    pub fn spawn(&self) -> JoinSet<()> {
        let mut tasks = JoinSet::new();
        tasks.spawn(self.watch::<WholePod>().run());
        tasks.spawn(self.watch::<Node>().run());
        tasks.spawn(self.watch::<NodeClaim>().run());
        tasks.spawn(self.watch::<NodePool>().run());
        tasks.spawn(self.watch::<NodeClass>().run());
        tasks.spawn(self.watch::<PodDisruptionBudget>().run());
        tasks.spawn(self.watch::<VolumeAttachment>().run());
        tasks.spawn(self.watch::<DaemonSet>().run());
        tasks.spawn(self.watch::<CsiNode>().run());
        tasks.spawn(self.watch::<CapacityBuffer>().run());
        tasks.spawn(self.watch::<NodeOverlay>().run());
        tasks
    }

    fn watch<T: WatchedObject>(&self) -> Watch<T> {
        Watch {
            shared: self.clone(),
            version: None,
            failures: 0,
            failure_logged: false,
            unreadable: String::new(),
            kind: PhantomData,
        }
    }
}

struct Watch<T> {
    shared: Watcher,
    /// Version from which the watch continues; `None` requires a list.
    version: Option<String>,
    /// Consecutive attempts without an event or bookmark.
    failures: u32,
    /// Whether the failure has been logged.
    failure_logged: bool,
    /// Name of the last object that was logged as not decodable.
    unreadable: String,
    kind: PhantomData<fn() -> T>,
}

#[derive(Deserialize)]
struct Page<T> {
    metadata: PageMeta,
    #[serde(
        default = "Vec::new",
        deserialize_with = "null_is_empty",
        bound = "T: serde::de::DeserializeOwned"
    )]
    items: Vec<T>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PageMeta {
    resource_version: String,
    #[serde(default, rename = "continue")]
    next: Option<String>,
}

impl PageMeta {
    fn next(&mut self) -> Option<String> {
        self.next.take().filter(|token| !token.is_empty())
    }
}

/// A page whose objects are decoded one by one.
#[derive(Deserialize)]
struct RawPage<'a> {
    metadata: PageMeta,
    #[serde(borrow)]
    items: Option<Vec<&'a RawValue>>,
}

impl<T: WatchedObject> Watch<T> {
    async fn run(mut self) {
        loop {
            let ended = match self.version.clone() {
                None => self.list().await,
                Some(version) => self.follow(version).await,
            };
            let delay = match ended {
                Ok(delay) => Some(delay),
                Err(error) => self.recover(error).await,
            };
            let Some(delay) = delay else {
                return;
            };
            sleep(delay).await;
        }
    }

    /// Reports an error and decides how to continue; returns the delay before the next attempt, or `None` if the relay ends.
    async fn recover(&mut self, error: WatchError) -> Option<Duration> {
        let kind = T::KIND;
        let (cause, event) = match &error {
            WatchError::Missing => ("missing", Some(Event::Missing)),
            WatchError::Gone => ("gone", None),
            WatchError::Failed(why) => ("failed", Some(Event::Failed(why.clone()))),
            WatchError::Closed => return None,
        };
        self.failures = self.failures.saturating_add(1);
        self.shared.metrics.watch_restarted(kind, cause);
        let is_absent = kind.is_gated() && matches!(error, WatchError::Missing);
        if event.is_some() && !self.failure_logged && !is_absent {
            self.failure_logged = true;
            warn!(resource = kind.resource(), path = kind.path(), %error, "watch failed; retrying");
        } else {
            debug!(resource = kind.resource(), %error, "watch restarts");
        }
        if let Some(event) = event {
            self.send(event).await.ok()?;
        }
        if !matches!(error, WatchError::Failed(_)) {
            self.version = None;
        }
        if matches!(error, WatchError::Missing) {
            return Some(self.shared.timeouts.missing);
        }
        Some(self.delay())
    }

    fn delay(&self) -> Duration {
        self.shared.timeouts.backoff.delay(self.failures)
    }

    /// Notes that the API server has responded about the kind.
    fn mark_alive(&mut self) {
        self.failures = 0;
        if self.failure_logged {
            self.failure_logged = false;
            info!(resource = T::KIND.resource(), "watch recovered");
        }
    }

    /// Lists all objects, page by page, by quorum reads (never from a cache of unknown age). The watch continues from there
    /// without a delay.
    async fn list(&mut self) -> Result<Duration, WatchError> {
        self.send(Event::ListBegun).await?;
        let mut next = None;
        loop {
            let params = ListParams {
                continue_token: next,
                ..ListParams::default().limit(PAGE)
            };
            let mut page = self.page(&params).await?;
            next = page.metadata.next();
            self.take_page(page, next.is_none()).await?;
            if next.is_none() {
                return Ok(Duration::ZERO);
            }
        }
    }

    async fn take_page(&mut self, page: Page<T>, is_last: bool) -> Result<(), WatchError> {
        let objects = page.items.into_iter().map(observed).collect();
        self.send(Event::Page(objects)).await?;
        if is_last {
            self.version = Some(page.metadata.resource_version);
            self.send(Event::ListEnded).await?;
        }
        Ok(())
    }

    /// Lists a kind whose watch is silent: the connection is dead, or the API server has nothing to send. If the list fits into
    /// one page, it is as good as an event; otherwise the watch is resumed.
    async fn relist_silent(&mut self) -> Result<Duration, WatchError> {
        let silent = format!(
            "no event or bookmark for {} s",
            self.shared.timeouts.silence.as_secs()
        );
        let mut page = self.page(&ListParams::default().limit(PAGE)).await?;
        if page.metadata.next().is_some() {
            return Err(WatchError::Failed(silent));
        }
        debug!(
            resource = T::KIND.resource(),
            silent, "watch silent; listed again"
        );
        self.shared.metrics.watch_restarted(T::KIND, "silent");
        self.mark_alive();
        self.send(Event::ListBegun).await?;
        self.take_page(page, true).await?;
        Ok(Duration::ZERO)
    }

    async fn page(&mut self, params: &ListParams) -> Result<Page<T>, WatchError> {
        let request = Request::new(T::KIND.path()).list(params).map_err(failed)?;
        let pages = Arc::clone(&self.shared.pages);
        let _permit = pages.acquire().await.map_err(|_| WatchError::Closed)?;
        let text = timeout(
            self.shared.timeouts.response,
            self.shared.client.request_text(request),
        )
        .await
        .map_err(|_| self.no_answer())?
        .map_err(watch_error)?;
        match serde_json::from_str(&text) {
            Ok(page) => Ok(page),
            Err(_) => self.decode_one_by_one(&text),
        }
    }

    fn decode_one_by_one(&mut self, text: &str) -> Result<Page<T>, WatchError> {
        let page: RawPage<'_> = serde_json::from_str(text)
            .map_err(|error| WatchError::Failed(format!("the list cannot be read: {error}")))?;
        let mut items = Vec::new();
        for object in page.items.unwrap_or_default() {
            match serde_json::from_str(object.get()) {
                Ok(object) => items.push(object),
                Err(error) => {
                    let header: Option<ObjectHeader> = serde_json::from_str(object.get()).ok();
                    let name = header.map(|header| header.metadata.to_string());
                    self.skip_object(&name.unwrap_or_default(), &error.to_string());
                }
            }
        }
        Ok(Page {
            metadata: page.metadata,
            items,
        })
    }

    /// Logs an object that cannot be decoded, and skips it.
    fn skip_object(&mut self, name: &str, why: &str) {
        let resource = T::KIND.resource();
        self.shared.metrics.event(T::KIND, "unreadable");
        if self.unreadable != name {
            name.clone_into(&mut self.unreadable);
            warn!(
                resource,
                name,
                error = why,
                "object cannot be decoded; skipped"
            );
        }
    }

    /// Watches from a version until the stream ends; returns the delay before it is resumed.
    async fn follow(&mut self, version: String) -> Result<Duration, WatchError> {
        let timeouts = self.shared.timeouts;
        let mut request = Request::new(T::KIND.path())
            .watch(&WatchParams::default(), &version)
            .map_err(failed)?;
        // API servers may compress events one by one, of which this client would decode only the first.
        request.headers_mut().insert(
            header::ACCEPT_ENCODING,
            HeaderValue::from_static("identity"),
        );
        let client = self.shared.client.clone();
        let stream = timeout(timeouts.response, client.request_stream(request))
            .await
            .map_err(|_| self.no_answer())?
            .map_err(watch_error)?;
        let stream = pin!(stream);
        let mut events = EventReader::new(stream);
        // A stream that ends without any event must not be reopened in a tight loop.
        self.failures = self.failures.saturating_add(1);
        loop {
            let Ok(event) = timeout(timeouts.silence, events.next::<T>()).await else {
                return self.relist_silent().await;
            };
            let event = event.map_err(failed)?;
            match event {
                Some(event) => self.take(event).await?,
                None => return Ok(self.delay()),
            }
        }
    }

    async fn take(&mut self, event: WatchEvent<T>) -> Result<(), WatchError> {
        let version = |object: &T| object.meta().resource_version.clone();
        let (version, event, name) = match event {
            WatchEvent::Error(status) => return Err(status_error(&status)),
            WatchEvent::Unreadable(ObjectHeader { metadata }) => {
                self.skip_object(&metadata.to_string(), "in an event");
                (metadata.resource_version, Event::Bookmark, "unreadable")
            }
            WatchEvent::Bookmark(version) => (version, Event::Bookmark, "bookmark"),
            WatchEvent::Changed(object) => (
                version(&object),
                Event::Changed(observed(object)),
                "changed",
            ),
            WatchEvent::Deleted(object) => (
                version(&object),
                Event::Deleted(observed(object)),
                "deleted",
            ),
        };
        if name != "unreadable" {
            self.shared.metrics.event(T::KIND, name);
        }
        self.mark_alive();
        self.send(event).await?;
        self.version = Some(version);
        Ok(())
    }

    async fn send(&self, event: Event) -> Result<(), WatchError> {
        let observation = Observation {
            kind: T::KIND,
            event,
        };
        self.shared
            .observations
            .send(observation)
            .await
            .map_err(|_| WatchError::Closed)
    }

    fn no_answer(&self) -> WatchError {
        WatchError::Failed(format!(
            "no answer in {} s",
            self.shared.timeouts.response.as_secs()
        ))
    }
}

fn observed<T: WatchedObject>(object: T) -> ObservedObject {
    let meta = object.meta();
    ObservedObject {
        key: Key::new(&meta.namespace, &meta.name),
        name: meta.full_name(),
        digest: object.digest(),
        metric_data: object.metric_data(),
        pod: object.into_whole_pod(),
    }
}

fn watch_error(error: kube::Error) -> WatchError {
    if let kube::Error::Api(status) = &error {
        status_error(status)
    } else {
        failed(error)
    }
}

fn status_error(status: &Status) -> WatchError {
    match status.code {
        404 => WatchError::Missing,
        410 => WatchError::Gone,
        code => {
            let remedy = match code {
                401 => " (is the service account's token valid for this cluster?)",
                403 => " (is the relay's ClusterRole of the chart bound?)",
                _ => "",
            };
            WatchError::Failed(format!(
                "{code} {}: {}{remedy}",
                status.reason, status.message
            ))
        }
    }
}

fn failed(error: impl std::error::Error) -> WatchError {
    WatchError::Failed(with_causes(&error))
}
