//! Answers that moto cannot give, as EC2 words them: no capacity, throttling, denials, misused tokens.

use std::{sync::Arc, time::Duration};

use aws_smithy_async::rt::sleep::{SharedAsyncSleep, TokioSleep};
use aws_smithy_runtime_api::client::http::{
    HttpConnector, HttpConnectorFuture, SharedHttpConnector, http_client_fn,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_types::{body::SdkBody, timeout::TimeoutConfig};
use ec2::{Account, Options};
use jiff::{SignedDuration, Timestamp};
use model::{
    CapacityType,
    launch::{
        AllocationStrategy, FleetOverride, FleetRequest, FleetResponse, LaunchTemplate,
        TemplateOverrides,
    },
};
use ports::{Cloud, CloudError};

use crate::aws::{FixedClock, NOW, config};

/// EC2 that gives one answer; launch templates exist already.
#[derive(Clone, Copy, Debug)]
struct Ec2 {
    status: u16,
    answer: &'static str,
}

impl HttpConnector for Ec2 {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let body = request.body().bytes().unwrap_or_default();
        let body = String::from_utf8_lossy(body);
        let (status, body) = if body.contains("Action=DescribeLaunchTemplates") {
            (200, TEMPLATES)
        } else {
            (self.status, self.answer)
        };
        let answer = HttpResponse::new(status.try_into().unwrap(), SdkBody::from(body));
        HttpConnectorFuture::ready(Ok(answer))
    }
}

fn account(ec2: Ec2) -> Account {
    let http = http_client_fn(move |_, _| SharedHttpConnector::new(ec2));
    let config = config().to_builder().http_client(http).build();
    Account::new(&config, Options::default(), Arc::new(FixedClock))
}

const TEMPLATES: &str = r#"<DescribeLaunchTemplatesResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">
    <launchTemplates><item><launchTemplateName>karpenter.k8s.aws/1</launchTemplateName></item></launchTemplates>
</DescribeLaunchTemplatesResponse>"#;

const PARTLY_FILLED: &str = r#"<CreateFleetResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">
    <fleetId>fleet-1</fleetId>
    <errorSet><item>
        <errorCode>InsufficientInstanceCapacity</errorCode>
        <errorMessage>We currently do not have sufficient m5.large capacity in us-east-1a.</errorMessage>
        <lifecycle>on-demand</lifecycle>
        <launchTemplateAndOverrides><overrides>
            <instanceType>m5.large</instanceType><availabilityZone>us-east-1a</availabilityZone><subnetId>subnet-a</subnetId>
        </overrides></launchTemplateAndOverrides>
    </item></errorSet>
    <fleetInstanceSet><item>
        <instanceIds><item>i-2</item><item>i-1</item></instanceIds>
        <instanceType>m5.xlarge</instanceType>
        <lifecycle>on-demand</lifecycle>
        <launchTemplateAndOverrides><overrides>
            <instanceType>m5.xlarge</instanceType><subnetId>subnet-b</subnetId>
        </overrides></launchTemplateAndOverrides>
    </item></fleetInstanceSet>
</CreateFleetResponse>"#;

pub(crate) fn request() -> FleetRequest {
    let choice = |instance_type: &str, zone: &str, subnet: &str| FleetOverride {
        instance_type: instance_type.into(),
        zone: zone.into(),
        subnet: Some(subnet.into()),
        image: "ami-1".into(),
        priority: 96_000_000,
    };
    FleetRequest {
        cluster: "demo".into(),
        token: "launch-1".into(),
        node_class: "default".into(),
        capacity_type: CapacityType::OnDemand,
        target_capacity: 3,
        allocation: Some(AllocationStrategy::LowestPrice),
        context: None,
        templates: vec![TemplateOverrides {
            template: LaunchTemplate {
                name: "karpenter.k8s.aws/1".into(),
                ..LaunchTemplate::default()
            },
            overrides: vec![
                choice("m5.large", "us-east-1a", "subnet-a"),
                choice("m5.xlarge", "us-east-1b", "subnet-b"),
            ],
        }],
        tags: Default::default(),
        claim_annotations: Default::default(),
    }
}

