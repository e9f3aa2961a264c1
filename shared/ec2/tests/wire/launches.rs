use std::collections::{BTreeMap, BTreeSet};

use aws_rules::{
    ProviderSettings,
    instance_types::{InstanceTypeInfo, RegionCatalog, ResolveInput, instance_types},
    launch::freeze,
    prices::shipped_prices,
};
use base64::{Engine, prelude::BASE64_STANDARD};
use jiff::{SignedDuration, Timestamp};
use model::{
    CapacityType, InstanceType, Resources,
    launch::{FleetRequest, InstanceState},
    node_claim::NodeClaimSpec,
    plan::{ExpectedOffering, Launch},
    selector::{NodeSelectorRequirement, Operator},
};
use ports::{
    AccountHousekeeping, Cloud, CloudError, Launches, Needs, NodeClassResolver, Termination,
};
use serde_json::json;

use crate::aws::{MOTO, NOW, account, account_with, node_class, register};

on_one_moto! {
    launched_instances_are_tagged_with_their_owner,
    launch_template_is_created_once_with_the_user_data,
    spot_instances_are_recognized,
    termination_is_final_and_idempotent,
    reboot_terminates_nothing_and_reports_unknown_instances,
    instances_can_be_tagged_with_their_names,
    writes_use_the_clusters_own_session,
    nothing_is_sent_after_the_deadline,
    missing_template_is_created_again,
    unneeded_launch_resources_are_deleted,
}

/// Number of on-demand instances that are requested under this token.
const CLAIMS: u32 = 3;

fn not_after() -> Timestamp {
    NOW.parse::<Timestamp>().unwrap() + SignedDuration::from_secs(30)
}

fn m5_large(class: &api::EC2NodeClass) -> Vec<InstanceType> {
    let info = json!({
        "InstanceType": "m5.large", "SupportedUsageClasses": ["on-demand", "spot"], "VCpuInfo": { "DefaultVCpus": 2 },
        "ProcessorInfo": { "SupportedArchitectures": ["x86_64"] }, "MemoryInfo": { "SizeInMiB": 8192 }, "Hypervisor": "nitro",
        "NetworkInfo": { "NetworkCards": [{ "NetworkCardIndex": 0, "MaximumNetworkInterfaces": 3 }],
                         "Ipv4AddressesPerInterface": 10, "EnaSupport": "required" },
    });
    let info: InstanceTypeInfo = serde_json::from_value(info).unwrap();
    let zones = MOTO.seed.subnets.keys().cloned().collect();
    let catalog = RegionCatalog {
        region: harness::REGION.into(),
        zones: BTreeMap::from([("m5.large".to_owned(), zones)]),
        instance_types: vec![info],
        on_demand: shipped_prices("us-east-1"),
        spot: None,
    };
    let through = ResolveInput {
        node_class: class,
        settings: &ProviderSettings::default(),
        measured_memory: &[],
        placement_group: None,
    };
    instance_types(&catalog, through).unwrap()
}

fn launch(capacity_type: &str) -> Launch {
    let requirement = NodeSelectorRequirement {
        key: "karpenter.sh/capacity-type".into(),
        operator: Operator::In,
        values: vec![capacity_type.into()],
        min_values: None,
    };
    Launch {
        name: "default-abcde".into(),
        node_pool: "default".into(),
        node_pool_uid: "uid".into(),
        labels: [("karpenter.sh/nodepool".to_owned(), "default".to_owned())].into(),
        annotations: BTreeMap::new(),
        spec: NodeClaimSpec {
            requirements: vec![requirement],
            requests: Resources::from([("cpu", 1_000)]),
            ..NodeClaimSpec::default()
        },
        pods: Vec::new(),
        instance_types: vec!["m5.large".into()],
        cheapest: ExpectedOffering {
            instance_type: "m5.large".into(),
            capacity_type: CapacityType::OnDemand,
            zone: "us-east-1a".into(),
            price: model::NanosPerHour(96_000_000),
            capacity: Resources::default(),
        },
    }
}

/// A frozen request of this cluster, made through the ports as in a turn.
async fn request(cluster: &str, token: &str, capacity_type: &str) -> FleetRequest {
    let entry = register(cluster);
    let account = account();
    let mut class = node_class(json!({}));
    let cluster = cluster.into();
    let status = account
        .resolve(&cluster, &class, &[], NOW.parse().unwrap())
        .await;
    class.status = Some(status.unwrap().status);
    let builder = account.prepare(&cluster, &entry).await.unwrap();
    let subnets = class.status.as_ref().unwrap().subnets.as_deref().unwrap();
    let mut asked: BTreeSet<String> = subnets.iter().map(|subnet| subnet.id.clone()).collect();
    asked.insert("subnet-0000000000gone000".to_owned());
    let free = account.free_addresses(&asked).await.unwrap();
    assert_eq!(
        free.0.len(),
        subnets.len(),
        "the one that is gone is not counted"
    );
    assert!(free.0.values().all(|addresses| *addresses > 0), "{free:?}");
    let types = m5_large(&class);
    let request = builder.request(&launch(capacity_type), &class, &types, &free);
    freeze(request.unwrap(), token.into(), CLAIMS)
}

