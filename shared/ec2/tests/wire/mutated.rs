//! Damaged answers of EC2 and Parameter Store: they are read or refused, without a panic and without endless requests.
//!
//! The damage is a function of the seed. libFuzzer would need the SDK compiled for it, which is too expensive.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use api::EC2NodeClass;
use aws_smithy_runtime_api::client::http::{
    HttpConnector, HttpConnectorFuture, SharedHttpConnector, http_client_fn,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_types::body::SdkBody;
use ec2::{Account, Options};
use jiff::{SignedDuration, Timestamp};
use model::Experience;
use ports::{Catalog, Cloud, CloudError, NodeClassResolver, Registry};
use serde_json::{Value, json};

use crate::{
    answers,
    aws::{CLUSTER, FixedClock, NOW, config},
    damage::Damage,
    recorded,
};

/// Seeds of the test.
const SEEDS: std::ops::Range<u64> = 1..301;
/// Upper bound on the calls of one query, for any answers.
const CALLS_MAX: usize = 200;

/// Gives recorded answers, damaged or not.
#[derive(Debug)]
struct Aws {
    seed: u64,
    calls: AtomicUsize,
}

impl HttpConnector for Aws {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let body = String::from_utf8_lossy(request.body().bytes().unwrap_or_default());
        let call = self.calls.fetch_add(1, Ordering::Relaxed);
        assert!(
            call < CALLS_MAX,
            "seed {}: still asks for {body}",
            self.seed
        );
        let target = request.headers().get("x-amz-target").unwrap_or_default();
        let answer = answers::to(target, &body);
        let (status, answer) = Damage::new(self.seed, call).of(answer);
        let answer = HttpResponse::new(status.try_into().unwrap(), SdkBody::from(answer));
        HttpConnectorFuture::ready(Ok(answer))
    }
}

fn account(seed: u64) -> Account {
    let aws = SharedHttpConnector::new(Aws {
        seed,
        calls: AtomicUsize::new(0),
    });
    let http = http_client_fn(move |_, _| aws.clone());
    let config = config().to_builder().http_client(http).build();
    let options = Options {
        registry_prefix: "/whittle/clusters".to_owned(),
        ..Options::default()
    };
    Account::new(&config, options, Arc::new(FixedClock))
}

fn node_class(ami: Value) -> EC2NodeClass {
    serde_json::from_value(json!({
        "metadata": {"name": "default", "uid": "11111111-2222", "generation": 1},
        "spec": {
            "amiSelectorTerms": [ami], "subnetSelectorTerms": [{"id": "subnet-a"}],
            "securityGroupSelectorTerms": [{"id": "sg-1"}], "instanceProfile": "nodes",
            "capacityReservationSelectorTerms": [{"id": "cr-0123456789abcdef0"}],
        },
        "status": {"subnets": [{"id": "subnet-a", "zone": "us-east-1a", "zoneID": "use1-az1"}]},
    }))
    .unwrap()
}

/// Checks that an error names the requested action.
fn check_error<T>(answer: Result<T, CloudError>) {
    if let Err(error) = answer {
        let text = error.to_string();
        assert!(text.contains(':') || text.contains(' '), "{text}");
    }
}

#[tokio::test]
async fn damaged_answers_are_read_or_refused() {
    let now: Timestamp = NOW.parse().unwrap();
    let cluster = CLUSTER.into();
    for seed in SEEDS {
        eprintln!("seed {seed}");
        let all = account(seed);
        check_error(all.list_instances(&cluster).await);
        check_error(all.troubles(now).await);
        check_error(all.instances_of_reservation("cr-1").await);
        let of = account(seed);
        let experience = Experience::default();
        for ami in [
            json!({"alias": "al2023@latest"}),
            json!({"ssmParameter": "/own/image"}),
        ] {
            let class = node_class(ami);
            check_error(of.resolve(&cluster, &class, &[], now).await);
            let types = of.instance_types(&cluster, &class, &Value::Null, &experience);
            check_error(types.await);
        }
        let launch = account(seed);
        let not_after = now + SignedDuration::from_secs(30);
        check_error(launch.launch(&recorded::request(), not_after).await);
        let _entries = launch.entries().await;
    }
}
