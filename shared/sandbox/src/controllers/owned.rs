use serde_json::{Value, json};

use crate::{digest::digest, json, store::Object};

const HASH_LETTERS: &[u8; 16] = b"bcdfghjklmnpqrst";
const HASH_LENGTH: usize = 10;

/// Hash of a pod template, the value of `pod-template-hash`.
pub(super) fn template_hash(template: &Value) -> String {
    let mut rest = digest(&[&template.to_string()]);
    (0..HASH_LENGTH)
        .filter_map(|_| {
            let letter = HASH_LETTERS.get(usize::try_from(rest & 15).unwrap_or_default());
            rest >>= 4;
            letter.copied().map(char::from)
        })
        .collect()
}

/// Owner reference that marks an object as controlled by `owner`.
pub(super) fn controller_reference(owner: &Object) -> Value {
    json!({
        "apiVersion": json::at(owner.value(), &["apiVersion"]),
        "kind": owner.kind(),
        "name": owner.name(),
        "uid": owner.uid(),
        "controller": true,
        "blockOwnerDeletion": true,
    })
}

/// Returns whether `owner` controls the object.
pub(super) fn is_controlled_by(object: &Object, owner: &Object) -> bool {
    json::items(object.value(), &["metadata", "ownerReferences"])
        .iter()
        .any(|reference| {
            json::flag(reference, &["controller"]) && json::text(reference, &["uid"]) == owner.uid()
        })
}

/// Pod made from a template and owned by its controller.
pub(super) fn pod_from_template(owner: &Object, template: &Value) -> Value {
    let mut pod = json!({
        "metadata": {
            "generateName": format!("{}-", owner.name()),
            "ownerReferences": [controller_reference(owner)],
        },
        "spec": json::at(template, &["spec"]),
    });
    for field in ["labels", "annotations", "finalizers"] {
        json::copy(template, &mut pod, &["metadata", field]);
    }
    pod
}

/// Returns whether a pod counts as a replica of its workload.
pub(super) fn is_active(pod: &Object) -> bool {
    !pod.is_terminating() && !is_finished(pod)
}

pub(super) fn is_finished(pod: &Object) -> bool {
    matches!(phase(pod), "Succeeded" | "Failed")
}

pub(super) fn phase(pod: &Object) -> &str {
    json::text(pod.value(), &["status", "phase"])
}

pub(super) fn node_name(pod: &Object) -> &str {
    json::text(pod.value(), &["spec", "nodeName"])
}

/// Integer or percentage of a total, as in `maxSurge` and `minAvailable`.
pub(super) fn share(value: &Value, total: i64, rounding: Rounding) -> Option<i64> {
    if let Some(number) = value.as_i64() {
        return Some(number);
    }
    let percent: i64 = value.as_str()?.strip_suffix('%')?.parse().ok()?;
    let hundredfold = percent.saturating_mul(total);
    Some(match rounding {
        Rounding::Up => -(-hundredfold).div_euclid(100),
        Rounding::Down => hundredfold.div_euclid(100),
    })
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Rounding {
    Up,
    Down,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_integers_or_percentages() {
        assert_eq!(share(&json!(2), 10, Rounding::Up), Some(2));
        assert_eq!(share(&json!("25%"), 10, Rounding::Up), Some(3));
        assert_eq!(share(&json!("25%"), 10, Rounding::Down), Some(2));
        assert_eq!(share(&json!("many"), 10, Rounding::Down), None);
    }
}
