//! Lists and watches one kind for as long as the relay runs.
//!
//! A list is paged and decoded into slim objects; then the watch goes on from its version. A watch that ends without an
//! error is resumed where it was; one that broke is resumed after a rest; one that fell silent is listed anew where that takes
//! one page, and else resumed; 410 starts over with a list; a kind the API server does not know is looked for again now and then.
//! An object that cannot be read is left out by its name, and the others of its kind are watched.

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
use crate::events::{Beginning, Events, Told};
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
use crate::objects::{Key, Watched};
use crate::relay::{Event, Observation};
use crate::state::Sighting;

/// How patient a watch is.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// For the answer to a request: one page, or the beginning of a watch.
    pub answer: Duration,
    /// For the next event or bookmark, before the kind is looked at. API servers send a bookmark a minute, unless they have seen no
    /// event of the kind since they started and their etcd does not notify them of progress.
    pub silence: Duration,
    /// Between two looks for a missing kind.
    pub missing: Duration,
    /// After failures.
    pub backoff: Backoff,
}

impl Patience {
    /// `seed` sets this relay's rests apart from those of others.
    pub fn new(seed: u64) -> Self {
        Self {
            answer: Duration::from_mins(1),
            silence: Duration::from_secs(90),
            missing: Duration::from_secs(30),
            backoff: Backoff {
                first: Duration::from_millis(500),
                most: Duration::from_secs(30),
                seed,
            },
        }
    }
}

/// Objects per page of a list. A page is the largest thing in memory: whole pods of 20 KiB make it 5 MiB of text.
const PAGE: u32 = 250;

/// What all watches share.
#[derive(Clone)]
pub struct Watcher {
    pub client: Client,
    pub observations: mpsc::Sender<Observation>,
    pub patience: Patience,
    pub metrics: Metrics,
    /// One page at a time over all kinds, so that memory peaks at one page.
    pub pages: Arc<Semaphore>,
}

/// Why a list or watch ended before its time.
#[derive(Debug, thiserror::Error)]
enum Trouble {
    #[error("the API server does not know the resource")]
    Missing,
    #[error("the resource version is too old")]
    Gone,
    #[error("{0}")]
    Failed(String),
    /// Nobody listens any more: the relay ends.
    #[error("the relay is ending")]
    Closed,
}

impl Watcher {
    /// Watches every kind, each in its own task. The tasks end when nobody listens any more.
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

    fn watch<T: Watched>(&self) -> Watch<T> {
        Watch {
            shared: self.clone(),
            version: None,
            failures: 0,
            troubled: false,
            unreadable: String::new(),
            kind: PhantomData,
        }
    }
}

struct Watch<T> {
    shared: Watcher,
    /// Where to go on; `None` asks for a list.
    version: Option<String>,
    /// Attempts in a row that showed no life.
    failures: u32,
    /// The log has said so.
    troubled: bool,
    /// The object that the log has named last as one that cannot be read.
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

/// A page whose objects are read one by one.
#[derive(Deserialize)]
struct RawPage<'a> {
    metadata: PageMeta,
    #[serde(borrow)]
    items: Option<Vec<&'a RawValue>>,
}

impl<T: Watched> Watch<T> {
    async fn run(mut self) {
        loop {
            let ended = match self.version.clone() {
                None => self.list().await,
                Some(version) => self.follow(version).await,
            };
            let rest = match ended {
                Ok(rest) => Some(rest),
                Err(trouble) => self.recover(trouble).await,
            };
            let Some(rest) = rest else {
                return;
            };
            sleep(rest).await;
        }
    }

