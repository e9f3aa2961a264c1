//! Destinations of notifications: `settings.notifications` of a cluster's registry entry.

use std::collections::{BTreeMap, BTreeSet};

use model::NotificationClass as Class;
use serde::Deserialize;
use serde_json::Value;

use super::{
    entry::{EntryError, error},
    template::Template,
};

/// One of the cluster's destinations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Destination {
    pub(crate) name: String,
    pub(crate) address: Address,
    pub(crate) classes: BTreeSet<Class>,
    pub(crate) template: Template,
    /// Headers of POSTs besides Whittle's own; names are in lower case.
    pub(crate) headers: BTreeMap<String, HeaderValue>,
    /// Parameter with the key that bodies of POSTs are signed with.
    pub(crate) secret: Option<String>,
    pub(crate) per_hour: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Address {
    Url(String),
    /// Parameter that holds the URL, if that is a secret.
    UrlIn(String),
    Topic(String),
    Bus(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum HeaderValue {
    Text(String),
    /// Parameter that holds the value, if that is a secret.
    In(String),
}

/// A destination as written in the entry.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RawDestination {
    name: String,
    to: String,
    #[serde(default)]
    classes: Option<BTreeSet<Class>>,
    #[serde(default)]
    template: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    #[serde(default)]
    secret: Option<String>,
    #[serde(default)]
    per_hour: Option<u32>,
}

/// Default limit of notifications per hour: enough to follow a cluster's activity, and few enough to be read.
const PER_HOUR: u32 = 60;
/// Upper bound on destinations: a registry entry has little room, and each destination costs calls.
const DESTINATIONS_MAX: usize = 10;
/// Upper bound on headers: a registry entry has little room.
const HEADERS_MAX: usize = 10;

pub(crate) fn destinations(settings: &Value) -> Result<Vec<Destination>, EntryError> {
    const FIELD: &str = "settings.notifications";
    let Some(raw) = settings.get("notifications") else {
        return Ok(Vec::new());
    };
    let list = raw.as_array().filter(|list| list.len() <= DESTINATIONS_MAX);
    let list = list.ok_or_else(|| error(FIELD, raw, "a list of at most 10 destinations"))?;
    let mut names = BTreeSet::new();
    let mut destinations = Vec::new();
    for (at, value) in list.iter().enumerate() {
        let field = |key: &str| format!("{FIELD}[{at}]{key}");
        let raw: RawDestination = serde_json::from_value(value.clone()).map_err(|_| {
            let expected = "name and to, and at most classes, template, headers, secret and perHour, as docs/notifications.md says";
            error(&field(""), value, expected)
        })?;
        let refused =
            |key: &str, value: &str, expected| Err(error(&field(key), &value.into(), expected));
        if raw.name.is_empty() || !names.insert(raw.name.clone()) {
            return refused(".name", &raw.name, "a name that no other destination has");
        }
        let Some(address) = address(&raw.to) else {
            let expected = "an HTTPS URL, ssm:/<parameter that holds one>, or the ARN of an SNS topic or of an event bus";
            return refused(".to", &raw.to, expected);
        };
        let template = raw.template.as_deref().unwrap_or("json");
        let Some(template) = Template::read(template) else {
            let expected = "json, slack, teams, or a text with placeholders in braces: id, class, cluster, time, title, details";
            return refused(".template", template, expected);
        };
        let is_url = matches!(address, Address::Url(_) | Address::UrlIn(_));
        if raw.headers.len() > HEADERS_MAX {
            let count = raw.headers.len().to_string();
            return refused(".headers", &count, "at most 10");
        }
        let mut headers = BTreeMap::new();
        for (name, value) in &raw.headers {
            let key = format!(".headers.{name}");
            if !is_url {
                return refused(&key, value, "none: only webhooks have headers");
            }
            let Some(read) = header(name, value) else {
                let expected = "a header that is not set by us or by the connection, in printable characters, or ssm:/<parameter that holds it>";
                return refused(&key, value, expected);
            };
            headers.insert(name.to_ascii_lowercase(), read);
        }
        if let Some(secret) = raw.secret.as_deref().filter(|_| !is_url) {
            return refused(".secret", secret, "none: only HTTPS bodies are signed");
        }
        if matches!(address, Address::Bus(_)) && template != Template::Json {
            return refused(".template", "", "none: an event's detail is json");
        }
        destinations.push(Destination {
            name: raw.name,
            address,
            classes: raw.classes.unwrap_or_else(|| Class::ALL.into()),
            template,
            headers,
            secret: raw.secret,
            per_hour: raw.per_hour.unwrap_or(PER_HOUR),
        });
    }
    Ok(destinations)
}

/// Parses a header; `None` for names that are no token (RFC 9110 §5.6.2) or reserved, and for values that would end the line.
fn header(name: &str, value: &str) -> Option<HeaderValue> {
    const RESERVED_HEADERS: [&str; 4] =
        ["host", "content-length", "transfer-encoding", "connection"];
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    let key = name.to_ascii_lowercase();
    let taken = RESERVED_HEADERS.contains(&key.as_str()) || key.starts_with("x-whittle-");
    let printable = value.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    if key.is_empty() || !key.bytes().all(is_token) || taken || !printable {
        return None;
    }
    match value.strip_prefix("ssm:") {
        Some(parameter) => parameter
            .starts_with('/')
            .then(|| HeaderValue::In(parameter.to_owned())),
        None => Some(HeaderValue::Text(value.to_owned())),
    }
}

fn address(to: &str) -> Option<Address> {
    if let Some(parameter) = to.strip_prefix("ssm:") {
        return parameter
            .starts_with('/')
            .then(|| Address::UrlIn(parameter.to_owned()));
    }
    if to.starts_with("https://") {
        return Some(Address::Url(to.to_owned()));
    }
    let parts: Vec<&str> = to.splitn(6, ':').collect();
    match parts[..] {
        ["arn", _, "sns", _, _, _] => Some(Address::Topic(to.to_owned())),
        ["arn", _, "events", _, _, name] if name.starts_with("event-bus/") => {
            Some(Address::Bus(to.to_owned()))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(destination: Value) -> Result<Vec<Destination>, String> {
        destinations(&json!({ "notifications": [destination] })).map_err(|error| error.to_string())
    }

    #[test]
    fn no_destination_by_default() {
        assert_eq!(destinations(&json!({})), Ok(Vec::new()));
    }

    #[test]
    fn destination_is_a_webhook_a_topic_or_a_bus() {
        let bus = "arn:aws:events:us-east-1:123456789012:event-bus/ops";
        let topic = "arn:aws:sns:us-east-1:123456789012:ops";
        for (to, address) in [
            (
                "https://example.com/hook",
                Address::Url("https://example.com/hook".into()),
            ),
            (
                "ssm:/whittle/credentials/hook",
                Address::UrlIn("/whittle/credentials/hook".into()),
            ),
            (topic, Address::Topic(topic.into())),
            (bus, Address::Bus(bus.into())),
        ] {
            let found = read(json!({"name": "ops", "to": to})).unwrap();
            assert_eq!(found[0].address, address);
            assert_eq!(found[0].classes.len(), Class::ALL.len(), "all by default");
        }
    }

    #[test]
    fn invalid_destination_is_reported_with_the_expected_value() {
        for (destination, part) in [
            (
                json!({"name": "ops", "to": "http://example.com"}),
                "[0].to is \"http://example.com\": expected an HTTPS URL",
            ),
            (
                json!({"name": "ops", "to": "https://e.com", "clases": []}),
                "[0] is {",
            ),
            (
                json!({"name": "ops", "to": "https://e.com", "headers": {"Host": "e.com"}}),
                "[0].headers.Host is \"e.com\": expected a header that is not set by us",
            ),
            (
                json!({"name": "ops", "to": "https://e.com", "headers": {"x-team": "a\r\nb: c"}}),
                "[0].headers.x-team is",
            ),
            (
                json!({"name": "ops", "to": "arn:aws:sns:r:1:t", "headers": {"x-team": "a"}}),
                "[0].headers.x-team is \"a\": expected none",
            ),
            (
                json!({"name": "", "to": "https://e.com"}),
                "[0].name is \"\": expected a name that no other destination has",
            ),
            (
                json!({"name": "ops", "to": "https://e.com", "template": "{titel}"}),
                "[0].template is \"{titel}\": expected json, slack",
            ),
            (
                json!({"name": "ops", "to": "arn:aws:sns:r:1:t", "secret": "/s"}),
                "[0].secret is \"/s\": expected none",
            ),
            (
                json!({"name": "ops", "to": "arn:aws:events:r:1:event-bus/b", "template": "slack"}),
                "[0].template is",
            ),
        ] {
            let message = read(destination).unwrap_err();
            assert!(message.contains(part), "{message}");
        }
    }
}
