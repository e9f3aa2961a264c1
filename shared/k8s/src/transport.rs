//! Raw requests over kube's client: our own slim types are decoded straight from the wire.

use api::{List, Resource, Scope, continue_token};
use http::{Method, Request};
use kube::Client;
use ports::{
    ClusterError,
    cluster::{Listed, Unreadable},
};
use serde::de::{DeserializeOwned, Error as _};
use serde_json::Value;
use tokio::{sync::mpsc, task::JoinHandle};

use crate::error::classify;

/// Objects per page, as kubectl asks for; one page of pods is about 2 MB.
const PAGE: usize = 500;
/// Bytes that take no longer to read than to hand to another thread.
const SHORT: usize = 64 << 10;
/// More pages than any supported cluster fills; a server that continues for ever is an error.
const PAGES_MAX: usize = 1_000;

#[derive(Clone)]
pub(crate) struct Transport {
    client: Client,
}

/// Where an object or a collection is served.
pub(crate) struct Path(String);

impl Path {
    pub(crate) fn all<T: Resource>() -> Self {
        Self(format!("{}/{}", root::<T>(), T::PLURAL))
    }

    pub(crate) fn one<T: Resource>(namespace: &str, name: &str) -> Self {
        match T::SCOPE {
            Scope::Cluster => Self(format!("{}/{}/{name}", root::<T>(), T::PLURAL)),
            Scope::Namespaced => Self(format!(
                "{}/namespaces/{namespace}/{}/{name}",
                root::<T>(),
                T::PLURAL
            )),
        }
    }

    pub(crate) fn raw(path: String) -> Self {
        Self(path)
    }

    pub(crate) fn sub(mut self, subresource: &str) -> Self {
        self.0.push('/');
        self.0.push_str(subresource);
        self
    }
}

fn root<T: Resource>() -> String {
    let prefix = if T::API_VERSION.contains('/') {
        "/apis/"
    } else {
        "/api/"
    };
    format!("{prefix}{}", T::API_VERSION)
}

impl Transport {
    pub(crate) fn new(client: Client) -> Self {
        Self { client }
    }

    /// Every object of a kind, by quorum reads. A list that expires half way starts over once.
    pub(crate) async fn list<T, M>(&self) -> Result<Vec<M>, ClusterError>
    where
        T: Resource,
        M: From<T> + Send + 'static,
    {
        self.list_where::<T, M>("").await
    }

    /// The same of those that a field selector chooses; an empty one chooses all.
    pub(crate) async fn list_where<T, M>(&self, fields: &str) -> Result<Vec<M>, ClusterError>
    where
        T: Resource,
        M: From<T> + Send + 'static,
    {
        match self.pages::<T, M>(fields).await {
            Err(ClusterError::Unavailable { message, .. }) if message.starts_with("410") => {
                self.pages::<T, M>(fields).await
            }
            Err(ClusterError::NotFound { .. }) => Err(ClusterError::KindMissing {
                kind: T::KIND.to_owned(),
            }),
            answer => answer,
        }
    }

    /// The same of a kind with few objects, with those that cannot be read.
    pub(crate) async fn listed<T: Resource>(&self) -> Result<Listed<T>, ClusterError> {
        match self.listed_pages::<T>().await {
            Err(ClusterError::Unavailable { message, .. }) if message.starts_with("410") => {
                self.listed_pages::<T>().await
            }
            Err(ClusterError::NotFound { .. }) => Err(ClusterError::KindMissing {
                kind: T::KIND.to_owned(),
            }),
            answer => answer,
        }
    }

    async fn listed_pages<T: Resource>(&self) -> Result<Listed<T>, ClusterError> {
        let action = format!("list {}", T::PLURAL);
        let Path(path) = Path::all::<T>();
        let first = format!("{path}?limit={PAGE}");
        let mut query = first.clone();
        let (mut items, mut unreadable_items) = (Vec::new(), Vec::new());
        for _ in 0..PAGES_MAX {
            let page = self
                .send(Method::GET, &query, None, "", &action, T::PLURAL)
                .await?;
            let page = List::<T>::from_json(&page).map_err(|error| unreadable(&error, &action))?;
            items.extend(page.items);
            unreadable_items.extend(page.unreadable.into_iter().map(|item| Unreadable {
                name: item.name,
                uid: item.uid.into(),
                message: item.source.to_string(),
            }));
            let Some(token) = page.continue_token else {
                return Ok(Listed {
                    items,
                    unreadable: unreadable_items,
                });
            };
            let token: String = form_urlencoded::byte_serialize(token.as_bytes()).collect();
            query = format!("{first}&continue={token}");
        }
        Err(endless(action))
    }

    /// While the server writes a page, the ones before it are read.
    async fn pages<T, M>(&self, fields: &str) -> Result<Vec<M>, ClusterError>
    where
        T: Resource,
        M: From<T> + Send + 'static,
    {
        let action = format!("list {}", T::PLURAL);
        let Path(path) = Path::all::<T>();
        let mut first = format!("{path}?limit={PAGE}");
        if !fields.is_empty() {
            first.push_str("&fieldSelector=");
            first.extend(form_urlencoded::byte_serialize(fields.as_bytes()));
        }
        let mut query = first.clone();
        let mut reader: Option<Reader<M>> = None;
        for _ in 0..PAGES_MAX {
            let page = self
                .send(Method::GET, &query, None, "", &action, T::PLURAL)
                .await?;
            let Some(token) = continue_token(&page) else {
                let items = match reader {
                    Some(reader) => reader.end(page).await,
                    None if page.len() > SHORT => Reader::new::<T>().end(page).await,
                    None => read::<T, M>(&page),
                };
                return items.map_err(|error| unreadable(&error, &action));
            };
            reader.get_or_insert_with(Reader::new::<T>).next(page).await;
            let token: String = form_urlencoded::byte_serialize(token.as_bytes()).collect();
            query = format!("{first}&continue={token}");
        }
        Err(endless(action))
    }