async fn launched_instances_are_tagged_with_their_owner() {
    let request = request("launching", "launch-1", "on-demand").await;
    let answer = account().launch(&request, not_after()).await.unwrap();
    assert_eq!(answer.failures, []);
    assert_eq!(answer.instances.len(), 3);
    let launched = &answer.instances[0];
    assert_eq!(launched.instance_type, "m5.large");
    assert_eq!(launched.capacity_type, CapacityType::OnDemand);
    assert_eq!(
        launched.subnet.as_ref(),
        MOTO.seed.subnets.get(&launched.zone)
    );

    let account = account();
    let of_launch = async |cluster: &str| {
        let found = account
            .instances_of_launch(&cluster.into(), &"launch-1".into())
            .await;
        found.unwrap()
    };
    let found = of_launch("launching").await;
    assert_eq!(found.len(), 3);
    let mut ids: Vec<_> = answer
        .instances
        .iter()
        .map(|i| i.instance.clone())
        .collect();
    ids.sort();
    assert_eq!(found.iter().map(|i| i.id.clone()).collect::<Vec<_>>(), ids);
    for (key, value) in &request.tags {
        assert_eq!(found[0].tags.get(key), Some(value), "{key}");
    }
    assert!(found[0].launched_at.is_some());
    assert_eq!(of_launch("other").await, []);
}

async fn launch_template_is_created_once_with_the_user_data() {
    let mut request = request("templates", "launch-2", "on-demand").await;
    account().launch(&request, not_after()).await.unwrap();
    request.token = "launch-3".into();
    account().launch(&request, not_after()).await.unwrap();
    let template = &request.templates[0].template;
    let versions = json!({ "LaunchTemplateName": template.name });
    let versions =
        &MOTO.call("ec2", "describe_launch_template_versions", versions)["LaunchTemplateVersions"];
    assert_eq!(versions.as_array().unwrap().len(), 1);
    let data = &versions[0]["LaunchTemplateData"];
    let user_data = BASE64_STANDARD
        .decode(data["UserData"].as_str().unwrap())
        .unwrap();
    assert_eq!(String::from_utf8(user_data).unwrap(), template.user_data);
    assert!(template.user_data.contains("kind: NodeConfig"));
    assert_eq!(data["ImageId"], template.image.as_str());
    assert_eq!(
        data["IamInstanceProfile"]["Name"],
        MOTO.seed.instance_profile.as_str()
    );
    assert_eq!(
        data["NetworkInterfaces"][0]["Groups"][0],
        MOTO.seed.security_group.as_str()
    );
    assert_eq!(data["MetadataOptions"]["HttpTokens"], "required");
}

async fn spot_instances_are_recognized() {
    let request = request("spot", "launch-4", "spot").await;
    let answer = account().launch(&request, not_after()).await.unwrap();
    assert_eq!(answer.instances[0].capacity_type, CapacityType::Spot);
    let found = account().list_instances(&"spot".into()).await.unwrap();
    assert_eq!(found.len(), 3);
    assert_eq!(found[0].capacity_type, CapacityType::Spot);
}

async fn termination_is_final_and_idempotent() {
    let request = request("ending", "launch-5", "on-demand").await;
    let answer = account().launch(&request, not_after()).await.unwrap();
    let account = account();
    let cluster = "ending".into();
    let [first, others @ ..] = answer.instances.as_slice() else {
        panic!("{answer:?}")
    };
    // EC2 does not know the second instance.
    let terminated = [first.instance.clone(), "i-00000000000000000".into()];
    for _ in 0..2 {
        let verdicts = account.terminate(&cluster, &terminated).await;
        assert!(
            matches!(verdicts[&terminated[0]], Termination::Ended),
            "{verdicts:?}"
        );
        assert!(
            matches!(verdicts[&terminated[1]], Termination::Gone),
            "{verdicts:?}"
        );
    }
    assert!(account.knows_instance(&terminated[0]).await.unwrap());
    assert!(!account.knows_instance(&terminated[1]).await.unwrap());
    let left = account.list_instances(&cluster).await.unwrap();
    assert_eq!(left.len(), others.len());
    let described = account.describe_instances(&terminated).await.unwrap();
    assert_eq!(
        described.len(),
        1,
        "what EC2 does not know is missing from the answer"
    );
    assert_eq!(described[0].state, InstanceState::Terminated);
    let of_launch = account
        .instances_of_launch(&cluster, &"launch-5".into())
        .await;
    assert_eq!(
        of_launch.unwrap().len(),
        3,
        "dead ones answer for their launch too"
    );
}

