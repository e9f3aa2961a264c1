use jiff::Timestamp;
use model::{InstanceId, launch::InstanceState};
use serde_json::{Value, json};

use crate::{digest::digest, server::rfc3339};

/// Number of the simulated account.
pub const ACCOUNT: &str = "111122223333";

pub(super) fn spot_interruption(region: &str, id: &InstanceId, now: Timestamp) -> Value {
    let detail = json!({"instance-id": id.as_str(), "instance-action": "terminate"});
    event(
        region,
        "EC2 Spot Instance Interruption Warning",
        id,
        detail,
        now,
    )
}

pub(super) fn rebalance(region: &str, id: &InstanceId, now: Timestamp) -> Value {
    let detail = json!({"instance-id": id.as_str()});
    event(
        region,
        "EC2 Instance Rebalance Recommendation",
        id,
        detail,
        now,
    )
}

pub(super) fn state_change(
    region: &str,
    id: &InstanceId,
    state: InstanceState,
    now: Timestamp,
) -> Value {
    let detail = json!({"instance-id": id.as_str(), "state": state});
    event(
        region,
        "EC2 Instance State-change Notification",
        id,
        detail,
        now,
    )
}

/// Event in the form in which EventBridge delivers it.
fn event(region: &str, detail_type: &str, id: &InstanceId, detail: Value, now: Timestamp) -> Value {
    let time = rfc3339(now);
    let number = digest(&[detail_type, id.as_str(), &detail.to_string(), &time]);
    json!({
        "version": "0",
        "id": format!("{number:016x}"),
        "detail-type": detail_type,
        "source": "aws.ec2",
        "account": ACCOUNT,
        "time": time,
        "region": region,
        "resources": [format!("arn:aws:ec2:{region}:{ACCOUNT}:instance/{id}")],
        "detail": detail,
    })
}
