//! JSON with one value per line, so that the line of a deserialization error identifies the field.
//!
//! Tracking paths by wrapping every type's deserializer would make the compiler instantiate all types once more for
//! each kind of input. Files share the code that reads API lists instead.

use serde_json::Value;

use super::tree::{Node, Tree};

/// A value as JSON, with the field on each line.
#[derive(Default)]
pub(super) struct LineJson {
    json: String,
    fields: Vec<Field>,
}

/// Position of a value.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Field {
    /// `spec.requirements[0].key`; empty for the root.
    pub(super) path: String,
    /// Line in the document.
    pub(super) line: usize,
}

impl LineJson {
    pub(super) fn new(tree: &Tree) -> Self {
        let mut line_json = Self::default();
        line_json.value(tree, "");
        line_json
    }

    pub(super) fn json(&self) -> &str {
        &self.json
    }

    /// The value whose deserialization failed with this error.
    pub(super) fn field_of(&self, error: &serde_json::Error) -> Option<&Field> {
        self.fields.get(error.line().checked_sub(1)?)
    }

    fn value(&mut self, tree: &Tree, path: &str) {
        match &tree.node {
            Node::Scalar(scalar) => {
                self.json.push_str(&scalar.to_string());
                self.end_line(tree, path);
            }
            Node::Seq(items) => {
                self.json.push('[');
                self.end_line(tree, path);
                for (index, item) in items.iter().enumerate() {
                    self.separate(index);
                    self.value(item, &format!("{path}[{index}]"));
                }
                self.json.push(']');
                self.end_line(tree, path);
            }
            Node::Map(fields) => {
                self.json.push('{');
                self.end_line(tree, path);
                for (index, (name, value)) in fields.iter().enumerate() {
                    self.separate(index);
                    self.json.push_str(&Value::from(name.as_str()).to_string());
                    self.json.push(':');
                    let dot = if path.is_empty() { "" } else { "." };
                    self.value(value, &format!("{path}{dot}{name}"));
                }
                self.json.push('}');
                self.end_line(tree, path);
            }
        }
    }

    fn separate(&mut self, index: usize) {
        if index > 0 {
            self.json.push(',');
        }
    }

    fn end_line(&mut self, tree: &Tree, path: &str) {
        self.json.push('\n');
        self.fields.push(Field {
            path: path.to_owned(),
            line: tree.line,
        });
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_value_has_its_line() {
        let value = json!({ "a": [1, { "b c": "x\ny" }], "d": {}, "e": null });
        let line_json = LineJson::new(&Tree::from_value(value.clone()));
        assert_eq!(
            serde_json::from_str::<Value>(line_json.json()).unwrap(),
            value
        );
        let paths: Vec<_> = line_json
            .fields
            .iter()
            .map(|field| field.path.as_str())
            .collect();
        assert_eq!(
            paths,
            [
                "", "a", "a[0]", "a[1]", "a[1].b c", "a[1]", "a", "d", "d", "e", ""
            ]
        );
        assert_eq!(line_json.json().lines().count(), paths.len());
    }
}
