//! Selectors of v1alpha1, maps of comma-separated lists, as the selector terms of v1 (docs/spec/migrate.md#selectors).

use serde_json::{Map, Value, json};
use thiserror::Error;

/// Maximum number of terms in v1.
const TERMS_MAX: usize = 30;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Of {
    Subnets,
    SecurityGroups,
    Images,
}

#[derive(Debug, PartialEq, Eq, Error)]
pub(super) enum Wrong {
    #[error("it selects nothing: expected tags or ids")]
    Empty,
    #[error("a key or a value is empty: {0}")]
    EmptyPart(String),
    #[error("ids cannot be combined with other keys: remove the other keys, or the ids")]
    IdsAndMore,
    #[error(
        "owners alone select every image of theirs, which v1 does not allow: add aws::name, aws::ids or tags"
    )]
    OwnersOnly,
    #[error(
        "it results in {0} terms: v1 allows {TERMS_MAX}; give the selected resources one common tag, and select by it"
    )]
    TooMany(usize),
}

/// The terms of a selector: the product of its alternatives. Owners vary slowest, then ids, names, and tags, whose later keys vary slower
/// than earlier ones.
pub(super) fn terms(selector: &Map<String, Value>, of: Of) -> Result<Vec<Value>, Wrong> {
    let mut ids = Vec::new();
    let (mut names, mut owners) = (Vec::new(), Vec::new());
    let mut tags: Vec<(&str, Vec<String>)> = Vec::new();
    for (key, value) in selector {
        let values = values(key, value)?;
        match (key.as_str(), of) {
            ("aws-ids" | "aws::ids", _) => ids.extend(values),
            ("aws::name", Of::Images) => names = values,
            ("aws::owners", Of::Images) => owners = values,
            _ => tags.push((key, values)),
        }
    }
    let more = [names.len(), owners.len(), tags.len()]
        .into_iter()
        .sum::<usize>();
    match (ids.is_empty(), more) {
        (true, 0) => return Err(Wrong::Empty),
        (false, 1..) => return Err(Wrong::IdsAndMore),
        (false, 0) => {
            return few(ids.len(), || {
                ids.iter().map(|id| json!({ "id": id })).collect()
            });
        }
        (true, 1..) => {}
    }
    if names.is_empty() && tags.is_empty() {
        return Err(Wrong::OwnersOnly);
    }
    let count = tags
        .iter()
        .map(|(_, values)| values.len())
        .chain([names.len().max(1), owners.len().max(1)])
        .fold(1_usize, usize::saturating_mul);
    few(count, || {
        let mut terms = vec![Map::new()];
        for (key, values) in &tags {
            terms = alternatives(&terms, values, |term, value| {
                let tags = term.entry("tags").or_insert_with(|| json!({}));
                if let Value::Object(tags) = tags {
                    tags.insert((*key).to_owned(), value.into());
                }
            });
        }
        for (field, values) in [("name", &names), ("owner", &owners)] {
            if !values.is_empty() {
                terms = alternatives(&terms, values, |term, value| {
                    term.insert(field.to_owned(), value.into());
                });
            }
        }
        terms.into_iter().map(Value::Object).collect()
    })
}

fn few(count: usize, terms: impl FnOnce() -> Vec<Value>) -> Result<Vec<Value>, Wrong> {
    match count {
        0..=TERMS_MAX => Ok(terms()),
        _ => Err(Wrong::TooMany(count)),
    }
}

/// The product of terms and values, in which the values vary slower than the terms.
fn alternatives(
    terms: &[Map<String, Value>],
    values: &[String],
    add: impl Fn(&mut Map<String, Value>, &str),
) -> Vec<Map<String, Value>> {
    let mut all = Vec::new();
    for value in values {
        for term in terms {
            let mut term = term.clone();
            add(&mut term, value);
            all.push(term);
        }
    }
    all
}

fn values(key: &str, value: &Value) -> Result<Vec<String>, Wrong> {
    let values: Vec<String> = value
        .as_str()
        .unwrap_or_default()
        .split(',')
        .map(|part| part.trim().to_owned())
        .collect();
    match key.is_empty() || values.iter().any(String::is_empty) {
        true => Err(Wrong::EmptyPart(format!("{key}: {value}"))),
        false => Ok(values),
    }
}
