//! The ledger in a local DynamoDB, in the table that the template declares.

use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_credential_types::{Credentials, provider::SharedCredentialsProvider};
use harness::{ACCOUNT, CREDENTIALS, Ministack, REGION};
use ledger::TableLedger;
use serde_json::json;

pub(crate) const TABLE: &str = "whittle-ledger";

/// A ledger with its own DynamoDB, which stops with it.
pub(crate) struct LocalLedger {
    pub(crate) dynamodb: Ministack,
    pub(crate) ledger: TableLedger,
}

impl LocalLedger {
    pub(crate) fn start() -> Self {
        let dynamodb = Ministack::start(&[]);
        let declared =
            harness::template("sam-template.yaml")["Resources"]["Ledger"]["Properties"].take();
        let table = json!({
            "TableName": TABLE,
            "BillingMode": declared["BillingMode"],
            "AttributeDefinitions": declared["AttributeDefinitions"],
            "KeySchema": declared["KeySchema"],
        });
        dynamodb.call("dynamodb", "create_table", table);
        let ledger = connect(&dynamodb);
        Self { dynamodb, ledger }
    }
}

pub(crate) fn connect(dynamodb: &Ministack) -> TableLedger {
    dynamo::ledger(&sdk_config(dynamodb.endpoint()), TABLE, ACCOUNT, REGION)
}

pub(crate) fn sdk_config(endpoint: &str) -> SdkConfig {
    let [(_, key), (_, secret), ..] = CREDENTIALS;
    let credentials = Credentials::new(key, secret, None, None, "tests");
    SdkConfig::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new(REGION))
        .endpoint_url(endpoint)
        .credentials_provider(SharedCredentialsProvider::new(credentials))
        .http_client(aws_smithy_http_client::Builder::new().build_http())
        .build()
}
