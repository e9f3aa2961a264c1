use axum::http::{HeaderMap, header};
use serde_json::{Value, json};

use super::path::ResourcePath;
use crate::{
    access::UsedAccess,
    error::{ApiError, ApiResult, Subject},
    json,
    sandbox::Shared,
    server::ApiServer,
    store::{Start, TableId},
};

/// Authenticated user of a request.
#[derive(Clone, Debug)]
pub(super) struct User {
    name: String,
    groups: Vec<String>,
}

impl User {
    fn is_administrator(&self) -> bool {
        self.groups.iter().any(|group| group == ADMINISTRATORS)
    }
}

/// Group whose members may do everything.
const ADMINISTRATORS: &str = "system:masters";

const CLUSTER_ROLES: TableId = TableId::named("clusterroles.rbac.authorization.k8s.io");
const CLUSTER_BINDINGS: TableId = TableId::named("clusterrolebindings.rbac.authorization.k8s.io");
const ROLES: TableId = TableId::named("roles.rbac.authorization.k8s.io");
const BINDINGS: TableId = TableId::named("rolebindings.rbac.authorization.k8s.io");

/// Finds the user by bearer token, or the user that an administrator impersonates.
pub(super) fn user(shared: &Shared, headers: &HeaderMap) -> ApiResult<User> {
    let user = authenticated(shared, headers)?;
    let wanted = headers.get("impersonate-user");
    let Some(name) = wanted.and_then(|name| name.to_str().ok()) else {
        return Ok(user);
    };
    if !user.is_administrator() {
        return Err(ApiError::new(
            403,
            "Forbidden",
            format!(
                "users \"{name}\" is forbidden: User \"{}\" cannot impersonate resource \"users\" in API group \"\" at the cluster scope",
                user.name
            ),
        ));
    }
    let groups = headers.get_all("impersonate-group").iter();
    let groups = groups.filter_map(|group| group.to_str().ok());
    Ok(User {
        name: name.to_owned(),
        groups: groups.map(str::to_owned).collect(),
    })
}

/// Authenticates by bearer token. A server without credentials accepts every request as administrator.
fn authenticated(shared: &Shared, headers: &HeaderMap) -> ApiResult<User> {
    let credentials = shared.credentials();
    if credentials.is_empty() {
        return Ok(User {
            name: "anonymous-administrator".to_owned(),
            groups: vec![ADMINISTRATORS.to_owned()],
        });
    }
    let given = super::text(headers, header::AUTHORIZATION);
    let token = given.strip_prefix("Bearer ").unwrap_or_default();
    credentials
        .iter()
        .find(|credential| !token.is_empty() && credential.token == token)
        .map(|credential| {
            let mut groups = credential.groups.clone();
            groups.push("system:authenticated".to_owned());
            User {
                name: credential.user.clone(),
                groups,
            }
        })
        .ok_or_else(ApiError::unauthorized)
}

/// Denies access that no role of the user allows. `selected` is the single object that a list or watch selects by name.
pub(super) fn check(
    shared: &Shared,
    user: &User,
    verb: &str,
    path: &ResourcePath,
    selected: Option<&str>,
) -> ApiResult<()> {
    let access = Access {
        verb,
        group: &path.group,
        resource: &match &path.subresource {
            Some(subresource) => format!("{}/{subresource}", path.resource),
            None => path.resource.clone(),
        },
        namespace: path.namespace.as_deref().unwrap_or_default(),
        name: path.name.as_deref().or(selected).unwrap_or_default(),
    };
    if user.is_administrator() {
        return Ok(());
    }
    let role = shared.read(|world| allowing_role(&world.server, user, &access));
    let is_allowed = role.is_some();
    shared.record_access(UsedAccess {
        user: user.name.clone(),
        verb: verb.to_owned(),
        group: access.group.to_owned(),
        resource: access.resource.to_owned(),
        role,
    });
    if is_allowed {
        return Ok(());
    }
    let place = match access.namespace {
        "" => "at the cluster scope".to_owned(),
        namespace => format!("in the namespace \"{namespace}\""),
    };
    let subject = Subject {
        group: access.group,
        resource: &path.resource,
        kind: &path.resource,
        name: access.name,
    };
    Err(subject.forbidden(&format!(
        "User \"{}\" cannot {verb} resource \"{}\" in API group \"{}\" {place}",
        user.name, access.resource, access.group
    )))
}

