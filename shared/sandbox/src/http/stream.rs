//! Streamed responses: long lists are encoded while they are sent, because 50,000 pods are 200 MB of text.

use std::{convert::Infallible, io::Write, sync::Arc, time::Duration};

use axum::{
    body::{Body, Bytes},
    http::{HeaderMap, HeaderValue, header},
    response::Response,
};
use flate2::{Compression, write::GzEncoder};
use futures::{StreamExt, stream};

use super::respond;
use crate::store::Object;

/// Number of objects encoded per chunk.
const CHUNK_OBJECTS: usize = 250;

/// Streams a list: `head`, the objects separated by commas, then `tail`.
pub(super) fn list(
    head: String,
    objects: Vec<Arc<Object>>,
    tail: &'static str,
    request: &HeaderMap,
) -> Response {
    let zips = respond::takes_gzip(request);
    let writer = Writer {
        encoder: zips.then(|| GzEncoder::new(Vec::new(), Compression::fast())),
        head: Some(head),
        objects: objects.into_iter(),
        tail: Some(tail),
    };
    let chunks = stream::unfold(writer, |mut writer| async move {
        let chunk = writer.next()?;
        Some((Ok::<_, Infallible>(Bytes::from(chunk)), writer))
    });
    let mut response = Response::new(Body::from_stream(chunks));
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static(respond::JSON),
    );
    if zips {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    response
}

/// Sends a response byte by byte, with a pause between bytes.
pub(super) fn dripping(response: Response, pause: Duration) -> Response {
    let (parts, body) = response.into_parts();
    let chunks = body.into_data_stream();
    let bytes = chunks.flat_map(move |chunk| {
        let bytes = chunk.unwrap_or_default().to_vec();
        stream::iter(bytes.into_iter().map(|byte| Bytes::from(vec![byte])))
    });
    let slow = bytes.then(move |byte| async move {
        tokio::time::sleep(pause).await;
        Ok::<_, Infallible>(byte)
    });
    Response::from_parts(parts, Body::from_stream(slow))
}

/// Chunk size of endless responses, in bytes.
const PIECE_BYTES: usize = 1 << 20;
const BEGINNING: &str = r#"{"kind":""#;

/// Endless response: an object whose only string never ends.
pub(super) fn endless() -> Response {
    let beginning = stream::once(async { Bytes::from_static(BEGINNING.as_bytes()) });
    let rest = stream::repeat(Bytes::from(vec![b'a'; PIECE_BYTES]));
    let pieces = beginning.chain(rest).map(Ok::<_, Infallible>);
    Response::new(Body::from_stream(pieces))
}

/// Endless response cut after this many MiB and compressed to a thousandth.
pub(super) fn unpacking(mebibytes: usize) -> Response {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    let piece = vec![b'a'; PIECE_BYTES];
    let mut written = encoder.write_all(BEGINNING.as_bytes());
    for _ in 0..mebibytes {
        written = written.and_then(|()| encoder.write_all(&piece));
    }
    // In-memory compression cannot fail; if it did, the client would receive an incomplete body.
    let body = written.and_then(|()| encoder.finish()).unwrap_or_default();
    let mut response = Response::new(Body::from(body));
    let gzip = HeaderValue::from_static("gzip");
    response
        .headers_mut()
        .insert(header::CONTENT_ENCODING, gzip);
    response
}

struct Writer {
    encoder: Option<GzEncoder<Vec<u8>>>,
    head: Option<String>,
    objects: std::vec::IntoIter<Arc<Object>>,
    tail: Option<&'static str>,
}

impl Writer {
    fn next(&mut self) -> Option<Vec<u8>> {
        let mut text = String::new();
        let is_first = self.head.is_some();
        text.push_str(&self.head.take().unwrap_or_default());
        for (index, object) in self.objects.by_ref().take(CHUNK_OBJECTS).enumerate() {
            if index > 0 || !is_first {
                text.push(',');
            }
            text.push_str(object.encoded());
        }
        if self.objects.len() == 0 {
            text.push_str(self.tail.take()?);
        }
        let Some(encoder) = &mut self.encoder else {
            return Some(text.into_bytes());
        };
        // In-memory compression cannot fail; if it did, the client would receive an incomplete body.
        if encoder.write_all(text.as_bytes()).is_err() {
            return None;
        }
        if self.tail.is_none() {
            return self.encoder.take()?.finish().ok();
        }
        encoder.flush().ok()?;
        Some(std::mem::take(encoder.get_mut()))
    }
}
