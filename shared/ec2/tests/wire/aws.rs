use std::sync::{Arc, LazyLock};

use api::EC2NodeClass;
use aws_config::{BehaviorVersion, Region, SdkConfig, retry::RetryConfig};
use aws_credential_types::{Credentials, provider::SharedCredentialsProvider};
use aws_smithy_async::time::SystemTimeSource;
use aws_smithy_http_client::{Builder, tls};
use ec2::{Account, Options};
use harness::Moto;
use jiff::Timestamp;
use ports::Clock;
use serde_json::{Value, json};

pub(crate) const CLUSTER: &str = "demo";
pub(crate) const NOW: &str = "2026-08-22T12:00:00Z";

/// One account for all tests of this process, with the network, roles and images of cluster [`CLUSTER`].
pub(crate) static MOTO: LazyLock<Moto> = LazyLock::new(|| Moto::start(CLUSTER));

pub(crate) struct FixedClock;

impl Clock for FixedClock {
    fn now(&self) -> Timestamp {
        NOW.parse().unwrap()
    }
}

pub(crate) fn config() -> SdkConfig {
    let http = Builder::new()
        .tls_provider(tls::Provider::Rustls(
            tls::rustls_provider::CryptoMode::Ring,
        ))
        .build_https();
    let [(_, account), (_, secret), ..] = harness::CREDENTIALS;
    SdkConfig::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new(harness::REGION))
        .credentials_provider(SharedCredentialsProvider::new(Credentials::new(
            account, secret, None, None, "tests",
        )))
        .time_source(SystemTimeSource::new())
        .retry_config(RetryConfig::disabled())
        .http_client(http)
        .build()
}

pub(crate) fn account() -> Account {
    account_with(None)
}

pub(crate) fn account_with(cluster_role: Option<&str>) -> Account {
    let config = config().to_builder().endpoint_url(MOTO.endpoint()).build();
    let options = Options {
        cluster_role: cluster_role.map(str::to_owned),
        registry_prefix: "/whittle/clusters".to_owned(),
        ..Options::default()
    };
    Account::new(&config, options, Arc::new(FixedClock))
}

/// Registers a cluster of type `endpoint` and returns its entry.
pub(crate) fn register(cluster: &str) -> Value {
    let entry = json!({
        "type": "endpoint", "endpoint": "https://demo.example.com", "certificateAuthority": "Y2EK",
        "credentials": format!("/whittle/credentials/{cluster}"),
        "settings": { "kubernetesVersion": "1.35", "serviceCIDR": "10.100.0.0/16" },
    });
    let parameter = json!({
        "Name": format!("/whittle/clusters/{cluster}"), "Value": entry.to_string(),
        "Type": "String", "Overwrite": true,
    });
    MOTO.call("ssm", "put_parameter", parameter);
    entry
}

/// A NodeClass that selects the seeded resources of the account, with `spec` merged over it.
pub(crate) fn node_class(spec: Value) -> EC2NodeClass {
    let tags = json!([{ "tags": { "karpenter.sh/discovery": CLUSTER } }]);
    let mut manifest = json!({
        "metadata": { "name": "default", "uid": "11111111-2222", "generation": 1 },
        "spec": {
            "amiSelectorTerms": [{ "alias": "al2023@latest" }],
            "subnetSelectorTerms": tags,
            "securityGroupSelectorTerms": tags,
            "instanceProfile": MOTO.seed.instance_profile,
        },
    });
    for (key, value) in spec.as_object().unwrap() {
        manifest["spec"][key] = value.clone();
    }
    if spec.get("role").is_some() {
        manifest["spec"]["instanceProfile"] = Value::Null;
    }
    serde_json::from_value(manifest).unwrap()
}