/// Access that a user requests.
struct Access<'a> {
    verb: &'a str,
    group: &'a str,
    /// Resource, with its subresource if there is one: `pods/eviction`.
    resource: &'a str,
    namespace: &'a str,
    name: &'a str,
}

fn is_allowed(server: &ApiServer, user: &User, access: &Access<'_>) -> bool {
    user.is_administrator() || allowing_role(server, user, access).is_some()
}

/// First role of the user that allows the access.
fn allowing_role(server: &ApiServer, user: &User, access: &Access<'_>) -> Option<String> {
    let everywhere = server
        .store
        .list(&CLUSTER_BINDINGS, None, &Start::Beginning);
    let here = match access.namespace {
        "" => Vec::new(),
        namespace => {
            let bindings = server
                .store
                .list(&BINDINGS, Some(namespace), &Start::Beginning);
            bindings.objects
        }
    };
    everywhere
        .objects
        .iter()
        .chain(&here)
        .filter(|binding| names(binding.value(), user))
        .filter_map(|binding| {
            let role = json::text(binding.value(), &["roleRef", "name"]);
            let (table, namespace) = match json::text(binding.value(), &["roleRef", "kind"]) {
                "ClusterRole" => (&CLUSTER_ROLES, ""),
                _ => (&ROLES, binding.namespace()),
            };
            let key = crate::store::ObjectKey::new(namespace, role);
            server.store.get(table, &key)
        })
        .find(|role| {
            let rules = json::items(role.value(), &["rules"]);
            rules.iter().any(|rule| grants(rule, access))
        })
        .map(|role| role.name().to_owned())
}

/// Returns whether a subject of the binding is this user or one of its groups.
fn names(binding: &Value, user: &User) -> bool {
    json::items(binding, &["subjects"]).iter().any(|subject| {
        let name = json::text(subject, &["name"]);
        match json::text(subject, &["kind"]) {
            "User" => name == user.name,
            "Group" => user.groups.iter().any(|group| group == name),
            "ServiceAccount" => {
                let namespace = json::text(subject, &["namespace"]);
                user.name == format!("system:serviceaccount:{namespace}:{name}")
            }
            _ => false,
        }
    })
}

fn grants(rule: &Value, access: &Access<'_>) -> bool {
    let lists = |field: &str, wanted: &str| {
        json::items(rule, &[field])
            .iter()
            .any(|item| item == wanted || item == "*")
    };
    let named = json::items(rule, &["resourceNames"]);
    let resource = lists("resources", access.resource)
        || access
            .resource
            .split_once('/')
            .is_some_and(|(_, subresource)| lists("resources", &format!("*/{subresource}")));
    lists("verbs", access.verb)
        && lists("apiGroups", access.group)
        && resource
        && (named.is_empty() || named.iter().any(|name| name == access.name))
}

/// Answers SelfSubjectAccessReview and the other reviews of access and identity.
pub(super) fn review(
    shared: &Shared,
    user: &User,
    path: &ResourcePath,
    mut review: Value,
) -> ApiResult<Value> {
    let subject = match path.resource.as_str() {
        "selfsubjectreviews" => {
            let info = json!({"username": user.name, "groups": user.groups});
            json::set(&mut review, &["status", "userInfo"], info);
            return Ok(review);
        }
        "selfsubjectaccessreviews" => user.clone(),
        "subjectaccessreviews" => User {
            name: json::text(&review, &["spec", "user"]).to_owned(),
            groups: json::items(&review, &["spec", "groups"])
                .iter()
                .filter_map(|group| group.as_str().map(str::to_owned))
                .collect(),
        },
        _ => return Err(ApiError::unknown_path()),
    };
    let requested = json::at(&review, &["spec", "resourceAttributes"]).clone();
    let text = |field: &str| json::text(&requested, &[field]);
    let resource = match text("subresource") {
        "" => text("resource").to_owned(),
        subresource => format!("{}/{subresource}", text("resource")),
    };
    let access = Access {
        verb: text("verb"),
        group: text("group"),
        resource: &resource,
        namespace: text("namespace"),
        name: text("name"),
    };
    let allowed = shared.read(|world| is_allowed(&world.server, &subject, &access));
    json::set(&mut review, &["status"], json!({"allowed": allowed}));
    Ok(review)
}
