//! Registered kinds: built-in ones, and those that CustomResourceDefinitions add.

mod built_in;
mod custom;
mod unknown;

use std::{collections::BTreeMap, sync::Arc};

pub use built_in::Codec;
pub use custom::{Column, CustomForm, ScalePaths};
use serde_json::Value;

use crate::{
    error::{ApiError, Subject},
    store::TableId,
};

/// Served version of a kind.
#[derive(Debug)]
pub struct ResourceType {
    pub group: String,
    pub version: String,
    pub kind: String,
    pub plural: String,
    pub singular: String,
    pub short_names: Vec<String>,
    pub categories: Vec<String>,
    pub namespaced: bool,
    pub has_status: bool,
    pub scale: Option<ScalePaths>,
    /// Table in which the objects are stored; the versions of a kind share one.
    pub table: TableId,
    pub form: Form,
}

/// Decoding and validation of a kind's objects.
#[derive(Debug)]
pub enum Form {
    BuiltIn(Codec),
    /// `events.k8s.io`: the core events with renamed fields.
    Events(Codec),
    Custom(Box<CustomForm>),
}

impl ResourceType {
    /// `v1` or `apps/v1`.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.clone()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    pub fn subject<'a>(&'a self, name: &'a str) -> Subject<'a> {
        Subject {
            group: &self.group,
            resource: &self.plural,
            kind: &self.kind,
            name,
        }
    }

    pub fn is_custom(&self) -> bool {
        matches!(self.form, Form::Custom(_))
    }

    /// Returns whether the kind is a pod, whose deletion waits for the kubelet.
    pub fn is_pod(&self) -> bool {
        self.group.is_empty() && self.plural == "pods"
    }

    pub fn is_namespace(&self) -> bool {
        self.group.is_empty() && self.plural == "namespaces"
    }

    pub fn is_crd(&self) -> bool {
        self.group == "apiextensions.k8s.io" && self.plural == "customresourcedefinitions"
    }

    /// Names of the subresources.
    pub fn subresources(&self) -> Vec<&'static str> {
        let mut names = Vec::new();
        if self.is_pod() {
            names.extend([
                "attach",
                "binding",
                "eviction",
                "exec",
                "log",
                "portforward",
            ]);
        }
        if self.is_namespace() {
            names.push("finalize");
        }
        if self.scale.is_some() {
            names.push("scale");
        }
        if self.has_status {
            names.push("status");
        }
        names
    }

    /// Decodes a part of an object like [`Self::decode`], without the defaults that decoding adds.
    pub fn decode_partial(&self, value: Value) -> Result<(Value, Vec<String>), ApiError> {
        let (decoded, unknown) = self.decode(value.clone())?;
        Ok((unknown::restrict(&value, &decoded), unknown))
    }

    /// Decodes an object as this kind: checks types and drops unknown fields, whose paths it returns.
    pub fn decode(&self, value: Value) -> Result<(Value, Vec<String>), ApiError> {
        match &self.form {
            Form::BuiltIn(codec) | Form::Events(codec) => {
                let decoded = codec(value.clone()).map_err(|error| {
                    ApiError::bad_request(format!(
                        "{} in version \"{}\" cannot be handled as a {}: {error}",
                        self.kind, self.version, self.kind
                    ))
                })?;
                let unknown = unknown::fields(&value, &decoded);
                Ok((decoded, unknown))
            }
            Form::Custom(form) => {
                let mut value = value;
                let unknown = form.schema.prune(&mut value);
                Ok((value, unknown))
            }
        }
    }
}

/// Every served kind, by group, version and plural name.
#[derive(Debug)]
pub struct Kinds {
    types: BTreeMap<(String, String, String), Arc<ResourceType>>,
}

impl Kinds {
    pub fn built_in() -> Self {
        let mut kinds = Self {
            types: BTreeMap::new(),
        };
        for kind in built_in::all() {
            kinds.add(kind);
        }
        kinds
    }

    fn add(&mut self, kind: ResourceType) {
        let key = (
            kind.group.clone(),
            kind.version.clone(),
            kind.plural.clone(),
        );
        self.types.insert(key, Arc::new(kind));
    }

    pub fn find(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<ResourceType>> {
        self.types
            .get(&(group.to_owned(), version.to_owned(), plural.to_owned()))
    }

    pub fn by_kind(&self, api_version: &str, kind: &str) -> Option<&Arc<ResourceType>> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        self.types.values().find(|candidate| {
            candidate.group == group && candidate.version == version && candidate.kind == kind
        })
    }

    /// Kind whose objects a table stores, in the storage version.
    pub fn of_table(&self, table: &TableId) -> Option<&Arc<ResourceType>> {
        self.types
            .values()
            .find(|kind| kind.table == *table && kind.is_storage())
    }

    pub fn all(&self) -> impl Iterator<Item = &Arc<ResourceType>> {
        self.types.values()
    }

    /// Serves the kind of a CustomResourceDefinition, in place of the versions served for it before.
    pub fn install(&mut self, crd: &Value) -> Result<(), ApiError> {
        let kinds = custom::compile(crd)?;
        self.uninstall(crd);
        for kind in kinds {
            self.add(kind);
        }
        Ok(())
    }

    pub fn uninstall(&mut self, crd: &Value) {
        let group = crate::json::text(crd, &["spec", "group"]);
        let plural = crate::json::text(crd, &["spec", "names", "plural"]);
        self.types
            .retain(|(g, _, p), kind| !(g == group && p == plural && kind.is_custom()));
    }
}

impl ResourceType {
    fn is_storage(&self) -> bool {
        match &self.form {
            Form::BuiltIn(_) => true,
            Form::Events(_) => false,
            Form::Custom(form) => form.storage_version == self.version,
        }
    }
}
