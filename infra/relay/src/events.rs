//! The events of one watch: a line of JSON each.

use std::error::Error;
use std::{fmt, io};

use futures::AsyncBufRead;
use futures::io::{AsyncBufReadExt as _, AsyncReadExt as _};
use kube::core::Status;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::objects::meta::Meta;

/// The longest line that is read: API servers take objects of 1.5 MiB at most, and write some larger than they took them.
const LINE_MAX: u64 = 8 << 20;

/// What a watch says.
#[derive(Debug)]
pub enum Told<T> {
    /// An object came or changed.
    Changed(T),
    Deleted(T),
    /// An object of which no more than this can be read.
    Unreadable(Beginning),
    /// Nothing happened up to this version.
    Bookmark(String),
    /// The API server ends the watch.
    Refused(Box<Status>),
}

/// The lines as they come in. Their room is used again: most of what objects say is not read.
pub struct Events<R> {
    lines: R,
    line: Vec<u8>,
}

/// The object is read when it is known what became of it, whichever comes first.
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

/// The beginning of an object: its name and version.
#[derive(Debug, Deserialize)]
pub struct Beginning {
    pub metadata: Name,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Name {
    #[serde(default)]
    pub name: String,
    #[serde(default)]
    pub namespace: String,
    #[serde(default)]
    pub resource_version: String,
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.namespace.as_str() {
            "" => f.write_str(&self.name),
            namespace => write!(f, "{namespace}/{}", self.name),
        }
    }
}

impl<R: AsyncBufRead + Unpin> Events<R> {
    pub fn new(lines: R) -> Self {
        Self {
            lines,
            line: Vec::new(),
        }
    }

    /// The next event; `None` where the stream ends, also in the middle of one.
    pub async fn next<T: DeserializeOwned>(&mut self) -> io::Result<Option<Told<T>>> {
        loop {
            self.line.clear();
            let mut lines = (&mut self.lines).take(LINE_MAX);
            match lines.read_until(b'\n', &mut self.line).await {
                Ok(0) => return Ok(None),
                Ok(_) if lines.limit() == 0 && !self.line.ends_with(b"\n") => {
                    return Err(io::Error::other(format!(
                        "an event is longer than {} MiB, which no object is",
                        LINE_MAX >> 20
                    )));
                }
                Ok(_) => {}
                Err(error) if is_cut(&error) => return Ok(None),
                Err(error) => return Err(error),
            }
            if self.line.trim_ascii().is_empty() {
                continue;
            }
            return match read(&self.line) {
                Ok(told) => Ok(Some(told)),
                Err(error) if error.is_eof() && !self.line.ends_with(b"\n") => Ok(None),
                Err(error) => Err(error.into()),
            };
        }
    }
}

fn read<T: DeserializeOwned>(line: &[u8]) -> serde_json::Result<Told<T>> {
    let Line { kind, object } = match serde_json::from_slice(line) {
        Ok(line) => line,
        // What stands between may answer instead of the API server.
        Err(error) => {
            let status = serde_json::from_slice(line).map_err(|_| error)?;
            return Ok(Told::Refused(status));
        }
    };
    let object = object.get();
    Ok(match kind {
        "ADDED" | "MODIFIED" => of_object(object, Told::Changed)?,
        "DELETED" => of_object(object, Told::Deleted)?,
        "BOOKMARK" => {
            let bookmark: Bookmark = serde_json::from_str(object)?;
            Told::Bookmark(bookmark.metadata.resource_version)
        }
        "ERROR" => Told::Refused(serde_json::from_str(object)?),
        other => {
            let error = format!("an event of unknown type {other:?}");
            return Err(serde::de::Error::custom(error));
        }
    })
}

