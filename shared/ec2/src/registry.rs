//! The registry of clusters in Parameter Store.

use std::collections::BTreeMap;

use async_trait::async_trait;
use model::ClusterName;
use ports::{CloudError, Registry, RegistryError, registry::RegistryEntry};
use serde::Deserialize;
use serde_json::{Map, Value};

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

/// Facts that a stack stores about itself: the value of `/whittle/stacks/NAME`, which sam-template.yaml writes.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct StackMemory {
    pub account: String,
    pub table: String,
    pub bucket: String,
    /// The ARN of each function's role; empty for a stack that an older version deployed.
    #[serde(default)]
    pub roles: BTreeMap<String, String>,
}

impl Account {
    pub async fn memory(&self, stack: &str) -> Result<StackMemory, CloudError> {
        let name = format!("/whittle/stacks/{stack}");
        let value = self.parameter(&name).await?;
        serde_json::from_str(&value).map_err(|error| CloudError::Invalid {
            action: format!("reading {name}"),
            code: "InvalidEntry".to_owned(),
            message: error.to_string(),
        })
    }

    /// Replaces a cluster's entry if it still equals `from`. Parameter Store has no conditional writes: if another writer changes it
    /// between the read and the write, the parameter's version shows it, and the result is an error after the write.
    pub async fn replace_entry(
        &self,
        cluster: &ClusterName,
        from: &Value,
        to: &Value,
    ) -> Result<(), CloudError> {
        let name = format!("{}/{cluster}", self.registry_prefix);
        let changed = |message: &str| CloudError::Invalid {
            action: format!("changing {name}"),
            code: "EntryChanged".to_owned(),
            message: message.to_owned(),
        };
        let get = self.ssm.get_parameter().name(&name);
        let answer = get.send().await.map_err(refused("ssm:GetParameter"))?;
        let parameter = answer.parameter;
        let version = parameter.as_ref().map_or(0, |parameter| parameter.version);
        let text = parameter.and_then(|parameter| parameter.value);
        if body(&name, &text.unwrap_or_default()).as_ref() != Ok(from) {
            return Err(changed(
                "it was changed at the same time, and nothing was written: try again",
            ));
        }
        let put = self.ssm.put_parameter().name(&name).overwrite(true);
        let done = put.value(to.to_string()).send().await;
        let done = done.map_err(refused("ssm:PutParameter"))?;
        match done.version == version + 1 {
            true => Ok(()),
            false => Err(changed(
                "another writer changed it at the same time, and that change is lost: compare the parameter's history (aws ssm \
                 get-parameter-history)",
            )),
        }
    }

    /// Changes a cluster's entry in place; keys that the change does not touch stay as they are.
    pub async fn change_entry(
        &self,
        cluster: &ClusterName,
        change: impl FnOnce(&mut Map<String, Value>),
    ) -> Result<(), CloudError> {
        let name = format!("{}/{cluster}", self.registry_prefix);
        let get = self.ssm.get_parameter().name(&name);
        let answer = get.send().await.map_err(refused("ssm:GetParameter"))?;
        let text = answer.parameter.and_then(|parameter| parameter.value);
        let entry = body(&name, &text.unwrap_or_default());
        let mut entry = match entry {
            Ok(Value::Object(entry)) => entry,
            Ok(_) | Err(_) => {
                return Err(CloudError::Invalid {
                    action: format!("changing {name}"),
                    code: "InvalidEntry".to_owned(),
                    message: entry.err().unwrap_or_default(),
                });
            }
        };
        change(&mut entry);
        let put = self.ssm.put_parameter().name(&name).overwrite(true);
        let put = put.value(Value::Object(entry).to_string());
        let done = put.send().await.map_err(refused("ssm:PutParameter"));
        done.map(drop)
    }
}

impl Account {
    /// Writes a cluster's entry. Unless `replace` is set, an existing entry is refused as `ParameterAlreadyExists`.
    pub async fn put_entry(
        &self,
        cluster: &ClusterName,
        entry: &Value,
        replace: bool,
    ) -> Result<(), CloudError> {
        let name = format!("{}/{cluster}", self.registry_prefix);
        let put = self.ssm.put_parameter().name(&name).overwrite(replace);
        // The type of an existing parameter cannot be changed.
        let put = put.r#type(aws_sdk_ssm::types::ParameterType::String);
        let done = put.value(entry.to_string()).send().await;
        done.map_err(refused("ssm:PutParameter")).map(drop)
    }

    pub async fn delete_entry(&self, cluster: &ClusterName) -> Result<(), CloudError> {
        let name = format!("{}/{cluster}", self.registry_prefix);
        let done = self.ssm.delete_parameter().name(&name).send().await;
        done.map_err(refused("ssm:DeleteParameter")).map(drop)
    }

    /// The account's number, from the ARN of a cluster's entry; `None` where Parameter Store returns no ARN.
    pub async fn account_of_entry(
        &self,
        cluster: &ClusterName,
    ) -> Result<Option<String>, CloudError> {
        let get = self.ssm.get_parameter();
        let get = get.name(format!("{}/{cluster}", self.registry_prefix));
        let answer = get.send().await.map_err(refused("ssm:GetParameter"))?;
        let arn = answer.parameter.and_then(|parameter| parameter.arn);
        let number = arn.and_then(|arn| arn.split(':').nth(4).map(str::to_owned));
        Ok(number.filter(|number| !number.is_empty()))
    }

    /// The domain of the Region's endpoints, such as `amazonaws.com`.
    pub fn domain(&self) -> &'static str {
        signed::domain(&self.region)
    }

    pub fn region(&self) -> &str {
        &self.region
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
        | CloudError::NotSent { .. }
        | CloudError::Invalid { .. }
        | CloudError::Unknown { .. } => RegistryError::Unavailable { action, message },
    }
}
