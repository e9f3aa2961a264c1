use std::collections::{BTreeMap, BTreeSet};

use api::karpenter::{Ami, AmiSelectorTerm};
use aws_rules::{
    ami::{
        AliasParameter, Image, ImageQuery, first_that_fits, image_id, parameters, queries, select,
    },
    families::Alias,
};
use jiff::Timestamp;
use serde_json::json;

use crate::world::{named, node_class, types_of};

fn names(alias: &str, version: &str) -> Vec<String> {
    let alias = Alias::parse(alias).unwrap();
    let parameters = parameters(&alias, version.parse().unwrap()).unwrap();
    let name = |parameter: AliasParameter| format!("{} {:?}", parameter.name, parameter.variants);
    parameters.into_iter().map(name).collect()
}

#[test]
fn version_that_no_parameter_name_allows_is_refused() {
    for alias in ["al2023@v1+1", "al2023@v1 1", "al2@v1@2", "al2023@"] {
        assert!(Alias::parse(alias).is_err(), "{alias}");
    }
}

#[test]
fn parameter_names_one_image_or_none() {
    for value in ["ami-0123456789abcdef0", "ami-0123456789abcdef0\n"] {
        assert_eq!(image_id(value), Some("ami-0123456789abcdef0"));
    }
    for value in [
        "",
        "ami-",
        "ami-1,ami-2",
        "ami-1 ami-2",
        "{\"image_id\": \"ami-1\"}",
    ] {
        assert_eq!(image_id(value), None, "{value}");
    }
}

