//! The stack's bucket in S3: whole objects by name.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use aws_config::SdkConfig;
use ports::{Archive, ArchiveError, Clock};

use crate::{
    domain,
    request::{Request, escaped, exchange},
};

/// Upper bound on the characters of an answer that an error shows: enough for an error message, too few for an XML document.
const SHOWN_CHARS_MAX: usize = 200;

/// Client of the bucket. Requests name the bucket in the path, not in the host: one client and certificate serve any bucket, whatever its
/// name, and local ones too.
#[derive(Clone)]
pub struct Bucket {
    config: SdkConfig,
    region: String,
    name: String,
    clock: Arc<dyn Clock>,
}

impl fmt::Debug for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Bucket({})", self.name)
    }
}

impl Bucket {
    pub fn new(config: &SdkConfig, name: &str, clock: Arc<dyn Clock>) -> Self {
        Self {
            config: config.clone(),
            region: config.region().map(ToString::to_string).unwrap_or_default(),
            name: name.to_owned(),
            clock,
        }
    }

    async fn call(
        &self,
        operation: &'static str,
        method: &'static str,
        key: &str,
        headers: Vec<(String, String)>,
        body: Vec<u8>,
    ) -> Result<(u16, Vec<u8>), ArchiveError> {
        let region = &self.region;
        let endpoint = self.config.endpoint_url().map_or_else(
            || format!("https://s3.{region}.{}", domain(region)),
            |url| url.trim_end_matches('/').to_owned(),
        );
        let request = Request {
            operation,
            service: Some("s3"),
            method,
            endpoint,
            path: format!("/{}/{}", self.name, escaped(key, "/")),
            headers,
            body,
        };
        let now = self.clock.now().into();
        let answer = exchange(&self.config, region, now, request).await;
        answer.map_err(|message| failed(operation, key, message))
    }
}

#[async_trait]
impl Archive for Bucket {
    async fn put(&self, name: &str, object: Vec<u8>) -> Result<(), ArchiveError> {
        const ACTION: &str = "s3:PutObject";
        match self.call(ACTION, "PUT", name, Vec::new(), object).await? {
            (200..=299, _) => Ok(()),
            (status, body) => Err(refused(ACTION, name, status, &body)),
        }
    }

    async fn get(&self, name: &str) -> Result<Option<Vec<u8>>, ArchiveError> {
        self.read(name, Vec::new()).await
    }

    /// Reads at most `most` bytes. One byte more is requested: its presence shows that the object is longer.
    async fn get_at_most(&self, name: &str, most: usize) -> Result<Option<Vec<u8>>, ArchiveError> {
        let range = ("range".to_owned(), format!("bytes=0-{most}"));
        let object = self.read(name, vec![range]).await?;
        match object.as_ref().is_some_and(|object| object.len() > most) {
            true => Err(ArchiveError::too_large(name, most)),
            false => Ok(object),
        }
    }
}

impl Bucket {
    async fn read(
        &self,
        name: &str,
        headers: Vec<(String, String)>,
    ) -> Result<Option<Vec<u8>>, ArchiveError> {
        const ACTION: &str = "s3:GetObject";
        match self.call(ACTION, "GET", name, headers, Vec::new()).await? {
            (200..=299, body) => Ok(Some(body)),
            (404, body) if !text(&body).contains("NoSuchBucket") => Ok(None),
            (status, body) => Err(refused(ACTION, name, status, &body)),
        }
    }
}

fn text(body: &[u8]) -> String {
    String::from_utf8_lossy(body).into_owned()
}

fn refused(action: &'static str, name: &str, status: u16, body: &[u8]) -> ArchiveError {
    let said: String = text(body).chars().take(SHOWN_CHARS_MAX).collect();
    failed(action, name, format!("HTTP {status}: {said}"))
}

fn failed(action: &'static str, name: &str, message: String) -> ArchiveError {
    ArchiveError {
        action,
        name: name.to_owned(),
        message,
    }
}
