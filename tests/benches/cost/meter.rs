//! Computes what DynamoDB would charge for the requests that pass, by the sizes of their items (Amazon DynamoDB's
//! guide, "read and write operations"). A strongly consistent read costs a unit for each 4 KB: of all items of a query
//! together, and of each item of a batch alone, including items that do not exist. A write costs a unit for each 1 KB
//! of the larger of old and new item, twice that in a transaction, also if its condition fails.

use std::{
    collections::BTreeMap,
    ops::AddAssign,
    sync::{Arc, Mutex, PoisonError},
};

use aws_smithy_runtime_api::client::{
    http::{
        HttpClient, HttpConnector, HttpConnectorFuture, SharedHttpClient, SharedHttpConnector,
        http_client_fn,
    },
    orchestrator::HttpRequest,
    result::ConnectorError,
};
use aws_smithy_types::{body::SdkBody, byte_stream::ByteStream};
use serde_json::Value;

const READ_UNIT: usize = 4 << 10;
const WRITE_UNIT: usize = 1 << 10;

/// Requests and capacity units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Units {
    pub(crate) requests: usize,
    pub(crate) reads: usize,
    pub(crate) writes: usize,
    /// Part of `writes` that is the journal's: records, their index, and the time of the last notifications.
    pub(crate) journal: usize,
}

impl AddAssign for Units {
    fn add_assign(&mut self, other: Self) {
        self.requests += other.requests;
        self.reads += other.reads;
        self.writes += other.writes;
        self.journal += other.journal;
    }
}

/// Meter of a DynamoDB client. Clones share their counts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Meter(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    units: Units,
    /// Sizes of known items by partition and sort key, which updates and deletes are charged by.
    sizes: BTreeMap<(String, String), Size>,
}

#[derive(Clone, Copy, Debug)]
struct Size {
    bytes: usize,
    /// Time at which DynamoDB removes the item, in seconds since the epoch.
    expires: Option<i64>,
}

impl Meter {
    /// Takes the units counted since the last call.
    pub(crate) fn take(&self) -> Units {
        std::mem::take(&mut self.lock().units)
    }

    /// Drops items that DynamoDB has removed by `now`, in seconds since the epoch.
    pub(crate) fn expire(&self, now: i64) {
        let is_kept = |size: &Size| size.expires.is_none_or(|expires| expires > now);
        self.lock().sizes.retain(|_, size| is_kept(size));
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wraps an HTTP client so that its requests are counted.
    pub(crate) fn over(&self, client: SharedHttpClient) -> SharedHttpClient {
        let meter = self.clone();
        http_client_fn(move |settings, components| {
            SharedHttpConnector::new(Metered {
                meter: meter.clone(),
                connector: client.http_connector(settings, components),
            })
        })
    }
}

#[derive(Debug)]
struct Metered {
    meter: Meter,
    connector: SharedHttpConnector,
}

impl HttpConnector for Metered {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let target = request.headers().get("x-amz-target").unwrap_or_default();
        let operation = target.rsplit('.').next().unwrap_or_default().to_owned();
        let parameters: Value =
            serde_json::from_slice(request.body().bytes().unwrap_or_default()).unwrap();
        let (meter, answer) = (self.meter.clone(), self.connector.call(request));
        HttpConnectorFuture::new(async move {
            let mut response = answer.await?;
            let body = ByteStream::new(std::mem::replace(response.body_mut(), SdkBody::taken()));
            let bytes = body.collect().await;
            let bytes = bytes
                .map_err(|error| ConnectorError::io(error.into()))?
                .to_vec();
            let succeeded = response.status().is_success();
            let body: Value = serde_json::from_slice(&bytes).unwrap();
            meter
                .lock()
                .count(&operation, &parameters, succeeded, &body);
            *response.body_mut() = SdkBody::from(bytes);
            Ok(response)
        })
    }
}

