//! Manifests that are made of a group.

use serde_json::{Map, Value, json};

use super::{cluster::Cluster, fields};
use crate::convert::edit::Edit;

/// An object named after the group.
pub(super) fn object(
    edit: &Edit,
    cluster: &Cluster,
    version: &str,
    kind: &str,
    spec: Value,
) -> Edit {
    let mut labels = Map::new();
    labels.insert(fields::MANAGED_BY.0.to_owned(), fields::MANAGED_BY.1.into());
    labels.insert(
        fields::CLUSTER_LABEL.to_owned(),
        cluster.name.as_str().into(),
    );
    edit.caused(json!({
        "apiVersion": version, "kind": kind, "metadata": { "name": name(edit), "labels": labels }, "spec": spec,
    }))
}

pub(super) fn name(edit: &Edit) -> &str {
    edit.text_at("/metadata/name").unwrap_or_default()
}
