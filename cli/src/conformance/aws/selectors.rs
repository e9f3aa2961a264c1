//! Resources that the selectors of an EC2NodeClass find, and the resulting status.

use anyhow::{Context, Error, Result, bail};
use api::{
    EC2NodeClass,
    conditions::types::{
        CAPACITY_RESERVATIONS_READY, PLACEMENT_GROUP_READY, SECURITY_GROUPS_READY, SUBNETS_READY,
    },
    karpenter::{EC2NodeClassStatus, SecurityGroup},
};
use aws_rules::{
    node_class::{
        Discovered, Discovery, ReservationFact, SubnetFact, next_look, reservation_queries,
        reservations, security_group_queries, status, subnet_queries,
    },
    placement::PlacementGroupFact,
};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{account::node_class, describe::Account, object, settings::CaseSettings};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Case {
    #[serde(deserialize_with = "node_class")]
    node_class: EC2NodeClass,
    account: Account,
    now: Timestamp,
    settings: CaseSettings,
}

/// Discovery results before the first discovery: every resource is unanswered.
pub(super) fn nothing() -> Discovered {
    fn unanswered<T>() -> Discovery<T> {
        let message = "not looked at".to_owned();
        Discovery::Unanswered { message }
    }
    Discovered {
        subnets: unanswered(),
        security_groups: unanswered(),
        amis: unanswered(),
        instance_profile: unanswered(),
        capacity_reservations: unanswered(),
        placement_group: unanswered(),
    }
}

pub(super) fn decide(case: Case) -> Result<Value> {
    let Case {
        node_class: class,
        mut account,
        now,
        settings,
    } = case;
    let mut discovered = nothing();
    let mut failed = None;
    let condition = if account.has("subnets") {
        discovered.subnets = discovery(subnets(&class, &mut account), &mut failed);
        SUBNETS_READY
    } else if account.has("securityGroups") {
        discovered.security_groups = discovery(groups(&class, &mut account), &mut failed);
        SECURITY_GROUPS_READY
    } else if account.has("capacityReservations") {
        let found = capacity_reservations(&class, &mut account);
        let found = found.map(|facts| reservations(&facts, now));
        discovered.capacity_reservations = discovery(found, &mut failed);
        CAPACITY_RESERVATIONS_READY
    } else if account.has("placementGroups") {
        discovered.placement_group = match placement_group(&class, &mut account) {
            Ok(group) => Discovery::Found(group),
            Err(error) => {
                let message = error.to_string();
                failed = Some(error);
                Discovery::Refused {
                    reason: "PlacementGroupResolutionFailed",
                    message,
                }
            }
        };
        PLACEMENT_GROUP_READY
    } else {
        bail!("the account lists nothing that a selector could find");
    };
    let status = status(
        &class,
        discovered,
        &settings.cluster()?,
        &settings.provider()?,
        now,
    );
    let mut got = shown(&status, condition, now, failed.is_some())?;
    let has_groups = status
        .security_groups
        .as_ref()
        .is_some_and(|groups| !groups.is_empty());
    got.extend(object([
        ("subnets", json!(status.subnets)),
        (
            "securityGroups",
            json!(status.security_groups.filter(|_| has_groups)),
        ),
        ("capacityReservations", json!(status.capacity_reservations)),
        ("calls", json!(account.calls)),
        ("error", json!(failed.map(|error| error.to_string()))),
    ]));
    Ok(Value::Object(got))
}

pub(super) fn discovery<T>(answer: Result<T>, failed: &mut Option<Error>) -> Discovery<T> {
    match answer {
        Ok(found) => Discovery::Found(found),
        Err(error) => {
            let message = error.to_string();
            *failed = Some(error);
            Discovery::Unanswered { message }
        }
    }
}

/// One condition of a status, and the time until the next discovery.
pub(super) fn shown(
    status: &EC2NodeClassStatus,
    kind: &str,
    now: Timestamp,
    failed: bool,
) -> Result<Map<String, Value>> {
    let conditions = status.conditions.iter().flatten();
    let condition = conditions
        .into_iter()
        .find(|condition| condition.r#type == kind)
        .with_context(|| format!("the status has no condition {kind}"))?;
    let reservations = status.capacity_reservations.as_deref().unwrap_or_default();
    let found_any = condition.status == api::ConditionStatus::True;
    let again = next_look(kind, found_any, reservations, now).filter(|_| !failed);
    let shown = json!({
        "type": condition.r#type,
        "status": condition.status,
        "reason": condition.reason,
        "message": condition.message,
    });
    Ok(object([
        ("condition", shown),
        (
            "requeueAfterSeconds",
            json!(again.map(|again| again.as_secs())),
        ),
    ]))
}

fn page(size: i32) -> Map<String, Value> {
    Map::from_iter([("MaxResults".to_owned(), json!(size))])
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Subnet {
    subnet_id: String,
    availability_zone: String,
    availability_zone_id: Option<String>,
    available_ip_address_count: i64,
}

fn subnets(class: &EC2NodeClass, account: &mut Account) -> Result<Vec<SubnetFact>> {
    let mut found: Vec<SubnetFact> = Vec::new();
    for query in subnet_queries(&class.spec.subnet_selector_terms) {
        for subnet in account.describe::<Subnet>("DescribeSubnets", "subnets", &query, page(500))? {
            if found.iter().all(|known| known.id != subnet.subnet_id) {
                found.push(SubnetFact {
                    id: subnet.subnet_id,
                    zone: subnet.availability_zone,
                    zone_id: subnet.availability_zone_id,
                    free_addresses: subnet.available_ip_address_count,
                });
            }
        }
    }
    Ok(found)
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Group {
    group_id: String,
    group_name: Option<String>,
}

fn groups(class: &EC2NodeClass, account: &mut Account) -> Result<Vec<SecurityGroup>> {
    let mut found: Vec<SecurityGroup> = Vec::new();
    for query in security_group_queries(&class.spec.security_group_selector_terms) {
        let api = "DescribeSecurityGroups";
        for group in account.describe::<Group>(api, "securityGroups", &query, page(500))? {
            if found.iter().all(|known| known.id != group.group_id) {
                found.push(SecurityGroup {
                    id: group.group_id,
                    name: group.group_name,
                });
            }
        }
    }
    Ok(found)
}

fn capacity_reservations(
    class: &EC2NodeClass,
    account: &mut Account,
) -> Result<Vec<ReservationFact>> {
    let terms = class.spec.capacity_reservation_selector_terms.as_deref();
    let mut found = Vec::new();
    for query in reservation_queries(terms.unwrap_or_default()) {
        let members = match query.ids.as_slice() {
            [] => page(1000),
            ids => Map::from_iter([("CapacityReservationIds".to_owned(), json!(ids))]),
        };
        let (api, list) = ("DescribeCapacityReservations", "capacityReservations");
        found.extend(account.describe::<ReservationFact>(api, list, &query.filters, members)?);
    }
    Ok(found)
}

fn placement_group(
    class: &EC2NodeClass,
    account: &mut Account,
) -> Result<Option<PlacementGroupFact>> {
    let Some(selector) = &class.spec.placement_group_selector else {
        return Ok(None);
    };
    let named = [("GroupIds", &selector.id), ("GroupNames", &selector.name)];
    let members = named.into_iter().filter_map(|(member, value)| {
        let value = value.as_ref()?;
        Some((member.to_owned(), json!([value])))
    });
    let available = vec![("state".to_owned(), vec!["available".to_owned()])];
    let (api, list) = ("DescribePlacementGroups", "placementGroups");
    let groups = account.describe(api, list, &available, members.collect())?;
    Ok(groups.into_iter().next())
}
