//! ARC's endpoint, which moto lacks: recorded answers and recorded requests.

use std::sync::{Arc, Mutex};

use aws_smithy_runtime_api::client::http::{
    HttpConnector, HttpConnectorFuture, SharedHttpConnector, http_client_fn,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_types::body::SdkBody;
use ec2::{Account, Options};
use model::experience::ZonalShift;
use ports::{Catalog, CloudError};
use serde_json::{Value, json};

use crate::aws::{FixedClock, NOW, config};

const CLUSTER: &str =
    r#"{"cluster": {"name": "demo", "arn": "arn:aws:eks:us-east-1:123456789012:cluster/demo"}}"#;

/// Answers ARC's call, and EKS' call for the cluster's ARN; records the requests to ARC.
#[derive(Clone, Debug)]
struct Answers {
    status: u16,
    answer: &'static str,
    asked: Arc<Mutex<Vec<String>>>,
}

impl HttpConnector for Answers {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let uri = request.uri().to_owned();
        let (status, body) = if uri.contains("arc-zonal-shift") {
            let signed = request.headers().get("authorization").unwrap_or_default();
            let scope = signed.split(['/', ',']).skip(2).take(2).collect::<Vec<_>>();
            let asked = format!("{} {uri} as {}", request.method(), scope.join("/"));
            self.asked.lock().unwrap().push(asked);
            (self.status, self.answer)
        } else {
            (200, CLUSTER)
        };
        let answer = HttpResponse::new(status.try_into().unwrap(), SdkBody::from(body));
        HttpConnectorFuture::ready(Ok(answer))
    }
}

async fn shifts(
    status: u16,
    answer: &'static str,
    entry: Value,
) -> (Result<Vec<ZonalShift>, CloudError>, Vec<String>) {
    let asked = Arc::default();
    let arc = Answers {
        status,
        answer,
        asked: Arc::clone(&asked),
    };
    let http = http_client_fn(move |_, _| SharedHttpConnector::new(arc.clone()));
    let config = config().to_builder().http_client(http).build();
    let account = Account::new(&config, Options::default(), Arc::new(FixedClock));
    let shifts = account.zonal_shifts(&"demo".into(), &entry).await;
    let asked = asked.lock().unwrap().clone();
    (shifts, asked)
}

fn eks() -> Value {
    json!({ "type": "eks" })
}

#[tokio::test]
async fn zonal_shifts_are_queried_by_cluster_arn() {
    // Two hours after the time of the tests' clock.
    let answer = r#"{
        "arn": "arn:aws:eks:us-east-1:123456789012:cluster/demo", "name": "demo", "autoshifts": [],
        "appliedWeights": {"use1-az1": 0.0, "use1-az2": 1.0},
        "zonalShifts": [{
            "appliedStatus": "APPLIED", "awayFrom": "use1-az1", "comment": "drill", "expiryTime": 1787407200,
            "resourceIdentifier": "arn:aws:eks:us-east-1:123456789012:cluster/demo", "startTime": 1787400000,
            "zonalShiftId": "9ac9ec1e-1df1-0755-3dc5-8cf57143f9fb"
        }]
    }"#;
    let (shifts, asked) = shifts(200, answer, eks()).await;
    let until = NOW.parse::<jiff::Timestamp>().unwrap() + jiff::SignedDuration::from_hours(2);
    let zone_id = "use1-az1".to_owned();
    assert_eq!(shifts.unwrap(), [ZonalShift { zone_id, until }]);
    assert_eq!(
        asked,
        [
            "GET https://arc-zonal-shift.us-east-1.amazonaws.com/managedresources/arn%3Aaws%3Aeks%3Aus-east-1%3A123456789012%3Acluster%2Fdemo as us-east-1/arc-zonal-shift"
        ]
    );
}

#[tokio::test]
async fn refused_and_unreadable_answers_give_no_zonal_shifts() {
    for (status, answer, expected) in [
        (
            403,
            r#"{"__type": "AccessDeniedException", "message": "no"}"#,
            "arc-zonal-shift:GetManagedResource was denied: AccessDeniedException: no",
        ),
        (
            429,
            r#"{"__type": "ThrottlingException", "message": "slow down"}"#,
            "ThrottlingException: EC2 throttles arc-zonal-shift:GetManagedResource",
        ),
        (
            500,
            r#"{"__type": "InternalServerException", "message": "oh"}"#,
            "arc-zonal-shift:GetManagedResource has no known outcome: HTTP 500: {\"__type\": \"InternalServerException\", \"message\": \"oh\"}",
        ),
    ] {
        let error = shifts(status, answer, eks()).await.0.unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
    let unread = shifts(200, "<html>", eks()).await.0.unwrap_err();
    assert!(matches!(unread, CloudError::Unknown { .. }), "{unread}");
}

#[tokio::test]
async fn only_eks_clusters_have_zonal_shifts() {
    let (shifts, asked) = shifts(200, "{}", json!({ "type": "endpoint" })).await;
    let said = shifts.unwrap_err().to_string();
    assert!(said.contains("settings.enableZonalShift is true"), "{said}");
    assert!(asked.is_empty());
}
