//! Requests to services without an emulator, validated against the services' own models.

use std::sync::{Arc, Mutex};

use aws_smithy_runtime_api::client::{
    http::{HttpConnector, HttpConnectorFuture, SharedHttpConnector, http_client_fn},
    orchestrator::{HttpRequest, HttpResponse},
};
use aws_smithy_types::body::SdkBody;
use ec2::{Account, Options};
use model::interruption::LifecycleHook;
use ports::{AccountHousekeeping, Catalog, Clock, Cloud};
use serde_json::{Value, json};

use crate::{
    aws::{FixedClock, config},
    prices::MemoryStore,
};

/// Records requests, and answers each with an empty success.
#[derive(Clone, Debug, Default)]
struct RecordingService(Arc<Mutex<Vec<Value>>>);

/// A principal with an access entry.
const PRINCIPAL: &str = "arn:aws:iam::123456789012:role/known";

impl HttpConnector for RecordingService {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let body = String::from_utf8_lossy(request.body().bytes().unwrap_or_default());
        let uri = request.uri().splitn(4, '/').nth(3).unwrap_or_default();
        let headers = request.headers().iter();
        let headers: serde_json::Map<String, Value> = headers
            .map(|(name, value)| (name.to_lowercase(), value.into()))
            .collect();
        self.0.lock().unwrap().push(json!({
            "method": request.method(), "path": format!("/{uri}"), "headers": headers, "body": body,
        }));
        let has_access = uri.ends_with("access-entries") && body.contains(PRINCIPAL);
        let (status, answer) = match has_access {
            true => (409, r#"{"__type": "ResourceInUseException"}"#),
            false => (200, answer(uri, &body)),
        };
        let answer = HttpResponse::new(status.try_into().unwrap(), SdkBody::from(answer));
        HttpConnectorFuture::ready(Ok(answer))
    }
}

fn answer(path: &str, body: &str) -> &'static str {
    match path {
        _ if body.contains("Action=CompleteLifecycleAction&") => {
            "<CompleteLifecycleActionResponse><CompleteLifecycleActionResult/></CompleteLifecycleActionResponse>"
        }
        _ if body.contains("Action=RecordLifecycleActionHeartbeat&") => {
            "<RecordLifecycleActionHeartbeatResponse><RecordLifecycleActionHeartbeatResult/></RecordLifecycleActionHeartbeatResponse>"
        }
        "clusters/demo" => {
            r#"{"cluster": {"name": "demo", "arn": "arn:aws:eks:us-east-1:123456789012:cluster/demo"}}"#
        }
        _ if path.starts_with("managedresources") => {
            r#"{"appliedWeights": {}, "arn": "a", "autoshifts": [], "name": "demo", "zonalShifts": []}"#
        }
        _ if path.ends_with("access-entries") => {
            r#"{"accessEntries": ["arn:aws:iam::123456789012:role/p"]}"#
        }
        _ if path.contains("access-entries/") => {
            r#"{"accessEntry": {"principalArn": "arn:aws:iam::123456789012:role/p"}}"#
        }
        _ => r#"{"PriceList": [], "Quota": {"Value": 64.0}}"#,
    }
}

fn account(asked: &RecordingService) -> Account {
    let asked = asked.clone();
    let http = http_client_fn(move |_, _| SharedHttpConnector::new(asked.clone()));
    let config = config().to_builder().http_client(http).build();
    let options = Options {
        object_store: Some(Arc::new(MemoryStore::default())),
        ..Options::default()
    };
    Account::new(&config, options, Arc::new(FixedClock))
}

#[tokio::test]
async fn requests_without_an_emulator_fit_the_services_models() {
    const ROLE: &str = "arn:aws:iam::123456789012:role/p";
    let asked = RecordingService::default();
    let account = account(&asked);
    let (demo, instance) = ("demo".into(), "i-0123456789abcdef0".into());
    for token in ["", "bcd2f1b8-9a78-44d3-8a7a-4dd07d7cf635"] {
        let hook = LifecycleHook {
            group: "workers".into(),
            name: "drain".into(),
            token: token.into(),
        };
        account.complete_hook(&instance, &hook).await.unwrap();
        account.extend_hook(&instance, &hook).await.unwrap();
    }
    account.access_entries(&demo).await.unwrap();
    for role in [ROLE, PRINCIPAL] {
        let grant_access = account.grant_access(&demo, role, "whittle:provisioner");
        grant_access.await.unwrap();
    }
    account.revoke_access(&demo, ROLE).await.unwrap();
    account.ec2_quota("L-1216C47A").await.unwrap();
    let eks = json!({ "type": "eks" });
    account.zonal_shifts(&demo, &eks).await.unwrap();
    // An answer without prices is reported.
    let warnings = account.renew_prices(true, FixedClock.now()).await;
    assert_ne!(warnings, Vec::<String>::new());
    let asked = asked.0.lock().unwrap().clone();
    let judged = harness::validated(&asked);
    let mut operations: Vec<&str> = judged
        .iter()
        .filter_map(|(operation, _)| operation.as_deref())
        .collect();
    operations.sort_unstable();
    operations.dedup();
    let violations: Vec<&String> = judged
        .iter()
        .flat_map(|(_, violations)| violations)
        .collect();
    assert_eq!(violations, Vec::<&String>::new());
    let expected = [
        "arc-zonal-shift:GetManagedResource",
        "autoscaling:CompleteLifecycleAction",
        "autoscaling:RecordLifecycleActionHeartbeat",
        "eks:CreateAccessEntry",
        "eks:DeleteAccessEntry",
        "eks:DescribeAccessEntry",
        "eks:DescribeCluster",
        "eks:ListAccessEntries",
        "eks:UpdateAccessEntry",
        "pricing:GetProducts",
        "servicequotas:GetServiceQuota",
    ];
    for operation in expected {
        assert!(
            operations.contains(&operation),
            "{operation}: {operations:?}"
        );
    }
}

#[tokio::test]
async fn request_that_violates_the_model_is_found() {
    let asked = RecordingService::default();
    let hook = LifecycleHook {
        group: String::new(),
        name: "drain".into(),
        token: "short".into(),
    };
    let instance = "i-0123456789abcdef0".into();
    let done = account(&asked).complete_hook(&instance, &hook).await;
    done.unwrap();
    let asked = asked.0.lock().unwrap().clone();
    let [(_, violations)] = &harness::validated(&asked)[..] else {
        panic!("one request was made");
    };
    assert_eq!(violations.len(), 2, "{violations:?}");
}
