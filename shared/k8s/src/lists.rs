//! Paged lists of a kind.

use api::{List, Resource, page_metadata};
use ports::{
    ClusterError,
    cluster::{Listed, Unreadable},
};
use serde::de::Error as _;
use tokio::{sync::mpsc, task::JoinHandle};

use crate::{
    partial_object::{PartialObject, partial_object},
    transport::{Path, Transport, unreadable},
};

/// Objects per page, the default of kubectl; one page of pods is about 2 MB.
pub(crate) const PAGE: usize = 500;
/// Size in bytes below which decoding takes no longer than handing the page to another thread.
const SMALL_PAGE_BYTES: usize = 64 << 10;
/// Upper bound on pages, more than any supported cluster fills: a server that continues forever is an error.
const PAGES_MAX: usize = 1_000;
/// Upper bound on the bytes of all pages of one list: 150,000 pods, the most that Kubernetes supports, are about 600 MiB, and
/// 5,000 nodes 100 MiB.
const POD_LIST_BYTES_MAX: usize = 1 << 30;
const LIST_BYTES_MAX: usize = 256 << 20;
/// Upper bound on the keys of all Nodes or NodeClaims of one list, whose labels and annotations are kept. A key takes a hundred
/// bytes of memory, however short it is. A node with its managed fields has some 500.
const LIST_KEYS_MAX: usize = 4_000_000;
/// Upper bound on the objects of one list, which may be small on the wire and are larger in memory: Kubernetes supports 150,000
/// pods and 5,000 nodes.
const POD_OBJECTS_MAX: usize = 200_000;
const OBJECTS_MAX: usize = 50_000;

impl Transport {
    /// Lists all objects of a kind, by quorum reads.
    pub(crate) async fn list<T, M>(&self) -> Result<Vec<M>, ClusterError>
    where
        T: Resource + 'static,
        M: From<T> + Send + 'static,
    {
        self.list_where::<T, M>("").await
    }

    /// Lists the objects that match a field selector; an empty selector matches all.
    pub(crate) async fn list_where<T, M>(&self, fields: &str) -> Result<Vec<M>, ClusterError>
    where
        T: Resource + 'static,
        M: From<T> + Send + 'static,
    {
        let take = |items: &mut Vec<M>, item: T| items.push(item.into());
        let (items, _) = self.select(fields, take).await?;
        Ok(items)
    }

    /// Lists all objects into a `C`, with the resource version from which a watch can continue.
    pub(crate) async fn versioned<T, C>(
        &self,
        take: fn(&mut C, T),
    ) -> Result<(C, String), ClusterError>
    where
        T: Resource + 'static,
        C: Default + Send + 'static,
    {
        self.select("", take).await
    }

    /// Lists a kind with few objects, together with the objects that cannot be decoded.
    pub(crate) async fn listed<T: Resource>(&self) -> Result<Listed<T>, ClusterError> {
        let listed = match self.listed_once::<T>().await {
            Err(error) if is_expired(&error) => self.listed_once::<T>().await,
            answer => answer,
        };
        listed.map_err(kind_missing::<T>)
    }

    async fn listed_once<T: Resource>(&self) -> Result<Listed<T>, ClusterError> {
        let (mut items, mut unreadable_items) = (Vec::new(), Vec::new());
        let mut pages = Pages::new::<T>(self, "");
        while let Some(page) = pages.next().await? {
            let page = List::<T>::from_json(&page);
            let page = page.map_err(|error| unreadable(&error, &pages.action))?;
            items.extend(page.items);
            if items.len() > OBJECTS_MAX {
                return Err(ClusterError::Unavailable {
                    action: pages.action,
                    message: format!("the list has more than {OBJECTS_MAX} objects"),
                });
            }
            unreadable_items.extend(page.unreadable.into_iter().map(|item| Unreadable {
                name: item.name,
                uid: item.uid.into(),
                message: item.source.to_string(),
            }));
        }
        Ok(Listed {
            items,
            unreadable: unreadable_items,
        })
    }

