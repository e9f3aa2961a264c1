//! The objects that are looked at, as the API server has them.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::convert::document::{self, Source};

#[derive(Default)]
pub(super) struct Objects(Vec<Value>);

/// Lists of a cluster, with the kind of their items, which items of lists do not say.
const LISTS: &[(&str, &str)] = &[
    ("/api/v1/pods", "Pod"),
    ("/apis/apps/v1/deployments", "Deployment"),
    ("/apis/apps/v1/statefulsets", "StatefulSet"),
    ("/apis/apps/v1/daemonsets", "DaemonSet"),
    (
        "/apis/policy/v1/poddisruptionbudgets",
        "PodDisruptionBudget",
    ),
];

impl Objects {
    pub(super) fn of_files(files: &[PathBuf]) -> Result<Self> {
        let mut objects = Vec::new();
        for source in document::read(files)? {
            match source {
                Source::Document(document) => objects.push(document.object),
                Source::Unreadable(refusal) => bail!("--manifests: {refusal}"),
            }
        }
        Ok(Self(objects))
    }

    pub(super) fn of_cluster(context: &str) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        runtime.block_on(async {
            let client = k8s::from_kubeconfig(context).await?;
            let mut objects = Vec::new();
            for (path, kind) in LISTS {
                let request = http::Request::get(*path).body(Vec::new())?;
                let list: Value = client
                    .request(request)
                    .await
                    .with_context(|| format!("cannot list {path} of context {context}"))?;
                for mut item in list
                    .get("items")
                    .and_then(Value::as_array)
                    .cloned()
                    .unwrap_or_default()
                {
                    if let Value::Object(item) = &mut item {
                        item.insert("kind".to_owned(), (*kind).into());
                    }
                    objects.push(item);
                }
            }
            Ok(Self(objects))
        })
    }

    pub(super) fn of_kind<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Value> {
        self.0
            .iter()
            .filter(move |object| object.get("kind").and_then(Value::as_str) == Some(kind))
    }

    /// Pods that nothing made, and what makes pods: each with its metadata and spec. A pod that is owned is seen in its owner.
    pub(super) fn templates(&self) -> Vec<(String, &Value)> {
        const WORKLOADS: [&str; 5] = [
            "Deployment",
            "StatefulSet",
            "DaemonSet",
            "ReplicaSet",
            "Job",
        ];
        let mut templates = Vec::new();
        for kind in WORKLOADS {
            let found = self
                .of_kind(kind)
                .filter(|object| object.pointer("/metadata/ownerReferences").is_none());
            templates.extend(
                found.filter_map(|object| Some((name(object), object.pointer("/spec/template")?))),
            );
        }
        templates.extend(self.bare_pods().map(|pod| (name(pod), pod)));
        templates
    }

    pub(super) fn bare_pods(&self) -> impl Iterator<Item = &Value> {
        self.of_kind("Pod")
            .filter(|pod| pod.pointer("/metadata/ownerReferences").is_none())
    }
}

/// Kind, namespace and name.
pub(super) fn name(object: &Value) -> String {
    let part = |field: &str| object.pointer(field).and_then(Value::as_str);
    format!(
        "{} {}/{}",
        part("/kind").unwrap_or_default(),
        part("/metadata/namespace").unwrap_or("default"),
        part("/metadata/name").unwrap_or_default()
    )
}
