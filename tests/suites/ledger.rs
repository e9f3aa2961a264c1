//! The laws of the ledger, over DynamoDB's wire protocol and with the table that the template declares.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "what is not there fails the test"
)]

use std::path::Path;

use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_credential_types::{Credentials, provider::SharedCredentialsProvider};
use fakes::laws;
use harness::{ACCOUNT, CREDENTIALS, Ministack, REGION};
use ledger::DynamoLedger;
use ports::{Shelf, ShelfError};
use serde_json::{Value, json};

const TABLE: &str = "whittle-ledger";

#[tokio::test]
async fn the_ledger_in_dynamodb_obeys_the_laws() {
    let dynamodb = Ministack::start(&[]);
    let declared = declared_table();
    let table = json!({
        "TableName": TABLE,
        "BillingMode": declared["BillingMode"],
        "AttributeDefinitions": declared["AttributeDefinitions"],
        "KeySchema": declared["KeySchema"],
    });
    dynamodb.call("dynamodb", "create_table", table);
    let ledger = DynamoLedger::new(&sdk_config(dynamodb.endpoint()), TABLE, ACCOUNT, REGION);
    laws::ledger_laws(&ledger, "laws-").await;
    laws::shelf_laws(&ledger).await;
    let too_large = noise(1 << 20);
    let error = ledger.put("laws/large", too_large).await.unwrap_err();
    assert!(matches!(error, ShelfError::TooLarge { .. }), "{error}");
}

/// Bytes that cannot be packed: a xorshift sequence.
fn noise(size: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_u32;
    let next = |_| {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state.to_le_bytes()[0]
    };
    (0..size).map(next).collect()
}

/// The properties of the table in the template.
fn declared_table() -> Value {
    let template = Path::new(env!("CARGO_MANIFEST_DIR")).join("../sam-template.yaml");
    let text = std::fs::read_to_string(template).unwrap();
    let mut template: Value = serde_saphyr::from_str(&text).unwrap();
    template["Resources"]["Ledger"]["Properties"].take()
}

fn sdk_config(endpoint: &str) -> SdkConfig {
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