    async fn select<T, C>(
        &self,
        fields: &str,
        take: fn(&mut C, T),
    ) -> Result<(C, String), ClusterError>
    where
        T: Resource + 'static,
        C: Default + Send + 'static,
    {
        let selected = match self.select_once(fields, take).await {
            Err(error) if is_expired(&error) => self.select_once(fields, take).await,
            answer => answer,
        };
        selected.map_err(kind_missing::<T>)
    }

    /// Decodes pages on another thread while the next one is fetched.
    async fn select_once<T, C>(
        &self,
        fields: &str,
        take: fn(&mut C, T),
    ) -> Result<(C, String), ClusterError>
    where
        T: Resource + 'static,
        C: Default + Send + 'static,
    {
        let mut pages = Pages::new::<T>(self, fields);
        let Some(first) = pages.next().await? else {
            return Ok((C::default(), String::new()));
        };
        let items = match pages.is_over() && first.len() <= SMALL_PAGE_BYTES {
            true => {
                let mut items = C::default();
                read(&first, &mut items, take).map(|_| items)
            }
            false => {
                let decoder = PageDecoder::new(take);
                decoder.next(first).await;
                while let Some(page) = pages.next().await? {
                    decoder.next(page).await;
                }
                decoder.end().await
            }
        };
        let items = items.map_err(|error| unreadable(&error, &pages.action))?;
        Ok((items, pages.version))
    }

    /// The cluster's current resource version, by a quorum read of a single object.
    pub(crate) async fn version<T: Resource>(&self) -> Result<String, ClusterError> {
        let (action, Path(path)) = (format!("list {}", T::PLURAL), Path::all::<T>());
        let query = format!("{path}?limit=1");
        let page = self.page(&query, &action, T::PLURAL).await?;
        let metadata = page_metadata(&page);
        Ok(metadata.map_or_else(String::new, |metadata| metadata.resource_version))
    }
}

/// Iteration over the pages of a list.
struct Pages<'a> {
    transport: &'a Transport,
    action: String,
    plural: &'static str,
    first: String,
    /// Query for the next page; `None` after the last.
    next: Option<String>,
    fetched: usize,
    bytes: usize,
    keys: usize,
    /// Resource version of the list.
    version: String,
}

impl<'a> Pages<'a> {
    fn new<T: Resource>(transport: &'a Transport, fields: &str) -> Self {
        let Path(path) = Path::all::<T>();
        let mut first = format!("{path}?limit={PAGE}");
        if !fields.is_empty() {
            first.push_str("&fieldSelector=");
            first.extend(form_urlencoded::byte_serialize(fields.as_bytes()));
        }
        Self {
            transport,
            action: format!("list {}", T::PLURAL),
            plural: T::PLURAL,
            next: Some(first.clone()),
            first,
            fetched: 0,
            bytes: 0,
            keys: 0,
            version: String::new(),
        }
    }

    fn is_over(&self) -> bool {
        self.next.is_none()
    }

    async fn next(&mut self) -> Result<Option<String>, ClusterError> {
        let Some(query) = self.next.take() else {
            return Ok(None);
        };
        if self.fetched == PAGES_MAX {
            return Err(ClusterError::Unavailable {
                action: self.action.clone(),
                message: format!("the list did not end within {PAGES_MAX} pages"),
            });
        }
        self.fetched += 1;
        let page = self.transport.page(&query, &self.action, self.plural);
        let page = page.await?;
        self.bytes += page.len();
        let most = bytes_max(self.plural);
        if self.bytes > most {
            return Err(ClusterError::Unavailable {
                action: self.action.clone(),
                message: format!("the list is larger than {} MiB", most >> 20),
            });
        }
        if ["nodes", "nodeclaims"].contains(&self.plural) {
            self.keys += count_keys(&page);
        }
        if self.keys > LIST_KEYS_MAX {
            return Err(ClusterError::Unavailable {
                action: self.action.clone(),
                message: format!("the list has more than {LIST_KEYS_MAX} keys"),
            });
        }
        let Some(metadata) = page_metadata(&page) else {
            // The decoder reports the problem of the page.
            return Ok(Some(page));
        };
        self.version = metadata.resource_version;
        self.next = metadata.continue_token.map(|token| {
            let token: String = form_urlencoded::byte_serialize(token.as_bytes()).collect();
            format!("{}&continue={token}", self.first)
        });
        Ok(Some(page))
    }
}

