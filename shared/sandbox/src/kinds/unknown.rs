use serde_json::Value;

/// Paths of the fields that a value has and its decoded form lacks: fields unknown to the kind. Nulls are ignored.
pub(super) fn fields(given: &Value, decoded: &Value) -> Vec<String> {
    let mut unknown = Vec::new();
    collect(given, decoded, "", &mut unknown);
    unknown.sort();
    unknown
}

fn collect(given: &Value, decoded: &Value, path: &str, unknown: &mut Vec<String>) {
    if let (Some(given), Some(decoded)) = (given.as_object(), decoded.as_object()) {
        for (name, value) in given {
            let path = if path.is_empty() {
                name.clone()
            } else {
                format!("{path}.{name}")
            };
            match decoded.get(name) {
                Some(decoded) => collect(value, decoded, &path, unknown),
                None if value.is_null() => {}
                None => unknown.push(path),
            }
        }
    } else if let (Some(given), Some(decoded)) = (given.as_array(), decoded.as_array()) {
        for (index, (given, decoded)) in given.iter().zip(decoded).enumerate() {
            collect(given, decoded, &format!("{path}[{index}]"), unknown);
        }
    }
}

/// Decoded form of exactly the given fields, without the defaults that decoding added.
pub(super) fn restrict(given: &Value, decoded: &Value) -> Value {
    match (given, decoded) {
        (Value::Object(given), Value::Object(decoded)) => given
            .iter()
            .filter_map(|(name, given)| Some((name.clone(), restrict(given, decoded.get(name)?))))
            .collect::<serde_json::Map<_, _>>()
            .into(),
        (Value::Array(given), Value::Array(decoded)) => given
            .iter()
            .zip(decoded)
            .map(|(given, decoded)| restrict(given, decoded))
            .collect(),
        (
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::String(_)
            | Value::Array(_)
            | Value::Object(_),
            _,
        ) => decoded.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::{fields, restrict};
    use serde_json::json;

    #[test]
    fn unknown_fields_are_reported_by_path() {
        let given =
            json!({"spec": {"containers": [{"name": "a", "imge": "b", "env": null}], "x": 1}});
        let decoded = json!({"spec": {"containers": [{"name": "a"}]}});
        assert_eq!(
            fields(&given, &decoded),
            ["spec.containers[0].imge", "spec.x"]
        );
    }

    #[test]
    fn partial_object_stays_partial() {
        let given = json!({"spec": {"containers": [{"cpu": 1}]}});
        let decoded = json!({"spec": {"containers": [{"cpu": "1", "name": ""}], "selector": {}}});
        assert_eq!(
            restrict(&given, &decoded),
            json!({"spec": {"containers": [{"cpu": "1"}]}})
        );
    }
}
