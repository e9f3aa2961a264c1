//! The ConfigMap through which functions pass a cluster's status to its relay, which serves it. Only the chart creates it.

use std::collections::BTreeMap;

use model::{Lane, status::CONFIG_MAP};
use ports::{ClusterError, cluster::StatusDocument};
use serde::{Deserialize, de::IgnoredAny};
use serde_json::json;

use crate::transport::{Path, Transport};

#[derive(Deserialize)]
struct ConfigMap {
    metadata: Metadata,
    #[serde(default)]
    data: Option<BTreeMap<String, String>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    #[serde(default)]
    resource_version: String,
}

pub(crate) async fn read(
    transport: &Transport,
    namespace: &str,
    lane: Lane,
) -> Result<Option<StatusDocument>, ClusterError> {
    let found: Option<ConfigMap> = transport.get(path(namespace), &what()).await?;
    Ok(found.map(|found| {
        let mut data = found.data.unwrap_or_default();
        StatusDocument {
            text: data.remove(lane.as_str()).unwrap_or_default(),
            resource_version: found.metadata.resource_version,
        }
    }))
}

pub(crate) async fn store(
    transport: &Transport,
    namespace: &str,
    lane: Lane,
    document: &StatusDocument,
) -> Result<(), ClusterError> {
    let patch = json!({
        "metadata": {"resourceVersion": document.resource_version},
        "data": {lane.as_str(): document.text},
    });
    transport
        .merge::<IgnoredAny>(path(namespace), &patch, &what())
        .await
        .map(drop)
}

fn path(namespace: &str) -> Path {
    Path::raw(format!(
        "/api/v1/namespaces/{namespace}/configmaps/{CONFIG_MAP}"
    ))
}

fn what() -> String {
    format!("ConfigMap {CONFIG_MAP}")
}
