//! The emulators that the other suites run on: they start, have the required data, and leave nothing behind.
#![expect(clippy::unwrap_used, reason = "a missing value fails the test")]

use std::{
    io::{Read, Write},
    net::TcpStream,
};

use harness::{Emulator, Ministack, Moto};
use ports::limits::{
    eventbridge::ENTRY_BYTES,
    sqs::{DELAY_MAX, MESSAGE_BYTES},
    ssm::PARAMETER_BYTES,
};
use serde_json::json;

#[test]
fn moto_has_the_network_images_and_instance_types_of_a_launch() {
    let moto = Moto::start("demo");

    let discovery =
        json!({"Filters": [{"Name": "tag:karpenter.sh/discovery", "Values": ["demo"]}]});
    let subnets = moto.call("ec2", "describe_subnets", discovery);
    assert_eq!(
        subnets["Subnets"].as_array().map(Vec::len),
        Some(moto.seed.subnets.len())
    );

    let parameter =
        "/aws/service/eks/optimized-ami/1.34/amazon-linux-2023/arm64/standard/recommended/image_id";
    let image = moto.call("ssm", "get_parameter", json!({"Name": parameter}));
    let image = image["Parameter"]["Value"].as_str().unwrap();
    assert_eq!(moto.seed.parameters[parameter], image);
    let images = moto.call("ec2", "describe_images", json!({"ImageIds": [image]}));
    assert_eq!(images["Images"][0]["Architecture"], "arm64");

    let types = moto.call(
        "ec2",
        "describe_instance_types",
        json!({"InstanceTypes": ["m7g.large"]}),
    );
    assert_eq!(types["InstanceTypes"][0]["VCpuInfo"]["DefaultVCpus"], 2);

    let missing = moto.try_call("ssm", "get_parameter", json!({"Name": "/nowhere"}));
    assert!(missing.unwrap_err().contains("ParameterNotFound"));
}

#[test]
fn emulator_is_stopped_on_drop() {
    let address = {
        let ministack = Ministack::start(&[]);
        ministack.call("sqs", "create_queue", json!({"QueueName": "wakes"}));
        let address = ministack
            .endpoint()
            .trim_start_matches("http://")
            .to_owned();
        TcpStream::connect(&address).unwrap();
        address
    };
    TcpStream::connect(&address).unwrap_err();
}

/// Text of the response to a request that is signed for a service.
fn answer(emulator: &Emulator, service: &str, header: &str, body: &str) -> String {
    let address = emulator.endpoint().trim_start_matches("http://");
    let mut stream = TcpStream::connect(address).unwrap();
    let length = body.len();
    let request = format!(
        "POST / HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n{header}\r\ncontent-length: {length}\r\n\
         authorization: AWS4-HMAC-SHA256 Credential={}/20260101/{}/{service}/aws4_request, SignedHeaders=host, Signature=0\r\n\r\n{body}",
        harness::ACCOUNT,
        harness::REGION,
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn target(operation: &str) -> String {
    format!("content-type: application/x-amz-json-1.0\r\nx-amz-target: {operation}")
}

/// Each limit, with values just within and just beyond it.
#[test]
fn requests_beyond_unmodelled_limits_are_rejected_as_by_aws() {
    let moto = Moto::start("demo");
    let parameter = |bytes: usize, tier: &str| {
        let body = json!({"Name": "/p", "Type": "String", "Tier": tier, "Overwrite": true, "Value": "x".repeat(bytes)});
        answer(
            &moto,
            "ssm",
            &target("AmazonSSM.PutParameter"),
            &body.to_string(),
        )
    };
    let event = |bytes: usize| {
        let detail = json!({ "d": "x".repeat(bytes) }).to_string();
        let entry = json!({"Source": "whittle", "DetailType": "limit", "Detail": detail});
        let body = json!({ "Entries": [entry] });
        answer(
            &moto,
            "events",
            &target("AWSEvents.PutEvents"),
            &body.to_string(),
        )
    };
    let queue = json!({ "QueueName": "wakes" });
    moto.call("sqs", "create_queue", queue);
    let message = |bytes: usize, delay: i64| {
        let url = format!("{}/{}/wakes", moto.endpoint(), harness::ACCOUNT);
        let body =
            json!({"QueueUrl": url, "MessageBody": "x".repeat(bytes), "DelaySeconds": delay});
        answer(
            &moto,
            "sqs",
            &target("AmazonSQS.SendMessage"),
            &body.to_string(),
        )
    };
    let taken = [
        parameter(PARAMETER_BYTES, "Standard"),
        parameter(PARAMETER_BYTES + 1, "Advanced"),
        event(ENTRY_BYTES - 100),
        message(MESSAGE_BYTES, DELAY_MAX.as_secs()),
    ];
    for answer in taken {
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
    let refused = [
        (
            parameter(PARAMETER_BYTES + 1, "Standard"),
            "ValidationException",
        ),
        (event(ENTRY_BYTES), "ValidationException"),
        (message(MESSAGE_BYTES + 1, 0), "InvalidParameterValue"),
        (message(1, DELAY_MAX.as_secs() + 1), "InvalidParameterValue"),
    ];
    for (answer, code) in refused {
        assert!(
            answer.starts_with("HTTP/1.1 400") && answer.contains(code),
            "{answer}"
        );
    }
}

#[test]
fn requests_that_violate_the_service_model_are_rejected() {
    let (moto, ministack) = (Moto::start("demo"), Ministack::start(&[]));
    let form = "content-type: application/x-www-form-urlencoded";
    let fleet = "Action=CreateFleet&Version=2016-11-15&Type=instanta";
    let refused = answer(&moto, "ec2", form, fleet);
    for wrong in [
        "ModelViolation",
        "TargetCapacitySpecification is missing",
        "none of request, maintain, instant",
    ] {
        assert!(refused.contains(wrong), "{refused}");
    }
    let described = answer(&moto, "ec2", form, "Action=DescribeVpcs&Version=2016-11-15");
    assert!(described.starts_with("HTTP/1.1 200"), "{described}");

    let puts = vec![json!({"Put": {"TableName": "table", "Item": {"pk": {"S": "a"}}}}); 101];
    let body = json!({"TransactItems": puts}).to_string();
    let operation = target("DynamoDB_20120810.TransactWriteItems");
    let refused = answer(&ministack, "dynamodb", &operation, &body);
    let wrong = "TransactItems has 101 elements, at most 100 are allowed";
    assert!(refused.contains(wrong), "{refused}");
    let listed = answer(
        &ministack,
        "dynamodb",
        &target("DynamoDB_20120810.ListTables"),
        "{}",
    );
    assert!(listed.starts_with("HTTP/1.1 200"), "{listed}");
}
