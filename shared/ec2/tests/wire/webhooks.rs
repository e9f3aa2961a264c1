//! Webhooks answer what they like.

use std::sync::Arc;

use aws_smithy_runtime_api::client::{
    http::{HttpConnector, HttpConnectorFuture, SharedHttpConnector, http_client_fn},
    orchestrator::{HttpRequest, HttpResponse},
};
use aws_smithy_types::body::SdkBody;
use ec2::{Account, Options};
use ports::{Notifier, NotifyError};

use crate::aws::{FixedClock, config};

/// A server that answers with so many bytes.
#[derive(Clone, Debug)]
struct Talkative(usize);

impl HttpConnector for Talkative {
    fn call(&self, _: HttpRequest) -> HttpConnectorFuture {
        let body = SdkBody::from(vec![b' '; self.0]);
        let answer = HttpResponse::new(200.try_into().unwrap(), body);
        HttpConnectorFuture::ready(Ok(answer))
    }
}

async fn posted_to(server: Talkative) -> Result<(), NotifyError> {
    let http = http_client_fn(move |_, _| SharedHttpConnector::new(server.clone()));
    let config = config().to_builder().http_client(http).build();
    let account = Account::new(&config, Options::default(), Arc::new(FixedClock));
    account
        .post("https://hooks.example.com/whittle", &[], "{}")
        .await
}

#[tokio::test]
async fn answer_without_an_end_is_not_read_to_its_end() {
    posted_to(Talkative(1_000)).await.unwrap();
    let error = posted_to(Talkative(1_000_000)).await.unwrap_err();
    assert!(error.to_string().contains("length limit"), "{error}");
}
