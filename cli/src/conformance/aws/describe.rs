//! An account that answers Describe calls and SSM lookups from the lists of a case, and records the requests.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, bail};
use aws_rules::node_class::Filters;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};

const ACCOUNT: &str = "111122223333";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Account {
    #[serde(default)]
    ssm_parameters: BTreeMap<String, String>,
    #[serde(default)]
    ssm_errors: BTreeMap<String, ApiError>,
    #[serde(default)]
    api_errors: BTreeMap<String, ApiError>,
    /// Resources by kind, such as `subnets`.
    #[serde(flatten)]
    lists: BTreeMap<String, Value>,
    #[serde(skip)]
    pub(super) calls: Vec<Value>,
    /// Names of the requested parameters.
    #[serde(skip)]
    pub(super) asked: BTreeSet<String>,
}

#[derive(Deserialize)]
struct ApiError {
    code: String,
    message: String,
}

impl Account {
    pub(super) fn has(&self, list: &str) -> bool {
        self.lists.contains_key(list)
    }

    /// The items of a list that match the filters, and the `members` (ids, owners) if any are given.
    pub(super) fn describe<T: DeserializeOwned>(
        &mut self,
        api: &str,
        list: &str,
        filters: &Filters,
        members: Map<String, Value>,
    ) -> Result<Vec<T>> {
        let filtered = filters
            .iter()
            .map(|(name, values)| json!({"Name": name, "Values": values}));
        let mut input = members.clone();
        input.insert("Filters".to_owned(), filtered.collect());
        self.calls.push(json!({"api": api, "input": input}));
        if let Some(error) = self.api_errors.get(api) {
            bail!("{api}: {}: {}", error.code, error.message);
        }
        let items = self.lists.get(list).and_then(Value::as_array);
        let admitted = items.into_iter().flatten().filter(|item| {
            filters.iter().all(|(name, values)| {
                let held = held(item, name);
                values
                    .iter()
                    .any(|value| held.iter().any(|held| is_like(held, value)))
            }) && members
                .iter()
                .all(|(name, values)| is_named(item, name, values))
        });
        Ok(admitted.map(T::deserialize).collect::<Result<_, _>>()?)
    }

    /// The value of a parameter, if there is one.
    pub(super) fn parameter(&mut self, name: &str) -> Result<Option<String>> {
        self.asked.insert(name.to_owned());
        if let Some(error) = self.ssm_errors.get(name) {
            bail!("GetParameter {name}: {}: {}", error.code, error.message);
        }
        Ok(self.ssm_parameters.get(name).cloned())
    }
}

/// The values of an item for a filter.
fn held(item: &Value, filter: &str) -> Vec<String> {
    let text = |value: &Value, name: &str| {
        value
            .get(name)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    let tags = || {
        item.get("Tags")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
    };
    if filter == "tag-key" {
        tags().map(|tag| text(tag, "Key")).collect()
    } else if let Some(key) = filter.strip_prefix("tag:") {
        let of_key = tags().filter(|tag| text(tag, "Key") == key);
        of_key.map(|tag| text(tag, "Value")).collect()
    } else {
        // `image-id` filters by `ImageId`.
        let mut field = String::new();
        for word in filter.split('-') {
            let (first, rest) = word.split_at(word.len().min(1));
            field.push_str(&first.to_uppercase());
            field.push_str(rest);
        }
        vec![text(item, &field)]
    }
}

/// Matches a text against a filter's pattern, in which `*` stands for any text.
fn is_like(text: &str, pattern: &str) -> bool {
    match pattern.split_once('*') {
        None => text == pattern,
        Some((start, rest)) => text.strip_prefix(start).is_some_and(|text| {
            let mut ends = text.char_indices().map(|(at, _)| at).chain([text.len()]);
            ends.any(|at| text.get(at..).is_some_and(|text| is_like(text, rest)))
        }),
    }
}

fn is_named(item: &Value, member: &str, values: &Value) -> bool {
    let is = |field: &str, value: &Value| item.get(field) == Some(value);
    let field = match member {
        "CapacityReservationIds" => "CapacityReservationId",
        "GroupIds" => "GroupId",
        "GroupNames" => "GroupName",
        "Owners" => "OwnerId",
        _ => return true,
    };
    values.as_array().into_iter().flatten().any(|value| {
        is(field, value)
            || field == "OwnerId"
                && (is("ImageOwnerAlias", value) || value == "self" && is(field, &json!(ACCOUNT)))
    })
}
