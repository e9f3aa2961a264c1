//! Metering: every request to EC2 takes a call out of the account's budget.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use aws_smithy_runtime_api::client::{
    http::{HttpConnector, HttpConnectorFuture, SharedHttpConnector, http_client_fn},
    orchestrator::{HttpRequest, HttpResponse},
};
use aws_smithy_types::body::SdkBody;
use ec2::{Account, Options};
use jiff::{SignedDuration, Timestamp};
use model::budget::Api;
use ports::{Budget, BudgetExhausted, Cloud, CloudError};

use crate::aws::{FixedClock, NOW, config};

/// Budget with this many calls, which records the requested APIs.
#[derive(Debug, Default)]
struct CountingBudget {
    left: Mutex<u32>,
    spent: Mutex<Vec<Api>>,
    throttled: Mutex<Vec<Api>>,
}

#[async_trait]
impl Budget for CountingBudget {
    async fn spend(&self, api: Api) -> Result<(), BudgetExhausted> {
        self.hold(api).await?;
        *self.left.lock().unwrap() -= 1;
        self.spent.lock().unwrap().push(api);
        Ok(())
    }

    async fn hold(&self, _: Api) -> Result<(), BudgetExhausted> {
        match *self.left.lock().unwrap() {
            0 => Err(BudgetExhausted { until: later() }),
            _ => Ok(()),
        }
    }

    async fn throttled(&self, api: Api) {
        self.throttled.lock().unwrap().push(api);
    }
}

fn later() -> Timestamp {
    NOW.parse::<Timestamp>().unwrap() + SignedDuration::from_secs(7)
}

/// EC2 that answers with two pages of instances, or with a refusal.
#[derive(Clone, Debug)]
struct Ec2 {
    refuses: bool,
    requests: Arc<Mutex<u32>>,
}

impl HttpConnector for Ec2 {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        *self.requests.lock().unwrap() += 1;
        let body = request.body().bytes().unwrap_or_default();
        let (status, answer) = match String::from_utf8_lossy(body).contains("NextToken=2") {
            _ if self.refuses => (503, REFUSED),
            false => (200, FIRST_PAGE),
            true => (200, SECOND_PAGE),
        };
        let answer = HttpResponse::new(status.try_into().unwrap(), SdkBody::from(answer));
        HttpConnectorFuture::ready(Ok(answer))
    }
}

const FIRST_PAGE: &str = "<DescribeInstancesResponse><reservationSet/><nextToken>2</nextToken></DescribeInstancesResponse>";
const SECOND_PAGE: &str =
    "<DescribeInstancesResponse><reservationSet/></DescribeInstancesResponse>";
const REFUSED: &str = "<Response><Errors><Error><Code>RequestLimitExceeded</Code><Message>Request limit exceeded.</Message></Error></Errors><RequestID>r</RequestID></Response>";

struct RecordedCalls {
    answer: Result<usize, CloudError>,
    requests: u32,
    budget: Arc<CountingBudget>,
}

async fn describe(calls: u32, refuses: bool) -> RecordedCalls {
    let budget = Arc::new(CountingBudget {
        left: Mutex::new(calls),
        ..CountingBudget::default()
    });
    let ec2 = Ec2 {
        refuses,
        requests: Arc::default(),
    };
    let requests = Arc::clone(&ec2.requests);
    let http = http_client_fn(move |_, _| SharedHttpConnector::new(ec2.clone()));
    let config = config().to_builder().http_client(http).build();
    let options = Options {
        budget: Some(budget.clone()),
        ..Options::default()
    };
    let account = Account::new(&config, options, Arc::new(FixedClock));
    let answer = account.list_instances(&"demo".into()).await;
    let requests = *requests.lock().unwrap();
    RecordedCalls {
        answer: answer.map(|found| found.len()),
        requests,
        budget,
    }
}

#[tokio::test]
async fn every_page_is_metered() {
    let asked = describe(9, false).await;
    assert_eq!(asked.answer.unwrap(), 0);
    assert_eq!(
        *asked.budget.spent.lock().unwrap(),
        [Api::Describe, Api::Describe]
    );
}

#[tokio::test]
async fn request_without_budget_is_postponed() {
    for calls in [0, 1] {
        let asked = describe(calls, false).await;
        assert_eq!(asked.requests, calls);
        let error = asked.answer.unwrap_err();
        assert!(
            matches!(&error, CloudError::Postponed { action, until }
                if action == "ec2:DescribeInstances" && *until == later()),
            "{error}"
        );
    }
}

#[tokio::test]
async fn throttled_call_is_reported_to_the_call_budget() {
    let asked = describe(9, true).await;
    let error = asked.answer.unwrap_err();
    assert!(matches!(error, CloudError::Throttled { .. }), "{error}");
    assert_eq!(*asked.budget.throttled.lock().unwrap(), [Api::Describe]);
}
