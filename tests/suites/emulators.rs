//! The ground the other suites stand on: the emulators start, know what they should, and leave nothing behind.

use std::net::TcpStream;

use harness::{Ministack, Moto};
use serde_json::json;

#[test]
fn moto_knows_the_network_the_images_and_the_instance_types_a_node_needs() {
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
fn an_emulator_ends_with_its_value() {
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
