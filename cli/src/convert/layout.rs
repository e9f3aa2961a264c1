//! Comments of an object and the order of its fields in the source text.

use std::collections::BTreeMap;

use serde_json::Value;

use super::pointer::escaped;

/// Comments and positions by JSON pointer, as in the text that an object was read from.
#[derive(Debug, Default)]
pub(super) struct Layout {
    positions: BTreeMap<String, usize>,
    /// Comment lines with their marks, by the field or item below them.
    comments: BTreeMap<String, Vec<String>>,
    /// Lines after the last field.
    last: Vec<String>,
}

impl Layout {
    /// The layout of `text`, parsed as `before`, applied to the converted object: comments of a moved field follow it; where its new place
    /// is uncertain, they stand above the object.
    pub(super) fn of(text: &str, before: &Value, after: &Value) -> Self {
        let fields = api::manifests::outline(text);
        let positions = fields
            .iter()
            .enumerate()
            .map(|(position, (pointer, _))| (pointer.clone(), position))
            .collect();
        let mut layout = Self {
            positions,
            ..Self::default()
        };
        let mut pending = Vec::new();
        let mut block: Option<usize> = None;
        for (number, line) in text.lines().enumerate() {
            let depth = line.len() - line.trim_start().len();
            let content = line.trim();
            if block.is_some_and(|above| content.is_empty() || depth > above) {
                continue;
            }
            block = None;
            if content.starts_with('#') {
                pending.push(content.to_owned());
                continue;
            }
            if content.is_empty() {
                continue;
            }
            let (content, trailing) = without_comment(content);
            pending.extend(trailing.map(str::to_owned));
            if is_block(content) {
                block = Some(depth);
            }
            if pending.is_empty() {
                continue;
            }
            let at = field_of(&fields, content, number + 1);
            let at = at.map_or_else(String::new, |at| now_at(at, before, after));
            layout.comments.entry(at).or_default().append(&mut pending);
        }
        layout.last = pending;
        layout
    }

    pub(super) fn comments(&self, field: &str) -> &[String] {
        self.comments
            .get(field)
            .map(Vec::as_slice)
            .unwrap_or_default()
    }

    pub(super) fn last(&self) -> &[String] {
        &self.last
    }

    /// Position of a field among its siblings; new fields come last.
    pub(super) fn position(&self, field: &str) -> usize {
        self.positions.get(field).copied().unwrap_or(usize::MAX)
    }
}

/// The content of a line, and its trailing comment.
pub(super) fn without_comment(line: &str) -> (&str, Option<&str>) {
    let mut quote = None;
    let mut before = ' ';
    for (at, c) in line.char_indices() {
        match (quote, c) {
            (None, '#') if before.is_whitespace() => {
                let (content, comment) = line.split_at(at);
                return (content.trim_end(), Some(comment));
            }
            // Quotes open where a value begins.
            (None, '"' | '\'') if before.is_whitespace() || "[{,:".contains(before) => {
                quote = Some(c);
            }
            (Some('"'), '\\') => {
                before = '\\';
                continue;
            }
            (Some(open), c) if c == open && !(open == '"' && before == '\\') => quote = None,
            _ => {}
        }
        before = c;
    }
    (line, None)
}

/// Whether the lines below are a block scalar.
fn is_block(content: &str) -> bool {
    let value = content.rsplit([':', ' ']).next().unwrap_or_default();
    let indicator = value.trim_start_matches(['|', '>']);
    value.starts_with(['|', '>']) && indicator.chars().all(|c| "+-0123456789".contains(c))
}

/// The field or item on a line.
fn field_of<'f>(fields: &'f [(String, usize)], content: &str, line: usize) -> Option<&'f str> {
    let mut on_or_below = fields.iter().filter(|(_, at)| *at >= line);
    let is_item = content.starts_with("- ") || content == "-";
    let found = if is_item {
        on_or_below.find(|(pointer, _)| {
            let step = pointer.rsplit('/').next().unwrap_or_default();
            step.chars().all(|c| c.is_ascii_digit())
        })
    } else {
        let key = content.split_once(':').map_or(content, |(key, _)| key);
        let key = key.trim_matches(['"', '\'']);
        let step = escaped(key);
        on_or_below.find(|(pointer, _)| pointer.rsplit('/').next() == Some(step.as_str()))
    };
    found.map(|(pointer, _)| pointer.as_str())
}

/// The new place of a field's value: its old place, or the only place with a field of its name and value; the object itself where that is
/// uncertain.
fn now_at(field: &str, before: &Value, after: &Value) -> String {
    let was = before.pointer(field);
    if was.is_some() && after.pointer(field) == was {
        return field.to_owned();
    }
    let (above, step) = field.rsplit_once('/').unwrap_or_default();
    let is_item = step.chars().all(|c| c.is_ascii_digit());
    let mut places = Vec::new();
    places_of(after, "", &mut places);
    let same_value = |place: &&(String, &Value)| Some(place.1) == was;
    let same_name = |place: &&(String, &Value)| {
        let (list, last) = place.0.rsplit_once('/').unwrap_or_default();
        match is_item {
            true => {
                last.chars().all(|c| c.is_ascii_digit())
                    && list.rsplit('/').next() == above.rsplit('/').next()
            }
            false => last == step,
        }
    };
    let mut same = places.iter().filter(same_name).filter(same_value);
    if let (Some((place, _)), None) = (same.next(), same.next()) {
        return place.clone();
    }
    if after.pointer(field).is_some() {
        return field.to_owned();
    }
    let mut named = places.iter().filter(same_name);
    match (is_item, named.next(), named.next()) {
        (false, Some((place, _)), None) => place.clone(),
        // The list of a removed item.
        (true, ..) if !above.is_empty() => now_at(above, before, after),
        _ => String::new(),
    }
}

fn places_of<'v>(value: &'v Value, at: &str, places: &mut Vec<(String, &'v Value)>) {
    let mut below = |step: &str, value: &'v Value| {
        let place = format!("{at}/{step}");
        places.push((place.clone(), value));
        places_of(value, &place, places);
    };
    match value {
        Value::Object(map) => map
            .iter()
            .for_each(|(key, value)| below(&escaped(key), value)),
        Value::Array(items) => items
            .iter()
            .enumerate()
            .for_each(|(number, item)| below(&number.to_string(), item)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn comments_follow_their_fields() {
        let text = "# of the object\nkind: A\nspec:\n  # why\n  limits: 1 # tail\n  list:\n  # second\n  - b\n  gone: '#1' # lost\n  \
                    script: |\n    # no comment\n# end\n";
        let before: Value = serde_saphyr::from_str(text).unwrap();
        let after = json!({"kind": "A", "spec": {"template": {"limits": 1, "list": ["a", "b"]}}});
        let layout = Layout::of(text, &before, &after);
        assert_eq!(layout.comments("/kind"), ["# of the object"]);
        assert_eq!(
            layout.comments("/spec/template/limits"),
            ["# why", "# tail"]
        );
        assert_eq!(layout.comments("/spec/template/list/1"), ["# second"]);
        assert_eq!(layout.comments(""), ["# lost"]);
        assert_eq!(layout.last(), ["# end"]);
    }
}
