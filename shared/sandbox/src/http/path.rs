/// Parsed URL path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Route {
    /// Path of a resource below `/api` or `/apis`.
    Resource(ResourcePath),
    /// `/api`, `/apis`, `/apis/<group>`, `/apis/<group>/<version>` or `/api/v1`.
    Discovery(Discovery),
    /// Segments of any other path.
    Other(Vec<String>),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ResourcePath {
    pub(super) group: String,
    pub(super) version: String,
    /// Namespace; `None` means all namespaces, or a cluster-scoped kind.
    pub(super) namespace: Option<String>,
    pub(super) resource: String,
    pub(super) name: Option<String>,
    pub(super) subresource: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Discovery {
    CoreVersions,
    Groups,
    Group(String),
    Resources { group: String, version: String },
}

pub(super) fn parse(path: &str) -> Route {
    let segments: Vec<String> = path
        .split('/')
        .filter(|segment| !segment.is_empty())
        .map(decode)
        .collect();
    let parts: Vec<&str> = segments.iter().map(String::as_str).collect();
    let (group, version, rest) = match parts.as_slice() {
        ["api"] => return Route::Discovery(Discovery::CoreVersions),
        ["apis"] => return Route::Discovery(Discovery::Groups),
        ["apis", group] => return Route::Discovery(Discovery::Group((*group).to_owned())),
        ["api", version, rest @ ..] => ("", *version, rest),
        ["apis", group, version, rest @ ..] => (*group, *version, rest),
        _ => return Route::Other(segments),
    };
    // A namespace is an object that has subresources.
    let (namespace, rest) = match rest {
        [] => {
            return Route::Discovery(Discovery::Resources {
                group: group.to_owned(),
                version: version.to_owned(),
            });
        }
        ["namespaces", _, "status" | "finalize"] => (None, rest),
        ["namespaces", namespace, rest @ ..] if !rest.is_empty() => {
            (Some((*namespace).to_owned()), rest)
        }
        rest => (None, rest),
    };
    let mut rest = rest.iter().map(|segment| (*segment).to_owned());
    let path = ResourcePath {
        group: group.to_owned(),
        version: version.to_owned(),
        namespace,
        resource: rest.next().unwrap_or_default(),
        name: rest.next(),
        subresource: rest.next(),
    };
    match rest.next() {
        None => Route::Resource(path),
        Some(_) => Route::Other(segments),
    }
}

/// Decodes percent encoding; malformed escapes stay as they are.
fn decode(segment: &str) -> String {
    let mut bytes = Vec::with_capacity(segment.len());
    let mut rest = segment;
    while let Some(at) = rest.find('%') {
        let (before, escape) = rest.split_at(at);
        bytes.extend_from_slice(before.as_bytes());
        let code = escape
            .get(1..3)
            .and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match code {
            Some(byte) => {
                bytes.push(byte);
                rest = escape.get(3..).unwrap_or_default();
            }
            None => {
                bytes.push(b'%');
                rest = escape.get(1..).unwrap_or_default();
            }
        }
    }
    bytes.extend_from_slice(rest.as_bytes());
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resource(path: &str) -> ResourcePath {
        match parse(path) {
            Route::Resource(path) => path,
            Route::Discovery(_) | Route::Other(_) => panic!("{path} is no resource"),
        }
    }

    #[test]
    fn paths_name_resources() {
        assert_eq!(
            resource("/api/v1/namespaces/default/pods/web-0/eviction"),
            ResourcePath {
                version: "v1".into(),
                namespace: Some("default".into()),
                resource: "pods".into(),
                name: Some("web-0".into()),
                subresource: Some("eviction".into()),
                ..ResourcePath::default()
            }
        );
        let nodepools = resource("/apis/karpenter.sh/v1/nodepools");
        assert_eq!((nodepools.namespace, nodepools.name), (None, None));
    }

    #[test]
    fn namespace_path_is_an_object() {
        let namespace = resource("/api/v1/namespaces/default");
        assert_eq!(namespace.resource, "namespaces");
        assert_eq!(namespace.name.as_deref(), Some("default"));
        let status = resource("/api/v1/namespaces/default/status");
        assert_eq!(status.subresource.as_deref(), Some("status"));
    }

    #[test]
    fn percent_encoded_names_are_decoded() {
        let role = resource("/apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Anode");
        assert_eq!(role.name.as_deref(), Some("system:node"));
    }
}
