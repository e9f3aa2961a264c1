//! Objects in the bucket: written whole by name, and read back.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use aws_config::retry::RetryConfig;
use aws_smithy_async::rt::sleep::{SharedAsyncSleep, TokioSleep};
use aws_smithy_runtime_api::client::http::{
    HttpConnector, HttpConnectorFuture, SharedHttpConnector, http_client_fn,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_types::body::SdkBody;
use ec2::Bucket;
use ports::Archive;
use serde_json::json;

use crate::aws::{FixedClock, MOTO, config};

/// Answers 503 the given number of times, then 200.
#[derive(Clone, Debug)]
struct BusyBucket(Arc<AtomicUsize>);

impl HttpConnector for BusyBucket {
    fn call(&self, _: HttpRequest) -> HttpConnectorFuture {
        let left = self.0.load(Ordering::Relaxed);
        self.0.store(left.saturating_sub(1), Ordering::Relaxed);
        let status = if left > 0 { 503 } else { 200 };
        let answer = HttpResponse::new(status.try_into().unwrap(), SdkBody::from("an object"));
        HttpConnectorFuture::ready(Ok(answer))
    }
}

fn busy(answers: usize) -> Bucket {
    let busy = BusyBucket(Arc::new(AtomicUsize::new(answers)));
    let http = http_client_fn(move |_, _| SharedHttpConnector::new(busy.clone()));
    let config = config().to_builder().http_client(http);
    let config = config
        .sleep_impl(SharedAsyncSleep::new(TokioSleep::new()))
        .retry_config(RetryConfig::standard());
    Bucket::new(&config.build(), "whittle-bucket", Arc::new(FixedClock))
}

#[tokio::test]
async fn requests_to_a_busy_bucket_are_retried() {
    let object = busy(2).get("journal/a").await.unwrap();
    assert_eq!(object, Some(b"an object".to_vec()));
    busy(2).put("journal/a", Vec::new()).await.unwrap();
    let error = busy(3).get("journal/a").await.unwrap_err().to_string();
    assert!(error.contains("HTTP 503"), "{error}");
}

#[tokio::test]
async fn objects_round_trip() {
    MOTO.call("s3", "create_bucket", json!({"Bucket": "whittle-bucket"}));
    let config = config().to_builder().endpoint_url(MOTO.endpoint()).build();
    let bucket = |name: &str| Bucket::new(&config, name, Arc::new(FixedClock));
    let ours = bucket("whittle-bucket");
    let name = "journal/demo/2026-08-22T12:00:00.000Z-provisioner-turn 1.json.zst";
    assert_eq!(ours.get(name).await.unwrap(), None);
    // Every possible byte, so not valid text.
    let object: Vec<u8> = (0..=255).collect();
    ours.put(name, object.clone()).await.unwrap();
    assert_eq!(ours.get(name).await.unwrap(), Some(object));
    let other = bucket("whittle-other");
    for error in [
        other.get(name).await.unwrap_err(),
        other.put(name, Vec::new()).await.unwrap_err(),
    ] {
        let said = error.to_string();
        assert!(
            said.contains(name) && said.contains("NoSuchBucket"),
            "{said}"
        );
    }
}
