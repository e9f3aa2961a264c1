//! Record of the accesses that RBAC decided on: user, verb, resource and the role that allowed each. Tests compare it
//! with the rights that roles grant.

mod used;

use serde_json::{Value, json};

pub use self::used::UsedAccess;
use crate::{
    error::{ApiError, ApiResult},
    sandbox::{Credential, Sandbox},
    server::WriteOptions,
};

impl Sandbox {
    /// Returns each distinct access by a user who is not an administrator.
    pub fn accesses(&self) -> Vec<UsedAccess> {
        self.shared.accesses()
    }

    /// Creates the objects, and the namespaces that they name where these do not exist yet.
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
                    let namespace_object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
                    match create("", &namespace_object) {
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
    /// Credential of a user with the rights that RBAC gives to these groups. The token is `token-of-<user>`.
    pub fn member(user: &str, groups: &[&str]) -> Self {
        Self {
            token: format!("token-of-{user}"),
            user: user.to_owned(),
            groups: groups.iter().map(|group| (*group).to_owned()).collect(),
        }
    }
}
