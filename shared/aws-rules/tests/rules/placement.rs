use aws_rules::{
    LaunchInput, LaunchRefusal, ProviderSettings, fleet_request,
    instance_types::{ResolveInput, Unavailable, instance_types},
    launch::observations,
    placement::PlacementGroupFact,
};
use model::{
    InstanceType,
    launch::{FleetRequest, FleetResponse, OfferingFailure, PlacementGroup},
};
use serde_json::json;

use crate::world::{TestClaim, catalog, claim, cluster, named, node_class};

const PARTITION: &str = "karpenter.k8s.aws/placement-group-partition";

fn types(strategy: &str) -> Vec<InstanceType> {
    let group = PlacementGroupFact {
        group_id: "pg-1".into(),
        strategy: strategy.into(),
        partition_count: Some(3).filter(|_| strategy == "partition"),
        ..PlacementGroupFact::default()
    };
    let mut catalog = catalog();
    for info in &mut catalog.instance_types {
        if info.instance_type == "m5.large" {
            info.placement_group_info.supported_strategies = vec![strategy.into()];
        }
    }
    let through = ResolveInput {
        node_class: &node_class(json!({})),
        settings: &ProviderSettings::default(),
        measured_memory: &[],
        placement_group: Some(&group),
    };
    instance_types(&catalog, through).unwrap()
}

fn launch(claim: &TestClaim, types: &[InstanceType]) -> Result<FleetRequest, LaunchRefusal> {
    let input = LaunchInput {
        cluster: &cluster(),
        settings: &ProviderSettings::default(),
        node_class: &node_class(json!({})),
        instance_types: types,
        free_addresses: &model::FreeAddresses::default(),
    };
    fleet_request(&input, claim.get())
}

fn placed(request: &FleetRequest) -> Option<PlacementGroup> {
    request.templates[0].template.placement_group.clone()
}

fn in_partition(partition: Option<i32>) -> Option<PlacementGroup> {
    let id = "pg-1".to_owned();
    Some(PlacementGroup { id, partition })
}

#[test]
fn types_that_the_placement_strategy_excludes_are_unavailable() {
    let types = types("cluster");
    let is_available = |name: &str| named(&types, name).offerings.iter().any(|o| o.available);
    assert!(is_available("m5.large") && !is_available("t3.large"));
}

#[test]
fn partition_is_chosen_only_for_claims_that_ask_for_one() {
    let types = types("partition");
    assert_eq!(named(&types, "m5.large").offerings.len(), 2 * 3 * 3);
    let m5 = || claim().types(&["m5.large"]);
    assert_eq!(placed(&launch(&m5(), &types).unwrap()), in_partition(None));
    let request = launch(&m5().wants(PARTITION, &["3", "2"]), &types).unwrap();
    assert_eq!(placed(&request), in_partition(Some(2)));
    assert_eq!(request.templates[0].overrides.len(), 3, "one for each zone");
    assert!(launch(&m5().wants(PARTITION, &["4"]), &types).is_err());
}

#[test]
fn launch_failures_are_scoped_to_the_placement_group() {
    let all = types("partition");
    let class = node_class(json!({}));
    let request = launch(&claim().types(&["m5.large"]).wants(PARTITION, &["2"]), &all).unwrap();
    let failure = OfferingFailure {
        instance_type: "m5.large".into(),
        zone: "us-east-1a".into(),
        subnet: None,
        code: "InsufficientInstanceCapacity".into(),
        message: "none left".into(),
    };
    let answer = FleetResponse {
        instances: Vec::new(),
        failures: vec![failure],
    };
    let mut unavailable = Unavailable::default();
    unavailable.add_observations(observations(&request, &answer, |_| "use1-az6".to_owned()));
    let mut marked = all.clone();
    unavailable.mark_unavailable(&mut marked, &class);
    let lost = |before: &[InstanceType], after: &[InstanceType]| {
        let available = |types: &[InstanceType]| {
            let offerings = &named(types, "m5.large").offerings;
            offerings
                .iter()
                .filter(|offering| offering.available)
                .count()
        };
        available(before) - available(after)
    };
    assert_eq!(lost(&all, &marked), 1, "one partition of one zone");
    let cluster = types("cluster");
    let mut elsewhere = cluster.clone();
    unavailable.mark_unavailable(&mut elsewhere, &class);
    assert_eq!(
        lost(&cluster, &elsewhere),
        0,
        "the group as a whole has room"
    );
}
