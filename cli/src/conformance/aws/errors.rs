//! Meaning of EC2's error codes, and the effect of a launch of one offering that fails with them.

use anyhow::Result;
use aws_rules::{
    errors::{self, launch_failure},
    instance_types::Unavailable,
    launch::{NO_SPOT_ROLE, observations, refusal},
};
use model::{
    CapacityType,
    launch::{
        FleetOverride, FleetRequest, FleetResponse, LaunchTemplate, OfferingFailure,
        ReservationKind, ReservationUse, TemplateOverrides,
    },
};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::launch::{after, error, warned};

/// An entry of `codes`, or one of `reasonByText`.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum Case {
    Code {
        code: String,
        #[serde(default)]
        message: String,
    },
    Text {
        text: String,
    },
}

const RESERVATION: (&str, u32) = ("cr-1", 3);

pub(super) fn decide(case: Case) -> Result<Value> {
    let (code, message) = match case {
        Case::Text { text } => return Ok(json!({"reason": launch_failure(&text).reason})),
        Case::Code { code, message } => (code, message),
    };
    let text = format!("{code}: {message}");
    let reason = launch_failure(&text).reason;
    let kinds = [
        CapacityType::OnDemand,
        CapacityType::Spot,
        CapacityType::Reserved,
    ];
    let as_fleet_error: Map<_, _> = kinds
        .into_iter()
        .map(|kind| (kind.as_str().to_owned(), fleet_error(kind, &code, &message)))
        .collect();
    let is_repeated = code == errors::TEMPLATE_NOT_FOUND;
    Ok(json!({
        "reason": reason,
        "class": predicates(&code),
        "asFleetError": as_fleet_error,
        "asCreateFleetCallError": {
            "error": {"class": "CreateError", "reason": reason},
            "after": {"ice": []},
            "createFleetCalls": if is_repeated { 2 } else { 1 },
        },
    }))
}

fn predicates(code: &str) -> Value {
    json!({
        "alreadyExists": errors::ALREADY_EXISTS.contains(&code),
        "dryRun": code == errors::DRY_RUN,
        "insufficientFreeAddresses": code == errors::NO_FREE_ADDRESSES,
        "launchTemplateNotFound": code == errors::TEMPLATE_NOT_FOUND,
        "notFound": errors::NOT_FOUND.contains(&code),
        "rateLimited": code == errors::REQUEST_LIMIT_EXCEEDED,
        "reservationCapacityExceeded": code == errors::RESERVATION_EXCEEDED,
        "serviceLinkedRole": code == errors::SERVICE_LINKED_ROLE,
        "unauthorized": code == errors::UNAUTHORIZED,
        "unfulfillableCapacity": errors::is_capacity(code),
    })
}

fn fleet_error(kind: CapacityType, code: &str, message: &str) -> Value {
    let choice = FleetOverride {
        instance_type: "m5.large".to_owned(),
        zone: "us-east-1a".to_owned(),
        subnet: Some("subnet-a".to_owned()),
        image: String::new(),
        priority: 0,
    };
    let failure = OfferingFailure {
        instance_type: choice.instance_type.clone(),
        zone: choice.zone.clone(),
        subnet: choice.subnet.clone(),
        code: code.to_owned(),
        message: message.to_owned(),
    };
    let reservation = match kind {
        CapacityType::Reserved => ReservationUse::Only {
            id: RESERVATION.0.to_owned(),
            kind: ReservationKind::Default,
        },
        CapacityType::Spot | CapacityType::OnDemand => ReservationUse::None,
    };
    let request = FleetRequest {
        cluster: Default::default(),
        token: Default::default(),
        node_class: Default::default(),
        capacity_type: kind,
        target_capacity: 1,
        allocation: None,
        context: None,
        templates: vec![TemplateOverrides {
            template: LaunchTemplate {
                reservation,
                ..LaunchTemplate::default()
            },
            overrides: vec![choice],
        }],
        tags: Default::default(),
        claim_annotations: Default::default(),
    };
    let answer = FleetResponse {
        instances: Vec::new(),
        failures: vec![failure],
    };
    let mut unavailable = Unavailable::default();
    unavailable
        .reservations
        .insert(RESERVATION.0.to_owned(), RESERVATION.1);
    let observations = observations(&request, &answer, str::to_owned);
    let lacks_spot_role = observations.no_spot_role;
    unavailable.add_observations(observations);
    let class = api::EC2NodeClass {
        metadata: Default::default(),
        spec: Default::default(),
        status: None,
    };
    let mut after = after(&unavailable, &class);
    if lacks_spot_role {
        after.insert("eventCounts".to_owned(), warned(&NO_SPOT_ROLE));
    }
    json!({"error": error(&refusal(&answer.failures)), "after": after})
}