/// An object that cannot be read is passed by, as long as its version says where to go on.
fn of_object<T: DeserializeOwned>(
    object: &str,
    told: impl FnOnce(T) -> Told<T>,
) -> serde_json::Result<Told<T>> {
    let error = match serde_json::from_str(object) {
        Ok(object) => return Ok(told(object)),
        Err(error) => error,
    };
    match serde_json::from_str::<Beginning>(object) {
        Ok(beginning) if !beginning.metadata.resource_version.is_empty() => {
            Ok(Told::Unreadable(beginning))
        }
        Ok(_) | Err(_) => Err(error),
    }
}

/// Whether the connection ended before the answer did: load balancers end those that are open for long.
fn is_cut(error: &(dyn Error + 'static)) -> bool {
    let broken = error.downcast_ref::<io::Error>();
    let cause: Option<&(dyn Error + 'static)> = match broken.and_then(io::Error::get_ref) {
        Some(cause) => Some(cause),
        None => error.source(),
    };
    broken.is_some_and(|error| error.kind() == io::ErrorKind::UnexpectedEof)
        || error.to_string().contains("unexpected EOF during chunk")
        || cause.is_some_and(is_cut)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    /// What a stream tells until it ends.
    async fn told(stream: &str) -> Vec<String> {
        let mut events = Events::new(stream.as_bytes());
        let mut told = Vec::new();
        loop {
            match events.next::<Value>().await {
                Ok(Some(event)) => told.push(format!("{event:?}")),
                Ok(None) => return told,
                Err(error) => {
                    told.push(error.to_string());
                    return told;
                }
            }
        }
    }

    #[tokio::test]
    async fn objects_are_read_whether_they_come_before_or_after_what_became_of_them() {
        let stream = "{\"type\":\"ADDED\",\"object\":1}\n\n{\"object\":2,\"type\":\"DELETED\"}\n";
        assert_eq!(
            told(stream).await,
            ["Changed(Number(1))", "Deleted(Number(2))"]
        );
    }

    #[tokio::test]
    async fn bookmarks_tell_how_far_it_is() {
        let stream =
            r#"{"type":"BOOKMARK","object":{"kind":"Pod","metadata":{"resourceVersion":"7"}}}"#;
        assert_eq!(told(stream).await, ["Bookmark(\"7\")"]);
    }

    #[tokio::test]
    async fn a_refusal_ends_it_in_an_event_or_bare() {
        let status = r#"{"kind":"Status","code":410,"reason":"Expired"}"#;
        for stream in [
            format!("{{\"type\":\"ERROR\",\"object\":{status}}}\n"),
            status.to_owned(),
        ] {
            let told = told(&stream).await;
            assert!(
                matches!(told.as_slice(), [only] if only.contains("code: 410")),
                "{told:?}"
            );
        }
    }

    #[tokio::test]
    async fn what_ends_in_the_middle_of_a_line_has_ended_and_what_is_no_event_is_an_error() {
        assert_eq!(
            told("{\"type\":\"ADDED\",\"obj").await,
            Vec::<String>::new()
        );
        let error = told("{\"type\":\"ADDED\",\"obj\n").await;
        assert!(
            matches!(error.as_slice(), [only] if only.contains("column")),
            "{error:?}"
        );
        let error = told("{\"type\":\"RENAMED\",\"object\":1}\n").await;
        assert!(
            matches!(error.as_slice(), [only] if only.contains("RENAMED")),
            "{error:?}"
        );
    }

    #[tokio::test]
    async fn a_line_that_is_too_long_is_not_read_to_its_end_and_told() {
        let size = usize::try_from(LINE_MAX).unwrap() + 1;
        let stream = format!(
            "{{\"type\":\"ADDED\",\"object\":\"{}\"}}\n",
            "a".repeat(size)
        );
        assert_eq!(
            told(&stream).await,
            ["an event is longer than 8 MiB, which no object is"]
        );
    }

    #[test]
    fn connections_that_were_cut_are_told_apart_from_those_in_trouble() {
        let cut = io::Error::from(io::ErrorKind::UnexpectedEof);
        assert!(is_cut(&cut));
        assert!(is_cut(&io::Error::other(cut)));
        assert!(!is_cut(&io::Error::from(io::ErrorKind::ConnectionReset)));
    }
}
