use std::{collections::BTreeMap, sync::Arc};

use api::{EC2NodeClass, names::tag};
use jiff::{SignedDuration, Timestamp};
use model::{
    CapacityType, ClusterName, FreeAddresses, InstanceId, InstanceType, NanosPerHour, Offering,
    Resources,
    catalog::Overhead,
    labels,
    launch::{FleetRequest, FleetResponse, InstanceState},
    node_claim::{NodeClaimSpec, NodeClassRef},
    plan::{ExpectedOffering, Launch},
    requirement::{Requirement, Requirements},
    selector::{NodeSelectorRequirement, Operator},
    taint::{Taint, TaintEffect},
};
use ports::{Cloud, CloudError, Launches, NodeClassResolver, Termination};
use serde_json::{Value, json};

use super::{handle::Ec2, *};
use crate::{
    Sandbox, SandboxOptions, WorldClock, WorldOptions,
    store::{ObjectKey, TableId},
};

const ZONES: [(&str, &str); 2] = [("us-east-1a", "use1-az6"), ("us-east-1b", "use1-az1")];
const NODES: TableId = TableId::named("nodes");

fn instance_type(name: &str, cores: i64, price: i64) -> InstanceType {
    let requirement = |key: &str, values: &[&str]| {
        let values = values.iter().map(|value| (*value).to_owned());
        (key.to_owned(), Requirement::new(key, Operator::In, values))
    };
    let offering = |capacity_type, zone: &(&str, &str), price| Offering {
        unpriced: false,
        capacity_type,
        zone: zone.0.to_owned(),
        zone_id: zone.1.to_owned(),
        price: NanosPerHour(price),
        available: true,
        reservation: None,
        requirements: Requirements::default(),
        capacity_override: None,
        overhead_override: None,
    };
    InstanceType {
        ebs_attach_limit: None,
        devices: Vec::new(),
        name: name.to_owned(),
        requirements: Requirements(BTreeMap::from([
            requirement(labels::INSTANCE_TYPE, &[name]),
            requirement(labels::ARCH, &["amd64"]),
            requirement(labels::OS, &["linux"]),
            requirement(labels::ZONE, &ZONES.map(|(zone, _)| zone)),
            requirement(labels::CAPACITY_TYPE, &["on-demand", "spot"]),
        ])),
        capacity: Resources::from([("cpu", cores * 1000), ("memory", cores << 32), ("pods", 29)]),
        overhead: Overhead {
            kube_reserved: Resources::from([("cpu", 100)]),
            ..Overhead::default()
        },
        offerings: ZONES
            .iter()
            .flat_map(|zone| {
                [
                    offering(CapacityType::OnDemand, zone, price),
                    offering(CapacityType::Spot, zone, price / 3),
                ]
            })
            .collect(),
    }
}

fn node_class() -> EC2NodeClass {
    serde_json::from_value(json!({
        "metadata": {"name": "default", "uid": "class-uid", "generation": 1, "resourceVersion": "1"},
        "spec": {
            "amiSelectorTerms": [{"alias": "al2023@latest"}],
            "subnetSelectorTerms": [{"tags": {"karpenter.sh/discovery": "demo"}}],
            "securityGroupSelectorTerms": [{"tags": {"karpenter.sh/discovery": "demo"}}],
            "role": "KarpenterNodeRole-demo",
        },
    }))
    .unwrap()
}

fn launch(capacity_type: &str) -> Launch {
    let requirement = |key: &str, value: &str| NodeSelectorRequirement {
        key: key.to_owned(),
        operator: Operator::In,
        values: vec![value.to_owned()],
        min_values: None,
    };
    Launch {
        name: "default-abcde".into(),
        node_pool: "default".into(),
        node_pool_uid: "pool-uid".into(),
        labels: BTreeMap::from([(labels::NODE_POOL.to_owned(), "default".to_owned())]),
        annotations: BTreeMap::new(),
        spec: NodeClaimSpec {
            node_class: NodeClassRef {
                group: "karpenter.k8s.aws".to_owned(),
                kind: "EC2NodeClass".to_owned(),
                name: "default".into(),
            },
            requirements: vec![
                requirement(labels::CAPACITY_TYPE, capacity_type),
                requirement(labels::NODE_POOL, "default"),
            ],
            taints: vec![Taint {
                key: "example.com/team".to_owned(),
                value: "blue".to_owned(),
                effect: TaintEffect::NoSchedule,
            }],
            ..NodeClaimSpec::default()
        },
        pods: Vec::new(),
        instance_types: vec!["m5.large".into(), "m5.xlarge".into()],
        cheapest: ExpectedOffering {
            instance_type: "m5.large".to_owned(),
            capacity_type: CapacityType::OnDemand,
            zone: "us-east-1a".to_owned(),
            price: NanosPerHour(96),
            capacity: Resources::default(),
        },
    }
}