    /// Tells of a trouble and decides where to go on; returns how long to rest first, or `None` if nobody listens.
    async fn recover(&mut self, trouble: Trouble) -> Option<Duration> {
        let kind = T::KIND;
        let (cause, event) = match &trouble {
            Trouble::Missing => ("missing", Some(Event::Missing)),
            Trouble::Gone => ("gone", None),
            Trouble::Failed(why) => ("failed", Some(Event::Failed(why.clone()))),
            Trouble::Closed => return None,
        };
        self.failures = self.failures.saturating_add(1);
        self.shared.metrics.watch_restarted(kind, cause);
        let is_absent = kind.is_gated() && matches!(trouble, Trouble::Missing);
        if event.is_some() && !self.troubled && !is_absent {
            self.troubled = true;
            warn!(resource = kind.resource(), path = kind.path(), error = %trouble, "cannot watch; trying again");
        } else {
            debug!(resource = kind.resource(), error = %trouble, "watch starts again");
        }
        if let Some(event) = event {
            self.tell(event).await.ok()?;
        }
        if !matches!(trouble, Trouble::Failed(_)) {
            self.version = None;
        }
        if matches!(trouble, Trouble::Missing) {
            return Some(self.shared.patience.missing);
        }
        Some(self.rest())
    }

    fn rest(&self) -> Duration {
        self.shared.patience.backoff.delay(self.failures)
    }

    /// The API server spoke of the kind.
    fn lively(&mut self) {
        self.failures = 0;
        if self.troubled {
            self.troubled = false;
            info!(resource = T::KIND.resource(), "watching again");
        }
    }

