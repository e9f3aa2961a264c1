use std::{collections::BTreeMap, fmt};

use model::selector::{LabelExpression, LabelOperator};
use serde_json::Value;

use crate::{error::ApiError, json};

/// Conditions on labels, all of which must hold. The default selects everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct LabelSelector(model::selector::LabelSelector);

impl LabelSelector {
    pub fn is_empty(&self) -> bool {
        self.0.match_labels.is_empty() && self.0.match_expressions.is_empty()
    }

    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.0.matches(labels)
    }

    /// Parses `metav1.LabelSelector`, or the plain map of services and replication controllers.
    pub fn of_object(selector: &Value) -> Self {
        let is_plain = json::at(selector, &["matchLabels"]).is_null()
            && json::at(selector, &["matchExpressions"]).is_null();
        let labels = if is_plain { &[][..] } else { &["matchLabels"] };
        let mut selected = model::selector::LabelSelector {
            match_labels: json::strings(selector, labels)
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .collect(),
            match_expressions: Vec::new(),
        };
        for expression in json::items(selector, &["matchExpressions"]) {
            let operator = match json::text(expression, &["operator"]) {
                "In" => LabelOperator::In,
                "NotIn" => LabelOperator::NotIn,
                "Exists" => LabelOperator::Exists,
                _ => LabelOperator::DoesNotExist,
            };
            selected.match_expressions.push(LabelExpression {
                key: json::text(expression, &["key"]).to_owned(),
                operator,
                values: json::items(expression, &["values"])
                    .iter()
                    .filter_map(|value| value.as_str().map(str::to_owned))
                    .collect(),
            });
        }
        Self(selected)
    }

    /// Parses a query such as `app=web,tier in (a,b),!debug`.
    pub fn parse(text: &str) -> Result<Self, ApiError> {
        let mut selector = Self::default();
        for requirement in split_outside_parentheses(text) {
            let requirement = requirement.trim();
            if requirement.is_empty() {
                continue;
            }
            let expression = parse_requirement(requirement).ok_or_else(|| {
                ApiError::bad_request(format!(
                    "unable to parse requirement: \"{requirement}\" is no label requirement such as a=b, a!=b, a in (b,c), a or !a"
                ))
            })?;
            selector.0.match_expressions.push(expression);
        }
        Ok(selector)
    }
}

/// Writes selectors as `kubectl` does, sorted by key.
impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts: Vec<String> = self
            .0
            .match_labels
            .iter()
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        for LabelExpression {
            key,
            operator,
            values,
        } in &self.0.match_expressions
        {
            let list = values.join(",");
            parts.push(match operator {
                LabelOperator::In => format!("{key} in ({list})"),
                LabelOperator::NotIn => format!("{key} notin ({list})"),
                LabelOperator::Exists => key.clone(),
                LabelOperator::DoesNotExist => format!("!{key}"),
            });
        }
        parts.sort();
        f.write_str(&parts.join(","))
    }
}

fn split_outside_parentheses(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut depth = 0_u32;
    let mut start = 0;
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.extend(text.get(start..at));
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.extend(text.get(start..));
    parts
}

fn parse_requirement(text: &str) -> Option<LabelExpression> {
    let expression = |key: &str, operator, values: Vec<&str>| {
        let key = key.trim();
        let is_key = !key.is_empty()
            && key
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/'));
        is_key.then(|| LabelExpression {
            key: key.to_owned(),
            operator,
            values: values
                .into_iter()
                .map(|value| value.trim().to_owned())
                .collect(),
        })
    };
    if let Some((head, values)) = text.strip_suffix(')').and_then(|text| text.split_once('(')) {
        let (key, word) = head.trim().rsplit_once(char::is_whitespace)?;
        let operator = match word {
            "in" => LabelOperator::In,
            "notin" => LabelOperator::NotIn,
            _ => return None,
        };
        return expression(key, operator, values.split(',').collect());
    }
    if let Some(key) = text.strip_prefix('!') {
        return expression(key, LabelOperator::DoesNotExist, Vec::new());
    }
    if let Some((key, value)) = text.split_once("!=") {
        return expression(key, LabelOperator::NotIn, vec![value]);
    }
    if let Some((key, value)) = text.split_once("==").or_else(|| text.split_once('=')) {
        return expression(key, LabelOperator::In, vec![value]);
    }
    expression(text, LabelOperator::Exists, Vec::new())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect()
    }

    fn selects(selector: &str, pairs: &[(&str, &str)]) -> bool {
        LabelSelector::parse(selector)
            .unwrap()
            .matches(&labels(pairs))
    }

    #[test]
    fn every_selector_syntax_is_parsed() {
        let web = [("app", "web"), ("tier", "a")];
        assert!(selects("", &web));
        assert!(selects("app=web,tier==a", &web));
        assert!(!selects("app!=web", &web));
        assert!(selects("app!=db,owner!=x", &web));
        assert!(selects("tier in (a, b)", &web));
        assert!(!selects("tier notin (a,b),app=web", &web));
        assert!(selects("app,!debug", &web));
        assert!(selects(
            "karpenter.sh/nodepool",
            &[("karpenter.sh/nodepool", "x")]
        ));
    }

    #[test]
    fn malformed_selectors_are_reported() {
        let error = LabelSelector::parse("app ~ web").unwrap_err();
        assert_eq!(error.code, 400);
        assert!(error.message.contains("app ~ web"), "{error}");
    }

    #[test]
    fn object_and_query_selectors_agree() {
        let object = serde_json::json!({
            "matchLabels": {"app": "web"},
            "matchExpressions": [{"key": "tier", "operator": "In", "values": ["a", "b"]}],
        });
        let selector = LabelSelector::of_object(&object);
        assert_eq!(selector.to_string(), "app=web,tier in (a,b)");
        assert!(selector.matches(&labels(&[("app", "web"), ("tier", "b")])));
        assert!(!selector.matches(&labels(&[("app", "web")])));
    }
}
