//! The registry of clusters in Parameter Store.

use async_trait::async_trait;
use ports::{CloudError, Registry, RegistryError, registry::RegistryEntry};
use serde_json::Value;

use crate::{Account, errors::refused};

const ACTION: &str = "ssm:GetParametersByPath";

#[async_trait]
impl Registry for Account {
    async fn entries(&self) -> Result<Vec<RegistryEntry>, RegistryError> {
        let call = self
            .ssm
            .get_parameters_by_path()
            .path(&self.registry_prefix);
        let mut pages = call.into_paginator().send();
        let mut entries = Vec::new();
        while let Some(page) = pages.next().await {
            let page = page.map_err(|error| registry_error(refused(ACTION)(error)))?;
            for parameter in page.parameters.unwrap_or_default() {
                let name = parameter.name.unwrap_or_default();
                let cluster = name.rsplit('/').next().unwrap_or_default();
                entries.push(RegistryEntry {
                    cluster: cluster.into(),
                    body: body(&name, parameter.value.as_deref().unwrap_or_default()),
                });
            }
        }
        entries.sort_by(|a, b| a.cluster.cmp(&b.cluster));
        Ok(entries)
    }
}

fn body(name: &str, text: &str) -> Result<Value, String> {
    match serde_json::from_str(text) {
        Ok(entry @ Value::Object(_)) => Ok(entry),
        Ok(_) => Err(format!(
            "the registry entry {name} is not a JSON object: expected {{\"type\": …}}"
        )),
        Err(error) => Err(format!("the registry entry {name} is not JSON: {error}")),
    }
}

fn registry_error(error: CloudError) -> RegistryError {
    let (action, message) = (ACTION.to_owned(), error.to_string());
    match error {
        CloudError::Denied { message, .. } => RegistryError::Denied { action, message },
        CloudError::NoCapacity { .. }
        | CloudError::NotFound { .. }
        | CloudError::Throttled { .. }
        | CloudError::Postponed { .. }
        | CloudError::Invalid { .. }
        | CloudError::Unknown { .. } => RegistryError::Unavailable { action, message },
    }
}