#[test]
fn aliases_map_to_ssm_parameters() {
    let all = [
        names("al2023@latest", "1.35"),
        names("al2023@v20260801", "1.34"),
        names("bottlerocket@v1.50.0", "1.33"),
        names("al2@v20240807", "1.30"),
        names("windows2022@latest", "1.35"),
    ];
    expect_test::expect![[r#"
        /aws/service/eks/optimized-ami/1.35/amazon-linux-2023/x86_64/standard/recommended/image_id [Standard]
        /aws/service/eks/optimized-ami/1.35/amazon-linux-2023/x86_64/nvidia/recommended/image_id [Nvidia]
        /aws/service/eks/optimized-ami/1.35/amazon-linux-2023/x86_64/neuron/recommended/image_id [Neuron]
        /aws/service/eks/optimized-ami/1.35/amazon-linux-2023/arm64/standard/recommended/image_id [Standard]
        /aws/service/eks/optimized-ami/1.35/amazon-linux-2023/arm64/nvidia/recommended/image_id [Nvidia]
        /aws/service/eks/optimized-ami/1.34/amazon-linux-2023/x86_64/standard/amazon-eks-node-al2023-x86_64-standard-1.34-v20260801/image_id [Standard]
        /aws/service/eks/optimized-ami/1.34/amazon-linux-2023/x86_64/nvidia/amazon-eks-node-al2023-x86_64-nvidia-1.34-v20260801/image_id [Nvidia]
        /aws/service/eks/optimized-ami/1.34/amazon-linux-2023/x86_64/neuron/amazon-eks-node-al2023-x86_64-neuron-1.34-v20260801/image_id [Neuron]
        /aws/service/eks/optimized-ami/1.34/amazon-linux-2023/arm64/standard/amazon-eks-node-al2023-arm64-standard-1.34-v20260801/image_id [Standard]
        /aws/service/eks/optimized-ami/1.34/amazon-linux-2023/arm64/nvidia/amazon-eks-node-al2023-arm64-nvidia-1.34-v20260801/image_id [Nvidia]
        /aws/service/bottlerocket/aws-k8s-1.33/x86_64/1.50.0/image_id [Standard, Neuron]
        /aws/service/bottlerocket/aws-k8s-1.33/arm64/1.50.0/image_id [Standard]
        /aws/service/bottlerocket/aws-k8s-1.33-nvidia/x86_64/1.50.0/image_id [Nvidia]
        /aws/service/bottlerocket/aws-k8s-1.33-nvidia/arm64/1.50.0/image_id [Nvidia]
        /aws/service/eks/optimized-ami/1.30/amazon-linux-2/amazon-eks-node-1.30-v20240807/image_id [Standard]
        /aws/service/eks/optimized-ami/1.30/amazon-linux-2-arm64/amazon-eks-arm64-node-1.30-v20240807/image_id [Standard]
        /aws/service/eks/optimized-ami/1.30/amazon-linux-2-gpu/amazon-eks-gpu-node-1.30-v20240807/image_id [Neuron, Nvidia]
        /aws/service/ami-windows-latest/Windows_Server-2022-English-Core-EKS_Optimized-1.35/image_id [Windows("10.0.20348")]"#]].assert_eq(&all.concat().join("\n"));
}

#[test]
fn unpublished_aliases_are_refused() {
    for (alias, version, part) in [
        ("al2@latest", "1.33", "AL2"),
        ("windows2025@latest", "1.34", "Windows 2025"),
    ] {
        let alias = Alias::parse(alias).unwrap();
        let error = parameters(&alias, version.parse().unwrap())
            .unwrap_err()
            .to_string();
        assert!(error.contains(part) && error.contains(version), "{error}");
    }
}

fn term(term: serde_json::Value) -> AmiSelectorTerm {
    serde_json::from_value(term).unwrap()
}

#[test]
fn selector_terms_become_describe_calls() {
    let terms = [
        term(json!({ "id": "ami-2" })),
        term(json!({ "id": "ami-1" })),
        term(json!({ "name": "node-*" })),
        term(json!({ "tags": { "env": "dev", "team": "*" } })),
        term(json!({ "name": "node-*", "owner": "111122223333" })),
        term(json!({ "tags": {} })),
    ];
    let query = |query: &ImageQuery| {
        let filters: Vec<_> = query
            .filters
            .iter()
            .map(|(name, values)| format!("{name}={}", values.join(",")))
            .collect();
        format!("{} owners={}\n", filters.join(" "), query.owners.join(","))
    };
    let from_parameter: BTreeSet<String> = ["ami-3".to_owned()].into();
    let text: String = queries(&terms, &from_parameter).iter().map(query).collect();
    expect_test::expect![[r#"
        name=node-* state=available owners=self,amazon
        tag:env=dev tag-key=team state=available owners=
        name=node-* state=available owners=111122223333
        image-id=ami-1,ami-2,ami-3 state=available owners=
    "#]]
    .assert_eq(&text);
}

const NOW: &str = "2026-08-22T12:00:00Z";

fn image(id: &str, architecture: &str, created: &str, deprecated: Option<&str>) -> Image {
    let time = |text: &str| text.parse::<Timestamp>().unwrap();
    Image {
        id: id.into(),
        name: format!("node-{id}"),
        architecture: architecture.into(),
        created: Some(time(created)),
        deprecated: deprecated.map(time),
    }
}

fn chosen(images: &[Image]) -> Vec<(String, bool)> {
    let selected = select(images, &BTreeMap::new(), NOW.parse().unwrap());
    let pair = |ami: Ami| (ami.id, ami.deprecated.unwrap_or(false));
    selected.into_iter().map(pair).collect()
}

#[test]
fn newest_image_of_each_architecture_is_used() {
    let images = [
        image("old", "x86_64", "2026-01-01T00:00:00Z", None),
        image("new", "x86_64", "2026-02-01T00:00:00Z", None),
        image("arm", "arm64", "2026-01-15T00:00:00Z", None),
        image("i386", "i386", "2026-04-01T00:00:00Z", None),
    ];
    assert_eq!(
        chosen(&images),
        [("new".into(), false), ("arm".into(), false)]
    );
}

#[test]
fn deprecated_image_is_used_only_without_an_alternative() {
    let recalled = image("recalled", "x86_64", "2026-02-01T00:00:00Z", Some(NOW));
    let older = image("older", "x86_64", "2026-01-01T00:00:00Z", None);
    assert_eq!(
        chosen(&[recalled.clone(), older]),
        [("older".into(), false)]
    );
    assert_eq!(chosen(&[recalled]), [("recalled".into(), true)]);
}

#[test]
fn instance_type_boots_the_first_compatible_image() {
    let class = node_class(json!({}));
    let types = types_of(&class);
    let images = class.status.as_ref().unwrap().amis.clone().unwrap();
    let image = |name| first_that_fits(&images, named(&types, name)).map(|ami| ami.id.as_str());
    assert_eq!(image("m5.large"), Some("ami-x86"));
    assert_eq!(image("c6g.large"), Some("ami-arm"));
    assert_eq!(image("p5.48xlarge"), Some("ami-gpu"));
    assert_eq!(image("trn1.2xlarge"), None, "no image has Neuron drivers");
}
