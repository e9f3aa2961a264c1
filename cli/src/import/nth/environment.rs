//! Environment variables of the chart's `extraEnv`. NTH reads its options from variables, and the chart writes these after its own, so
//! that they override options.

use serde_json::{Map, Value, json};

use super::{Conversion, options::known, shown};

const LIST: &str = "extraEnv";
/// Variables that the chart sets from the pod.
const OF_POD: [&str; 4] = ["NAMESPACE", "NODE_NAME", "POD_NAME", "SPOT_POD_IP"];
/// Variables whose names differ from those of their options.
const RENAMED: [(&str, &str); 2] = [
    ("UPTIME_FROM_FILE", "procUptimeFile"),
    ("USE_APISERVER_CACHE", "useApiServerCache"),
];
const SECRETS: [&str; 2] = ["awsAccessKeyID", "awsSecretAccessKey"];

/// The options, overridden by the variables.
pub(super) fn applied(
    values: &Map<String, Value>,
    conversion: &mut Conversion,
) -> Map<String, Value> {
    let mut options = values.clone();
    let entries = match options.remove(LIST) {
        None | Some(Value::Null) => return options,
        Some(Value::Array(entries)) => entries,
        Some(other) => {
            conversion.refuse(
                LIST,
                &other,
                "expected a list of variables, each with name and value",
            );
            return options;
        }
    };
    for entry in &entries {
        let name = entry
            .get("name")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let field = format!("{LIST}.{name}");
        if is_of_process(name) {
            conversion.notes.push(format!("{field}: not needed"));
            continue;
        }
        let Some(option) = option_of(name) else {
            let remedy = match api::syntax::nearest(
                name,
                known()
                    .map(variable_of)
                    .collect::<Vec<_>>()
                    .iter()
                    .map(String::as_str),
            ) {
                Some(meant) => format!(
                    "NTH reads no such variable (did you mean {meant}?): correct it or take it out"
                ),
                None => "NTH reads no such variable: take it out".to_owned(),
            };
            conversion.refuse(&field, entry.get("value").unwrap_or(&json!("")), remedy);
            continue;
        };
        let secret = entry.pointer("/valueFrom/secretKeyRef/name");
        match (entry.get("value"), secret, entry.get("valueFrom")) {
            (None | Some(Value::Null), Some(secret), _) if option == "webhookURL" => {
                options.remove(&option);
                options.insert("webhookURLSecretName".to_owned(), secret.clone());
            }
            (None | Some(Value::Null), _, Some(source)) if !SECRETS.contains(&option.as_str()) => {
                let remedy = "its value is in another object, which is not read: give it as value";
                conversion.refuse(&field, source, remedy);
                continue;
            }
            (value, ..) => {
                // NTH takes an empty variable for one that is not set.
                let text = value
                    .filter(|value| !value.is_null())
                    .map(shown)
                    .unwrap_or_default();
                let is_secret = SECRETS.contains(&option.as_str());
                options.insert(
                    option.clone(),
                    if is_secret { "***".into() } else { text.into() },
                );
            }
        }
        conversion.notes.push(format!("{field}: read as {option}"));
    }
    options
}

/// The option that a variable sets.
fn option_of(variable: &str) -> Option<String> {
    let renamed = RENAMED.iter().find(|(name, _)| *name == variable);
    let options = known().chain(SECRETS).filter(|option| *option != LIST);
    let mut named = options.filter(|option| variable_of(option) == variable);
    let option = renamed.map(|(_, option)| *option).or_else(|| named.next());
    match variable {
        "WEBHOOK_TEMPLATE_FILE" => Some("webhookTemplateConfigMapName".to_owned()),
        _ => option.map(str::to_owned),
    }
}

/// The variable of an option: `CHECK_ASG_TAG_BEFORE_DRAINING` of `checkASGTagBeforeDraining`.
fn variable_of(option: &str) -> String {
    let characters: Vec<char> = option.chars().collect();
    let is_upper = |at: Option<usize>| {
        at.and_then(|at| characters.get(at))
            .is_some_and(char::is_ascii_uppercase)
    };
    let mut variable = String::new();
    for (at, character) in characters.iter().enumerate() {
        let begins_word = character.is_ascii_uppercase()
            && at > 0
            && (!is_upper(at.checked_sub(1))
                || characters.get(at + 1).is_some_and(char::is_ascii_lowercase));
        if begins_word {
            variable.push('_');
        }
        variable.push(character.to_ascii_uppercase());
    }
    variable
}

/// Whether a variable is about the process or its calls of AWS and Kubernetes, and not an option of NTH.
fn is_of_process(variable: &str) -> bool {
    let is_of_aws = variable.starts_with("AWS_")
        && !SECRETS.iter().any(|option| variable_of(option) == variable);
    let is_proxy =
        ["HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"].contains(&variable.to_ascii_uppercase().as_str());
    let is_of_go = ["GODEBUG", "GOGC", "GOMAXPROCS", "GOMEMLIMIT", "TZ"].contains(&variable);
    is_of_aws || is_proxy || is_of_go || OF_POD.contains(&variable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_read_as_their_options() {
        for (variable, option) in [
            ("CORDON_ONLY", "cordonOnly"),
            ("CHECK_ASG_TAG_BEFORE_DRAINING", "checkASGTagBeforeDraining"),
            (
                "ENABLE_SQS_TERMINATION_DRAINING",
                "enableSqsTerminationDraining",
            ),
            ("INSTANCE_METADATA_URL", "instanceMetadataURL"),
            ("WEBHOOK_URL", "webhookURL"),
            ("MANAGED_TAG", "managedTag"),
            ("USE_APISERVER_CACHE", "useApiServerCache"),
            (
                "COMPLETE_LIFECYCLE_ACTION_DELAY_SECONDS",
                "completeLifecycleActionDelaySeconds",
            ),
            ("AWS_SECRET_ACCESS_KEY", "awsSecretAccessKey"),
        ] {
            assert_eq!(option_of(variable).as_deref(), Some(option), "{variable}");
        }
        assert_eq!(option_of("CORDON"), None);
        assert_eq!(option_of("EXTRA_ENV"), None);
    }
}