async fn launch(status: u16, answer: &'static str) -> Result<FleetResponse, CloudError> {
    let not_after = NOW.parse::<Timestamp>().unwrap() + SignedDuration::from_secs(30);
    account(Ec2 { status, answer })
        .launch(&request(), not_after)
        .await
}

#[tokio::test]
async fn fleet_answer_may_have_instances_and_failures() {
    let answer = launch(200, PARTLY_FILLED).await.unwrap();
    let launched: Vec<_> = answer
        .instances
        .iter()
        .map(|i| format!("{} {} {} {}", i.instance, i.instance_type, i.zone, i.image))
        .collect();
    let expected = [
        "i-2 m5.xlarge us-east-1b ami-1",
        "i-1 m5.xlarge us-east-1b ami-1",
    ];
    assert_eq!(
        launched, expected,
        "the zone is that of the subnet asked for"
    );
    let [failure] = answer.failures.as_slice() else {
        panic!("{answer:?}")
    };
    assert_eq!(
        (
            failure.code.as_str(),
            failure.instance_type.as_str(),
            failure.zone.as_str()
        ),
        ("InsufficientInstanceCapacity", "m5.large", "us-east-1a")
    );
}

/// EC2 that answers after the timeout of an attempt.
#[derive(Clone, Copy, Debug)]
struct Slow;

/// Timeout of an attempt, and the time that EC2 takes.
const ATTEMPT: Duration = Duration::from_millis(100);
const ANSWERS_AFTER: Duration = Duration::from_millis(400);

impl HttpConnector for Slow {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let ec2 = Ec2 {
            status: 200,
            answer: PARTLY_FILLED,
        };
        HttpConnectorFuture::new(async move {
            tokio::time::sleep(ANSWERS_AFTER).await;
            ec2.call(request).await
        })
    }
}

#[tokio::test]
async fn create_fleet_may_take_all_remaining_time() {
    let http = http_client_fn(|_, _| SharedHttpConnector::new(Slow));
    let timeouts = TimeoutConfig::builder().operation_attempt_timeout(ATTEMPT);
    let config = config()
        .to_builder()
        .http_client(http)
        .sleep_impl(SharedAsyncSleep::new(TokioSleep::new()))
        .timeout_config(timeouts.build())
        .build();
    let account = Account::new(&config, Options::default(), Arc::new(FixedClock));
    let not_after = NOW.parse::<Timestamp>().unwrap() + SignedDuration::from_secs(30);
    let answer = account.launch(&request(), not_after).await.unwrap();
    assert_eq!(answer.instances.len(), 2);
    let error = account.describe_instances(&["i-1".into()]).await;
    assert!(
        matches!(error, Err(CloudError::Unknown { .. })),
        "{error:?}"
    );
}

macro_rules! refusal {
    ($code:literal, $message:literal) => {
        concat!(
            "<Response><Errors><Error><Code>",
            $code,
            "</Code><Message>",
            $message,
            "</Message></Error></Errors><RequestID>r</RequestID></Response>"
        )
    };
}

