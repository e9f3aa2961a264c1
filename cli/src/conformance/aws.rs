//! Recorded cases of the AWS provider: one document of many cases, with the raw EC2 facts that they share in files beside it.

mod account;
mod admission;
mod describe;
mod drift;
mod errors;
mod fleet;
mod images;
mod instance_types;
mod interruption;
mod launch;
mod profile;
mod requests;
mod selectors;
mod settings;
mod user_data;
mod validation;

use std::{
    io::{BufReader, Write},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use serde::{
    Deserialize,
    de::{DeserializeOwned, IgnoredAny},
};
use serde_json::{Map, Value, json};

use self::account::RegionFacts;
use crate::catalogs;

/// Start of a file's first JSON value, which distinguishes a document of cases from lines of cases.
#[derive(Deserialize)]
struct Shape {
    cases: Option<IgnoredAny>,
    codes: Option<IgnoredAny>,
}

/// The cases of a file. `errors.json` has no kind and lists codes instead.
#[derive(Deserialize)]
struct Document {
    #[serde(default)]
    kind: String,
    #[serde(default)]
    cases: Vec<Value>,
    #[serde(default)]
    codes: Vec<Value>,
    #[serde(default, rename = "reasonByText")]
    texts: Vec<Value>,
}

/// Whether a file contains a document of cases.
pub(super) fn is_document(file: &Path) -> Result<bool> {
    let reader = BufReader::new(catalogs::open(file)?);
    let mut values = serde_json::Deserializer::from_reader(reader).into_iter::<Shape>();
    Ok(match values.next() {
        Some(Ok(shape)) => shape.cases.is_some() || shape.codes.is_some(),
        // The reader of its lines reports the error.
        Some(Err(_)) | None => false,
    })
}

/// Decides the cases whose id contains `only`, and writes a line for each.
pub(super) fn run(
    file: &Path,
    data: Option<&Path>,
    only: &str,
    out: &mut impl Write,
) -> Result<()> {
    let document: Document = serde_json::from_reader(catalogs::open(file)?)
        .with_context(|| format!("{}: no document of cases", file.display()))?;
    let beside = file.parent().map(Path::to_owned);
    let mut deciding = Deciding {
        kind: document.kind,
        folders: beside.into_iter().chain(data.map(Path::to_owned)).collect(),
        region: None,
    };
    if !document.codes.is_empty() {
        "errors".clone_into(&mut deciding.kind);
    }
    let codes = document
        .codes
        .into_iter()
        .map(|code| (id("code", &code), code));
    let texts = document
        .texts
        .into_iter()
        .map(|text| (id("text", &text), text));
    let cases = document
        .cases
        .into_iter()
        .map(|case| (id("id", &case), case));
    for (id, case) in codes.chain(texts).chain(cases) {
        if !id.contains(only) {
            continue;
        }
        let answer = match deciding.decide(case) {
            Ok(got) => json!({"id": id, "got": got}),
            Err(error) => json!({"id": id, "error": format!("{error:#}")}),
        };
        writeln!(out, "{answer}")?;
    }
    Ok(())
}

/// The id that decisions are matched by; a case without an id gets one derived from its content.
fn id(field: &str, case: &Value) -> String {
    let text = |name: &str| case.get(name).and_then(Value::as_str).unwrap_or_default();
    match (field, text("nodeClass")) {
        ("id", class) if !class.is_empty() => format!(
            "legacy-profile-name/{}/{}/{class}",
            text("clusterName"),
            text("region")
        ),
        ("id", _) => text("id").to_owned(),
        _ => format!("{field}/{}", text(field)),
    }
}

struct Deciding {
    kind: String,
    /// Folders to search for raw EC2 facts.
    folders: Vec<PathBuf>,
    /// Read for the first case that needs them.
    region: Option<RegionFacts>,
}

impl Deciding {
    fn decide(&mut self, case: Value) -> Result<Value> {
        match self.kind.as_str() {
            "errors" => errors::decide(read(case)?),
            "cel-ec2nodeclass" | "cel-nodepool" | "cel-nodeclaim-nodeoverlay" => {
                admission::decide(read(case)?)
            }
            "instance-types-resolved-capacity" | "instance-types-resolved-offerings" => {
                instance_types::decide(read(case)?, self.region()?)
            }
            "nodeclass-legacy-profile-names" => Ok(drift::profile_name(read(case)?)),
            "nodeclass-hash" => drift::hash(read(case)?),
            "nodeclass-drift" => drift::decide(read(case)?, self.region()?),
            "nodeclass-profile" => profile::decide(read(case)?),
            "nodeclass-selectors" => selectors::decide(read(case)?),
            "interruption-messages" => interruption::decide(read(case)?),
            "nodeclass-validation" => validation::decide(read(case)?, self.region()?),
            "ami-resolution" => images::decide(read(case)?, self.region()?),
            kind if kind.starts_with("userdata-") => user_data::decide(read(case)?, self.region()?),
            kind if kind.starts_with("launch-") => launch::decide(read(case)?, self.region()?),
            kind => bail!("cases of kind {kind} are not decided here"),
        }
    }

    fn region(&mut self) -> Result<&RegionFacts> {
        if self.region.is_none() {
            self.region = Some(RegionFacts::read(&self.folders)?);
        }
        self.region.as_ref().context("the facts of the Region")
    }
}

fn read<T: DeserializeOwned>(case: Value) -> Result<T> {
    serde_json::from_value(case).context("the case cannot be read")
}

/// A JSON object with these members.
fn object<const N: usize>(members: [(&str, Value); N]) -> Map<String, Value> {
    members
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}
