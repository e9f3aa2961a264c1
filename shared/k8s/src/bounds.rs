//! Answers of API servers, read up to a bound: what a server sends is never more than the function that reads it can hold.
//!
//! Bytes are counted after decompression, as they come, so that neither a small file that unpacks to a large one nor a body
//! without an end is held in memory.

use futures::{AsyncBufRead, TryStreamExt};
use http::{Request, Response, header::CONTENT_LENGTH};
use http_body_util::BodyExt;
use kube::{Client, Error, client::Body, core::Status};

/// Bytes of one object's answer: objects are at most 1.5 MiB in etcd, and requests at most 3 MiB, in which JSON is the largest form.
pub(crate) const OBJECT_BYTES_MAX: usize = 4 << 20;
/// Bytes of one page of a list: 500 pods are about 2 MiB, 500 nodes with many images 12 MiB.
pub(crate) const PAGE_BYTES_MAX: usize = 64 << 20;
/// Bytes of a refusal: a `Status`, or the page of a proxy, of which the beginning says enough.
const REFUSAL_BYTES_MAX: usize = 64 << 10;

/// Why an answer is not there.
pub(crate) enum Unread {
    Refused(Error),
    /// More than so many bytes.
    TooLarge(usize),
}

impl From<Error> for Unread {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

/// Sends a request and reads its whole answer, unless that has more bytes than `most`.
pub(crate) async fn text(
    client: &Client,
    request: Request<Vec<u8>>,
    most: usize,
) -> Result<String, Unread> {
    let answer = accepted(client.send(request.map(Body::from)).await?).await?;
    let announced = answer.headers().get(CONTENT_LENGTH);
    let announced = announced.and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    if announced.is_some_and(|length| length > most) {
        return Err(Unread::TooLarge(most));
    }
    let (bytes, is_whole) = read(answer.into_body(), most).await?;
    match is_whole {
        true => String::from_utf8(bytes).map_err(|error| Error::FromUtf8(error).into()),
        false => Err(Unread::TooLarge(most)),
    }
}

/// Sends a request whose answer is read by lines; how long they may be is for the reader to say.
pub(crate) async fn lines(
    client: &Client,
    request: Request<Vec<u8>>,
) -> Result<impl AsyncBufRead + use<>, Error> {
    let answer = accepted(client.send(request.map(Body::from)).await?).await?;
    let body = answer.into_body().into_data_stream();
    Ok(body.map_err(std::io::Error::other).into_async_read())
}

/// An answer that is no refusal.
async fn accepted(answer: Response<Body>) -> Result<Response<Body>, Error> {
    let code = answer.status();
    if !code.is_client_error() && !code.is_server_error() {
        return Ok(answer);
    }
    let (bytes, _) = read(answer.into_body(), REFUSAL_BYTES_MAX).await?;
    let text = String::from_utf8_lossy(&bytes);
    let status = serde_json::from_str(&text).unwrap_or_else(|_| {
        // Proxies and paths that are not served answer in other words.
        Status::failure(text.trim(), "").with_code(code.as_u16())
    });
    Err(Error::Api(status.boxed()))
}

/// The beginning of a body, and whether that is all of it.
async fn read(mut body: Body, most: usize) -> Result<(Vec<u8>, bool), Error> {
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame?.into_data() else {
            continue;
        };
        let left = most.saturating_sub(bytes.len());
        if let Some(beginning) = data.get(..left)
            && data.len() > left
        {
            bytes.extend_from_slice(beginning);
            return Ok((bytes, false));
        }
        bytes.extend_from_slice(&data);
    }
    Ok((bytes, true))
}
