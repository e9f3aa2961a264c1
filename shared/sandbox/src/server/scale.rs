use jiff::Timestamp;
use serde_json::{Value, json};

use super::{ApiServer, Part, WriteOptions, WriteResult};
use crate::{
    error::{ApiError, ApiResult, FieldError},
    json,
    kinds::{ResourceType, ScalePaths},
    selectors::LabelSelector,
    store::{Object, ObjectKey},
};

impl ApiServer {
    /// `scale` subresource of an object.
    pub fn scale_of(&self, kind: &ResourceType, object: &Object) -> ApiResult<Value> {
        let paths = paths(kind)?;
        let value = object.value();
        let selector = match &paths.selector {
            Some(path) => json::text(value, &steps(path)).to_owned(),
            None => LabelSelector::of_object(json::at(value, &["spec", "selector"])).to_string(),
        };
        let mut metadata = json!({});
        for field in [
            "name",
            "namespace",
            "uid",
            "resourceVersion",
            "creationTimestamp",
        ] {
            let stored = json::at(value, &["metadata", field]);
            if !stored.is_null() {
                json::set(&mut metadata, &[field], stored.clone());
            }
        }
        Ok(json!({
            "kind": "Scale",
            "apiVersion": "autoscaling/v1",
            "metadata": metadata,
            "spec": {"replicas": json::integer(value, &steps(&paths.spec_replicas)).unwrap_or(0)},
            "status": {
                "replicas": json::integer(value, &steps(&paths.status_replicas)).unwrap_or(0),
                "selector": selector,
            },
        }))
    }

    /// Writes the requested replicas to the object.
    pub fn set_scale(
        &mut self,
        kind: &ResourceType,
        key: &ObjectKey,
        scale: &Value,
        options: &WriteOptions,
        now: Timestamp,
    ) -> ApiResult<WriteResult> {
        let paths = paths(kind)?;
        let object = self.get(kind, key)?;
        let replicas = json::integer(scale, &["spec", "replicas"]).unwrap_or(0);
        if replicas < 0 {
            return Err(kind.subject(&key.name).invalid(&[FieldError::invalid(
                "spec.replicas",
                &json!(replicas),
                "must be greater than or equal to 0",
            )]));
        }
        let mut value = object.value().clone();
        json::set(&mut value, &steps(&paths.spec_replicas), replicas);
        let revision = json::text(scale, &["metadata", "resourceVersion"]);
        if !revision.is_empty() {
            json::set(&mut value, &["metadata", "resourceVersion"], revision);
        }
        self.update(kind, key, Part::Main, value, options, now)
    }
}

fn paths(kind: &ResourceType) -> ApiResult<&ScalePaths> {
    kind.scale.as_ref().ok_or_else(ApiError::unknown_path)
}

fn steps(path: &[String]) -> Vec<&str> {
    path.iter().map(String::as_str).collect()
}
