//! NTH's webhook as a notification.

use regex::Regex;
use serde_json::{Map, Value, json};

use super::{Conversion, values::given};

pub(super) const OPTIONS: &[&str] = &[
    "webhookHeaders",
    "webhookTemplate",
    "webhookTemplateConfigMapKey",
    "webhookTemplateConfigMapName",
    "webhookURL",
    "webhookURLSecretName",
];

/// Fields of NTH's templates, and their counterparts. A notification covers all nodes of one delivery, which its details list.
const FIELDS: &[(&str, &str)] = &[
    ("AutoScalingGroupName", "details"),
    ("Description", "title"),
    ("EndTime", "details"),
    ("EventID", "id"),
    ("InstanceID", "details"),
    ("InstanceType", "details"),
    ("IsManaged", "details"),
    ("Kind", "class"),
    ("Monitor", "class"),
    ("NodeLabels", "details"),
    ("NodeName", "details"),
    ("Pods", "details"),
    ("ProviderID", "details"),
    ("StartTime", "time"),
    ("State", "title"),
];

/// Remedy for a template without a field that differs between nodes.
pub(super) const NO_FIELD: &str =
    "expected at least one field, such as {{ .Description }}, and no other word in single braces";

pub(super) fn convert(
    values: &Map<String, Value>,
    parameter: Option<&str>,
    conversion: &mut Conversion,
) {
    let url = given(values, "webhookURL");
    let secret = given(values, "webhookURLSecretName");
    let to = match (parameter, url, secret) {
        (Some(parameter), ..) => format!("ssm:{parameter}"),
        (None, Some(url), _) => super::shown(url),
        (None, None, Some(name)) => {
            conversion.refuse(
                "webhookURLSecretName",
                name,
                "put the URL into a SecureString parameter below the stack's CredentialsPrefix, and name it by --webhook-parameter",
            );
            return;
        }
        (None, None, None) => return,
    };
    let mut notification = Map::new();
    notification.insert("name".to_owned(), json!("node-termination-handler"));
    notification.insert("to".to_owned(), json!(to));
    notification.insert("classes".to_owned(), json!(["interruption"]));
    if let Some(template) = template(values, conversion) {
        notification.insert("template".to_owned(), json!(template));
    }
    if let Some(headers) = headers(values, conversion) {
        notification.insert("headers".to_owned(), headers);
    }
    conversion.notifications.push(Value::Object(notification));
}

/// The template. NTH's default is in Slack's format.
fn template(values: &Map<String, Value>, conversion: &mut Conversion) -> Option<String> {
    if let Some(name) = given(values, "webhookTemplateConfigMapName") {
        conversion.refuse(
            "webhookTemplateConfigMapName",
            name,
            "give the template itself as webhookTemplate: ConfigMaps are not read",
        );
        return None;
    }
    let Some(value) = given(values, "webhookTemplate") else {
        return Some("slack".to_owned());
    };
    let text = super::shown(value);
    let actions = Regex::new(r"\{\{(.*?)\}\}").ok()?;
    let mut out = String::new();
    let mut rest = 0;
    for action in actions.captures_iter(&text) {
        let (whole, inner) = (action.get(0)?, action.get(1)?);
        let field = inner.as_str().trim().trim_matches('-').trim();
        let word = field.strip_prefix('.');
        let word = FIELDS.iter().find(|(name, _)| Some(*name) == word);
        let Some((_, word)) = word else {
            conversion.refuse(
                "webhookTemplate",
                &json!(whole.as_str()),
                "expected a plain field, such as {{ .Description }}: words in braces stand for values here, and there are no \
                 functions; docs/notifications.md has the words",
            );
            return None;
        };
        if *word == "details" {
            conversion.notes.push(format!(
                "webhookTemplate: {field} becomes {{details}}, which names every node of a delivery"
            ));
        }
        out.push_str(text.get(rest..whole.start())?);
        out.push_str(&format!("{{{word}}}"));
        rest = whole.end();
    }
    out.push_str(text.get(rest..)?);
    Some(out)
}

/// The headers, given as JSON in text.
fn headers(values: &Map<String, Value>, conversion: &mut Conversion) -> Option<Value> {
    let value = given(values, "webhookHeaders")?;
    let text = super::shown(value);
    let read: Option<Map<String, Value>> = serde_json::from_str(&text).ok();
    let Some(mut read) = read.filter(|headers| headers.values().all(Value::is_string)) else {
        conversion.refuse(
            "webhookHeaders",
            value,
            "expected a JSON object of texts, such as {\"Content-type\":\"application/json\"}",
        );
        return None;
    };
    // The header is sent anyway.
    read.retain(|name, value| {
        !(name.eq_ignore_ascii_case("content-type") && *value == "application/json")
    });
    (!read.is_empty()).then_some(Value::Object(read))
}
