//! `whittle prices`: converts a response of the AWS Price List API into the table that Whittle ships, and reports invalid responses.

#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

use std::{
    path::{Path, PathBuf},
    process::{Command, Output},
};

fn prices(region: &str, response: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_whittle"))
        .args(["prices", "--region", region])
        .arg(response)
        .output()
        .unwrap()
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn written(text: &str) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    file
}

#[test]
fn table_has_a_line_for_every_product_with_a_price() {
    let product = |name: &str, amount: &str| {
        serde_json::json!({
            "product": { "attributes": { "instanceType": name } },
            "terms": { "OnDemand": { "T": { "priceDimensions": { "D": { "pricePerUnit": { "CNY": amount } } } } } },
        })
        .to_string()
    };
    let products = [
        product("m5.large", "0.9600000000"),
        product("c5.large", "12.0"),
        "{}".into(),
    ];
    let response = written(&serde_json::json!({ "PriceList": products }).to_string());
    let converted = prices("cn-north-1", response.path());
    let table = String::from_utf8(converted.stdout).unwrap();
    let rows: Vec<_> = table
        .lines()
        .filter(|line| !line.starts_with('#'))
        .collect();
    assert_eq!(rows, ["c5.large\t12", "m5.large\t0.96"]);
    let stderr = String::from_utf8(converted.stderr).unwrap();
    assert!(
        converted.status.success() && stderr.contains("1 entries"),
        "{stderr}"
    );
}

#[test]
fn invalid_response_is_reported() {
    for (text, expected) in [
        ("{}", "PriceList"),
        (r#"{"PriceList": ["{}"]}"#, "eu-west-1"),
    ] {
        let response = written(text);
        let converted = prices("eu-west-1", response.path());
        let stderr = String::from_utf8(converted.stderr).unwrap();
        assert!(
            !converted.status.success() && stderr.contains(expected),
            "{stderr}"
        );
    }
}

#[test]
fn shipped_table_equals_the_converted_recording() {
    let recorded = repository().join("../shared/conformance/aws/on-demand-prices.json.gz");
    if !recorded.exists() {
        return;
    }
    let shipped = repository().join("shared/aws-rules/data/on-demand-prices/us-east-1.tsv");
    let converted = prices("us-east-1", &recorded);
    assert_eq!(
        String::from_utf8(converted.stdout).unwrap(),
        std::fs::read_to_string(shipped).unwrap()
    );
}
