use api::{EC2NodeClass, karpenter::EC2NodeClassStatus};
use ports::NodeClassResolver;
use serde_json::{Value, json};

use crate::aws::{CLUSTER, MOTO, NOW, account, node_class, register};

on_one_moto! {
    node_class_resolves_to_the_selected_resources,
    alias_resolves_to_an_image_per_variant,
    images_are_found_by_id_and_by_name,
    selector_without_a_match_is_reported_in_its_condition,
    role_gets_one_instance_profile_until_its_node_class_is_deleted,
    missing_role_is_named,
}

async fn resolved(spec: Value) -> EC2NodeClassStatus {
    register(CLUSTER);
    let class = node_class(spec);
    status_of(&class).await
}

async fn status_of(class: &EC2NodeClass) -> EC2NodeClassStatus {
    let status = account()
        .resolve(&CLUSTER.into(), class, &[], NOW.parse().unwrap())
        .await;
    status.unwrap().status
}

fn condition(status: &EC2NodeClassStatus, kind: &str) -> (String, String) {
    let conditions = status.conditions.as_deref().unwrap();
    let found = conditions.iter().find(|c| c.r#type == kind).unwrap();
    (
        found.status.to_string(),
        format!("{}: {}", found.reason, found.message),
    )
}

async fn node_class_resolves_to_the_selected_resources() {
    let status = resolved(json!({})).await;
    assert_eq!(
        condition(&status, "Ready").0,
        "True",
        "{:?}",
        status.conditions
    );
    let mut zones: Vec<_> = status
        .subnets
        .iter()
        .flatten()
        .map(|s| s.zone.clone())
        .collect();
    zones.sort();
    let seeded: Vec<_> = MOTO.seed.subnets.keys().cloned().collect();
    assert_eq!(zones, seeded);
    assert!(
        status
            .subnets
            .iter()
            .flatten()
            .all(|subnet| subnet.zone_id.is_some())
    );
    let groups: Vec<_> = status
        .security_groups
        .iter()
        .flatten()
        .map(|g| g.id.clone())
        .collect();
    assert_eq!(groups, std::slice::from_ref(&MOTO.seed.security_group));
    assert_eq!(
        status.instance_profile.as_deref(),
        Some(MOTO.seed.instance_profile.as_str())
    );
}

async fn alias_resolves_to_an_image_per_variant() {
    let status = resolved(json!({ "amiSelectorTerms": [{ "alias": "al2023@latest" }] })).await;
    let images = status.amis.unwrap();
    let parameter =
        "/aws/service/eks/optimized-ami/1.35/amazon-linux-2023/arm64/standard/recommended/image_id";
    let arm = images
        .iter()
        .find(|ami| ami.id == MOTO.seed.parameters[parameter])
        .unwrap();
    let arch = arm
        .requirements
        .iter()
        .find(|r| r.key == "kubernetes.io/arch")
        .unwrap();
    assert_eq!(arch.values, ["arm64"]);
    assert_eq!(
        images.len(),
        5,
        "standard, nvidia and neuron for x86_64, two for arm64"
    );
}

async fn images_are_found_by_id_and_by_name() {
    let (name, id) = MOTO.seed.images.iter().next().unwrap();
    for term in [json!({ "id": id }), json!({ "name": name })] {
        let spec = json!({ "amiFamily": "AL2023", "amiSelectorTerms": [term] });
        let images = resolved(spec).await.amis.unwrap();
        assert_eq!(images.iter().map(|ami| &ami.id).collect::<Vec<_>>(), [id]);
    }
}

async fn selector_without_a_match_is_reported_in_its_condition() {
    let nothing = json!([{ "tags": { "karpenter.sh/discovery": "elsewhere" } }]);
    let status = resolved(json!({ "subnetSelectorTerms": nothing })).await;
    let expected = "SubnetsNotFound: SubnetSelector did not match any Subnets";
    assert_eq!(
        condition(&status, "SubnetsReady"),
        ("False".into(), expected.into())
    );
    assert_eq!(condition(&status, "Ready").0, "False");

    let spec = json!({ "amiFamily": "AL2023", "amiSelectorTerms": [{ "id": "ami-404" }] });
    let status = resolved(spec).await;
    assert_eq!(condition(&status, "AMIsReady").0, "False");

    let spec =
        json!({ "amiFamily": "AL2023", "amiSelectorTerms": [{ "ssmParameter": "/images/gone" }] });
    let status = resolved(spec).await;
    let expected = "AMINotFound: spec.amiSelectorTerms: parameter /images/gone contains no AMI id; AMISelector did not match any AMIs";
    assert_eq!(
        condition(&status, "AMIsReady"),
        ("False".into(), expected.into())
    );
    assert_eq!(status.amis, Some(Vec::new()));
}

async fn role_gets_one_instance_profile_until_its_node_class_is_deleted() {
    let mut class = node_class(json!({ "role": MOTO.seed.node_role }));
    class.metadata.uid = "33333333-4444".into();
    register(CLUSTER);
    let name = profile_of(&class).await;
    assert!(name.starts_with("demo_"), "{name}");
    let described = json!({ "InstanceProfileName": name });
    let profile = &MOTO.call("iam", "get_instance_profile", described.clone())["InstanceProfile"];
    assert_eq!(
        profile["Roles"][0]["RoleName"],
        MOTO.seed.node_role.as_str()
    );
    assert_eq!(profile["Path"], "/karpenter/us-east-1/demo/33333333-4444/");

    assert_eq!(profile_of(&class).await, name, "a second look finds it");
    account().release(&CLUSTER.into(), &class).await.unwrap();
    assert!(
        MOTO.try_call("iam", "get_instance_profile", described)
            .is_err()
    );
}

async fn profile_of(class: &EC2NodeClass) -> String {
    status_of(class).await.instance_profile.unwrap()
}

async fn missing_role_is_named() {
    let mut class = node_class(json!({ "role": "NoSuchRole" }));
    class.metadata.uid = "55555555-6666".into();
    register(CLUSTER);
    let status = status_of(&class).await;
    let (value, text) = condition(&status, "InstanceProfileReady");
    assert_eq!(value, "Unknown", "the role may be made yet");
    assert!(
        text.contains("the role \"NoSuchRole\" of spec.role does not exist"),
        "{text}"
    );
}