/// Decodes the pages of one list on another thread.
struct PageDecoder<C> {
    pages: mpsc::Sender<String>,
    items: JoinHandle<serde_json::Result<C>>,
}

impl<C: Default + Send + 'static> PageDecoder<C> {
    fn new<T: Resource + 'static>(take: fn(&mut C, T)) -> Self {
        // One page waits while one is decoded and one is fetched.
        let (pages, mut fetched) = mpsc::channel::<String>(1);
        let items = tokio::task::spawn_blocking(move || {
            let (mut items, mut count) = (C::default(), 0);
            let most = objects_max(T::PLURAL);
            while let Some(page) = fetched.blocking_recv() {
                count += read(&page, &mut items, take)?;
                if count > most {
                    let message = format!("the list has more than {most} objects");
                    return Err(serde_json::Error::custom(message));
                }
            }
            Ok(items)
        });
        Self { pages, items }
    }

    /// Hands over a page. A send error is ignored: the thread has then failed on an earlier page, and `end` returns its error.
    async fn next(&self, page: String) {
        let _ = self.pages.send(page).await;
    }

    async fn end(self) -> serde_json::Result<C> {
        drop(self.pages);
        self.items.await.map_err(serde_json::Error::custom)?
    }
}

/// Decodes a page's objects into `items`; returns their number.
fn read<T: Resource, C>(
    page: &str,
    items: &mut C,
    take: fn(&mut C, T),
) -> serde_json::Result<usize> {
    let page = List::<T>::from_json(page)?;
    let count = page.items.len() + page.unreadable.len();
    for item in page.unreadable {
        let (name, cause) = (&item.name, &item.source);
        match partial_object(&item) {
            PartialObject::Object(object) => {
                tracing::warn!(kind = T::KIND, name, %cause, "object decoded in part; it is planned for, but never changed");
                take(items, object);
            }
            PartialObject::Skip => {
                tracing::warn!(kind = T::KIND, name, %cause, "object cannot be decoded; skipped")
            }
            PartialObject::Fail => {
                return Err(serde_json::Error::custom(format!("{item}: {cause}")));
            }
        }
    }
    page.items.into_iter().for_each(|item| take(items, item));
    Ok(count)
}

/// Number of keys in a JSON text. Strings that contain what looks like a key count as well.
fn count_keys(page: &str) -> usize {
    let mut ends_string = false;
    let mut keys = 0;
    for byte in page.bytes() {
        match byte {
            b'"' => ends_string = true,
            b':' => {
                keys += usize::from(ends_string);
                ends_string = false;
            }
            _ if byte.is_ascii_whitespace() => {}
            _ => ends_string = false,
        }
    }
    keys
}

fn objects_max(plural: &str) -> usize {
    match plural {
        "pods" => POD_OBJECTS_MAX,
        _ => OBJECTS_MAX,
    }
}

fn bytes_max(plural: &str) -> usize {
    match plural {
        "pods" => POD_LIST_BYTES_MAX,
        _ => LIST_BYTES_MAX,
    }
}

/// Returns whether the continue token has expired (410 Gone).
fn is_expired(error: &ClusterError) -> bool {
    matches!(error, ClusterError::Unavailable { message, .. } if message.starts_with("410"))
}

fn kind_missing<T: Resource>(error: ClusterError) -> ClusterError {
    if let ClusterError::NotFound { .. } = error {
        return ClusterError::KindMissing {
            kind: T::KIND.to_owned(),
        };
    }
    error
}
