//! EventReader of a watch, one JSON object per line.

use std::error::Error;
use std::{fmt, io};

use futures::AsyncBufRead;
use futures::io::{AsyncBufReadExt as _, AsyncReadExt as _};
use kube::core::Status;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::objects::meta::Meta;

/// Upper bound on a line in bytes: API servers accept objects of up to 1.5 MiB, and return some larger than they accepted them.
const LINE_MAX: u64 = 8 << 20;

/// One event of a watch.
#[derive(Debug)]
pub enum WatchEvent<T> {
    /// An object was created or changed.
    Changed(T),
    Deleted(T),
    /// An object of which only this part can be decoded.
    Unreadable(ObjectHeader),
    /// No event of the kind up to this version.
    Bookmark(String),
    /// The API server ends the watch with an error.
    Error(Box<Status>),
}

/// Reads events line by line. The buffer is reused: most of an object's text is not decoded.
pub struct EventReader<R> {
    lines: R,
    line: Vec<u8>,
}

/// Decodes the object only after the event type is known, in whichever order the two come.
#[derive(Deserialize)]
struct Line<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    #[serde(borrow)]
    object: &'a RawValue,
}

#[derive(Deserialize)]
struct Bookmark {
    metadata: Meta,
}

/// The metadata of an object that identifies it.
#[derive(Debug, Deserialize)]
pub struct ObjectHeader {
    pub metadata: ObjectName,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectName {
    #[serde(default)]
    pub name: String,
    #[serde(default)]
    pub namespace: String,
    #[serde(default)]
    pub resource_version: String,
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.namespace.as_str() {
            "" => f.write_str(&self.name),
            namespace => write!(f, "{namespace}/{}", self.name),
        }
    }
}

impl<R: AsyncBufRead + Unpin> EventReader<R> {
    pub fn new(lines: R) -> Self {
        Self {
            lines,
            line: Vec::new(),
        }
    }

    /// Returns the next event; `None` at the end of the stream, also in the middle of an event.
    pub async fn next<T: DeserializeOwned>(&mut self) -> io::Result<Option<WatchEvent<T>>> {
        loop {
            self.line.clear();
            let mut lines = (&mut self.lines).take(LINE_MAX);
            match lines.read_until(b'\n', &mut self.line).await {
                Ok(0) => return Ok(None),
                Ok(_) if lines.limit() == 0 && !self.line.ends_with(b"\n") => {
                    return Err(io::Error::other(format!(
                        "an event is longer than {} MiB",
                        LINE_MAX >> 20
                    )));
                }
                Ok(_) => {}
                Err(error) if is_disconnect(&error) => return Ok(None),
                Err(error) => return Err(error),
            }
            if self.line.trim_ascii().is_empty() {
                continue;
            }
            return match read(&self.line) {
                Ok(event) => Ok(Some(event)),
                Err(error) if error.is_eof() && !self.line.ends_with(b"\n") => Ok(None),
                Err(error) => Err(error.into()),
            };
        }
    }
}

fn read<T: DeserializeOwned>(line: &[u8]) -> serde_json::Result<WatchEvent<T>> {
    let Line { kind, object } = match serde_json::from_slice(line) {
        Ok(line) => line,
        // A proxy may respond instead of the API server.
        Err(error) => {
            let status = serde_json::from_slice(line).map_err(|_| error)?;
            return Ok(WatchEvent::Error(status));
        }
    };
    let object = object.get();
    Ok(match kind {
        "ADDED" | "MODIFIED" => of_object(object, WatchEvent::Changed)?,
        "DELETED" => of_object(object, WatchEvent::Deleted)?,
        "BOOKMARK" => {
            let bookmark: Bookmark = serde_json::from_str(object)?;
            WatchEvent::Bookmark(bookmark.metadata.resource_version)
        }
        "ERROR" => WatchEvent::Error(serde_json::from_str(object)?),
        other => {
            let error = format!("an event of unknown type {other:?}");
            return Err(serde::de::Error::custom(error));
        }
    })
}

