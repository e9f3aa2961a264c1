//! Options of the AWS Node Termination Handler as settings of a cluster's registry entry (docs/spec/migrate.md#nth-options).

mod environment;
mod handler;
mod options;
mod values;
mod webhook;

use std::{fs, io::Write, path::PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use serde_json::{Map, Value, json};

use self::{
    handler::Options,
    options::{NOT_NEEDED, known},
};
use crate::{convert::edit::Refusal, exit::Exit};

#[derive(Args)]
#[command(after_help = "Examples:
  helm get values aws-node-termination-handler -n kube-system > nth.yaml
  whittle import nth -f nth.yaml
  whittle import nth -f nth.yaml --webhook-parameter /whittle/webhook")]
pub(super) struct Arguments {
    /// Values of NTH's chart, as printed by `helm get values`
    #[arg(short = 'f', long = "filename", value_name = "FILE")]
    file: PathBuf,
    /// SecureString parameter with the webhook's URL, which replaces a Secret
    #[arg(long, value_name = "PARAMETER")]
    webhook_parameter: Option<String>,
}

/// Prints the settings, and reports the outcome of each option; exits with 1 where one is refused.
pub(super) fn run(arguments: &Arguments) -> Result<Exit> {
    let name = arguments.file.display();
    let text = fs::read_to_string(&arguments.file);
    let text = text.with_context(|| format!("cannot read {name}"))?;
    let conversion = convert(&text, arguments.webhook_parameter.as_deref());
    let conversion = conversion.with_context(|| name.to_string())?;
    for note in &conversion.notes {
        eprintln!("{note}");
    }
    for refusal in &conversion.refusals {
        eprintln!("whittle: {refusal}");
    }
    if !conversion.refusals.is_empty() {
        return Ok(Exit::Refused);
    }
    let entry = conversion.entry()?;
    writeln!(
        std::io::stdout().lock(),
        "{}",
        serde_json::to_string_pretty(&entry)?
    )?;
    eprintln!(
        "add these settings to the cluster's registry entry; docs/how-to/migrate-from-node-termination-handler.md has the steps of the migration"
    );
    Ok(Exit::Done)
}

/// Converts a chart's values.
pub(crate) fn convert(text: &str, webhook_parameter: Option<&str>) -> Result<Conversion> {
    // helm prints a title above the values, and `null` where none differs from the defaults.
    let text = TITLES
        .iter()
        .find_map(|title| text.trim_start().strip_prefix(title))
        .unwrap_or(text);
    let values = match text.trim() {
        "" => Value::Null,
        text => serde_saphyr::from_str(text).context("it is not YAML")?,
    };
    let values = match values {
        Value::Object(values) => values,
        Value::Null => Map::new(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            bail!("expected values of the chart, a mapping of options")
        }
    };
    refuse_other_documents(&values)?;
    let mut conversion = Conversion::default();
    let values = environment::applied(&values, &mut conversion);
    let read = Options {
        values: &values,
        webhook_parameter,
        conversion,
    };
    Ok(read.convert())
}

/// Refuses manifests, and values of a chart that has NTH's as a part: taking their fields out would lose all options.
fn refuse_other_documents(values: &Map<String, Value>) -> Result<()> {
    if let Some(kind) = values.get("kind").and_then(Value::as_str)
        && values.contains_key("apiVersion")
    {
        bail!(
            "it is of kind {kind}, not values of NTH's chart: give what `helm get values aws-node-termination-handler --namespace kube-system` prints"
        );
    }
    match place_of_options(values) {
        Some(place) if !place.is_empty() => {
            let place = place.join(".");
            bail!(
                "it has the values of NTH's chart below {place}: give what is below {place} alone, as a file of its own"
            )
        }
        Some(_) | None => Ok(()),
    }
}

/// The keys above the first options of NTH; empty if they are at the top, `None` without any.
fn place_of_options(values: &Map<String, Value>) -> Option<Vec<&str>> {
    // Names such as `image` and `tolerations` are values of many charts, and kOps writes abbreviations in capitals.
    let is_of_nth = |key: &str| {
        let mut options = known().filter(|option| !NOT_NEEDED.contains(option));
        options.any(|option| option.eq_ignore_ascii_case(key))
    };
    if values.keys().any(|key| is_of_nth(key)) {
        return Some(Vec::new());
    }
    let mut parts = values
        .iter()
        .filter_map(|(key, part)| Some((key, part.as_object()?)));
    parts.find_map(|(key, part)| {
        let mut place = place_of_options(part)?;
        place.insert(0, key);
        Some(place)
    })
}

/// Titles that `helm get values` prints in the first line.
const TITLES: [&str; 2] = ["USER-SUPPLIED VALUES:", "COMPUTED VALUES:"];

#[derive(Default)]
pub(crate) struct Conversion {
    handler: Map<String, Value>,
    notifications: Vec<Value>,
    notes: Vec<String>,
    refusals: Vec<Refusal>,
}

impl Conversion {
    /// The registry entry with the settings that replace NTH's options.
    pub(crate) fn entry(&self) -> Result<Value> {
        let entry = json!({"settings": self.settings()});
        turns::Entry::read(&entry).context("what came out is no registry entry")?;
        Ok(entry)
    }

    /// Refuses the option whose value the registry entry does not allow.
    fn refuse_invalid_settings(&mut self, values: &Map<String, Value>) {
        if !self.refusals.is_empty() {
            return;
        }
        let Err(error) = turns::Entry::read(&json!({"settings": self.settings()})) else {
            return;
        };
        let error = error.to_string();
        let (field, rest) = error.split_once(" is ").unwrap_or((&error, ""));
        let remedy = rest.rsplit_once(": expected ").map_or_else(
            || error.clone(),
            |(_, expected)| format!("expected {expected}"),
        );
        let last = field.rsplit('.').next().unwrap_or(field);
        let (option, remedy) = match field.strip_prefix("settings.notifications[0]") {
            Some(".template") => ("webhookTemplate", webhook::NO_FIELD.to_owned()),
            Some(".to") => ("webhookURL", remedy),
            Some(headers) if headers.starts_with(".headers") => ("webhookHeaders", remedy),
            _ => (last, remedy),
        };
        let value = values.get(option).cloned().unwrap_or_default();
        self.refuse(option, &value, remedy);
    }

    fn settings(&self) -> Value {
        let mut settings = Map::new();
        settings.insert(
            "nodeTerminationHandler".to_owned(),
            Value::Object(self.handler.clone()),
        );
        if !self.notifications.is_empty() {
            settings.insert("notifications".to_owned(), json!(self.notifications));
        }
        Value::Object(settings)
    }

    fn refuse(&mut self, field: &str, value: &Value, remedy: impl Into<String>) {
        self.refusals.push(Refusal {
            object: "Node Termination Handler".to_owned(),
            field: field.to_owned(),
            value: shown(value),
            remedy: remedy.into(),
        });
    }
}

fn shown(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}
