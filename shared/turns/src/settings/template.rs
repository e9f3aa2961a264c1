//! Bodies of notifications.

use model::Notification;
use serde_json::{Value, json};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Template {
    Json,
    /// An incoming webhook of Slack.
    Slack,
    /// A workflow webhook of Microsoft Teams: an adaptive card.
    Teams,
    /// Text with placeholders in braces; a JSON text stays JSON for any values.
    Text(String),
}

const PLACEHOLDERS: [&str; 6] = ["id", "class", "cluster", "time", "title", "details"];
/// Upper bounds on lines and on their characters: chat services refuse long messages.
const DETAILS_MAX: usize = 20;
const DETAIL_MAX: usize = 300;

impl Template {
    /// Parses a template; `None` where a placeholder is unknown.
    pub(crate) fn read(text: &str) -> Option<Self> {
        Some(match text {
            "json" => Self::Json,
            "slack" => Self::Slack,
            "teams" => Self::Teams,
            text => {
                let known = |placeholder: &str| PLACEHOLDERS.contains(&placeholder);
                if !placeholders(text).all(known) || placeholders(text).next().is_none() {
                    return None;
                }
                Self::Text(text.to_owned())
            }
        })
    }

    pub(crate) fn body(&self, notification: &Notification) -> String {
        let title = format!("Cluster {}: {}", notification.cluster, notification.title);
        match self {
            Self::Json => json!({
                "id": notification.id,
                "class": notification.class,
                "cluster": notification.cluster,
                "time": notification.at,
                "title": notification.title,
                "details": lines(notification),
            })
            .to_string(),
            Self::Slack => {
                let lines = lines(notification).into_iter();
                let lines = lines.map(|line| format!("\n• {}", escaped(&line)));
                let text = format!("*{}*{}", escaped(&title), lines.collect::<String>());
                json!({ "text": text }).to_string()
            }
            Self::Teams => {
                let block = |text: &str, weight: &str| json!({"type": "TextBlock", "text": text, "weight": weight, "wrap": true});
                let lines = lines(notification);
                let lines = lines.iter().map(|line| block(line, "Default"));
                let body: Vec<Value> = [block(&title, "Bolder")].into_iter().chain(lines).collect();
                json!({"type": "message", "attachments": [{
                    "contentType": "application/vnd.microsoft.card.adaptive",
                    "content": {"type": "AdaptiveCard", "version": "1.4", "body": body},
                }]})
                .to_string()
            }
            Self::Text(text) => match serde_json::from_str::<Value>(text) {
                Ok(mut value) => {
                    fill_all(&mut value, notification);
                    value.to_string()
                }
                Err(_) => fill(text, notification),
            },
        }
    }
}

fn lines(notification: &Notification) -> Vec<String> {
    let all = &notification.details;
    let short = |line: &String| line.chars().take(DETAIL_MAX).collect();
    let mut lines: Vec<String> = all.iter().take(DETAILS_MAX).map(short).collect();
    if all.len() > lines.len() {
        lines.push(format!("and {} more", all.len() - lines.len()));
    }
    lines
}

/// Escapes Slack's control characters.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

/// Names in braces that may be placeholders: braces of JSON contain more than letters.
fn placeholders(text: &str) -> impl Iterator<Item = &str> {
    let parts = text.split('{').skip(1);
    let inner = parts.filter_map(|part| Some(part.split_once('}')?.0));
    inner.filter(|placeholder| {
        !placeholder.is_empty() && placeholder.bytes().all(|byte| byte.is_ascii_alphabetic())
    })
}

fn fill_all(value: &mut Value, notification: &Notification) {
    match value {
        Value::String(text) => *text = fill(text, notification),
        Value::Array(items) => items
            .iter_mut()
            .for_each(|item| fill_all(item, notification)),
        Value::Object(fields) => {
            fields
                .values_mut()
                .for_each(|field| fill_all(field, notification));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn fill(text: &str, notification: &Notification) -> String {
    let mut filled = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        filled.push_str(before);
        match after
            .split_once('}')
            .filter(|(placeholder, _)| PLACEHOLDERS.contains(placeholder))
        {
            Some((placeholder, after)) => {
                filled.push_str(&placeholder_value(placeholder, notification));
                rest = after;
            }
            None => {
                filled.push('{');
                rest = after;
            }
        }
    }
    filled.push_str(rest);
    filled
}

fn placeholder_value(placeholder: &str, notification: &Notification) -> String {
    match placeholder {
        "id" => notification.id.clone(),
        "class" => notification.class.as_str().to_owned(),
        "cluster" => notification.cluster.0.clone(),
        "time" => notification.at.to_string(),
        "title" => notification.title.clone(),
        _ => lines(notification).join("\n"),
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use model::NotificationClass;

    use super::*;

    fn notification() -> Notification {
        Notification {
            id: "interruption/turn-1".into(),
            to: "ops".into(),
            class: NotificationClass::Interruption,
            cluster: "demo".into(),
            at: Timestamp::UNIX_EPOCH,
            title: "1 node <goes>".into(),
            details: vec!["a \"quoted\" word".into()],
        }
    }

    fn json_of(template: &str) -> Value {
        let body = Template::read(template).unwrap().body(&notification());
        serde_json::from_str(&body).unwrap()
    }

    #[test]
    fn chat_services_get_their_own_json() {
        let text = "*Cluster demo: 1 node &lt;goes&gt;*\n• a \"quoted\" word";
        assert_eq!(json_of("slack"), json!({ "text": text }));
        let card = json_of("teams");
        let body = &card["attachments"][0]["content"]["body"];
        assert_eq!(body[0]["text"], "Cluster demo: 1 node <goes>");
        assert_eq!(body[1]["text"], "a \"quoted\" word");
    }

    #[test]
    fn custom_template_is_filled_in_and_json_stays_json() {
        let found = json_of(r#"{"text": "[{class}] {cluster}: {details}", "n": 1}"#);
        let text = "[interruption] demo: a \"quoted\" word";
        assert_eq!(found, json!({"text": text, "n": 1}));
        let plain = Template::read("{title} at {time}").unwrap();
        assert_eq!(
            plain.body(&notification()),
            "1 node <goes> at 1970-01-01T00:00:00Z"
        );
    }

    #[test]
    fn unknown_placeholder_is_refused() {
        assert_eq!(Template::read("{titel}"), None);
        assert_eq!(Template::read("no placeholder at all"), None);
    }

    #[test]
    fn long_lists_are_truncated() {
        let mut long = notification();
        long.details = (0..50).map(|line| line.to_string()).collect();
        let body: Value = serde_json::from_str(&Template::Json.body(&long)).unwrap();
        assert_eq!(body["details"].as_array().unwrap().len(), DETAILS_MAX + 1);
        assert_eq!(body["details"][DETAILS_MAX], "and 30 more");
    }
}