async fn reboot_terminates_nothing_and_reports_unknown_instances() {
    let request = request("rebooting", "launch-reboot", "on-demand").await;
    let answer = account().launch(&request, not_after()).await.unwrap();
    let cluster = "rebooting".into();
    let account = account();
    let id = &answer.instances[0].instance;
    account.reboot(&cluster, id).await.unwrap();
    let described = account.describe_instances(std::slice::from_ref(id)).await;
    assert_eq!(described.unwrap()[0].state, InstanceState::Running);
    let unknown = account
        .reboot(&cluster, &"i-00000000000000000".into())
        .await;
    assert!(
        matches!(unknown, Err(CloudError::NotFound { .. })),
        "{unknown:?}"
    );
}

async fn instances_can_be_tagged_with_their_names() {
    let request = request("tagging", "launch-6", "on-demand").await;
    let answer = account().launch(&request, not_after()).await.unwrap();
    let id = &answer.instances[0].instance;
    let tags = [("Name".to_owned(), "default-abcde".to_owned())].into();
    account().tag(&"tagging".into(), id, &tags).await.unwrap();
    let described = account()
        .describe_instances(std::slice::from_ref(id))
        .await
        .unwrap();
    assert_eq!(described[0].tags["Name"], "default-abcde");
}

async fn writes_use_the_clusters_own_session() {
    let role = json!({ "RoleName": "WhittleCluster", "AssumeRolePolicyDocument": "{}" });
    let role = &MOTO.call("iam", "create_role", role)["Role"]["Arn"];
    let request = request("sessions", "launch-7", "on-demand").await;
    let answer = account_with(role.as_str())
        .launch(&request, not_after())
        .await
        .unwrap();
    assert_eq!(answer.instances.len(), 3);
}

async fn nothing_is_sent_after_the_deadline() {
    let request = request("late", "launch-8", "on-demand").await;
    let error = account()
        .launch(&request, NOW.parse().unwrap())
        .await
        .unwrap_err();
    assert!(matches!(error, CloudError::NotSent { .. }), "{error}");
    let found = account().list_instances(&"late".into()).await.unwrap();
    assert_eq!(found, []);
}

async fn missing_template_is_created_again() {
    let request = request("missing", "launch-9", "on-demand").await;
    let account = account();
    account.ready(&request).await.unwrap();
    account.ready(&request).await.unwrap();
    let name = &request.templates[0].template.name;
    MOTO.call(
        "ec2",
        "delete_launch_template",
        json!({ "LaunchTemplateName": name }),
    );
    let answer = account.launch(&request, not_after()).await.unwrap();
    assert_eq!(answer.instances.len(), 3);
}

async fn unneeded_launch_resources_are_deleted() {
    let request = request("spent", "launch-10", "on-demand").await;
    let account = account();
    account.ready(&request).await.unwrap();
    for (name, path) in [
        ("spent_1", "/karpenter/us-east-1/spent/gone/"),
        ("others_1", "/karpenter/us-east-1/spent-too/gone/"),
    ] {
        let profile = json!({ "InstanceProfileName": name, "Path": path });
        MOTO.call("iam", "create_instance_profile", profile);
    }
    let needs = Needs {
        node_classes: &[],
        node_claims: &[],
    };
    let collected = async |now: &str| {
        let now = now.parse().unwrap();
        account.collect(&"spent".into(), &needs, now).await.unwrap()
    };
    assert_eq!(collected("2020-01-01T00:00:00Z").await, [].into());
    let collected_late = collected("2100-01-01T00:00:00Z").await;
    assert!(collected_late.contains("spent_1"));
    assert!(collected_late.contains(&request.templates[0].template.name));
    // The third template is the one of the dry runs before the EC2NodeClass was ready.
    assert_eq!(collected_late.len(), 3, "{collected_late:?}");
    assert_eq!(collected("2100-01-01T00:00:00Z").await, [].into());
    let others = json!({ "InstanceProfileName": "others_1" });
    let others = MOTO.call("iam", "get_instance_profile", others);
    assert_eq!(others["InstanceProfile"]["InstanceProfileName"], "others_1");
}
