use serde_json::Value;

use super::{Additional, Schema};

impl Schema {
    /// Drops the fields that the schema does not name; returns their paths, sorted.
    pub fn prune(&self, value: &mut Value) -> Vec<String> {
        let mut unknown = Vec::new();
        self.prune_at(value, "", true, &mut unknown);
        unknown.sort();
        unknown
    }

    fn prune_at(&self, value: &mut Value, path: &str, is_root: bool, unknown: &mut Vec<String>) {
        if let Some(items) = value.as_array_mut() {
            if let Some(schema) = &self.items {
                for (index, item) in items.iter_mut().enumerate() {
                    schema.prune_at(item, &format!("{path}[{index}]"), false, unknown);
                }
            }
        } else if let Some(fields) = value.as_object_mut() {
            let is_object = is_root || self.embedded_resource;
            fields.retain(|name, _| {
                let keep = self.properties.contains_key(name)
                    || self.is_map()
                    || self.preserve_unknown_fields
                    || is_object && matches!(name.as_str(), "apiVersion" | "kind" | "metadata");
                if !keep {
                    unknown.push(join(path, name));
                }
                keep
            });
            for (name, field) in fields.iter_mut() {
                let schema = match (self.properties.get(name), &self.additional) {
                    (Some(schema), _) => schema,
                    (None, Additional::Each(schema)) => schema,
                    (None, Additional::None | Additional::Any) => continue,
                };
                if !(is_root && name == "metadata") {
                    schema.prune_at(field, &join(path, name), false, unknown);
                }
            }
        }
    }
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() {
        name.to_owned()
    } else {
        format!("{path}.{name}")
    }
}
