//! CRDs: whether they are the ones that Whittle reads, and leftovers of older Karpenter (docs/spec/migrate.md#v1beta1-names).

use serde_json::Value;

use crate::{
    finding::Finding,
    objects::{Objects, short_name, text},
};

pub(super) fn checks(objects: &Objects) -> Vec<Finding> {
    let ours: Vec<Value> = api::schema::crds()
        .into_iter()
        .map(|crd| crd.manifest)
        .collect();
    vec![
        missing(objects, &ours),
        unknown_fields(objects, &ours),
        refused_values(objects, &ours),
        not_adopted(objects, &ours),
        stored_versions(objects),
        webhooks(objects),
        annotations(objects),
    ]
}

fn crd<'a>(objects: &'a Objects, name: &str) -> Option<&'a Value> {
    let mut crds = objects.of_kind("CustomResourceDefinition");
    crds.find(|crd| text(crd, "/metadata/name") == name)
}

/// Missing CRDs. A dump of some objects need not contain any CRD; a cluster has some.
fn missing(objects: &Objects, ours: &[Value]) -> Finding {
    let any = objects.of_kind("CustomResourceDefinition").next().is_some();
    let names = ours.iter().map(|crd| text(crd, "/metadata/name"));
    let missing = names.filter(|name| any && crd(objects, name).is_none());
    Finding::new(
        "5. CRDs that are not installed",
        missing.map(str::to_owned).collect(),
        "helm upgrade --install the chart, whose sub-chart has them",
    )
}

fn unknown_fields(objects: &Objects, ours: &[Value]) -> Finding {
    Finding::new(
        "5. fields that the installed CRDs do not know: the API server drops them",
        differences(objects, ours, |found| &found.unknown),
        UPGRADE,
    )
}

fn refused_values(objects: &Objects, ours: &[Value]) -> Finding {
    Finding::new(
        "5. values that the installed CRDs refuse: those of newer Karpenter",
        differences(objects, ours, |found| &found.refused),
        UPGRADE,
    )
}

const UPGRADE: &str = "helm upgrade the chart, whose sub-chart has the CRDs";

/// Fields and values of a newer schema that an older one refuses.
#[derive(Default)]
struct Differences {
    unknown: Vec<String>,
    refused: Vec<String>,
}

fn differences(
    objects: &Objects,
    ours: &[Value],
    kind: impl Fn(&Differences) -> &[String],
) -> Vec<String> {
    let mut all = Vec::new();
    for new in ours {
        let name = text(new, "/metadata/name");
        let Some(old) = crd(objects, name) else {
            continue;
        };
        let mut found = Differences::default();
        compare(schema(new), schema(old), "", &mut found);
        all.extend(kind(&found).iter().map(|field| format!("{name}: {field}")));
    }
    all
}

/// The schema of version v1.
fn schema(crd: &Value) -> &Value {
    let versions = crd.pointer("/spec/versions").and_then(Value::as_array);
    let mut versions = versions.into_iter().flatten();
    let v1 = versions.find(|version| text(version, "/name") == "v1" || has_no_v1(version));
    v1.and_then(|version| version.pointer("/schema/openAPIV3Schema"))
        .unwrap_or(&Value::Null)
}

/// Whether the version belongs to a kind that has no v1 yet.
fn has_no_v1(version: &Value) -> bool {
    text(version, "/name").starts_with("v1alpha")
}

/// Collects the topmost properties of `new` that `old` lacks, and values that only `new` accepts.
fn compare(new: &Value, old: &Value, path: &str, found: &mut Differences) {
    if let (Some(new), Some(old)) = (new.get("items"), old.get("items")) {
        compare(new, old, &format!("{path}[]"), found);
    }
    let list = |schema: &Value, key: &str| -> Vec<String> {
        let values = schema
            .get(key)
            .and_then(Value::as_array)
            .into_iter()
            .flatten();
        values
            .filter_map(|value| value.as_str().map(str::to_owned))
            .collect()
    };
    let (before, now) = (list(old, "enum"), list(new, "enum"));
    if !before.is_empty() {
        let added = now.iter().filter(|value| !before.contains(value));
        found
            .refused
            .extend(added.map(|value| format!("{path} {value}")));
    }
    let required = list(new, "required");
    let optional = list(old, "required")
        .into_iter()
        .filter(|name| !required.contains(name));
    found
        .refused
        .extend(optional.map(|name| format!("{path} without {name}")));
    let properties = new.get("properties").and_then(Value::as_object);
    for (name, property) in properties.into_iter().flatten() {
        let path = match path {
            "" => name.clone(),
            path => format!("{path}.{name}"),
        };
        match old.pointer("/properties").and_then(|all| all.get(name)) {
            Some(old) => compare(property, old, &path, found),
            // An object of unknown fields accepts any field.
            None if old.get("properties").is_none() => {}
            None => found.unknown.push(path),
        }
    }
}

