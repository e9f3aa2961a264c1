//! Raw requests over kube's client, decoded directly into the slim types of `api`.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use api::{Resource, Scope};
use futures::AsyncBufRead;
use http::{Method, Request};
use kube::Client;
use ports::{ClusterError, cluster::Traffic};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::{
    sync::Semaphore,
    time::{sleep, timeout},
};

use crate::{
    bounds::{self, OBJECT_BYTES_MAX, PAGE_BYTES_MAX, ResponseError},
    error::classify,
};

/// Upper bound on the wait for a complete response, so that a server that responds byte by byte does not block a turn. A page of
/// 500 pods takes about a second on a busy server.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(25);
/// Concurrent requests: API servers queue further requests of one client, and finally reject them.
const CONCURRENT_REQUESTS: usize = 12;
/// Retries of a read that the server asked to repeat later, and the longest wait before each; a list of many pages is not lost
/// for it.
const RETRIES_MAX: usize = 2;
const RETRY_AFTER_MAX: Duration = Duration::from_secs(3);

pub(crate) struct Transport {
    client: Client,
    permits: Semaphore,
    requests: AtomicU64,
    bytes: AtomicU64,
    listed: AtomicU64,
    followed: AtomicU64,
}

/// Parameters of a request.
struct OutgoingRequest<'a> {
    method: Method,
    path: &'a str,
    body: Option<&'a Value>,
    content_type: &'a str,
    /// Upper bound on the bytes of the response: a longer one is an error, so that no server can exhaust the memory.
    max_bytes: usize,
}

