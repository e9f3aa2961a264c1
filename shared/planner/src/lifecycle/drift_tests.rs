use std::{collections::BTreeMap, sync::Arc};

use api::conditions::types::{DRIFTED, LAUNCHED, REGISTERED};
use jiff::SignedDuration;
use model::{
    Action, CapacityType, InstanceType, NanosPerHour, Offering, Resources, Snapshot,
    catalog::Overhead,
    node_claim::NodeClaim,
    requirement::{Requirement, Requirements},
    selector::{NodeSelectorRequirement, Operator},
};

use crate::{fixtures, lifecycle};

const HASH: &str = "karpenter.sh/nodepool-hash";
const VERSION: &str = "karpenter.sh/nodepool-hash-version";

fn claim(conditions: &[&str]) -> NodeClaim {
    let mut claim = fixtures::claim("default-a", conditions);
    for (key, value) in [
        ("node.kubernetes.io/instance-type", "m5.large"),
        ("topology.kubernetes.io/zone", "us-east-1a"),
        ("karpenter.sh/capacity-type", "spot"),
    ] {
        claim.labels.insert(key.to_owned(), value.to_owned());
    }
    claim
}

/// The NodeClaim in a NodePool `default` that offers its instance type, without drift from the provider.
fn world(claim: NodeClaim) -> Snapshot {
    let mut snapshot = fixtures::snapshot();
    snapshot.node_pools = vec![fixtures::pool("default", 60)];
    let offering = Offering {
        unpriced: false,
        capacity_type: CapacityType::Spot,
        zone: "us-east-1a".to_owned(),
        zone_id: "use1-az1".to_owned(),
        price: NanosPerHour(1),
        available: false,
        reservation: None,
        requirements: Requirements::default(),
        capacity_override: None,
        overhead_override: None,
    };
    let kind = InstanceType {
        ebs_attach_limit: None,
        devices: Vec::new(),
        name: "m5.large".to_owned(),
        requirements: Requirements::default(),
        capacity: Resources::default(),
        overhead: Overhead::default(),
        offerings: vec![offering],
    };
    snapshot.instance_types = BTreeMap::from([("default".into(), Arc::new(vec![kind]))]);
    snapshot.drift = BTreeMap::from([(claim.name.clone(), None)]);
    snapshot.node_claims = vec![claim];
    snapshot
}

/// Reason of the written condition; `Some("")` if it is cleared, `None` if it is unchanged.
fn judged(snapshot: &Snapshot) -> Option<String> {
    let mut actions = lifecycle(snapshot).plan.actions.into_iter();
    actions.find_map(|planned| {
        let Action::UpdateNodeClaim(update) = planned.action else {
            return None;
        };
        let cleared = update.clear_conditions.iter().any(|kind| kind == DRIFTED);
        let mut set = update.conditions.into_iter();
        let set = set.find(|condition| condition.kind == DRIFTED);
        set.map(|condition| condition.reason)
            .or_else(|| cleared.then(String::new))
    })
}

fn found(reason: &str) -> Option<String> {
    Some(reason.to_owned())
}

#[test]
fn node_that_matches_its_node_pool_has_not_drifted() {
    assert_eq!(judged(&world(claim(&[LAUNCHED]))), None);
    assert_eq!(judged(&world(claim(&[LAUNCHED, DRIFTED]))), found(""));
}

#[test]
fn only_hashes_of_equal_version_are_compared() {
    for (hash, version, expected) in [
        ("2", "v", found("NodePoolDrifted")),
        ("2", "w", None),
        ("1", "v", None),
    ] {
        let mut claim = claim(&[LAUNCHED]);
        claim.annotations.insert(HASH.to_owned(), "1".to_owned());
        claim.annotations.insert(VERSION.to_owned(), "v".to_owned());
        let mut snapshot = world(claim);
        let annotations = &mut snapshot.node_pools[0].annotations;
        annotations.insert(HASH.to_owned(), hash.to_owned());
        annotations.insert(VERSION.to_owned(), version.to_owned());
        assert_eq!(judged(&snapshot), expected, "{hash} {version}");
    }
}

#[test]
fn labels_must_satisfy_the_node_pools_requirements() {
    let requirement = |key: &str, operator, values: &[&str]| NodeSelectorRequirement {
        key: key.to_owned(),
        operator,
        values: values.iter().map(|value| (*value).to_owned()).collect(),
        min_values: None,
    };
    let capacity = "karpenter.sh/capacity-type";
    let drifted = found("RequirementsDrifted");
    for (requirement, expected) in [
        (requirement(capacity, Operator::In, &["spot"]), None),
        (
            requirement(capacity, Operator::In, &["on-demand"]),
            drifted.clone(),
        ),
        (requirement("team", Operator::Exists, &[]), drifted.clone()),
        (requirement("team", Operator::NotIn, &["a"]), None),
        (requirement("team", Operator::DoesNotExist, &[]), None),
        (requirement("team", Operator::Gt, &["1"]), drifted),
    ] {
        let mut snapshot = world(claim(&[LAUNCHED]));
        let text = format!("{requirement:?}");
        snapshot.node_pools[0].template.requirements = vec![requirement];
        assert_eq!(judged(&snapshot), expected, "{text}");
    }
}

