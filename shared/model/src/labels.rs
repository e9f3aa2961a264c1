//! Label keys that decisions depend on (docs/spec/scheduling.md#names).

pub const NODE_POOL: &str = "karpenter.sh/nodepool";
pub const CAPACITY_TYPE: &str = "karpenter.sh/capacity-type";
pub const REGISTERED: &str = "karpenter.sh/registered";
pub const INITIALIZED: &str = "karpenter.sh/initialized";
pub const HOSTNAME: &str = "kubernetes.io/hostname";
pub const ARCH: &str = "kubernetes.io/arch";
pub const OS: &str = "kubernetes.io/os";
pub const ZONE: &str = "topology.kubernetes.io/zone";
pub const ZONE_ID: &str = "topology.k8s.aws/zone-id";
pub const REGION: &str = "topology.kubernetes.io/region";
pub const INSTANCE_TYPE: &str = "node.kubernetes.io/instance-type";
pub const WINDOWS_BUILD: &str = "node.kubernetes.io/windows-build";

/// Labels that instance types supply, so that a pod may require any value even if the NodePool does not mention the
/// key. `Settings::well_known_labels` adds the provider's.
pub const WELL_KNOWN: [&str; 8] = [
    NODE_POOL,
    ZONE,
    REGION,
    INSTANCE_TYPE,
    ARCH,
    OS,
    CAPACITY_TYPE,
    WINDOWS_BUILD,
];

/// Domain whose keys users may not set, except for well-known ones.
pub const RESTRICTED_DOMAIN: &str = "karpenter.sh";

/// Deprecated label keys and their replacements.
const DEPRECATED_KEYS: [(&str, &str); 6] = [
    ("failure-domain.beta.kubernetes.io/zone", ZONE),
    ("topology.ebs.csi.aws.com/zone", ZONE),
    ("failure-domain.beta.kubernetes.io/region", REGION),
    ("beta.kubernetes.io/arch", ARCH),
    ("beta.kubernetes.io/os", OS),
    ("beta.kubernetes.io/instance-type", INSTANCE_TYPE),
];

/// The current form of a label key. Deprecated keys are rewritten wherever requirements are built
/// (docs/spec/scheduling.md#normalization).
pub fn normalized(key: &str) -> &str {
    let known = DEPRECATED_KEYS.iter().find(|(old, _)| *old == key);
    known.map_or(key, |(_, current)| current)
}

/// All keys that [`normalized`] rewrites to `key`, including `key` itself; empty if `key` is deprecated.
pub fn spellings(key: &str) -> impl Iterator<Item = &str> {
    let current = Some(key).filter(|key| normalized(key) == *key);
    let old = DEPRECATED_KEYS
        .iter()
        .filter(move |(_, current)| *current == key);
    current.into_iter().chain(old.map(|(old, _)| *old))
}

/// Whether `key` has the domain `domain` or a subdomain of it. A key without a slash has no domain.
pub fn is_in_domain(key: &str, domain: &str) -> bool {
    key.split_once('/')
        .and_then(|(prefix, _)| prefix.strip_suffix(domain))
        .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_key_are_those_normalized_to_it() {
        let of_zone: Vec<&str> = spellings(ZONE).collect();
        assert_eq!(of_zone.len(), 3);
        assert!(of_zone.iter().all(|spelling| normalized(spelling) == ZONE));
        assert_eq!(spellings("team").collect::<Vec<_>>(), ["team"]);
        assert_eq!(spellings("beta.kubernetes.io/os").count(), 0);
    }

    #[test]
    fn domain_covers_itself_and_its_subdomains() {
        assert!(is_in_domain("karpenter.sh/x", RESTRICTED_DOMAIN));
        assert!(is_in_domain("a.karpenter.sh/x", RESTRICTED_DOMAIN));
        assert!(!is_in_domain("notkarpenter.sh/x", RESTRICTED_DOMAIN));
        assert!(!is_in_domain("karpenter.sh", RESTRICTED_DOMAIN));
    }
}