/// Decodes an object. An object that cannot be decoded is skipped, provided that its version can.
fn of_object<T: DeserializeOwned>(
    object: &str,
    event: impl FnOnce(T) -> WatchEvent<T>,
) -> serde_json::Result<WatchEvent<T>> {
    let error = match serde_json::from_str(object) {
        Ok(object) => return Ok(event(object)),
        Err(error) => error,
    };
    match serde_json::from_str::<ObjectHeader>(object) {
        Ok(header) if !header.metadata.resource_version.is_empty() => {
            Ok(WatchEvent::Unreadable(header))
        }
        Ok(_) | Err(_) => Err(error),
    }
}

/// Returns whether the connection was closed before the response ended: load balancers close long-lived connections.
fn is_disconnect(error: &(dyn Error + 'static)) -> bool {
    let broken = error.downcast_ref::<io::Error>();
    let cause: Option<&(dyn Error + 'static)> = match broken.and_then(io::Error::get_ref) {
        Some(cause) => Some(cause),
        None => error.source(),
    };
    broken.is_some_and(|error| error.kind() == io::ErrorKind::UnexpectedEof)
        || error.to_string().contains("unexpected EOF during chunk")
        || cause.is_some_and(is_disconnect)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    /// Returns the debug output of all events of a stream.
    async fn all_events(stream: &str) -> Vec<String> {
        let mut events = EventReader::new(stream.as_bytes());
        let mut seen = Vec::new();
        loop {
            match events.next::<Value>().await {
                Ok(Some(event)) => seen.push(format!("{event:?}")),
                Ok(None) => return seen,
                Err(error) => {
                    seen.push(error.to_string());
                    return seen;
                }
            }
        }
    }

    #[tokio::test]
    async fn object_may_precede_or_follow_event_type() {
        let stream = "{\"type\":\"ADDED\",\"object\":1}\n\n{\"object\":2,\"type\":\"DELETED\"}\n";
        assert_eq!(
            all_events(stream).await,
            ["Changed(Number(1))", "Deleted(Number(2))"]
        );
    }

    #[tokio::test]
    async fn bookmark_has_version() {
        let stream =
            r#"{"type":"BOOKMARK","object":{"kind":"Pod","metadata":{"resourceVersion":"7"}}}"#;
        assert_eq!(all_events(stream).await, ["Bookmark(\"7\")"]);
    }

    #[tokio::test]
    async fn error_status_is_read_in_event_or_bare() {
        let status = r#"{"kind":"Status","code":410,"reason":"Expired"}"#;
        for stream in [
            format!("{{\"type\":\"ERROR\",\"object\":{status}}}\n"),
            status.to_owned(),
        ] {
            let seen = all_events(&stream).await;
            assert!(
                matches!(seen.as_slice(), [only] if only.contains("code: 410")),
                "{seen:?}"
            );
        }
    }

    #[tokio::test]
    async fn truncated_line_ends_stream_and_other_text_is_an_error() {
        assert_eq!(
            all_events("{\"type\":\"ADDED\",\"obj").await,
            Vec::<String>::new()
        );
        let error = all_events("{\"type\":\"ADDED\",\"obj\n").await;
        assert!(
            matches!(error.as_slice(), [only] if only.contains("column")),
            "{error:?}"
        );
        let error = all_events("{\"type\":\"RENAMED\",\"object\":1}\n").await;
        assert!(
            matches!(error.as_slice(), [only] if only.contains("RENAMED")),
            "{error:?}"
        );
    }

    #[tokio::test]
    async fn line_beyond_limit_is_an_error() {
        let size = usize::try_from(LINE_MAX).unwrap() + 1;
        let stream = format!(
            "{{\"type\":\"ADDED\",\"object\":\"{}\"}}\n",
            "a".repeat(size)
        );
        assert_eq!(all_events(&stream).await, ["an event is longer than 8 MiB"]);
    }

    #[test]
    fn disconnects_are_distinguished_from_errors() {
        let cut = io::Error::from(io::ErrorKind::UnexpectedEof);
        assert!(is_disconnect(&cut));
        assert!(is_disconnect(&io::Error::other(cut)));
        assert!(!is_disconnect(&io::Error::from(
            io::ErrorKind::ConnectionReset
        )));
    }
}
