use api::{
    DeviceSettings,
    karpenter::{Ami, EC2NodeClassStatus, SecurityGroup},
};
use aws_rules::{
    ProviderSettings,
    node_class::{
        Discovered, Discovery, Filters, ReservationFact, StatusInput, SubnetFact, Verdict, draft,
        next_look, reservation_queries, reservations, security_group_queries, status,
        subnet_queries,
    },
    placement::PlacementGroupFact,
};
use jiff::{SignedDuration, Timestamp};
use model::Warning;
use serde_json::{Value, json};

use crate::world::{cluster, node_class};

pub(crate) fn subnet(id: &str, free_addresses: i64) -> SubnetFact {
    SubnetFact {
        id: id.into(),
        zone: "us-east-1a".into(),
        zone_id: Some("use1-az6".into()),
        free_addresses,
    }
}

pub(crate) fn found() -> Discovered {
    let group = |id: &str| SecurityGroup {
        id: id.into(),
        name: None,
    };
    Discovered {
        subnets: Discovery::Found(vec![
            subnet("subnet-2", 5),
            subnet("subnet-1", 5),
            subnet("subnet-3", 9),
        ]),
        security_groups: Discovery::Found(vec![group("sg-2"), group("sg-1")]),
        amis: Discovery::Found(vec![Ami {
            id: "ami-1".into(),
            ..Ami::default()
        }]),
        instance_profile: Discovery::Found("demo_profile".into()),
        capacity_reservations: Discovery::Found(Vec::new()),
        placement_group: Discovery::Found(None),
    }
}

/// The status of a new NodeClass with these changes to its spec.
fn judged(spec: Value, discovered: Discovered) -> EC2NodeClassStatus {
    let class = node_class(json!({ "spec": spec, "status": null }));
    let now = "2026-08-22T12:00:00Z".parse().unwrap();
    status(
        &class,
        discovered,
        &cluster(),
        &ProviderSettings::default(),
        now,
    )
}

