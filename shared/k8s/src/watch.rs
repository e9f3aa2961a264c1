//! Watches of a kind from a resource version.

use std::pin::Pin;

use api::Resource;
use futures::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt};
use ports::ClusterError;

use crate::transport::{Path, Transport};

/// Upper bound on the bytes of one watch, beyond which listing costs less than following.
const WATCH_BYTES_MAX: usize = 64 << 20;
/// Timeout of a watch; servers send a bookmark two seconds before it ends.
const WATCH_SECONDS: u32 = 3;
/// Upper bound on the bytes of one event: objects are at most 1.5 MiB in etcd, and a line holds one.
const LINE_MAX: u64 = 4 << 20;

impl Transport {
    /// Watches a kind from a resource version for [`WATCH_SECONDS`].
    pub(crate) async fn watch<T: Resource>(&self, from: &str) -> Result<Watch<'_>, ClusterError> {
        let (action, Path(path)) = (format!("watch {}", T::PLURAL), Path::all::<T>());
        let query = format!(
            "{path}?watch=1&allowWatchBookmarks=true&resourceVersion={from}&timeoutSeconds={WATCH_SECONDS}"
        );
        let lines = self.open(&query, &action, T::PLURAL).await?;
        Ok(Watch {
            transport: self,
            lines: Box::pin(lines),
            read: 0,
        })
    }
}

/// Events of one watch, one per line.
pub(crate) struct Watch<'a> {
    transport: &'a Transport,
    lines: Pin<Box<dyn AsyncBufRead + Send>>,
    /// Bytes read so far.
    read: usize,
}

impl Watch<'_> {
    /// Returns the next event; `None` at the end of the stream.
    pub(crate) async fn next(&mut self) -> std::io::Result<Option<String>> {
        let mut line = String::new();
        let read = (&mut self.lines)
            .take(LINE_MAX)
            .read_line(&mut line)
            .await?;
        self.transport.count(read);
        self.read += read;
        if u64::try_from(read).is_ok_and(|read| read == LINE_MAX) {
            return Err(too_long(format!("a line of {} MiB", LINE_MAX >> 20)));
        }
        if self.read > WATCH_BYTES_MAX {
            return Err(too_long(format!("{} MiB of events", WATCH_BYTES_MAX >> 20)));
        }
        Ok((read > 0).then_some(line))
    }
}

fn too_long(what: String) -> std::io::Error {
    std::io::Error::other(what)
}