    /// `None` where the object does not exist.
    pub(crate) async fn get<T: DeserializeOwned>(
        &self,
        path: Path,
        what: &str,
    ) -> Result<Option<T>, ClusterError> {
        match self
            .send(Method::GET, &path.0, None, "", &format!("get {what}"), what)
            .await
        {
            Ok(text) => decode(&text, &format!("get {what}")).map(Some),
            Err(ClusterError::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(crate) async fn create<T: DeserializeOwned>(
        &self,
        path: Path,
        body: &Value,
        what: &str,
    ) -> Result<T, ClusterError> {
        let action = format!("create {what}");
        decode(
            &self
                .send(Method::POST, &path.0, Some(body), JSON, &action, what)
                .await?,
            &action,
        )
    }

    pub(crate) async fn replace<T: DeserializeOwned>(
        &self,
        path: Path,
        body: &Value,
        what: &str,
    ) -> Result<T, ClusterError> {
        let action = format!("update {what}");
        decode(
            &self
                .send(Method::PUT, &path.0, Some(body), JSON, &action, what)
                .await?,
            &action,
        )
    }

    pub(crate) async fn merge<T: DeserializeOwned>(
        &self,
        path: Path,
        patch: &Value,
        what: &str,
    ) -> Result<T, ClusterError> {
        let action = format!("patch {what}");
        decode(
            &self
                .send(Method::PATCH, &path.0, Some(patch), MERGE, &action, what)
                .await?,
            &action,
        )
    }

    pub(crate) async fn delete(
        &self,
        path: Path,
        options: &Value,
        what: &str,
    ) -> Result<(), ClusterError> {
        self.send(
            Method::DELETE,
            &path.0,
            Some(options),
            JSON,
            &format!("delete {what}"),
            what,
        )
        .await
        .map(drop)
    }

    pub(crate) async fn post(
        &self,
        path: Path,
        body: &Value,
        what: &str,
    ) -> Result<(), ClusterError> {
        self.send(
            Method::POST,
            &path.0,
            Some(body),
            JSON,
            &format!("post {what}"),
            what,
        )
        .await
        .map(drop)
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        content_type: &str,
        action: &str,
        what: &str,
    ) -> Result<String, ClusterError> {
        let invalid = |message: String| ClusterError::Invalid {
            what: what.to_owned(),
            message,
        };
        let body = body
            .map(serde_json::to_vec)
            .transpose()
            .map_err(|error| invalid(error.to_string()))?;
        let mut request = Request::builder().method(method).uri(path);
        if body.is_some() {
            request = request.header(http::header::CONTENT_TYPE, content_type);
        }
        let request = request
            .body(body.unwrap_or_default())
            .map_err(|error| invalid(error.to_string()))?;
        self.client
            .request_text(request)
            .await
            .map_err(|error| classify(error, action, what))
    }
}

const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";

/// Reads the pages of one list, on a thread of its own.
struct Reader<M> {
    pages: mpsc::Sender<String>,
    items: JoinHandle<serde_json::Result<Vec<M>>>,
}

impl<M: Send + 'static> Reader<M> {
    fn new<T: Resource>() -> Self
    where
        M: From<T>,
    {
        // One waits while one is read and one is fetched.
        let (pages, mut fetched) = mpsc::channel::<String>(1);
        let items = tokio::task::spawn_blocking(move || {
            let mut items = Vec::new();
            while let Some(page) = fetched.blocking_recv() {
                items.extend(read::<T, M>(&page)?);
            }
            Ok(items)
        });
        Self { pages, items }
    }

    /// A page that the reader does not take any more is not missed: it has failed on one before.
    async fn next(&self, page: String) {
        let _ = self.pages.send(page).await;
    }

    async fn end(self, last: String) -> serde_json::Result<Vec<M>> {
        self.next(last).await;
        drop(self.pages);
        self.items.await.map_err(serde_json::Error::custom)?
    }
}

fn read<T: Resource, M: From<T>>(page: &str) -> serde_json::Result<Vec<M>> {
    let page = List::<T>::from_json(page)?;
    for item in page.unreadable {
        tracing::warn!(error = %item, cause = %item.source, "left out of the view");
    }
    Ok(page.items.into_iter().map(M::from).collect())
}

fn endless(action: String) -> ClusterError {
    ClusterError::Unavailable {
        action,
        message: format!("the list did not end within {PAGES_MAX} pages"),
    }
}

fn decode<T: DeserializeOwned>(text: &str, action: &str) -> Result<T, ClusterError> {
    serde_json::from_str(text).map_err(|error| unreadable(&error, action))
}

fn unreadable(error: &serde_json::Error, action: &str) -> ClusterError {
    ClusterError::Unavailable {
        action: action.to_owned(),
        message: format!("the answer cannot be read: {error}"),
    }
}
