//! `whittle prices`: the table that ships is what the command makes of the recorded answer, and what is no answer is told.

#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

use std::{
    path::{Path, PathBuf},
    process::{Command, Output},
};

fn prices(region: &str, answer: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_whittle"))
        .args(["prices", "--region", region])
        .arg(answer)
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
fn a_table_has_a_line_for_every_product_with_a_price() {
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
    let answer = written(&serde_json::json!({ "PriceList": products }).to_string());
    let made = prices("cn-north-1", answer.path());
    let table = String::from_utf8(made.stdout).unwrap();
    let rows: Vec<_> = table
        .lines()
        .filter(|line| !line.starts_with('#'))
        .collect();
    assert_eq!(rows, ["c5.large\t12", "m5.large\t0.96"]);
    let told = String::from_utf8(made.stderr).unwrap();
    assert!(
        made.status.success() && told.contains("1 entries"),
        "{told}"
    );
}

#[test]
fn what_is_no_answer_is_named() {
    for (text, expected) in [
        ("{}", "PriceList"),
        (r#"{"PriceList": ["{}"]}"#, "eu-west-1"),
    ] {
        let answer = written(text);
        let made = prices("eu-west-1", answer.path());
        let told = String::from_utf8(made.stderr).unwrap();
        assert!(!made.status.success() && told.contains(expected), "{told}");
    }
}

#[test]
fn the_shipped_table_is_made_from_the_recorded_answer() {
    let recorded = repository().join("../shared/conformance/aws/on-demand-prices.json.gz");
    if !recorded.exists() {
        return;
    }
    let shipped = repository().join("shared/aws-rules/data/on-demand-prices/us-east-1.tsv");
    let made = prices("us-east-1", &recorded);
    assert_eq!(
        String::from_utf8(made.stdout).unwrap(),
        std::fs::read_to_string(shipped).unwrap()
    );
}
