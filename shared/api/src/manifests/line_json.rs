//! JSON with one value to a line, so that the line of a decoding error tells the field.
//!
//! Wrapping the deserializer of every type to track paths would make the compiler instantiate all types once more for each
//! kind of input; this way files share the code that reads API lists.

use serde_json::Value;

use super::tree::{Node, Tree};

/// A value as JSON, with what stands on each of its lines.
#[derive(Default)]
pub(super) struct Spread {
    json: String,
    fields: Vec<Field>,
}

/// Where a value stands.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Field {
    /// `spec.requirements[0].key`; empty for the whole.
    pub(super) path: String,
    /// The line of the document.
    pub(super) line: usize,
}

impl Spread {
    pub(super) fn new(tree: &Tree) -> Self {
        let mut spread = Self::default();
        spread.value(tree, "");
        spread
    }

    pub(super) fn json(&self) -> &str {
        &self.json
    }

    /// The value whose reading failed with this error.
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
        let spread = Spread::new(&Tree::from_value(value.clone()));
        assert_eq!(serde_json::from_str::<Value>(spread.json()).unwrap(), value);
        let paths: Vec<_> = spread
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
        assert_eq!(spread.json().lines().count(), paths.len());
    }
}
