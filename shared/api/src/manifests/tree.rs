//! Untyped content of a YAML document, with the line of every value.

use std::fmt;

use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_saphyr::Spanned;

/// A value and its first line in the document.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tree {
    pub(super) line: usize,
    pub(super) node: Node,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Node {
    Scalar(Value),
    Seq(Vec<Tree>),
    Map(Vec<(String, Tree)>),
}

impl Tree {
    pub(super) fn get(&self, name: &str) -> Option<&Tree> {
        let Node::Map(fields) = &self.node else {
            return None;
        };
        fields
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value)
    }

    pub(super) fn take(self, name: &str) -> Option<Tree> {
        let Node::Map(fields) = self.node else {
            return None;
        };
        fields
            .into_iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value)
    }

    /// Removes a field of a mapping such as `spec.requirements[0].key`. Returns whether it existed.
    pub(super) fn remove(&mut self, field: &str) -> bool {
        match &mut self.node {
            Node::Scalar(_) => false,
            Node::Seq(items) => {
                let Some((number, rest)) = field
                    .strip_prefix('[')
                    .and_then(|field| field.split_once(']'))
                else {
                    return false;
                };
                let Some(number) = number.parse::<usize>().ok().filter(|at| *at < items.len())
                else {
                    return false;
                };
                let rest = rest.strip_prefix('.').unwrap_or(rest);
                items.get_mut(number).is_some_and(|item| item.remove(rest))
            }
            Node::Map(fields) => {
                if let Some(at) = fields.iter().position(|(key, _)| key == field) {
                    fields.remove(at);
                    return true;
                }
                fields.iter_mut().any(|(key, value)| {
                    let rest = field.strip_prefix(key.as_str());
                    rest.is_some_and(|rest| match rest.strip_prefix('.') {
                        Some(rest) => value.remove(rest),
                        None => rest.starts_with('[') && value.remove(rest),
                    })
                })
            }
        }
    }

    pub(super) fn is_null(&self) -> bool {
        self.node == Node::Scalar(Value::Null)
    }

    /// The tree of a value without line numbers.
    pub(super) fn from_value(value: Value) -> Self {
        let node = match value {
            Value::Array(items) => Node::Seq(items.into_iter().map(Self::from_value).collect()),
            Value::Object(fields) => Node::Map(
                fields
                    .into_iter()
                    .map(|(name, value)| (name, Self::from_value(value)))
                    .collect(),
            ),
            scalar @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) => {
                Node::Scalar(scalar)
            }
        };
        Self { line: 1, node }
    }
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Spanned {
            value: node,
            referenced,
            ..
        } = Spanned::deserialize(deserializer)?;
        Ok(Self {
            line: usize::try_from(referenced.line())
                .unwrap_or(usize::MAX)
                .max(1),
            node,
        })
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Scalar(Value::Null))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Node, E> {
        Ok(Node::Scalar(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Node, E> {
        Ok(Node::Scalar(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Node, E> {
        Ok(Node::Scalar(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Node, E> {
        Ok(Node::Scalar(value.into()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Node, E> {
        Ok(Node::Scalar(value.into()))
    }

    fn visit_string<E>(self, value: String) -> Result<Node, E> {
        Ok(Node::Scalar(value.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Node, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = access.next_element()? {
            items.push(item);
        }
        Ok(Node::Seq(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Node, A::Error> {
        let mut fields = Vec::new();
        while let Some(field) = access.next_entry()? {
            fields.push(field);
        }
        Ok(Node::Map(fields))
    }
}
