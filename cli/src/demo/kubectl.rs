//! The user's kubectl commands, through the same API.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use http::{Request, header::CONTENT_TYPE};
use k8s::Client;
use model::NodeName;
use serde_json::{Value, json};

pub(super) struct Kubectl {
    client: Client,
}

/// Maximum number of attempts: a CRD is served a moment after its creation.
const ATTEMPTS_MAX: u32 = 100;
const PAUSE: Duration = Duration::from_millis(100);

impl Kubectl {
    pub(super) fn new(client: Client) -> Self {
        Self { client }
    }

    /// Applies every document with server-side apply.
    pub(super) async fn apply(&self, manifests: &str) -> Result<()> {
        let documents: Vec<Value> = serde_saphyr::from_multiple(manifests)?;
        for document in &documents {
            self.apply_one(document).await?;
        }
        Ok(())
    }

    pub(super) async fn apply_one(&self, object: &Value) -> Result<()> {
        let (path, what) = path(object)?;
        let uri = format!("{path}?fieldManager=kubectl&fieldValidation=Strict");
        let body = serde_json::to_vec(object)?;
        let content_type = "application/apply-patch+yaml";
        let mut tries = 0;
        while let Err(error) = self.patch(&uri, content_type, body.clone()).await {
            tries += 1;
            let not_served = error.contains("404") || error.contains("not find");
            if !not_served || tries == ATTEMPTS_MAX {
                bail!("cannot apply {what}: {error}");
            }
            tokio::time::sleep(PAUSE).await;
        }
        Ok(())
    }

    pub(super) async fn scale(&self, deployment: &str, replicas: usize) -> Result<()> {
        let uri = format!("/apis/apps/v1/namespaces/default/deployments/{deployment}/scale");
        let body = serde_json::to_vec(&json!({"spec": {"replicas": replicas}}))?;
        let patched = self.patch(&uri, "application/merge-patch+json", body).await;
        match patched {
            Ok(()) => Ok(()),
            Err(error) => bail!("cannot scale deployment/{deployment}: {error}"),
        }
    }

    pub(super) async fn annotate_node(
        &self,
        node: &NodeName,
        key: &str,
        value: &str,
    ) -> Result<()> {
        let uri = format!("/api/v1/nodes/{node}");
        let body = serde_json::to_vec(&json!({"metadata": {"annotations": {key: value}}}))?;
        let patched = self.patch(&uri, "application/merge-patch+json", body).await;
        match patched {
            Ok(()) => Ok(()),
            Err(error) => bail!("cannot annotate node/{node}: {error}"),
        }
    }

    /// Reads a cluster-scoped object.
    pub(super) async fn get(&self, version: &str, kind: &str, name: &str) -> Result<Value> {
        let (path, _) = path(&json!({
            "apiVersion": version, "kind": kind, "metadata": {"name": name},
        }))?;
        Ok(self
            .client
            .request(Request::get(path).body(Vec::new())?)
            .await?)
    }

    /// The events of all namespaces.
    pub(super) async fn events(&self) -> Result<Vec<Value>> {
        let request = Request::get("/api/v1/events").body(Vec::new())?;
        let mut list: Value = self.client.request(request).await?;
        let items = list.get_mut("items").map(Value::take);
        Ok(serde_json::from_value(items.unwrap_or_default())?)
    }

    async fn patch(&self, uri: &str, content_type: &str, body: Vec<u8>) -> Result<(), String> {
        let request = Request::patch(uri)
            .header(CONTENT_TYPE, content_type)
            .body(body)
            .map_err(|error| error.to_string())?;
        self.client
            .request::<Value>(request)
            .await
            .map(drop)
            .map_err(|error| error.to_string())
    }
}

/// The path of an object in the API, and its name in kubectl's output.
fn path(object: &Value) -> Result<(String, String)> {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
    let version = text("/apiVersion").context("a manifest without apiVersion")?;
    let kind = text("/kind").context("a manifest without kind")?;
    let name = text("/metadata/name").with_context(|| format!("a {kind} without a name"))?;
    let kind = kind.to_lowercase();
    let plural = if kind.ends_with('s') {
        format!("{kind}es")
    } else {
        format!("{kind}s")
    };
    let namespace = text("/metadata/namespace")
        .map(|namespace| format!("namespaces/{namespace}/"))
        .unwrap_or_default();
    Ok((
        format!("/apis/{version}/{namespace}{plural}/{name}"),
        format!("{kind}/{name}"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_served_under_their_plural() {
        let of = |api_version: &str, kind: &str, namespace: Option<&str>| {
            let metadata = json!({"name": "x", "namespace": namespace});
            let object = json!({"apiVersion": api_version, "kind": kind, "metadata": metadata});
            path(&object).unwrap().0
        };
        assert_eq!(
            of("karpenter.k8s.aws/v1", "EC2NodeClass", None),
            "/apis/karpenter.k8s.aws/v1/ec2nodeclasses/x"
        );
        assert_eq!(
            of("apps/v1", "Deployment", Some("default")),
            "/apis/apps/v1/namespaces/default/deployments/x"
        );
    }
}
