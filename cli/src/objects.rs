//! Objects to check, as the API server returns them.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use k8s::{ContextClient, ContextSelection};
use serde_json::Value;

use crate::{
    convert::document::{self, Source},
    progress::Progress,
};

#[derive(Clone, Default)]
pub(crate) struct Objects(Vec<Value>);

impl Objects {
    pub(crate) fn of_files(files: &[PathBuf]) -> Result<Self> {
        let mut objects = Vec::new();
        for source in document::read(files)? {
            match source {
                Source::Document(document) => objects.push(document.object),
                Source::Unreadable(refusal) => bail!("--manifests: {refusal}"),
            }
        }
        Ok(Self(objects))
    }

    #[cfg(all(test, feature = "aws"))]
    pub(crate) fn of_values(objects: Vec<Value>) -> Self {
        Self(objects)
    }

    /// Reads lists of a running cluster. Each path comes with the kind of its items, which the items do not contain. Lists that the API
    /// server does not serve are empty.
    pub(crate) fn of_cluster(selection: &ContextSelection, lists: &[(&str, &str)]) -> Result<Self> {
        let _progress = Progress::of("Reading the cluster");
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        runtime.block_on(async {
            let ContextClient { context, client } = k8s::from_kubeconfig(selection).await?;
            let read = Self::of_client(&client, lists).await;
            read.with_context(|| format!("cannot read the cluster of context {context}"))
        })
    }

    pub(crate) async fn of_client(client: &k8s::Client, lists: &[(&str, &str)]) -> Result<Self> {
        let get = async |path: &str| {
            let request = http::Request::get(path).body(Vec::new())?;
            let answer: Result<Value, _> = client.request(request).await;
            answer.with_context(|| format!("cannot read {path}"))
        };
        let served = get("/apis").await?;
        let mut objects = Vec::new();
        for (path, kind) in lists.iter().filter(|(path, _)| is_served(&served, path)) {
            let list = get(path).await?;
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
    }

    pub(crate) fn of_kind<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Value> {
        self.0
            .iter()
            .filter(move |object| object.get("kind").and_then(Value::as_str) == Some(kind))
    }

    /// Pods without an owner, and workloads, each with metadata and spec of its pods. A pod with an owner is covered by its owner.
    pub(crate) fn templates(&self) -> Vec<(String, &Value)> {
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

    pub(crate) fn bare_pods(&self) -> impl Iterator<Item = &Value> {
        self.of_kind("Pod")
            .filter(|pod| pod.pointer("/metadata/ownerReferences").is_none())
    }
}

/// Whether the API server serves a list's group and version.
fn is_served(served: &Value, path: &str) -> bool {
    let Some(of_group) = path.strip_prefix("/apis/") else {
        return true;
    };
    let groups = served.get("groups").and_then(Value::as_array);
    let versions = groups
        .into_iter()
        .flatten()
        .filter_map(|group| group.get("versions")?.as_array())
        .flatten();
    let mut names = versions.filter_map(|version| version.get("groupVersion")?.as_str());
    names.any(|name| {
        let rest = of_group.strip_prefix(name);
        rest.is_some_and(|rest| rest.starts_with('/'))
    })
}

/// The text at a pointer of an object; empty if there is none.
pub(crate) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    let value = object.pointer(pointer).and_then(Value::as_str);
    value.unwrap_or_default()
}

/// Kind and name, with the namespace if there is one.
pub(crate) fn short_name(object: &Value) -> String {
    let (kind, name) = (text(object, "/kind"), text(object, "/metadata/name"));
    match text(object, "/metadata/namespace") {
        "" => format!("{kind} {name}"),
        namespace => format!("{kind} {namespace}/{name}"),
    }
}

/// Kind, namespace and name.
pub(crate) fn name(object: &Value) -> String {
    let part = |field: &str| object.pointer(field).and_then(Value::as_str);
    format!(
        "{} {}/{}",
        part("/kind").unwrap_or_default(),
        part("/metadata/namespace").unwrap_or("default"),
        part("/metadata/name").unwrap_or_default()
    )
}
