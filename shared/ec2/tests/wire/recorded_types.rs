//! DescribeInstanceTypes with unknown values, and with missing types.

use std::sync::Arc;

use api::EC2NodeClass;
use aws_smithy_runtime_api::client::http::{
    HttpConnector, HttpConnectorFuture, SharedHttpConnector, http_client_fn,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_types::body::SdkBody;
use ec2::{Account, Options};
use model::{CapacityType, Experience, InstanceType};
use ports::{Catalog, CloudError};
use serde_json::{Value, json};

use crate::aws::{CLUSTER, FixedClock, config};

/// EC2 that answers DescribeInstanceTypes with this; the types are sold in us-east-1a, without spot prices.
#[derive(Clone, Debug)]
struct Ec2(String);

impl HttpConnector for Ec2 {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let body = String::from_utf8_lossy(request.body().bytes().unwrap_or_default());
        let answer = if body.contains("Action=DescribeInstanceTypeOfferings") {
            OFFERINGS
        } else if body.contains("Action=DescribeInstanceTypes") {
            &self.0
        } else {
            SPOT
        };
        let answer = HttpResponse::new(200.try_into().unwrap(), SdkBody::from(answer));
        HttpConnectorFuture::ready(Ok(answer))
    }
}

const OFFERINGS: &str = r#"<DescribeInstanceTypeOfferingsResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">
    <instanceTypeOfferingSet>
        <item><instanceType>m5.large</instanceType><locationType>availability-zone</locationType><location>us-east-1a</location></item>
        <item><instanceType>z99.odd</instanceType><locationType>availability-zone</locationType><location>us-east-1a</location></item>
    </instanceTypeOfferingSet>
</DescribeInstanceTypeOfferingsResponse>"#;

const SPOT: &str =
    r#"<DescribeSpotPriceHistoryResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"/>"#;

const M5_LARGE: &str = "<item><instanceType>m5.large</instanceType>
    <supportedUsageClasses><item>on-demand</item><item>spot</item><item>barter</item></supportedUsageClasses>
    <hypervisor>nitro</hypervisor>
    <processorInfo><supportedArchitectures><item>x86_64</item></supportedArchitectures></processorInfo>
    <vCpuInfo><defaultVCpus>2</defaultVCpus></vCpuInfo><memoryInfo><sizeInMiB>8192</sizeInMiB></memoryInfo>
    <networkInfo><defaultNetworkCardIndex>0</defaultNetworkCardIndex><ipv4AddressesPerInterface>10</ipv4AddressesPerInterface>
        <networkCards><item><networkCardIndex>0</networkCardIndex><maximumNetworkInterfaces>3</maximumNetworkInterfaces></item></networkCards>
    </networkInfo></item>";

/// A type with unknown values in every field.
const ODD: &str = "<item><instanceType>z99.odd</instanceType>
    <supportedUsageClasses><item>barter</item></supportedUsageClasses>
    <hypervisor>quantum</hypervisor>
    <processorInfo><supportedArchitectures><item>riscv64</item></supportedArchitectures></processorInfo>
    <gpuInfo><gpus><item><name>Tulip</name><manufacturer>Garden</manufacturer><count>2</count></item></gpus></gpuInfo></item>";

const END: &str = "</instanceTypeSet></DescribeInstanceTypesResponse>";

async fn resolved(items: &[&str], end: &str) -> Result<Arc<Vec<InstanceType>>, CloudError> {
    let answer = format!(
        r#"<DescribeInstanceTypesResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><instanceTypeSet>{}{end}"#,
        items.concat()
    );
    let http = http_client_fn(move |_, _| SharedHttpConnector::new(Ec2(answer.clone())));
    let config = config().to_builder().http_client(http).build();
    let account = Account::new(&config, Options::default(), Arc::new(FixedClock));
    let class: EC2NodeClass = serde_json::from_value(json!({
        "metadata": { "name": "default", "uid": "11111111-2222" },
        "spec": {
            "amiSelectorTerms": [{ "alias": "al2023@latest" }], "subnetSelectorTerms": [{ "id": "subnet-a" }],
            "securityGroupSelectorTerms": [{ "id": "sg-1" }], "instanceProfile": "nodes",
        },
        "status": { "subnets": [{ "id": "subnet-a", "zone": "us-east-1a", "zoneID": "use1-az1" }] },
    }))
    .unwrap();
    let experience = Experience::default();
    account
        .instance_types(&CLUSTER.into(), &class, &Value::Null, &experience)
        .await
}

#[tokio::test]
async fn type_with_unknown_values_affects_no_other() {
    let types = resolved(&[ODD, M5_LARGE], END).await.unwrap();
    let named = |name: &str| {
        types
            .iter()
            .find(|instance_type| instance_type.name == name)
            .unwrap()
    };
    let sold = |name: &str| {
        let offerings = named(name).offerings.iter();
        let sold = offerings.filter(|offering| offering.available);
        sold.map(|offering| offering.capacity_type)
            .collect::<Vec<_>>()
    };
    let both = [CapacityType::OnDemand, CapacityType::Spot];
    assert_eq!(sold("m5.large"), both);
    assert_eq!(sold("z99.odd"), [], "nobody knows how to buy it");
    assert_eq!(named("z99.odd").capacity.get("cpu"), 0);
}

/// The SDK reports a truncated answer as a complete one.
#[tokio::test]
async fn truncated_list_of_types_is_refused() {
    let error = resolved(&[M5_LARGE], "<item><instanceType>z99.o").await;
    assert_eq!(
        error.unwrap_err().to_string(),
        "ec2:DescribeInstanceTypes has no known outcome: 1 of 2 offered instance types are missing from its answer"
    );
}