impl State {
    fn count(&mut self, operation: &str, request: &Value, succeeded: bool, response: &Value) {
        self.units.requests += 1;
        match operation {
            "GetItem" => self.units.reads += reads(self.record_item(&response["Item"])),
            "BatchGetItem" => {
                let tables = request["RequestItems"].as_object().into_iter().flatten();
                for (table, wanted) in tables {
                    assert_eq!(wanted["ConsistentRead"], true, "{request}");
                    let found = response["Responses"][table]
                        .as_array()
                        .into_iter()
                        .flatten();
                    let found: Vec<usize> = found.map(|item| self.record_item(item)).collect();
                    let keys = |of: &Value| of["Keys"].as_array().map_or(0, Vec::len);
                    let unprocessed = keys(&response["UnprocessedKeys"][table]);
                    let missing = keys(wanted).saturating_sub(unprocessed + found.len());
                    self.units.reads += missing + found.into_iter().map(reads).sum::<usize>();
                }
            }
            "Query" => {
                assert_eq!(request["ConsistentRead"], true, "{request}");
                let items = response["Items"].as_array().into_iter().flatten();
                let bytes = items.map(|item| self.record_item(item)).sum();
                self.units.reads += reads(bytes);
            }
            "PutItem" | "UpdateItem" | "DeleteItem" => {
                self.write(operation, request, succeeded, response, 1);
            }
            "TransactWriteItems" => {
                let items = request["TransactItems"].as_array().into_iter().flatten();
                for (kind, write) in items.filter_map(|item| item.as_object()?.iter().next()) {
                    self.write(kind, write, succeeded, &Value::Null, 2);
                }
            }
            other => panic!("no units are known for {other}"),
        }
    }

    fn write(
        &mut self,
        kind: &str,
        request: &Value,
        succeeded: bool,
        response: &Value,
        times: usize,
    ) {
        let new = match kind {
            "Put" | "PutItem" => &request["Item"],
            _ => &response["Attributes"],
        };
        let key = match request.get("Key") {
            Some(key) => key_of(key),
            None => key_of(new),
        };
        // The response to a failed condition has the unchanged item.
        self.record_item(&response["Item"]);
        let old = self.sizes.get(&key).map_or(0, |size| size.bytes);
        let size = if succeeded {
            old.max(size_of(new))
        } else {
            old
        };
        let units = times * size.div_ceil(WRITE_UNIT).max(1);
        self.units.writes += units;
        let notification_rows = ["ONCE#journal", "ONCE#snapshot"];
        if key.0.starts_with("JOURNAL#")
            || notification_rows
                .iter()
                .any(|prefix| key.1.starts_with(prefix))
        {
            self.units.journal += units;
        }
        if succeeded {
            self.record_item(new);
            if kind.starts_with("Delete") {
                self.sizes.remove(&key);
            }
        }
    }

    /// Records an item's size.
    fn record_item(&mut self, item: &Value) -> usize {
        let bytes = size_of(item);
        let key = key_of(item);
        // Rows of the journal are written once; all other rows change.
        if bytes > 0 && !key.0.starts_with("JOURNAL#") {
            let expires = item["expires"]["N"].as_str();
            let expires = expires.and_then(|seconds| seconds.parse().ok());
            self.sizes.insert(key, Size { bytes, expires });
        }
        bytes
    }
}

fn reads(size: usize) -> usize {
    size.div_ceil(READ_UNIT).max(1)
}

fn key_of(item: &Value) -> (String, String) {
    let text = |name: &str| item[name]["S"].as_str().unwrap_or_default().to_owned();
    (text("pk"), text("sk"))
}

/// Size of an item by the rules of the guide's "item sizes and formats".
fn size_of(item: &Value) -> usize {
    let attributes = item.as_object().into_iter().flatten();
    attributes
        .map(|(name, value)| name.len() + size_of_value(value))
        .sum()
}

fn size_of_value(value: &Value) -> usize {
    let Some((kind, value)) = value.as_object().and_then(|value| value.iter().next()) else {
        return 0;
    };
    match (kind.as_str(), value) {
        ("S", Value::String(text)) => text.len(),
        ("N", Value::String(digits)) => digits.len().div_ceil(2) + 1,
        ("B", Value::String(base64)) => base64.len() / 4 * 3,
        ("BOOL" | "NULL", _) => 1,
        ("M", Value::Object(_)) => 3 + size_of(value),
        other => panic!("the ledger has no such attributes: {other:?}"),
    }
}