/// Judges a NodeClaim older than an hour, whose instance type must be in the catalog.
fn settled(change: impl FnOnce(&mut NodeClaim)) -> Option<String> {
    let mut claim = claim(&[LAUNCHED, REGISTERED]);
    change(&mut claim);
    let mut snapshot = world(claim);
    snapshot.now += SignedDuration::from_mins(61);
    judged(&snapshot)
}

#[test]
fn discontinued_instance_type_drifts_and_an_unavailable_one_does_not() {
    let label = |key: &'static str, value: &'static str| {
        move |claim: &mut NodeClaim| drop(claim.labels.insert(key.into(), value.into()))
    };
    let kind = "node.kubernetes.io/instance-type";
    assert_eq!(settled(|_| ()), None, "sold out");
    assert_eq!(
        settled(label(kind, "m1.small")),
        found("InstanceTypeNotFound")
    );
    let capacity = "karpenter.sh/capacity-type";
    assert_eq!(
        settled(label(capacity, "on-demand")),
        found("InstanceTypeNotFound")
    );
    let zone = "topology.kubernetes.io/zone";
    assert_eq!(
        settled(label(zone, "us-east-1z")),
        found("InstanceTypeNotFound"),
        "not sold in its zone"
    );
    let young = world({
        let mut claim = claim(&[LAUNCHED]);
        label(kind, "m1.small")(&mut claim);
        claim
    });
    assert_eq!(judged(&young), None);
}

/// Whether a node launched as `bought` has drifted if its instance type is offered as `sold`, with a requirement if given.
fn resold(
    bought: &str,
    sold: CapacityType,
    label: Option<(&str, &str)>,
    requirement: Option<(&str, &str)>,
) -> bool {
    let mut claim = claim(&[LAUNCHED, REGISTERED]);
    let capacity = "karpenter.sh/capacity-type".to_owned();
    claim.labels.insert(capacity, bought.to_owned());
    let label = label.map(|(key, value)| (key.to_owned(), value.to_owned()));
    claim.labels.extend(label);
    let mut snapshot = world(claim);
    let types = snapshot.instance_types.values_mut().next().unwrap();
    let offering = &mut Arc::make_mut(types)[0].offerings[0];
    offering.capacity_type = sold;
    if let Some((key, value)) = requirement {
        let value = [value.to_owned()];
        let requirement = Requirement::new(key, Operator::In, value);
        offering.requirements.add(requirement);
    }
    snapshot.now += SignedDuration::from_mins(61);
    judged(&snapshot) == found("InstanceTypeNotFound")
}

#[test]
fn formerly_reserved_node_continues_while_sold_on_demand() {
    use CapacityType::{OnDemand, Reserved, Spot};
    for (bought, sold, drifted) in [
        ("reserved", Reserved, false),
        ("reserved", OnDemand, false),
        ("reserved", Spot, true),
        ("spot", OnDemand, true),
        ("on-demand", Reserved, true),
    ] {
        assert_eq!(resold(bought, sold, None, None), drifted, "{bought} {sold}");
    }
}

#[test]
fn offering_must_match_labels_except_those_of_a_former_reservation() {
    const ID: &str = "karpenter.k8s.aws/capacity-reservation-id";
    const OTHER: &str = "example.com/tenancy";
    for (bought, sold, key, drifted) in [
        ("reserved", CapacityType::Reserved, ID, false),
        ("on-demand", CapacityType::OnDemand, ID, true),
        ("reserved", CapacityType::Reserved, OTHER, true),
    ] {
        let of = |label| resold(bought, sold, label, Some((key, "a")));
        assert_eq!(of(Some((key, "b"))), drifted, "{bought} {key}");
        assert!(!of(Some((key, "a"))), "{bought} {key}");
        assert!(!of(None), "{bought}: what has no label is admitted");
    }
}

#[test]
fn provider_drift_is_judged_last_and_missing_data_changes_nothing() {
    let mut snapshot = world(claim(&[LAUNCHED]));
    snapshot.drift.insert("default-a".into(), found("AMIDrift"));
    assert_eq!(judged(&snapshot), found("AMIDrift"));
    let pool = &mut snapshot.node_pools[0];
    pool.template.requirements = vec![NodeSelectorRequirement {
        key: "team".to_owned(),
        operator: Operator::Exists,
        values: Vec::new(),
        min_values: None,
    }];
    assert_eq!(judged(&snapshot), found("RequirementsDrifted"));
    let mut silent = world(claim(&[LAUNCHED, DRIFTED]));
    silent.drift.clear();
    assert_eq!(judged(&silent), None);
}

#[test]
fn node_claim_without_an_instance_has_not_drifted() {
    let mut snapshot = world(claim(&[DRIFTED]));
    snapshot.drift.insert("default-a".into(), found("AMIDrift"));
    assert_eq!(judged(&snapshot), found(""));
}
