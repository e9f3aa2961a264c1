use serde_json::Value;

use super::{Additional, Schema};

impl Schema {
    /// Drops nulls where the schema allows none, then sets defaults.
    pub fn apply_defaults(&self, value: &mut Value) {
        if let Some(items) = value.as_array_mut() {
            if let Some(schema) = &self.items {
                for item in items {
                    schema.apply_defaults(item);
                }
            }
        } else if let Some(fields) = value.as_object_mut() {
            fields.retain(|name, field| {
                !field.is_null()
                    || match (self.properties.get(name), &self.additional) {
                        (Some(schema), _) => schema.nullable,
                        (None, Additional::Each(schema)) => schema.nullable,
                        (None, Additional::None | Additional::Any) => true,
                    }
            });
            for (name, schema) in &self.properties {
                if let (None, Some(default)) = (fields.get(name), &schema.default) {
                    fields.insert(name.clone(), default.clone());
                }
                if let Some(field) = fields.get_mut(name) {
                    schema.apply_defaults(field);
                }
            }
            if let Additional::Each(schema) = &self.additional {
                for (name, field) in fields.iter_mut() {
                    if !self.properties.contains_key(name) {
                        schema.apply_defaults(field);
                    }
                }
            }
        }
    }
}
