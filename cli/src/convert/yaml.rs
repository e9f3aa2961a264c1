//! Objects as YAML: `apiVersion`, `kind`, `metadata` and `spec` first, other keys in source order or sorted, comments above their fields.

use std::{collections::BTreeMap, fmt::Write};

use serde_json::{Map, Value};

use super::{layout::Layout, pointer::escaped};

const FIRST: [&str; 4] = ["apiVersion", "kind", "metadata", "spec"];

/// Renders an object. `layout` belongs to the text that the object was read from.
pub(super) fn text(
    object: &Value,
    comments: &BTreeMap<String, Vec<String>>,
    layout: &Layout,
) -> String {
    let mut writer = Writer {
        comments,
        layout,
        text: String::new(),
    };
    writer.comment("", 0);
    writer.fields(object, "", 0);
    for comment in layout.last() {
        let _ = writeln!(writer.text, "{comment}");
    }
    writer.text
}

/// Renders an object without comments.
pub(crate) fn plain(object: &Value) -> String {
    text(object, &BTreeMap::new(), &Layout::default())
}

struct Writer<'a> {
    comments: &'a BTreeMap<String, Vec<String>>,
    layout: &'a Layout,
    text: String,
}

impl Writer<'_> {
    /// Writes the comments of a field. A comment may quote line breaks, which would end it.
    fn comment(&mut self, field: &str, depth: usize) {
        for comment in self.layout.comments(field) {
            let _ = writeln!(self.text, "{:depth$}{comment}", "");
        }
        let is_plain = |c: char| c == ' ' || !(c.is_control() || c.is_whitespace());
        for comment in self.comments.get(field).into_iter().flatten() {
            let comment = comment.replace(|c| !is_plain(c), " ");
            let _ = writeln!(self.text, "{:depth$}# whittle: {comment}", "");
        }
    }

    /// Keys in source order; new keys follow, sorted.
    fn keys<'m>(&self, map: &'m Map<String, Value>, at: &str) -> Vec<&'m String> {
        let mut keys: Vec<&String> = map.keys().collect();
        let rank = |key: &str| {
            let first = FIRST
                .iter()
                .position(|first| at.is_empty() && *first == key);
            first.unwrap_or(FIRST.len())
        };
        keys.sort_by_cached_key(|key| {
            let position = self.layout.position(&format!("{at}/{}", escaped(key)));
            (rank(key), position, (*key).clone())
        });
        keys
    }

    fn fields(&mut self, object: &Value, at: &str, depth: usize) {
        let Value::Object(map) = object else {
            let _ = writeln!(self.text, "{:depth$}{}", "", scalar(object));
            return;
        };
        for (number, key) in self.keys(map, at).into_iter().enumerate() {
            let field = format!("{at}/{}", escaped(key));
            if number > 0 || !self.text.ends_with("- ") {
                self.comment(&field, depth);
                let _ = write!(self.text, "{:depth$}", "");
            }
            let _ = write!(self.text, "{}:", plain_or_quoted(key));
            self.value(map.get(key).unwrap_or(&Value::Null), &field, depth);
        }
    }

    /// Writes the text after a key and its colon.
    fn value(&mut self, value: &Value, field: &str, depth: usize) {
        match value {
            Value::Object(map) if !map.is_empty() => {
                self.text.push('\n');
                self.fields(value, field, depth + 2);
            }
            Value::Array(items) if !items.is_empty() => {
                self.text.push('\n');
                for (number, item) in items.iter().enumerate() {
                    self.item(item, &format!("{field}/{number}"), depth);
                }
            }
            Value::String(text) if is_block(text) => self.block(text, depth),
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::String(_)
            | Value::Array(_)
            | Value::Object(_) => {
                let _ = writeln!(self.text, " {}", scalar(value));
            }
        }
    }

    fn item(&mut self, item: &Value, field: &str, depth: usize) {
        self.comment(field, depth);
        // The first field stands on the item's own line, which has no room for a comment.
        if let Value::Object(map) = item
            && let Some(key) = self.keys(map, field).first()
        {
            self.comment(&format!("{field}/{}", escaped(key)), depth);
        }
        let _ = write!(self.text, "{:depth$}- ", "");
        match item {
            Value::Object(map) if !map.is_empty() => self.fields(item, field, depth + 2),
            Value::Array(_)
            | Value::Object(_)
            | Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::String(_) => {
                let _ = writeln!(self.text, "{}", scalar(item));
            }
        }
    }

    fn block(&mut self, text: &str, depth: usize) {
        self.text.push_str(if text.ends_with('\n') {
            " |\n"
        } else {
            " |-\n"
        });
        for line in text.trim_end_matches('\n').split('\n') {
            match line.is_empty() {
                true => self.text.push('\n'),
                false => {
                    let _ = writeln!(self.text, "{:1$}{line}", "", depth + 2);
                }
            }
        }
    }
}

/// Whether a text of several lines can be a block scalar verbatim.
fn is_block(text: &str) -> bool {
    let body = text.strip_suffix('\n').unwrap_or(text);
    body.contains('\n')
        && !body.ends_with('\n')
        && !body.starts_with([' ', '\n'])
        && !text.contains(|c: char| c.is_control() && c != '\n')
}

/// A value on one line: JSON is YAML.
fn scalar(value: &Value) -> String {
    match value {
        Value::String(text) => plain_or_quoted(text),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            value.to_string()
        }
    }
}

/// A text without quotes where every YAML parser reads it as this text.
fn plain_or_quoted(text: &str) -> String {
    // Booleans of YAML 1.1, which many programs still read.
    const WORDS: [&str; 8] = ["y", "n", "yes", "no", "on", "off", "true", "false"];
    let safe = |c: char| c.is_ascii_alphanumeric() || "-_./:@%+=*,() ".contains(c);
    let starts = text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '/' || c == '.');
    let plain = starts
        && text.chars().all(safe)
        && !text.contains(": ")
        && !text.ends_with([':', ' '])
        && !WORDS.contains(&text.to_ascii_lowercase().as_str())
        && serde_saphyr::from_str::<Value>(text).is_ok_and(|read| read == *text);
    match plain {
        true => text.to_owned(),
        false => Value::from(text).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn quoted_line_break_never_ends_a_comment() {
        let comments = [("/kind".to_owned(), vec!["was a\nspec: {}".to_owned()])];
        let object = json!({"kind": "NodePool"});
        let text = text(&object, &comments.into(), &Layout::default());
        let read: Value = serde_saphyr::from_str(&text).unwrap();
        assert_eq!(read, json!({"kind": "NodePool"}), "{text}");
    }
}