fn not_adopted(objects: &Objects, ours: &[Value]) -> Finding {
    let strangers = ours.iter().filter_map(|new| {
        let name = text(new, "/metadata/name");
        let labels = crd(objects, name)?.pointer("/metadata/labels");
        let by = labels
            .and_then(|labels| labels.get("app.kubernetes.io/managed-by"))
            .and_then(Value::as_str);
        (by != Some("Helm")).then(|| name.to_owned())
    });
    Finding::new(
        "7. CRDs that no chart owns, so that installing the chart fails",
        strangers.collect(),
        "adopt them: kubectl label crd <name> app.kubernetes.io/managed-by=Helm, and kubectl annotate crd <name> \
         meta.helm.sh/release-name=<release> meta.helm.sh/release-namespace=<namespace>",
    )
}

fn is_karpenters(crd: &Value) -> bool {
    ["karpenter.sh", "karpenter.k8s.aws"].contains(&text(crd, "/spec/group"))
}

fn stored_versions(objects: &Objects) -> Finding {
    let crds = objects.of_kind("CustomResourceDefinition");
    let old = crds.filter(|crd| is_karpenters(crd)).flat_map(|crd| {
        let name = text(crd, "/metadata/name");
        let stored = crd.pointer("/status/storedVersions");
        let stored = stored.and_then(Value::as_array).into_iter().flatten();
        let stored = stored.filter(|version| **version == "v1beta1");
        let stored = stored.map(move |_| format!("{name}: status.storedVersions has v1beta1"));
        let webhook = text(crd, "/spec/conversion/strategy") == "Webhook";
        let webhook = webhook.then(|| format!("{name}: spec.conversion names a webhook"));
        stored.chain(webhook)
    });
    Finding::new(
        "CRDs that are still on their way from v1beta1",
        old.collect(),
        "bring the cluster to Karpenter 1.1 or newer first: write every object once more, then take v1beta1 out of \
         status.storedVersions and set spec.conversion.strategy to None",
    )
}

/// Webhooks of Karpenter before 1.1, which block requests once their server is gone.
fn webhooks(objects: &Objects) -> Finding {
    const LEFTOVERS: [&str; 4] = [
        "defaulting.webhook.karpenter.k8s.aws",
        "validation.webhook.karpenter.sh",
        "validation.webhook.config.karpenter.sh",
        "validation.webhook.karpenter.k8s.aws",
    ];
    let kinds = [
        "MutatingWebhookConfiguration",
        "ValidatingWebhookConfiguration",
    ];
    let all = kinds.into_iter().flat_map(|kind| objects.of_kind(kind));
    let left = all.filter(|webhook| LEFTOVERS.contains(&text(webhook, "/metadata/name")));
    Finding::new(
        "webhooks that nobody answers any more: they refuse what is written",
        left.map(short_name).collect(),
        "kubectl delete them",
    )
}

fn annotations(objects: &Objects) -> Finding {
    const OLD: [&str; 3] = [
        "compatibility.karpenter.sh/v1beta1-",
        "compatibility.karpenter.k8s.aws/v1beta1-",
        "karpenter.sh/stored-version-migrated",
    ];
    let kinds = ["NodePool", "NodeClaim", "EC2NodeClass"];
    let all = kinds.into_iter().flat_map(|kind| objects.of_kind(kind));
    let found = all.flat_map(|object| {
        let annotations = object.pointer("/metadata/annotations");
        let annotations = annotations.and_then(Value::as_object).into_iter().flatten();
        let keys = annotations.map(|(key, _)| key);
        let keys = keys.filter(|key| OLD.iter().any(|old| key.starts_with(old)));
        keys.map(move |key| format!("{}: {key}", short_name(object)))
    });
    Finding::new(
        "annotations by which Karpenter 1.0 kept what v1beta1 said; nobody reads them",
        found.collect(),
        "whittle convert the objects: it puts what they say where it belongs",
    )
}
