//! Release and garbage collection in a VPC without a way to IAM, which has no VPC endpoint.

use std::{collections::BTreeSet, sync::Arc};

use api::EC2NodeClass;
use aws_smithy_runtime_api::client::http::{
    HttpConnector, HttpConnectorFuture, SharedHttpConnector, http_client_fn,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_types::body::SdkBody;
use ec2::{Account, Options};
use jiff::Timestamp;
use ports::{AccountHousekeeping, Clock, CloudError, Needs, NodeClassResolver};
use serde_json::{Value, json};

use crate::aws::{CLUSTER, FixedClock, NOW, config};

/// EC2 without launch templates of the cluster, and IAM that does not answer.
#[derive(Clone, Copy, Debug)]
struct Isolated;

impl HttpConnector for Isolated {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        if request.uri().contains("iam.") {
            let timeout = ConnectorError::timeout("connect timed out".into());
            return HttpConnectorFuture::ready(Err(timeout));
        }
        let answer = r#"<DescribeLaunchTemplatesResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><launchTemplates/></DescribeLaunchTemplatesResponse>"#;
        let answer = HttpResponse::new(200.try_into().unwrap(), SdkBody::from(answer));
        HttpConnectorFuture::ready(Ok(answer))
    }
}

fn account() -> Account {
    let http = http_client_fn(|_, _| SharedHttpConnector::new(Isolated));
    let config = config().to_builder().http_client(http).build();
    Account::new(&config, Options::default(), Arc::new(FixedClock))
}

fn class(of: Value, status: Value) -> EC2NodeClass {
    let mut spec = json!({"amiSelectorTerms": [], "subnetSelectorTerms": [], "securityGroupSelectorTerms": []});
    for (field, value) in of.as_object().unwrap() {
        spec[field] = value.clone();
    }
    let class =
        json!({"metadata": {"name": "default", "uid": "u-1"}, "spec": spec, "status": status});
    serde_json::from_value(class).unwrap()
}

#[tokio::test]
async fn node_class_without_made_profile_is_released_although_iam_does_not_answer() {
    let own = class(
        json!({"instanceProfile": "nodes"}),
        json!({"instanceProfile": "nodes"}),
    );
    account().release(&CLUSTER.into(), &own).await.unwrap();
    // The NodeClass never became ready, so no profile was made for it.
    let never = class(json!({"role": "nodes"}), json!({}));
    account().release(&CLUSTER.into(), &never).await.unwrap();
    let made = class(
        json!({"role": "nodes"}),
        json!({"instanceProfile": "demo_1"}),
    );
    let error = account().release(&CLUSTER.into(), &made).await;
    assert!(
        matches!(error, Err(CloudError::Unknown { .. })),
        "{error:?}"
    );
}

#[tokio::test]
async fn launch_templates_are_collected_although_iam_does_not_answer() {
    let needs = Needs {
        node_classes: &[],
        node_claims: &[],
    };
    let now: Timestamp = NOW.parse().unwrap();
    assert_eq!(now, FixedClock.now());
    let collected = account().collect(&CLUSTER.into(), &needs, now).await;
    assert_eq!(collected.unwrap(), BTreeSet::new());
}
