use api::{ConditionStatus, EC2NodeClass, conditions::types::READY};

/// Returns why a NodeClass cannot be used now, if so.
pub fn readiness(class: &EC2NodeClass) -> Result<(), String> {
    let name = &class.metadata.name;
    let conditions = class
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_deref());
    match conditions
        .unwrap_or_default()
        .iter()
        .find(|condition| condition.r#type == READY)
    {
        Some(ready) if ready.status == ConditionStatus::True => Ok(()),
        Some(ready) => Err(format!(
            "EC2NodeClass {name} is not ready: {}",
            ready.message
        )),
        None => Err(format!("EC2NodeClass {name} has not been resolved yet")),
    }
}
