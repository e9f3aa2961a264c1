//! Size limits for responses of API servers, so that no server can exhaust a function's memory.
//!
//! Bytes are counted after decompression, as they arrive, so that neither a small response that unpacks to a large one nor a body
//! without an end is held in memory.

use futures::{AsyncBufRead, TryStreamExt};
use http::{Request, Response, header::CONTENT_LENGTH};
use http_body_util::BodyExt;
use kube::{Client, Error, client::Body, core::Status};

/// Upper bound on the response for one object, in bytes: objects are at most 1.5 MiB in etcd, and requests at most 3 MiB, in
/// which JSON is the largest form.
pub(crate) const OBJECT_BYTES_MAX: usize = 4 << 20;
/// Upper bound on one page of a list, in bytes: 500 pods are about 2 MiB, 500 nodes with many images 12 MiB.
pub(crate) const PAGE_BYTES_MAX: usize = 64 << 20;
/// Bytes that are read of an error response: a `Status`, or the error page of a proxy, of which the beginning is enough.
const ERROR_BYTES_MAX: usize = 64 << 10;

/// Error of reading a response.
pub(crate) enum ResponseError {
    Refused(Error),
    /// The response has more than this many bytes.
    TooLarge(usize),
}

impl From<Error> for ResponseError {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

/// Sends a request and reads its response, up to `max_bytes`.
pub(crate) async fn text(
    client: &Client,
    request: Request<Vec<u8>>,
    max_bytes: usize,
) -> Result<String, ResponseError> {
    let answer = accepted(client.send(request.map(Body::from)).await?).await?;
    let announced = answer.headers().get(CONTENT_LENGTH);
    let announced = announced.and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    if announced.is_some_and(|length| length > max_bytes) {
        return Err(ResponseError::TooLarge(max_bytes));
    }
    let (bytes, is_whole) = read(answer.into_body(), max_bytes).await?;
    match is_whole {
        true => String::from_utf8(bytes).map_err(|error| Error::FromUtf8(error).into()),
        false => Err(ResponseError::TooLarge(max_bytes)),
    }
}

/// Sends a request whose response is read line by line; the reader limits the length of lines.
pub(crate) async fn lines(
    client: &Client,
    request: Request<Vec<u8>>,
) -> Result<impl AsyncBufRead + use<>, Error> {
    let answer = accepted(client.send(request.map(Body::from)).await?).await?;
    let body = answer.into_body().into_data_stream();
    Ok(body.map_err(std::io::Error::other).into_async_read())
}

/// Turns an error response into an error.
async fn accepted(answer: Response<Body>) -> Result<Response<Body>, Error> {
    let code = answer.status();
    if !code.is_client_error() && !code.is_server_error() {
        return Ok(answer);
    }
    let (bytes, _) = read(answer.into_body(), ERROR_BYTES_MAX).await?;
    let text = String::from_utf8_lossy(&bytes);
    let status = serde_json::from_str(&text).unwrap_or_else(|_| {
        // Proxies, and paths that are not served, do not respond with a `Status`.
        Status::failure(text.trim(), "").with_code(code.as_u16())
    });
    Err(Error::Api(status.boxed()))
}

/// Reads up to `max_bytes` of a body; returns whether that is all of it.
async fn read(mut body: Body, max_bytes: usize) -> Result<(Vec<u8>, bool), Error> {
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame?.into_data() else {
            continue;
        };
        let left = max_bytes.saturating_sub(bytes.len());
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
