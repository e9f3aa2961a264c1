//! The record of accesses: which role allowed whom what, for tests that compare it with what roles grant.

use serde_json::{Value, json};

use crate::{
    error::{ApiError, ApiResult},
    sandbox::{Credential, Sandbox},
    server::WriteOptions,
};

/// A kind of request that was made at least once.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UsedAccess {
    pub user: String,
    pub verb: String,
    pub group: String,
    /// With the subresource: `pods/eviction`.
    pub resource: String,
    /// The role that allowed it; `None` where it was refused.
    pub role: Option<String>,
}

impl Sandbox {
    /// Every kind of request of users other than administrators, once.
    pub fn accesses(&self) -> Vec<UsedAccess> {
        self.shared.accesses()
    }

    /// Creates these objects, in the namespaces that they name, which are made where they do not exist.
    pub fn install(&self, manifests: &[Value]) -> ApiResult<()> {
        self.with(|world, now| {
            let server = &mut world.server;
            let mut create = |namespace: &str, manifest: &Value| {
                let text = |field: &str| manifest.get(field).and_then(Value::as_str);
                let (version, name) = (text("apiVersion"), text("kind"));
                let kind = server.kinds.by_kind(version.unwrap_or_default(), name.unwrap_or_default());
                let kind = kind.cloned().ok_or_else(ApiError::unknown_path)?;
                let namespace = match kind.namespaced {
                    true => namespace,
                    false => "",
                };
                let options = WriteOptions::default();
                server.create(&kind, namespace, manifest.clone(), &options, now)
            };
            for manifest in manifests {
                let namespace = manifest.pointer("/metadata/namespace").and_then(Value::as_str);
                if let Some(namespace) = namespace {
                    let home = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
                    match create("", &home) {
                        Err(error) if error.code != 409 => return Err(error),
                        Ok(_) | Err(_) => {}
                    }
                }
                create(namespace.unwrap_or_default(), manifest)?;
            }
            Ok(())
        })
    }
}

impl Credential {
    /// Credential of a user whose token is the name, with the rights that roles give these groups.
    pub fn member(user: &str, groups: &[&str]) -> Self {
        Self {
            token: format!("token-of-{user}"),
            user: user.to_owned(),
            groups: groups.iter().map(|group| (*group).to_owned()).collect(),
        }
    }
}
