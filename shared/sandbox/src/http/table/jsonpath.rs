use serde_json::Value;

/// First value at a printer column's path: `.a.b`, `.a\.b`, `['a']`, `[0]`, `[*]`, `[?(@.a=="b")]`. `None` if there is
/// none, or the path is not supported.
pub(super) fn first<'v>(value: &'v Value, path: &str) -> Option<&'v Value> {
    let mut found = vec![value];
    let mut rest = path.trim_start_matches('$');
    while !rest.is_empty() {
        let step;
        (step, rest) = next_step(rest)?;
        found = found
            .into_iter()
            .flat_map(|value| take(value, &step))
            .collect();
    }
    found.into_iter().next()
}

enum Step {
    Field(String),
    Index(usize),
    All,
    /// Elements whose field has this value.
    Where {
        path: String,
        value: Value,
    },
}

fn next_step(path: &str) -> Option<(Step, &str)> {
    if let Some(bracket) = path.strip_prefix('[') {
        let end = closing_bracket(bracket)?;
        let (inside, rest) = (bracket.get(..end)?, bracket.get(end + 1..)?);
        return Some((bracketed(inside)?, rest));
    }
    let path = path.strip_prefix('.')?;
    let mut name = String::new();
    let mut chars = path.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => name.extend(chars.next().map(|(_, escaped)| escaped)),
            '.' | '[' => return Some((Step::Field(name), path.get(at..)?)),
            _ => name.push(c),
        }
    }
    Some((Step::Field(name), ""))
}

/// Position of the matching closing bracket, with quotes and nesting considered.
fn closing_bracket(text: &str) -> Option<usize> {
    let mut depth = 0_u32;
    let mut quote = None;
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (Some(open), _) if c == open => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(c),
            (None, '[') => depth += 1,
            (None, ']') if depth == 0 => return Some(at),
            (None, ']') => depth -= 1,
            (None, _) => {}
        }
    }
    None
}

fn bracketed(inside: &str) -> Option<Step> {
    if inside == "*" {
        return Some(Step::All);
    }
    if let Some(filter) = inside
        .strip_prefix("?(@")
        .and_then(|filter| filter.strip_suffix(')'))
    {
        let (path, value) = filter.split_once("==")?;
        return Some(Step::Where {
            path: path.trim().to_owned(),
            value: literal(value.trim())?,
        });
    }
    if let Ok(index) = inside.parse() {
        return Some(Step::Index(index));
    }
    literal(inside)?
        .as_str()
        .map(|name| Step::Field(name.to_owned()))
}

fn literal(text: &str) -> Option<Value> {
    if let Some(text) = text
        .strip_prefix('\'')
        .and_then(|text| text.strip_suffix('\''))
    {
        return Some(Value::from(text));
    }
    serde_json::from_str(text).ok()
}

fn take<'v>(value: &'v Value, step: &Step) -> Vec<&'v Value> {
    match step {
        Step::Field(name) => value.get(name).into_iter().collect(),
        Step::Index(index) => value.get(index).into_iter().collect(),
        Step::All => value.as_array().into_iter().flatten().collect(),
        Step::Where {
            path,
            value: wanted,
        } => value
            .as_array()
            .into_iter()
            .flatten()
            .filter(|item| first(item, path) == Some(wanted))
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::first;
    use serde_json::{Value, json};

    #[test]
    fn printer_columns_find_values_by_path() {
        let claim = json!({
            "metadata": {"labels": {"node.kubernetes.io/instance-type": "m5.large"}},
            "status": {
                "conditions": [{"type": "Launched", "status": "True"}, {"type": "Ready", "status": "False"}],
                "images": ["a", "b"],
            },
        });
        let at = |path: &str| first(&claim, path).and_then(Value::as_str);
        assert_eq!(
            at(r#".status.conditions[?(@.type=="Ready")].status"#),
            Some("False")
        );
        assert_eq!(
            at(r".metadata.labels.node\.kubernetes\.io/instance-type"),
            Some("m5.large")
        );
        assert_eq!(
            at(".metadata.labels['node.kubernetes.io/instance-type']"),
            Some("m5.large")
        );
        assert_eq!(at(".status.images[1]"), Some("b"));
        assert_eq!(at(".status.conditions[*].type"), Some("Launched"));
        assert_eq!(at(".status.nodeName"), None);
        assert_eq!(at("status"), None);
    }
}
