//! Objects that somebody applied in a version of Karpenter's API from before v1, as far as they show it.

use serde_json::Value;

use crate::meta::ObjectMeta;

/// Where kubectl keeps what was applied.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
const OLD: &[&str] = &[
    "karpenter.k8s.aws/v1alpha1",
    "karpenter.k8s.aws/v1beta1",
    "karpenter.sh/v1alpha5",
    "karpenter.sh/v1beta1",
];

/// The old version in which the object was applied last. A cluster that serves it beside v1 without converting takes such objects,
/// and fields of theirs mean something else in v1, or nothing.
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
