//! Detection of objects that were last applied in a version of Karpenter's API before v1.

use serde_json::Value;

use crate::meta::ObjectMeta;

/// Annotation in which kubectl keeps the applied manifest.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
const OLD: &[&str] = &[
    "karpenter.k8s.aws/v1alpha1",
    "karpenter.k8s.aws/v1beta1",
    "karpenter.sh/v1alpha5",
    "karpenter.sh/v1beta1",
];

/// The old version in which the object was last applied. A cluster that serves it next to v1 without conversion accepts
/// such objects, although some of their fields have another meaning in v1, or none.
pub fn applied_as(metadata: &ObjectMeta) -> Option<&'static str> {
    let applied: Value = serde_json::from_str(metadata.annotations.get(LAST_APPLIED)?).ok()?;
    let version = applied.get("apiVersion")?.as_str()?;
    OLD.iter().copied().find(|old| *old == version)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn applied(text: &str) -> Option<&'static str> {
        let annotations = [(LAST_APPLIED.to_owned(), text.to_owned())];
        applied_as(&ObjectMeta {
            annotations: annotations.into(),
            ..ObjectMeta::default()
        })
    }

    #[test]
    fn only_versions_before_v1_are_old() {
        let of = |version: &str| {
            applied(&format!(
                r#"{{"apiVersion":"{version}","kind":"NodePool"}}"#
            ))
        };
        assert_eq!(of("karpenter.sh/v1beta1"), Some("karpenter.sh/v1beta1"));
        assert_eq!(
            of("karpenter.k8s.aws/v1alpha1"),
            Some("karpenter.k8s.aws/v1alpha1")
        );
        assert_eq!(of("karpenter.sh/v1"), None);
        assert_eq!(of("example.com/v1beta1"), None);
        assert_eq!(applied("not JSON"), None);
        assert_eq!(applied_as(&ObjectMeta::default()), None);
    }
}
