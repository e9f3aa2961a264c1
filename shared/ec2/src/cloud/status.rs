//! Impaired instances (docs/spec/aws.md#instance-status).

use std::collections::BTreeMap;

use aws_rules::interruption::{
    EVENT_CODES, InstanceStatusFact, ScheduledEvent, StatusDetail, StatusSummary, impairments,
};
use aws_sdk_ec2::types::{InstanceStatus, InstanceStatusSummary, StatusType, SummaryStatus};
use jiff::Timestamp;
use model::Interruption;
use ports::CloudError;

use crate::{
    errors::refused,
    filters::{filter, timestamp},
};

/// EC2's largest page size of statuses.
const PAGE: i32 = 1000;

/// Reads impaired instances with three queries, because all filters of one query must hold together. Instances that several queries find
/// have the same description in each.
pub(super) async fn troubles(
    ec2: &aws_sdk_ec2::Client,
    now: Timestamp,
) -> Result<Vec<Interruption>, CloudError> {
    let questions = [
        filter("instance-status.status", ["impaired"]),
        filter("system-status.status", ["impaired"]),
        filter("event.code", EVENT_CODES),
    ];
    let mut found: BTreeMap<String, InstanceStatusFact> = BTreeMap::new();
    for question in questions {
        let call = ec2.describe_instance_status().filters(question);
        let mut pages = call.max_results(PAGE).into_paginator().send();
        while let Some(page) = pages.next().await {
            let page = page.map_err(refused("ec2:DescribeInstanceStatus"))?;
            let facts = page.instance_statuses.unwrap_or_default().into_iter();
            for fact in facts.filter_map(fact) {
                found.entry(fact.instance_id.clone()).or_insert(fact);
            }
        }
    }
    let troubles = found.values().flat_map(|fact| {
        let kinds = impairments(fact, now).into_iter();
        kinds.map(|kind| Interruption {
            instance: fact.instance_id.as_str().into(),
            kind,
            at: Some(now),
            deadline: None,
            hook: None,
            event: String::new(),
            reboots: false,
        })
    });
    Ok(troubles.collect())
}

fn fact(status: InstanceStatus) -> Option<InstanceStatusFact> {
    let events = status.events.unwrap_or_default().into_iter();
    let codes = events
        .filter(|event| !is_over(event.description.as_deref()))
        .filter_map(|event| event.code);
    Some(InstanceStatusFact {
        instance_id: status.instance_id?,
        instance_status: summary(status.instance_status),
        system_status: summary(status.system_status),
        events: codes
            .map(|code| ScheduledEvent {
                code: code.as_str().to_owned(),
            })
            .collect(),
    })
}

/// Whether a scheduled event is over. EC2 lists events for days after they have happened or were called off, and marks them only in the
/// description.
fn is_over(description: Option<&str>) -> bool {
    let text = description.unwrap_or_default();
    text.starts_with("[Completed]") || text.starts_with("[Canceled]")
}

fn summary(summary: Option<InstanceStatusSummary>) -> StatusSummary {
    let Some(summary) = summary else {
        return StatusSummary::default();
    };
    let details = summary.details.unwrap_or_default().into_iter();
    let text = |text: Option<&str>| text.unwrap_or_default().to_owned();
    StatusSummary {
        status: text(summary.status.as_ref().map(SummaryStatus::as_str)),
        details: details
            .map(|detail| StatusDetail {
                status: text(detail.status.as_ref().map(StatusType::as_str)),
                impaired_since: detail.impaired_since.as_ref().and_then(timestamp),
            })
            .collect(),
    }
}
