//! `settings.guards` of an entry.

use model::{NanosPerHour, caps::Caps};
use serde_json::Value;

use super::{EntryError, error};

/// Reads the cluster's caps, and the limits above which a person is asked. An unknown key is refused, because it may be a misspelt guard.
pub(super) fn guards(raw: &Value) -> Result<(Caps, Caps), EntryError> {
    const FIELD: &str = "settings.guards";
    let (mut caps, mut approve_above) = (Caps::default(), Caps::default());
    for (key, value) in object(FIELD, raw.get("guards"))? {
        let field = format!("{FIELD}.{key}");
        match key.as_str() {
            "evictionsPerHour" => caps.evictions = Some(whole_number(&field, value, PODS)?),
            "terminationsPerHour" => caps.terminations = Some(whole_number(&field, value, NODES)?),
            "approveAbove" => {
                for (key, value) in object(&field, Some(value))? {
                    let field = format!("{field}.{key}");
                    match key.as_str() {
                        "evictions" => {
                            approve_above.evictions = Some(whole_number(&field, value, PODS)?)
                        }
                        _ => of_launches(&field, key, value, &mut approve_above)?,
                    }
                }
            }
            _ => of_launches(&field, key, value, &mut caps)?,
        }
    }
    Ok((caps, approve_above))
}

const PODS: &str = "a number of pods";
const NODES: &str = "a number of nodes";

fn object<'a>(
    field: &str,
    value: Option<&'a Value>,
) -> Result<impl Iterator<Item = (&'a String, &'a Value)>, EntryError> {
    let object = match value {
        None => None,
        Some(Value::Object(object)) => Some(object),
        Some(other) => return Err(error(field, other, "a JSON object")),
    };
    Ok(object.into_iter().flatten())
}

/// Reads the caps on the price and number of launches.
fn of_launches(field: &str, key: &str, value: &Value, caps: &mut Caps) -> Result<(), EntryError> {
    match key {
        "dollarsPerHour" => {
            let price = value.as_str().and_then(NanosPerHour::from_dollars);
            let expected = "dollars as text, such as \"12.50\"";
            caps.price = Some(price.ok_or_else(|| error(field, value, expected))?);
        }
        "nodes" => caps.nodes = Some(whole_number(field, value, NODES)?),
        _ => {
            let expected = "one of the guards that docs/operations.md lists";
            return Err(error(field, value, expected));
        }
    }
    Ok(())
}

fn whole_number(field: &str, value: &Value, expected: &'static str) -> Result<u32, EntryError> {
    let number = value.as_u64().and_then(|number| u32::try_from(number).ok());
    number.ok_or_else(|| error(field, value, expected))
}
