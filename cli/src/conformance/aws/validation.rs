//! Whether launches through an EC2NodeClass can work, as its condition says.

use anyhow::{Context, Result};
use api::{EC2NodeClass, conditions::types::VALIDATION_SUCCEEDED};
use aws_rules::node_class::{is_final, next_look, status};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{account::node_class, selectors::nothing, settings::CaseSettings};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Case {
    #[serde(deserialize_with = "node_class")]
    node_class: EC2NodeClass,
    settings: CaseSettings,
}

pub(super) fn decide(case: Case) -> Result<Value> {
    let class = case.node_class;
    let (cluster, provider) = (case.settings.cluster()?, case.settings.provider()?);
    // Nothing here depends on the time.
    let now = Timestamp::UNIX_EPOCH;
    let status = status(&class, nothing(), &cluster, &provider, now);
    let conditions = status.conditions.iter().flatten();
    let condition = conditions
        .into_iter()
        .find(|condition| condition.r#type == VALIDATION_SUCCEEDED)
        .context("the status has no condition ValidationSucceeded")?;
    let is_final = is_final(&condition.reason);
    let again = next_look(VALIDATION_SUCCEEDED, false, &[], now).filter(|_| !is_final);
    // Upstream reports what is final as an error, all but this.
    let is_error = is_final && condition.reason != "InvalidKubeletConfiguration";
    let step = json!({
        "condition": {
            "status": condition.status,
            "reason": condition.reason,
            "message": condition.message,
        },
        "requeueAfterSeconds": again.map(|again| again.as_secs()),
        "error": is_error,
        "terminal": is_error,
        "calls": [],
    });
    Ok(json!({"steps": [step]}))
}