/// Sandbox under a virtual clock, with a small catalog.
struct Fixture {
    sandbox: Sandbox,
    ec2: Ec2,
    cluster: ClusterName,
}

impl Fixture {
    async fn start() -> Self {
        Self::start_with(|_| {}).await
    }

    async fn start_with(change: impl FnOnce(&mut AccountOptions)) -> Self {
        let catalog = vec![
            instance_type("m5.large", 2, 96_000_000),
            instance_type("m5.xlarge", 4, 192_000_000),
        ];
        let mut account = AccountOptions::us_east_1(Arc::new(catalog), "demo");
        change(&mut account);
        let sandbox = Sandbox::start(SandboxOptions {
            world: WorldOptions {
                account,
                ..WorldOptions::default()
            },
            clock: WorldClock::starting_at("2026-01-01T00:00:00Z".parse().unwrap()),
            ..SandboxOptions::default()
        })
        .await
        .unwrap();
        Self {
            ec2: sandbox.account(),
            sandbox,
            cluster: "demo".into(),
        }
    }

    /// CreateFleet request that the launch rules make for a launch, under a token.
    async fn request(&self, launch: &Launch, token: &str, count: u32) -> FleetRequest {
        let mut class = node_class();
        let now = self.sandbox.now();
        class.status = Some(
            self.ec2
                .resolve(&self.cluster, &class, &[], now)
                .await
                .unwrap()
                .status,
        );
        let builder = self.ec2.prepare(&self.cluster, &json!({})).await.unwrap();
        let catalog = self
            .ec2
            .with(|account, _, _| account.options.catalog.clone());
        let free = FreeAddresses::default();
        let request = builder.request(launch, &class, &catalog, &free).unwrap();
        aws_rules::launch::freeze(request, token.into(), count)
    }

    async fn launch(&self, request: &FleetRequest) -> Result<FleetResponse, CloudError> {
        self.ec2.launch(request, Timestamp::MAX).await
    }

    fn pass(&self, seconds: i64) {
        self.sandbox.advance(SignedDuration::from_secs(seconds));
    }

    fn node(&self, id: &InstanceId) -> Option<Value> {
        let name = self.ec2.with(|account, _, _| {
            let instance = account.instances().find(|instance| instance.id == *id)?;
            instance.private_dns.clone()
        })?;
        self.sandbox.with(|world, _| {
            let node = world.server.store.get(&NODES, &ObjectKey::new("", name))?;
            Some(node.value().clone())
        })
    }

    async fn state(&self, id: &InstanceId) -> InstanceState {
        let found = self.ec2.describe_instances(std::slice::from_ref(id)).await;
        found.unwrap()[0].state
    }
}

