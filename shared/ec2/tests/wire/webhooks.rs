//! Answers of webhooks, which can be arbitrary.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use aws_config::{SdkConfig, retry::RetryConfig};
use aws_smithy_async::rt::sleep::default_async_sleep;
use aws_smithy_runtime_api::client::{
    http::{HttpConnector, HttpConnectorFuture, SharedHttpConnector, http_client_fn},
    orchestrator::{HttpRequest, HttpResponse},
};
use aws_smithy_types::body::SdkBody;
use ec2::{Account, Options};
use ports::{Clock, Notifier, NotifyError};
use signed::Request;

use crate::aws::{FixedClock, config};

/// A server that answers with this many bytes, and counts its requests.
#[derive(Clone, Debug)]
struct VerboseServer(usize, Arc<AtomicUsize>);

impl VerboseServer {
    fn new(bytes: usize) -> Self {
        Self(bytes, Arc::default())
    }

    fn config(&self) -> SdkConfig {
        let server = self.clone();
        let http = http_client_fn(move |_, _| SharedHttpConnector::new(server.clone()));
        let mut config = config()
            .to_builder()
            .http_client(http)
            .retry_config(RetryConfig::standard());
        config.set_sleep_impl(default_async_sleep());
        config.build()
    }
}

impl HttpConnector for VerboseServer {
    fn call(&self, _: HttpRequest) -> HttpConnectorFuture {
        self.1.fetch_add(1, Ordering::Relaxed);
        let body = SdkBody::from(vec![b' '; self.0]);
        let answer = HttpResponse::new(200.try_into().unwrap(), body);
        HttpConnectorFuture::ready(Ok(answer))
    }
}

async fn posted_to(server: VerboseServer) -> Result<(), NotifyError> {
    let account = Account::new(&server.config(), Options::default(), Arc::new(FixedClock));
    account
        .post("https://hooks.example.com/whittle", &[], "{}")
        .await
}

#[tokio::test]
async fn endless_answer_is_cut_off() {
    posted_to(VerboseServer::new(1_000)).await.unwrap();
    let error = posted_to(VerboseServer::new(1_000_000)).await.unwrap_err();
    assert!(error.to_string().contains("length limit"), "{error}");
}

#[tokio::test]
async fn too_long_answer_is_not_retried() {
    let server = VerboseServer::new(1_000_000);
    let request = Request {
        operation: "a GET",
        service: None,
        method: "GET",
        endpoint: "https://hooks.example.com".to_owned(),
        path: "/".to_owned(),
        headers: Vec::new(),
        body: Vec::new(),
    };
    let now = FixedClock.now().into();
    let answer = signed::exchange(&server.config(), "us-east-1", now, request).await;
    assert!(answer.unwrap_err().contains("length limit"));
    assert_eq!(server.1.load(Ordering::Relaxed), 1);
}
