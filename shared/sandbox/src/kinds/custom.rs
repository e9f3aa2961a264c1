use serde_json::{Value, json};

use super::{Form, ResourceType};
use crate::{
    error::{ApiError, FieldError, Subject},
    json,
    schema::Schema,
    store::TableId,
};

/// Part of a kind that a CustomResourceDefinition defines.
#[derive(Debug)]
pub struct CustomForm {
    pub schema: Schema,
    /// Unparsed `openAPIV3Schema`, for OpenAPI.
    pub source: Value,
    /// Version in which objects are stored.
    pub storage_version: String,
    /// Columns of `kubectl get` besides name and age.
    pub columns: Vec<Column>,
}

/// Entry of `additionalPrinterColumns`.
#[derive(Clone, Debug)]
pub struct Column {
    pub name: String,
    pub kind: String,
    pub format: String,
    pub description: String,
    /// Above 0 the column appears with `-o wide` only.
    pub priority: i64,
    pub path: String,
}

/// Fields that the scale subresource reads and writes, as paths of field names.
#[derive(Clone, Debug)]
pub struct ScalePaths {
    pub spec_replicas: Vec<String>,
    pub status_replicas: Vec<String>,
    pub selector: Option<Vec<String>>,
}

impl ScalePaths {
    pub(super) fn of_workloads() -> Self {
        Self {
            spec_replicas: fields(".spec.replicas"),
            status_replicas: fields(".status.replicas"),
            selector: None,
        }
    }
}

/// Compiles the served versions of a CustomResourceDefinition.
pub(super) fn compile(crd: &Value) -> Result<Vec<ResourceType>, ApiError> {
    let name = json::text(crd, &["metadata", "name"]);
    let spec = json::at(crd, &["spec"]);
    let group = json::text(spec, &["group"]);
    let plural = json::text(spec, &["names", "plural"]);
    let mut errors = Vec::new();
    if name != format!("{plural}.{group}") {
        errors.push(FieldError::invalid(
            "metadata.name",
            &json!(name),
            "must be spec.names.plural+\".\"+spec.group",
        ));
    }
    let versions = json::items(spec, &["versions"]);
    let mut stored = versions
        .iter()
        .filter(|version| json::flag(version, &["storage"]));
    let storage_version = match (stored.next(), stored.next()) {
        (Some(version), None) => json::text(version, &["name"]).to_owned(),
        _ => {
            let problem = "must have exactly one version marked as storage version";
            errors.push(FieldError::invalid(
                "spec.versions",
                &json!("array"),
                problem,
            ));
            String::new()
        }
    };
    if json::text(spec, &["conversion", "strategy"]) == "Webhook" {
        errors.push(FieldError::unsupported(
            "spec.conversion.strategy",
            &json!("Webhook"),
            &[json!("None")],
        ));
    }
    let mut kinds = Vec::new();
    for (index, version) in versions.iter().enumerate() {
        let path = format!("spec.versions[{index}].schema.openAPIV3Schema");
        let source = json::at(version, &["schema", "openAPIV3Schema"]);
        if source.is_null() {
            errors.push(FieldError::required(path, "schemas are required"));
            continue;
        }
        match Schema::compile(source) {
            Ok(schema) if json::flag(version, &["served"]) => {
                kinds.push(kind(spec, version, &storage_version, source, schema));
            }
            Ok(_) => {}
            Err(error) => errors.push(FieldError::rule(path, source, &error.to_string())),
        }
    }
    if errors.is_empty() {
        Ok(kinds)
    } else {
        let subject = Subject {
            group: "apiextensions.k8s.io",
            resource: "customresourcedefinitions",
            kind: "CustomResourceDefinition",
            name,
        };
        Err(subject.invalid(&errors))
    }
}

fn kind(
    spec: &Value,
    version: &Value,
    storage_version: &str,
    source: &Value,
    schema: Schema,
) -> ResourceType {
    let group = json::text(spec, &["group"]);
    let names = json::at(spec, &["names"]);
    let plural = json::text(names, &["plural"]);
    let kind = json::text(names, &["kind"]);
    let list = |field: &str| {
        json::items(names, &[field])
            .iter()
            .filter_map(|name| name.as_str().map(str::to_owned))
            .collect()
    };
    let singular = match json::text(names, &["singular"]) {
        "" => kind.to_lowercase(),
        singular => singular.to_owned(),
    };
    let scale = json::at(version, &["subresources", "scale"]);
    ResourceType {
        group: group.to_owned(),
        version: json::text(version, &["name"]).to_owned(),
        kind: kind.to_owned(),
        plural: plural.to_owned(),
        singular,
        short_names: list("shortNames"),
        categories: list("categories"),
        namespaced: json::text(spec, &["scope"]) == "Namespaced",
        has_status: !json::at(version, &["subresources", "status"]).is_null(),
        scale: (!scale.is_null()).then(|| ScalePaths {
            spec_replicas: fields(json::text(scale, &["specReplicasPath"])),
            status_replicas: fields(json::text(scale, &["statusReplicasPath"])),
            selector: Some(json::text(scale, &["labelSelectorPath"]))
                .filter(|path| !path.is_empty())
                .map(fields),
        }),
        table: TableId::of(group, plural),
        form: Form::Custom(Box::new(CustomForm {
            schema,
            source: source.clone(),
            storage_version: storage_version.to_owned(),
            columns: json::items(version, &["additionalPrinterColumns"])
                .iter()
                .map(column)
                .collect(),
        })),
    }
}

fn column(source: &Value) -> Column {
    let text = |field: &str| json::text(source, &[field]).to_owned();
    Column {
        name: text("name"),
        kind: text("type"),
        format: text("format"),
        description: text("description"),
        priority: json::integer(source, &["priority"]).unwrap_or(0),
        path: text("jsonPath"),
    }
}

/// Field names of a simple path such as `.spec.replicas`.
fn fields(path: &str) -> Vec<String> {
    path.split('.')
        .filter(|field| !field.is_empty())
        .map(str::to_owned)
        .collect()
}