#[tokio::test]
async fn node_class_resolves_to_resources_of_the_account() {
    let fixture = Fixture::start().await;
    let class = node_class();
    let now = fixture.sandbox.now();
    let status = fixture
        .ec2
        .resolve(&fixture.cluster, &class, &[], now)
        .await
        .unwrap()
        .status;
    assert_eq!(status.subnets.unwrap().len(), 2);
    assert_eq!(
        status.security_groups.unwrap()[0].id,
        "sg-0123456789abcdef0"
    );
    assert!(status.amis.unwrap()[0].id.starts_with("ami-"));
    let ready = status
        .conditions
        .unwrap()
        .into_iter()
        .find(|condition| condition.r#type == "Ready");
    assert_eq!(ready.unwrap().status, api::ConditionStatus::True);

    let mut elsewhere = class;
    elsewhere.spec.subnet_selector_terms[0].tags = Some(BTreeMap::from([(
        "karpenter.sh/discovery".to_owned(),
        "other".to_owned(),
    )]));
    let status = fixture
        .ec2
        .resolve(&fixture.cluster, &elsewhere, &[], now)
        .await
        .unwrap()
        .status;
    let subnets = status
        .conditions
        .unwrap()
        .into_iter()
        .find(|condition| condition.r#type == "SubnetsReady");
    assert_eq!(subnets.unwrap().reason, "SubnetsNotFound");
}

#[tokio::test]
async fn instance_joins_as_the_node_of_its_user_data() {
    let fixture = Fixture::start().await;
    let request = fixture.request(&launch("on-demand"), "token-1", 1).await;
    let answer = fixture.launch(&request).await.unwrap();
    let launched = &answer.instances[0];
    assert_eq!(launched.instance_type, "m5.large", "the cheapest");
    assert_eq!(
        fixture.state(&launched.instance).await,
        InstanceState::Pending
    );
    fixture.pass(5);
    assert_eq!(
        fixture.state(&launched.instance).await,
        InstanceState::Running
    );
    assert!(fixture.node(&launched.instance).is_none(), "still booting");
    fixture.pass(30);
    let node = fixture.node(&launched.instance).unwrap();
    assert_eq!(
        node["spec"]["providerID"],
        format!("aws:///us-east-1a/{}", launched.instance)
    );
    assert_eq!(
        node["metadata"]["labels"]["karpenter.sh/nodepool"],
        "default"
    );
    assert_eq!(
        node["metadata"]["labels"]["node.kubernetes.io/instance-type"],
        "m5.large"
    );
    assert_eq!(node["status"]["capacity"]["cpu"], "2");
    assert_eq!(node["status"]["allocatable"]["cpu"], "1900m");
    let taints: Vec<&str> = node["spec"]["taints"]
        .as_array()
        .unwrap()
        .iter()
        .map(|taint| taint["key"].as_str().unwrap())
        .collect();
    assert_eq!(taints, ["example.com/team", "karpenter.sh/unregistered"]);

    let ended = fixture
        .ec2
        .terminate(&fixture.cluster, std::slice::from_ref(&launched.instance));
    assert!(ended.await.values().all(is_ended));
    fixture.pass(90);
    assert_eq!(
        fixture.state(&launched.instance).await,
        InstanceState::Terminated
    );
    assert!(
        fixture.node(&launched.instance).is_none(),
        "its node is gone too"
    );
    assert!(
        fixture
            .ec2
            .list_instances(&fixture.cluster)
            .await
            .unwrap()
            .is_empty()
    );
}

#[tokio::test]
async fn fleet_avoids_pools_without_capacity() {
    let fixture = Fixture::start().await;
    let pool = |zone: &str| {
        (
            CapacityType::OnDemand,
            "m5.large".to_owned(),
            zone.to_owned(),
        )
    };
    fixture.ec2.with(|account, _, _| {
        account.set_capacity(pool("us-east-1a"), 0);
        account.set_capacity(pool("us-east-1b"), 1);
    });
    let request = fixture.request(&launch("on-demand"), "token-1", 2).await;
    let answer = fixture.launch(&request).await.unwrap();
    let got: Vec<(&str, &str)> = answer
        .instances
        .iter()
        .map(|launched| (launched.instance_type.as_str(), launched.zone.as_str()))
        .collect();
    assert_eq!(
        got,
        [("m5.large", "us-east-1b"), ("m5.xlarge", "us-east-1a")]
    );
    let codes: Vec<&str> = answer
        .failures
        .iter()
        .map(|failure| failure.code.as_str())
        .collect();
    assert_eq!(codes, ["InsufficientInstanceCapacity"; 2]);
}

#[tokio::test]
async fn quotas_bound_running_vcpus() {
    let fixture = Fixture::start_with(|options| options.quotas.spot_vcpus = Some(5)).await;
    let request = fixture.request(&launch("spot"), "token-1", 3).await;
    let answer = fixture.launch(&request).await.unwrap();
    assert_eq!(answer.instances.len(), 2);
    assert!(
        answer
            .failures
            .iter()
            .all(|failure| failure.code == "MaxSpotInstanceCountExceeded")
    );
}

#[tokio::test]
async fn client_token_launches_once() {
    let fixture = Fixture::start().await;
    let request = fixture.request(&launch("on-demand"), "token-1", 1).await;
    let first = fixture.launch(&request).await.unwrap();
    assert_eq!(fixture.launch(&request).await.unwrap(), first);
    let other = FleetRequest {
        target_capacity: 2,
        ..request.clone()
    };
    let error = fixture.launch(&other).await.unwrap_err();
    assert!(
        matches!(error, CloudError::Invalid { code, .. } if code == "IdempotentParameterMismatch")
    );

    let fixture = Fixture::start_with(|options| options.honors_client_tokens = false).await;
    let first = fixture.launch(&request).await.unwrap();
    assert_ne!(fixture.launch(&request).await.unwrap(), first);
    let tagged = fixture
        .ec2
        .instances_of_launch(&fixture.cluster, &"token-1".into())
        .await
        .unwrap();
    assert_eq!(tagged.len(), 2);
    assert_eq!(tagged[0].tags[tag::EKS_CLUSTER], "demo");
}

#[tokio::test]
async fn calls_above_the_rate_are_throttled() {
    let fixture = Fixture::start().await;
    let request = fixture.request(&launch("on-demand"), "token", 1).await;
    for _ in 0..5 {
        fixture.launch(&request).await.unwrap();
    }
    let error = fixture.launch(&request).await.unwrap_err();
    assert!(matches!(error, CloudError::Throttled { .. }), "{error}");
    fixture.pass(1);
    assert!(fixture.launch(&request).await.is_ok());
}

#[tokio::test]
async fn spot_interruption_is_announced_two_minutes_ahead() {
    let fixture = Fixture::start().await;
    let request = fixture.request(&launch("spot"), "token-1", 1).await;
    let id = fixture.launch(&request).await.unwrap().instances[0]
        .instance
        .clone();
    fixture.pass(40);
    fixture.ec2.with(|account, _, _| account.take_events());
    assert!(
        fixture
            .ec2
            .with(|account, _, now| account.interrupt_spot(&id, now))
    );
    let events = fixture.ec2.with(|account, _, _| account.take_events());
    assert_eq!(
        events[0]["detail-type"],
        "EC2 Spot Instance Interruption Warning"
    );
    assert_eq!(events[0]["detail"]["instance-id"], id.as_str());
    fixture.pass(119);
    assert_eq!(fixture.state(&id).await, InstanceState::Running);
    fixture.pass(2);
    assert_eq!(fixture.state(&id).await, InstanceState::ShuttingDown);
    let events = fixture.ec2.with(|account, _, _| account.take_events());
    assert_eq!(events[0]["detail"]["state"], "shutting-down");
    assert!(
        !fixture
            .ec2
            .with(|account, _, now| account.interrupt_spot(&id, now))
    );
}

#[tokio::test]
async fn describe_instances_lags_behind_launches() {
    let lag = SignedDuration::from_secs(10);
    let fixture = Fixture::start_with(|options| options.describe_lag = lag).await;
    let request = fixture.request(&launch("on-demand"), "token-1", 1).await;
    fixture.launch(&request).await.unwrap();
    assert!(
        fixture
            .ec2
            .list_instances(&fixture.cluster)
            .await
            .unwrap()
            .is_empty()
    );
    fixture.pass(10);
    assert_eq!(
        fixture
            .ec2
            .list_instances(&fixture.cluster)
            .await
            .unwrap()
            .len(),
        1
    );
}

#[tokio::test]
async fn cost_is_billed_by_the_second() {
    let fixture = Fixture::start().await;
    let request = fixture.request(&launch("on-demand"), "token-1", 2).await;
    let ids: Vec<InstanceId> = fixture
        .launch(&request)
        .await
        .unwrap()
        .instances
        .into_iter()
        .map(|launched| launched.instance)
        .collect();
    assert_eq!(
        fixture.ec2.with(|account, _, _| account.hourly_cost()),
        NanosPerHour(192_000_000)
    );
    fixture.pass(1800);
    let ended = fixture.ec2.terminate(&fixture.cluster, &ids).await;
    assert!(ended.len() == 2 && ended.values().all(is_ended));
    fixture.pass(1800);
    let (cost, spent) = fixture
        .ec2
        .with(|account, _, now| (account.hourly_cost(), account.spent_nanos(now)));
    assert_eq!((cost, spent), (NanosPerHour(0), 96_000_000));
}

fn is_ended(verdict: &Termination) -> bool {
    matches!(verdict, Termination::Ended)
}

#[tokio::test]
async fn protected_instance_of_a_call_blocks_no_other() {
    let fixture = Fixture::start().await;
    let request = fixture.request(&launch("on-demand"), "token-1", 3).await;
    let launched = fixture.launch(&request).await.unwrap().instances;
    let [first, second, third] = launched.as_slice() else {
        panic!("{launched:?}")
    };
    let protected = second.instance.clone();
    fixture
        .ec2
        .with(|account, _, _| account.protected.insert(protected));
    let ids = [&first.instance, &second.instance, &third.instance].map(Clone::clone);
    let ended = fixture.ec2.terminate(&fixture.cluster, &ids).await;
    assert!(is_ended(&ended[&first.instance]) && is_ended(&ended[&third.instance]));
    let Termination::Refused(refusal) = &ended[&second.instance] else {
        panic!("{ended:?}")
    };
    assert_eq!(refusal.code, "OperationNotPermitted");
}
