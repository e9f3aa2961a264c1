/// Access that was requested at least once.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UsedAccess {
    pub user: String,
    pub verb: String,
    pub group: String,
    /// Resource, with its subresource if there is one: `pods/eviction`.
    pub resource: String,
    /// Role that allowed the access; `None` if the access was denied.
    pub role: Option<String>,
}