    /// Reads all objects, page by page, from the API server's own state (never from a cache of unknown age). The watch
    /// goes on from there without a rest.
    async fn list(&mut self) -> Result<Duration, Trouble> {
        self.tell(Event::ListBegun).await?;
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

    async fn take_page(&mut self, page: Page<T>, is_last: bool) -> Result<(), Trouble> {
        let sightings = page.items.into_iter().map(sighting).collect();
        self.tell(Event::Page(sightings)).await?;
        if is_last {
            self.version = Some(page.metadata.resource_version);
            self.tell(Event::ListEnded).await?;
        }
        Ok(())
    }

    /// Looks what there is where a watch says nothing: its connection is dead, or the API server has nothing to say. What takes
    /// one page is listed anew, which is as good as an event; of more, the watch is resumed.
    async fn look(&mut self) -> Result<Duration, Trouble> {
        let silent = format!(
            "no event or bookmark for {} s",
            self.shared.patience.silence.as_secs()
        );
        let mut page = self.page(&ListParams::default().limit(PAGE)).await?;
        if page.metadata.next().is_some() {
            return Err(Trouble::Failed(silent));
        }
        debug!(resource = T::KIND.resource(), "{silent}: listed anew");
        self.shared.metrics.watch_restarted(T::KIND, "silent");
        self.lively();
        self.tell(Event::ListBegun).await?;
        self.take_page(page, true).await?;
        Ok(Duration::ZERO)
    }

    async fn page(&mut self, params: &ListParams) -> Result<Page<T>, Trouble> {
        let request = Request::new(T::KIND.path()).list(params).map_err(failed)?;
        let pages = Arc::clone(&self.shared.pages);
        let _permit = pages.acquire().await.map_err(|_| Trouble::Closed)?;
        let text = timeout(
            self.shared.patience.answer,
            self.shared.client.request_text(request),
        )
        .await
        .map_err(|_| self.no_answer())?
        .map_err(trouble)?;
        match serde_json::from_str(&text) {
            Ok(page) => Ok(page),
            Err(_) => self.read_one_by_one(&text),
        }
    }

    fn read_one_by_one(&mut self, text: &str) -> Result<Page<T>, Trouble> {
        let page: RawPage<'_> = serde_json::from_str(text)
            .map_err(|error| Trouble::Failed(format!("the list cannot be read: {error}")))?;
        let mut items = Vec::new();
        for object in page.items.unwrap_or_default() {
            match serde_json::from_str(object.get()) {
                Ok(object) => items.push(object),
                Err(error) => {
                    let beginning: Option<Beginning> = serde_json::from_str(object.get()).ok();
                    let name = beginning.map(|beginning| beginning.metadata.to_string());
                    self.leave_out(&name.unwrap_or_default(), &error.to_string());
                }
            }
        }
        Ok(Page {
            metadata: page.metadata,
            items,
        })
    }

    /// Tells of an object that cannot be read, and goes on.
    fn leave_out(&mut self, name: &str, why: &str) {
        let resource = T::KIND.resource();
        self.shared.metrics.event(T::KIND, "unreadable");
        if self.unreadable != name {
            name.clone_into(&mut self.unreadable);
            warn!(resource, name, error = why, "cannot be read; left out");
        }
    }

    /// Watches from a version on until the stream ends; returns how long to rest before it is resumed.
    async fn follow(&mut self, version: String) -> Result<Duration, Trouble> {
        let patience = self.shared.patience;
        let mut request = Request::new(T::KIND.path())
            .watch(&WatchParams::default(), &version)
            .map_err(failed)?;
        // API servers may compress events one by one, of which this client would read the first.
        request.headers_mut().insert(
            header::ACCEPT_ENCODING,
            HeaderValue::from_static("identity"),
        );
        let client = self.shared.client.clone();
        let stream = timeout(patience.answer, client.request_stream(request))
            .await
            .map_err(|_| self.no_answer())?
            .map_err(trouble)?;
        let stream = pin!(stream);
        let mut events = Events::new(stream);
        // A stream that ends before it showed life must not be reopened in a tight loop.
        self.failures = self.failures.saturating_add(1);
        loop {
            let Ok(told) = timeout(patience.silence, events.next::<T>()).await else {
                return self.look().await;
            };
            let told = told.map_err(failed)?;
            match told {
                Some(told) => self.take(told).await?,
                None => return Ok(self.rest()),
            }
        }
    }

    async fn take(&mut self, told: Told<T>) -> Result<(), Trouble> {
        let version = |object: &T| object.meta().resource_version.clone();
        let (version, event, name) = match told {
            Told::Refused(status) => return Err(refused(&status)),
            Told::Unreadable(Beginning { metadata }) => {
                self.leave_out(&metadata.to_string(), "in an event");
                (metadata.resource_version, Event::Bookmark, "unreadable")
            }
            Told::Bookmark(version) => (version, Event::Bookmark, "bookmark"),
            Told::Changed(object) => (
                version(&object),
                Event::Changed(sighting(object)),
                "changed",
            ),
            Told::Deleted(object) => (
                version(&object),
                Event::Deleted(sighting(object)),
                "deleted",
            ),
        };
        if name != "unreadable" {
            self.shared.metrics.event(T::KIND, name);
        }
        self.lively();
        self.tell(event).await?;
        self.version = Some(version);
        Ok(())
    }

    async fn tell(&self, event: Event) -> Result<(), Trouble> {
        let observation = Observation {
            kind: T::KIND,
            event,
        };
        self.shared
            .observations
            .send(observation)
            .await
            .map_err(|_| Trouble::Closed)
    }

    fn no_answer(&self) -> Trouble {
        Trouble::Failed(format!(
            "no answer in {} s",
            self.shared.patience.answer.as_secs()
        ))
    }
}

fn sighting<T: Watched>(object: T) -> Sighting {
    let meta = object.meta();
    Sighting {
        key: Key::new(&meta.namespace, &meta.name),
        name: meta.full_name(),
        digest: object.digest(),
        facts: object.facts(),
        pod: object.into_whole_pod(),
    }
}

fn trouble(error: kube::Error) -> Trouble {
    if let kube::Error::Api(status) = &error {
        refused(status)
    } else {
        failed(error)
    }
}

fn refused(status: &Status) -> Trouble {
    match status.code {
        404 => Trouble::Missing,
        410 => Trouble::Gone,
        code => {
            let remedy = match code {
                401 => " (is the service account's token valid for this cluster?)",
                403 => " (is the relay's ClusterRole of the chart bound?)",
                _ => "",
            };
            Trouble::Failed(format!(
                "{code} {}: {}{remedy}",
                status.reason, status.message
            ))
        }
    }
}

fn failed(error: impl std::error::Error) -> Trouble {
    Trouble::Failed(with_causes(&error))
}