#[tokio::test]
async fn refusals_are_classified() {
    let throttled = refusal!("RequestLimitExceeded", "Request limit exceeded.");
    let denied = refusal!(
        "UnauthorizedOperation",
        "You are not authorized to perform: ec2:CreateFleet"
    );
    let misused = refusal!(
        "IdempotentParameterMismatch",
        "Arguments on this idempotent request are inconsistent"
    );
    let full = refusal!("VcpuLimitExceeded", "You have requested more vCPU capacity");
    let broken = refusal!("InternalError", "An internal error has occurred");
    for (status, answer, expected) in [
        (
            503,
            throttled,
            "RequestLimitExceeded: EC2 throttles ec2:CreateFleet",
        ),
        (
            403,
            denied,
            "ec2:CreateFleet was denied: UnauthorizedOperation: You are not authorized to perform: ec2:CreateFleet",
        ),
        (
            400,
            misused,
            "ec2:CreateFleet was refused, IdempotentParameterMismatch: Arguments on this idempotent request are inconsistent",
        ),
        (
            400,
            full,
            "VcpuLimitExceeded: You have requested more vCPU capacity",
        ),
        (
            500,
            broken,
            "ec2:CreateFleet has no known outcome: InternalError: An internal error has occurred",
        ),
    ] {
        let error = launch(status, answer).await.unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
}

#[tokio::test]
async fn unreadable_answer_proves_nothing() {
    let error = launch(200, "<html>gateway</html").await.unwrap_err();
    assert!(matches!(error, CloudError::Unknown { .. }), "{error}");
}

const DESCRIBED: &str = r#"<DescribeInstancesResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">
    <reservationSet><item><instancesSet>
        <item>
            <instanceId>i-1</instanceId><instanceType>m5.large</instanceType><instanceState><name>running</name></instanceState>
            <subnetId>subnet-a</subnetId><capacityReservationId>cr-1</capacityReservationId>
            <capacityReservationSpecification>
                <capacityReservationPreference>capacity-reservations-only</capacityReservationPreference>
            </capacityReservationSpecification>
            <groupSet><item><groupId>sg-2</groupId></item><item><groupId>sg-1</groupId></item></groupSet>
        </item>
        <item>
            <instanceId>i-2</instanceId><instanceType>m5.large</instanceType><instanceState><name>running</name></instanceState>
            <capacityReservationId>cr-1</capacityReservationId>
            <capacityReservationSpecification><capacityReservationPreference>open</capacityReservationPreference></capacityReservationSpecification>
        </item>
    </instancesSet></item></reservationSet>
</DescribeInstancesResponse>"#;

#[tokio::test]
async fn instances_are_described_with_everything_drift_needs() {
    let account = account(Ec2 {
        status: 200,
        answer: DESCRIBED,
    });
    let ids = ["i-1".into(), "i-2".into()];
    let described = account.describe_instances(&ids).await.unwrap();
    let [reserved, open] = described.as_slice() else {
        panic!("{described:?}")
    };
    let groups: Vec<_> = reserved.security_groups.iter().collect();
    assert_eq!(groups, ["sg-1", "sg-2"]);
    assert_eq!(reserved.subnet.as_deref(), Some("subnet-a"));
    assert_eq!(reserved.reservation.as_deref(), Some("cr-1"));
    assert_eq!(
        open.reservation, None,
        "it happens to run in one that is open"
    );
}

/// Returns instances to a query for those of `cr-1`, and nothing to others.
#[derive(Clone, Copy, Debug)]
struct OfBlock;

impl HttpConnector for OfBlock {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let body = request.body().bytes().unwrap_or_default();
        let body = String::from_utf8_lossy(body);
        let asked = "Filter.1.Name=capacity-reservation-id&Filter.1.Value.1=cr-1";
        let answer = match body.contains(asked) {
            true => DESCRIBED,
            false => {
                r#"<DescribeInstancesResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"/>"#
            }
        };
        let answer = HttpResponse::new(200.try_into().unwrap(), SdkBody::from(answer));
        HttpConnectorFuture::ready(Ok(answer))
    }
}

#[tokio::test]
async fn instances_of_a_reservation_are_queried_by_its_id() {
    let http = http_client_fn(|_, _| SharedHttpConnector::new(OfBlock));
    let config = config().to_builder().http_client(http).build();
    let account = Account::new(&config, Options::default(), Arc::new(FixedClock));
    let found = account.instances_of_reservation("cr-1").await.unwrap();
    let ids: Vec<&str> = found.iter().map(|instance| instance.id.as_str()).collect();
    // The block ends for all of its instances, regardless of how they were launched.
    assert_eq!(ids, ["i-1", "i-2"]);
    assert_eq!(account.instances_of_reservation("cr-2").await.unwrap(), []);
}

#[tokio::test]
async fn cluster_without_access_entries_has_an_empty_list() {
    let by_config_map = Ec2 {
        status: 400,
        answer: r#"{"__type": "InvalidRequestException", "message": "The cluster's authentication mode must be set to one of [API, API_AND_CONFIG_MAP]"}"#,
    };
    let found = account(by_config_map).access_entries(&"demo".into()).await;
    assert_eq!(found.unwrap(), []);
    let denied = Ec2 {
        status: 403,
        answer: r#"{"__type": "AccessDeniedException", "message": "not authorized to perform eks:ListAccessEntries"}"#,
    };
    let refused = account(denied).access_entries(&"demo".into()).await;
    assert!(
        matches!(refused, Err(CloudError::Denied { .. })),
        "{refused:?}"
    );
}