pub(crate) fn condition<'a>(
    status: &'a EC2NodeClassStatus,
    kind: &str,
) -> (&'a str, &'a str, &'a str) {
    let conditions = status.conditions.as_deref().unwrap();
    let found = conditions
        .iter()
        .find(|condition| condition.r#type == kind)
        .unwrap();
    (found.status.as_str(), &found.reason, &found.message)
}

#[test]
fn node_class_with_everything_resolved_is_ready() {
    let status = judged(json!({}), found());
    assert_eq!(condition(&status, "Ready").0, "True");
    let ids: Vec<_> = status
        .subnets
        .unwrap()
        .into_iter()
        .map(|subnet| subnet.id)
        .collect();
    assert_eq!(
        ids,
        ["subnet-3", "subnet-1", "subnet-2"],
        "most free addresses first"
    );
    let ids: Vec<_> = status
        .security_groups
        .unwrap()
        .into_iter()
        .map(|group| group.id)
        .collect();
    assert_eq!(ids, ["sg-1", "sg-2"]);
    assert_eq!(status.instance_profile.as_deref(), Some("demo_profile"));
}

#[test]
fn missing_resource_keeps_node_class_from_being_ready() {
    let status = judged(
        json!({}),
        Discovered {
            subnets: Discovery::Found(Vec::new()),
            ..found()
        },
    );
    assert_eq!(
        condition(&status, "SubnetsReady"),
        (
            "False",
            "SubnetsNotFound",
            "SubnetSelector did not match any Subnets"
        )
    );
    assert_eq!(
        condition(&status, "ValidationSucceeded"),
        ("False", "DependenciesNotReady", "Awaiting SubnetsReady")
    );
    assert_eq!(condition(&status, "Ready").0, "False");
}

#[test]
fn missing_permission_is_reported_and_missing_answer_changes_nothing() {
    let denied = Discovered {
        subnets: Discovery::Refused {
            reason: "Unauthorized",
            message: "ec2:DescribeSubnets was denied".into(),
        },
        ..found()
    };
    let status = judged(json!({}), denied);
    let expected = ("False", "Unauthorized", "ec2:DescribeSubnets was denied");
    assert_eq!(condition(&status, "SubnetsReady"), expected);

    let mut class = node_class(json!({ "status": null }));
    let settings = ProviderSettings::default();
    let now = "2026-08-22T12:00:00Z".parse().unwrap();
    class.status = Some(judged(json!({}), found()));
    let throttled = Discovered {
        subnets: Discovery::Unanswered {
            message: "throttled".into(),
        },
        ..found()
    };
    let known = StatusInput {
        cluster: &cluster(),
        settings: &settings,
        instance_types: &[],
    };
    let after = draft(&class, throttled, known, now);
    let warning = Warning {
        reason: "AwaitingReconciliation",
        message: "discovery failed, earlier results stay in use: subnetSelectorTerms: throttled"
            .to_owned(),
    };
    assert_eq!(after.warnings, [warning]);
    assert_eq!(Some(after.judged(Verdict::Passed)), class.status);
}

#[test]
fn invalid_spec_fails_validation_with_a_reason() {
    for (spec, reason, part) in [
        (
            json!({ "tags": { "karpenter.sh/nodeclaim": "x" } }),
            "TagValidationFailed",
            "karpenter.sh/nodeclaim",
        ),
        (
            json!({ "kubelet": { "maxPods": -1 } }),
            "InvalidKubeletConfiguration",
            "spec.kubelet.maxPods",
        ),
        (
            json!({ "kubelet": { "maxPods": "vcpus * 8" } }),
            "KubeletExpressionsDisabled",
            "NodeClassCEL",
        ),
        (
            json!({ "amiFamily": "Bottlerocket", "kubelet": { "podPidsLimit": 1 },
                    "amiSelectorTerms": [{ "alias": "bottlerocket@latest" }] }),
            "UnsupportedKubeletConfiguration",
            "podPidsLimit",
        ),
        (
            json!({ "subnetSelectorTerms": [{ "tags": {} }] }),
            "InvalidSpec",
            "spec.subnetSelectorTerms[0]",
        ),
    ] {
        let status = judged(spec, found());
        let (value, got, message) = condition(&status, "ValidationSucceeded");
        assert_eq!((value, got), ("False", reason), "{message}");
        assert!(message.contains(part), "{message}");
    }
}

#[test]
fn first_of_several_errors_is_reported_in_karpenters_order() {
    let mut annotations = json!({ "karpenter.k8s.aws/nvidia-consumable-capacity": "half" });
    let mut spec = json!({
        "kubelet": { "maxPods": -1, "clusterDNS": ["10.0.0.10", "10.0.0.11"], "evictionHard": { "memory.available": "many" } },
        "amiFamily": "Bottlerocket",
        "amiSelectorTerms": [{ "alias": "bottlerocket@latest" }],
        "tags": { "karpenter.sh/nodeclaim": "x" },
    });
    let no_subnets = Discovered {
        subnets: Discovery::Found(Vec::new()),
        ..found()
    };
    let now = "2026-08-22T12:00:00Z".parse().unwrap();
    let settings = ProviderSettings::default();
    let judged = |spec: &Value, annotations: &Value, discovered| {
        let metadata = json!({ "annotations": annotations });
        let class = node_class(json!({ "metadata": metadata, "spec": spec, "status": null }));
        let status = status(&class, discovered, &cluster(), &settings, now);
        condition(&status, "ValidationSucceeded").1.to_owned()
    };
    let is = |spec: &Value, annotations: &Value, reason: &str| {
        assert_eq!(judged(spec, annotations, no_subnets.clone()), reason);
    };
    is(&spec, &annotations, "InvalidKubeletConfiguration");
    spec["kubelet"] = json!({ "maxPods": "vcpus * 8", "clusterDNS": ["10.0.0.10", "10.0.0.11"] });
    is(&spec, &annotations, "KubeletExpressionsDisabled");
    spec["kubelet"] = json!({ "clusterDNS": ["10.0.0.10", "10.0.0.11"] });
    is(&spec, &annotations, "UnsupportedKubeletConfiguration");
    spec["kubelet"] = json!({});
    is(&spec, &annotations, "NVIDIAConsumableCapacityInvalid");
    annotations = json!({ "karpenter.k8s.aws/nvidia-consumable-capacity": "4" });
    is(&spec, &annotations, "DRADisabled");
    is(&spec, &json!({}), "DependenciesNotReady");
    assert_eq!(judged(&spec, &json!({}), found()), "TagValidationFailed");
}

#[test]
fn gpu_sharing_needs_a_valid_mode_and_its_gate() {
    let judged = |value: &str, nvidia_gpu: bool| {
        let annotations = json!({ "karpenter.k8s.aws/nvidia-consumable-capacity": value });
        let class = node_class(json!({ "metadata": { "annotations": annotations } }));
        let devices = DeviceSettings {
            claims: true,
            nvidia_gpu,
            efa: false,
        };
        let settings = ProviderSettings {
            devices,
            ..ProviderSettings::default()
        };
        let now = "2026-08-22T12:00:00Z".parse().unwrap();
        let status = status(&class, found(), &cluster(), &settings, now);
        let (value, reason, _) = condition(&status, "ValidationSucceeded");
        (value == "True")
            .then(String::new)
            .unwrap_or(reason.to_owned())
    };
    for sharing in ["4", "1", "memory", "unlimited"] {
        assert_eq!(judged(sharing, true), "", "{sharing}");
        assert_eq!(judged(sharing, false), "DRADisabled", "{sharing}");
    }
    for none in ["", "disabled"] {
        assert_eq!([true, false].map(|gate| judged(none, gate)), ["", ""]);
    }
    for wrong in ["0", "half", "-1", "+4", "4.0", "Memory"] {
        let expected = "NVIDIAConsumableCapacityInvalid";
        assert_eq!(judged(wrong, true), expected, "{wrong}");
        assert_eq!(judged(wrong, false), expected, "{wrong}");
    }
}

#[test]
fn placement_group_must_exist_but_reservations_may_be_exhausted() {
    let spec = json!({
        "capacityReservationSelectorTerms": [{ "id": "cr-1" }],
        "placementGroupSelector": { "name": "p" },
    });
    let status = judged(spec.clone(), found());
    assert_eq!(condition(&status, "CapacityReservationsReady").0, "True");
    let expected = (
        "False",
        "PlacementGroupNotFound",
        "Placement group \"p\" not found",
    );
    assert_eq!(condition(&status, "PlacementGroupReady"), expected);
    assert_eq!(condition(&status, "Ready").0, "False");

    let group = Discovery::Found(Some(PlacementGroupFact::default()));
    let with_group = Discovered {
        placement_group: group,
        ..found()
    };
    let status = judged(spec, with_group);
    assert_eq!(condition(&status, "PlacementGroupReady").0, "True");
}

#[test]
fn ended_and_unknown_reservations_are_left_out() {
    let now: Timestamp = "2026-08-22T12:00:00Z".parse().unwrap();
    let fact = |id: &str, kind: &str, criteria: &str, minutes: Option<i64>| ReservationFact {
        capacity_reservation_id: id.into(),
        reservation_type: kind.into(),
        instance_match_criteria: criteria.into(),
        end_date: minutes.map(|minutes| now + SignedDuration::from_mins(minutes)),
        ..ReservationFact::default()
    };
    let found = reservations(
        &[
            fact("cr-5", "capacity-block", "targeted", Some(39)),
            fact("cr-4", "capacity-block", "targeted", Some(41)),
            fact("cr-3", "", "open", None),
            fact("cr-2", "default", "open", Some(0)),
            fact("cr-1", "default", "whoever-comes", None),
            fact("cr-0", "of-another-kind", "open", None),
            fact("cr-3", "", "open", None),
        ],
        now,
    );
    let states: Vec<_> = found
        .iter()
        .map(|r| (r.id.as_str(), r.state.as_str()))
        .collect();
    let expected = [("cr-3", "active"), ("cr-4", "active"), ("cr-5", "expiring")];
    assert_eq!(states, expected);
    let look = |reservations| next_look("CapacityReservationsReady", true, reservations, now);
    assert_eq!(look(&found), Some(SignedDuration::from_mins(1)));
    let ending = reservations(
        &[fact("cr-6", "", "open", Some(0))],
        now - SignedDuration::from_secs(20),
    );
    assert_eq!(
        next_look(
            "CapacityReservationsReady",
            true,
            &ending,
            now - SignedDuration::from_secs(20)
        ),
        Some(SignedDuration::from_secs(20)),
        "when it ends"
    );
}

#[test]
fn reservation_queries_ask_for_active_ones() {
    let class = node_class(json!({ "spec": { "capacityReservationSelectorTerms": [
        { "id": "cr-2" }, { "id": "cr-1" }, { "ownerID": "111122223333", "tags": { "team": "*" } }, { "tags": {} },
    ]}}));
    let terms = class.spec.capacity_reservation_selector_terms.unwrap();
    let queries = reservation_queries(&terms);
    let state = ("state".to_owned(), vec!["active".to_owned()]);
    assert_eq!(
        queries.len(),
        2,
        "empty tags select nothing, not everything"
    );
    assert_eq!(queries[0].ids, ["cr-2", "cr-1"]);
    assert_eq!(queries[0].filters, std::slice::from_ref(&state));
    let named: Vec<_> = queries[1]
        .filters
        .iter()
        .map(|(name, _)| name.as_str())
        .collect();
    assert_eq!(named, ["tag-key", "owner-id", "state"]);
}

#[test]
fn terms_are_ored_and_tags_within_a_term_are_anded() {
    let text = |queries: Vec<Filters>| -> Vec<String> {
        let filter =
            |(name, values): &(String, Vec<String>)| format!("{name}={}", values.join(","));
        queries
            .iter()
            .map(|query| query.iter().map(filter).collect::<Vec<_>>().join(" "))
            .collect()
    };
    let class = node_class(json!({ "spec": {
        "subnetSelectorTerms": [
            { "id": "subnet-2" }, { "tags": { "a": "1", "b": "*" } }, { "id": "subnet-1" }, { "tags": {} },
        ],
        "securityGroupSelectorTerms": [{ "name": "node" }, { "id": "sg-1" }, { "name": "db" }],
    }}));
    assert_eq!(
        text(subnet_queries(&class.spec.subnet_selector_terms)),
        ["subnet-id=subnet-1,subnet-2", "tag:a=1 tag-key=b"],
        "empty tags select nothing, not everything"
    );
    assert_eq!(
        text(security_group_queries(
            &class.spec.security_group_selector_terms
        )),
        ["group-id=sg-1", "group-name=db,node"]
    );
}
