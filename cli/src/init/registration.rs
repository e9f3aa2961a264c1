//! The registry entry of the cluster, compared with the options of the command.

use model::ledger::Mode;
use serde_json::Value;

use super::{Arguments, invocation::shell_word, steps::Found};

/// State of the registration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Registration {
    pub(crate) found: Found,
    /// Mode of the entry, shadow mode for a new one; `None` if the entry names none.
    pub(crate) mode: Option<Mode>,
    /// Network of the options, else of the entry, else `public`.
    pub(crate) reach: String,
    /// Options of `whittle register` that write the entry, each after a space.
    pub(crate) options: String,
}

impl Registration {
    /// Compares the body of an entry, if there is one, with the options; the error of the body is the reason why functions refuse it.
    pub(crate) fn of(entry: Option<Result<&Value, String>>, arguments: &Arguments) -> Self {
        let Some(body) = entry else {
            return Self::new(Found::Missing, None, arguments);
        };
        let refused = body.as_ref().ok().map(|body| Values::of(body));
        let read = body.and_then(|body| {
            let read = turns::Entry::read(body).map_err(|error| error.to_string())?;
            Ok((body, read))
        });
        match read {
            Err(why) => {
                let found = Found::Wrong(format!("its entry is refused: {why}"));
                Self::new(found, refused.as_ref(), arguments)
            }
            Ok((body, read)) => {
                let differences = differences(body, &read, arguments);
                let found = match differences.is_empty() {
                    true => Found::There,
                    false => Found::Wrong(differences.join("; ")),
                };
                Self::new(found, Some(&Values::of(body)), arguments)
            }
        }
    }

    /// The registration if entries cannot be read, for this reason.
    #[cfg(feature = "aws")]
    pub(crate) fn unknown(why: String, arguments: &Arguments) -> Self {
        Self::new(Found::Unknown(why), None, arguments)
    }

    fn new(found: Found, entry: Option<&Values<'_>>, arguments: &Arguments) -> Self {
        let of_entry = entry.and_then(|entry| entry.reach);
        let reach = arguments.reach.as_deref().or(of_entry);
        let reach = reach.unwrap_or("public");
        let of_entry = entry.and_then(|entry| entry.settings);
        let of_entry = of_entry.filter(|settings| !is_empty(settings));
        let mut options = String::new();
        if let Found::Wrong(_) = found {
            options.push_str(" --replace");
        }
        if reach != "public" {
            options.push_str(&format!(" --reach {reach}"));
        }
        if let Some(settings) = arguments.settings.as_ref().or(of_entry) {
            let settings = settings.to_string();
            options.push_str(&format!(" --settings {}", shell_word(&settings)));
        }
        let mode = match found {
            Found::Missing => Some(Mode::Shadow),
            Found::There | Found::Wrong(_) | Found::Unknown(_) => {
                entry.and_then(|entry| entry.mode)
            }
        };
        Self {
            found,
            mode,
            reach: reach.to_owned(),
            options,
        }
    }
}

/// Values that an entry keeps when it is written again, also if functions refuse it.
struct Values<'b> {
    mode: Option<Mode>,
    reach: Option<&'b str>,
    settings: Option<&'b Value>,
}

impl<'b> Values<'b> {
    fn of(body: &'b Value) -> Self {
        let text = |key| body.get(key).and_then(Value::as_str);
        Self {
            mode: match body.get("mode").map(Value::as_str) {
                None | Some(Some("shadow")) => Some(Mode::Shadow),
                Some(Some("active")) => Some(Mode::Active),
                Some(_) => None,
            },
            reach: text("reach"),
            settings: body.get("settings"),
        }
    }
}

/// Values of an entry that contradict the options.
fn differences(body: &Value, entry: &turns::Entry, arguments: &Arguments) -> Vec<String> {
    let mut differences = Vec::new();
    let cluster_type = body.get("type").and_then(Value::as_str);
    if cluster_type != Some("eks") {
        let cluster_type = cluster_type.unwrap_or("?");
        differences.push(format!("its type is {cluster_type}, not eks"));
    }
    if let Some(reach) = &arguments.reach
        && *reach != entry.reach
    {
        differences.push(format!("its reach is {}, not {reach}", entry.reach));
    }
    if let Some(settings) = &arguments.settings
        && *settings != entry.raw_settings
    {
        differences.push(format!(
            "its settings are {}, not {settings}",
            entry.raw_settings
        ));
    }
    differences
}

fn is_empty(settings: &Value) -> bool {
    settings.as_object().is_some_and(serde_json::Map::is_empty)
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use serde_json::json;

    use super::*;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        init: Arguments,
    }

    fn registration(entry: Option<&Value>, options: &[&str]) -> Registration {
        let words = [&["program", "prod"], options].concat();
        Registration::of(entry.map(Ok), &Program::parse_from(words).init)
    }

    const VPC: &str = "vpc:vpc-1";

    #[test]
    fn entry_keeps_its_reach_mode_and_settings_unless_options_contradict() {
        let entry = json!({"type": "eks", "mode": "active", "reach": VPC, "settings": {"optimize": "upstream"}});
        let same = registration(Some(&entry), &[]);
        assert_eq!(same.found, Found::There);
        assert_eq!((same.mode, same.reach.as_str()), (Some(Mode::Active), VPC));
        let same = registration(Some(&entry), &["--reach", VPC]);
        assert_eq!(same.found, Found::There);

        let other = registration(
            Some(&entry),
            &[
                "--reach",
                "public",
                "--settings",
                r#"{"guards": {"nodes": 5}}"#,
            ],
        );
        let why = "its reach is vpc:vpc-1, not public; its settings are {\"optimize\":\"upstream\"}, not {\"guards\":{\"nodes\":5}}";
        assert_eq!(other.found, Found::Wrong(why.to_owned()));
        assert_eq!(other.reach, "public");
        assert_eq!(
            other.options,
            r#" --replace --settings '{"guards":{"nodes":5}}'"#
        );
        let other = registration(Some(&entry), &["--reach", "vpc:vpc-2"]);
        assert_eq!(
            other.options,
            r#" --replace --reach vpc:vpc-2 --settings '{"optimize":"upstream"}'"#
        );
    }

    #[test]
    fn missing_refused_and_other_entries_are_no_registration() {
        let missing = registration(None, &["--reach", VPC]);
        assert_eq!(missing.found, Found::Missing);
        assert_eq!(missing.mode, Some(Mode::Shadow));
        assert_eq!(missing.options, " --reach vpc:vpc-1");
        let entry = json!({"type": "eks", "mode": "active", "reach": VPC, "settings": {"optimize": "speed"}});
        let refused = registration(Some(&entry), &[]);
        assert_eq!(
            (refused.mode, refused.reach.as_str()),
            (Some(Mode::Active), VPC)
        );
        assert_eq!(
            refused.options,
            r#" --replace --reach vpc:vpc-1 --settings '{"optimize":"speed"}'"#
        );
        let refused = registration(Some(&json!({"type": "eks", "mode": "on"})), &[]);
        assert_eq!(
            refused.found,
            Found::Wrong(
                "its entry is refused: mode is \"on\": expected \"active\" or \"shadow\""
                    .to_owned()
            )
        );
        assert_eq!(
            (refused.mode, refused.options.as_str()),
            (None, " --replace")
        );
        let other = registration(Some(&json!({"type": "endpoint"})), &[]);
        assert_eq!(
            other.found,
            Found::Wrong("its type is endpoint, not eks".to_owned())
        );
    }
}