/// URL path of an object or a collection.
pub(crate) struct Path(pub(crate) String);

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
        Self {
            client,
            permits: Semaphore::new(CONCURRENT_REQUESTS),
            requests: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            listed: AtomicU64::new(0),
            followed: AtomicU64::new(0),
        }
    }

    pub(crate) fn traffic(&self) -> Traffic {
        Traffic {
            requests: self.requests.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
            listed: self.listed.load(Ordering::Relaxed),
            followed: self.followed.load(Ordering::Relaxed),
        }
    }

    /// Counts whether a large kind was read by a list or by a watch.
    pub(crate) fn count_read(&self, was_listed: bool) {
        let count = match was_listed {
            true => &self.listed,
            false => &self.followed,
        };
        count.fetch_add(1, Ordering::Relaxed);
    }

    /// Reads an object; `None` if the object does not exist.
    pub(crate) async fn get<T: DeserializeOwned>(
        &self,
        path: Path,
        what: &str,
    ) -> Result<Option<T>, ClusterError> {
        match self
            .send(Method::GET, &path.0, None, "", &format!("get {what}"), what)
            .await
        {
            Ok(text) => match serde_json::from_str(&text) {
                Ok(object) => Ok(Some(object)),
                // Valid JSON of an object that does not match its type.
                Err(error) if error.is_data() => Err(ClusterError::Invalid {
                    what: what.to_owned(),
                    message: format!("it cannot be read: {error}"),
                }),
                Err(error) => Err(unreadable(&error, &format!("get {what}"))),
            },
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

    /// Reads one page of a list, which may be larger than an object.
    pub(crate) async fn page(
        &self,
        query: &str,
        action: &str,
        what: &str,
    ) -> Result<String, ClusterError> {
        let request = OutgoingRequest {
            method: Method::GET,
            path: query,
            body: None,
            content_type: "",
            max_bytes: PAGE_BYTES_MAX,
        };
        self.send_with_retries(request, action, what).await
    }

    /// Sends one request about an object and reads its complete response.
    async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        content_type: &str,
        action: &str,
        what: &str,
    ) -> Result<String, ClusterError> {
        let request = OutgoingRequest {
            method,
            path,
            body,
            content_type,
            max_bytes: OBJECT_BYTES_MAX,
        };
        self.send_with_retries(request, action, what).await
    }

    /// Sends a request; repeats a read that the server asked to repeat later.
    async fn send_with_retries(
        &self,
        request: OutgoingRequest<'_>,
        action: &str,
        what: &str,
    ) -> Result<String, ClusterError> {
        let OutgoingRequest {
            method,
            path,
            body,
            content_type,
            max_bytes,
        } = request;
        let invalid = |message: String| ClusterError::Invalid {
            what: what.to_owned(),
            message,
        };
        let body = body
            .map(serde_json::to_vec)
            .transpose()
            .map_err(|error| invalid(error.to_string()))?;
        let is_read = method == Method::GET;
        for retries in 0..=RETRIES_MAX {
            let mut request = Request::builder().method(method.clone()).uri(path);
            if body.is_some() {
                request = request.header(http::header::CONTENT_TYPE, content_type);
            }
            let request = request
                .body(body.clone().unwrap_or_default())
                .map_err(|error| invalid(error.to_string()))?;
            match self.send_once(request, max_bytes, action, what).await {
                Err(ClusterError::Throttled {
                    after_seconds: Some(seconds),
                    ..
                }) if is_read && retries < RETRIES_MAX => {
                    sleep(Duration::from_secs(seconds).min(RETRY_AFTER_MAX)).await;
                }
                answer => return answer,
            }
        }
        Err(invalid("the request was not sent".to_owned()))
    }

    async fn send_once(
        &self,
        request: Request<Vec<u8>>,
        max_bytes: usize,
        action: &str,
        what: &str,
    ) -> Result<String, ClusterError> {
        let unavailable = |message: String| ClusterError::Unavailable {
            action: action.to_owned(),
            message,
        };
        // The semaphore is never closed.
        let _permit = self.permits.acquire().await.ok();
        self.requests.fetch_add(1, Ordering::Relaxed);
        let answer = timeout(
            RESPONSE_TIMEOUT,
            bounds::text(&self.client, request, max_bytes),
        )
        .await;
        let answer = answer.map_err(|_| {
            unavailable(format!(
                "the answer was not complete after {} s",
                RESPONSE_TIMEOUT.as_secs()
            ))
        })?;
        let answer = answer.map_err(|error| match error {
            ResponseError::Refused(error) => classify(error, action, what),
            ResponseError::TooLarge(max_bytes) => {
                unavailable(format!("the answer is larger than {} MiB", max_bytes >> 20))
            }
        })?;
        self.count(answer.len());
        Ok(answer)
    }

    /// Opens a stream; the caller counts the bytes that it reads.
    pub(crate) async fn open(
        &self,
        path: &str,
        action: &str,
        what: &str,
    ) -> Result<impl AsyncBufRead + use<>, ClusterError> {
        let request = Request::get(path)
            // API servers may compress events one by one, of which this client would decode only the first.
            .header(http::header::ACCEPT_ENCODING, "identity")
            .body(Vec::new())
            .map_err(|error| ClusterError::Invalid {
                what: what.to_owned(),
                message: error.to_string(),
            })?;
        self.requests.fetch_add(1, Ordering::Relaxed);
        let opened = timeout(RESPONSE_TIMEOUT, bounds::lines(&self.client, request)).await;
        let opened = opened.map_err(|_| ClusterError::Unavailable {
            action: action.to_owned(),
            message: format!("no answer began within {} s", RESPONSE_TIMEOUT.as_secs()),
        })?;
        opened.map_err(|error| classify(error, action, what))
    }

    pub(crate) fn count(&self, bytes: usize) {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}

const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";

fn decode<T: DeserializeOwned>(text: &str, action: &str) -> Result<T, ClusterError> {
    serde_json::from_str(text).map_err(|error| unreadable(&error, action))
}

pub(crate) fn unreadable(error: &serde_json::Error, action: &str) -> ClusterError {
    ClusterError::Unavailable {
        action: action.to_owned(),
        message: format!("the answer cannot be read: {error}"),
    }
}
