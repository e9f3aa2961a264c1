//! Objects of Karpenter that the API server would refuse, by the schemas of their CRDs.

use std::collections::BTreeMap;

use anyhow::Result;
use api::manifests::{Manifests, SourceLocation};
use model::Snapshot;
use sandbox::error::FieldError;
use serde_json::Value;

use crate::crds;

#[derive(Default)]
pub(super) struct Refusals {
    /// Refusals of NodePools, by name: field, and the whole message.
    node_pools: BTreeMap<String, Vec<(String, String)>>,
    /// Refusals of other objects, and of objects that cannot be parsed.
    pub(super) others: Vec<String>,
}

/// Finds all errors that parsing the manifests does not find.
pub(super) fn of(manifests: &Manifests) -> Result<Refusals> {
    let mut refusals = Refusals::default();
    let is_unread = |place: &SourceLocation, field: Option<&str>| {
        manifests.errors.iter().any(|error| {
            let same = (error.place.document, error.place.item) == (place.document, place.item)
                && error.place.file == place.file;
            same && field.is_none_or(|field| is_about(error.field.as_deref(), field))
        })
    };
    for written in &manifests.written {
        let (kind, place) = (written.kind.as_str(), &written.place);
        let is_read = !is_unread(place, None);
        let is_pool = kind == "NodePool" && is_read;
        // Other objects without an effect are reported with the reason.
        if is_read && !is_pool && kind != "EC2NodeClass" {
            continue;
        }
        for error in errors(kind, &written.value)? {
            if is_unread(place, Some(&error.field)) {
                continue;
            }
            let message = error.to_string();
            if is_pool {
                let name = written.value.pointer("/metadata/name");
                let name = name.and_then(Value::as_str).unwrap_or_default().to_owned();
                let known = refusals.node_pools.entry(name).or_default();
                known.push((error.field, message));
            } else {
                refusals.others.push(format!("{place}: {message}"));
            }
        }
    }
    Ok(refusals)
}

impl Refusals {
    /// Marks refused NodePools, which launch nothing; errors that are known already are not repeated.
    pub(super) fn apply(&self, snapshot: &mut Snapshot) {
        for pool in &mut snapshot.node_pools {
            let found = self.node_pools.get(&pool.name.0).into_iter().flatten();
            for (field, message) in found {
                match &mut pool.not_ready {
                    Some(known)
                        if [":", "["]
                            .iter()
                            .any(|end| known.contains(&format!("{field}{end}"))) => {}
                    Some(known) => {
                        known.push_str("; ");
                        known.push_str(message);
                    }
                    None => pool.not_ready = Some(message.clone()),
                }
            }
        }
    }
}

fn errors(kind: &str, object: &Value) -> Result<Vec<FieldError>> {
    let schema = crds::schema(kind)?;
    let mut object = object.clone();
    schema.prune(&mut object);
    schema.apply_defaults(&mut object);
    Ok(schema.validate(&object, None))
}

fn is_about(known: Option<&str>, field: &str) -> bool {
    known.is_some_and(|known| known == field || known.starts_with(&format!("{field}[")))
}
