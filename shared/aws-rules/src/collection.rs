//! Garbage collection of launch templates and instance profiles that were made for a cluster and are no longer needed
//! (docs/spec/aws.md#launch-template-names, docs/spec/aws.md#instance-profiles).

use std::collections::{BTreeMap, BTreeSet};

use api::{
    EC2NodeClass,
    names::{annotation, tag},
};
use jiff::{SignedDuration, Timestamp};
use model::node_claim::NodeClaim;

use crate::{launch::TEMPLATE_PREFIX, node_class::profiles_path};

/// Age at which a launch template is deleted. By then most templates are of an image, a NodeClass or a token that has changed. Deleting one
/// that is still needed is harmless: the next launch makes it again.
const TEMPLATE_MAX_AGE: SignedDuration = SignedDuration::from_hours(24);
/// Age at which a launch template of a deleted NodeClass is deleted; long enough not to disturb a launch under way.
const ORPHANED_TEMPLATE_MAX_AGE: SignedDuration = SignedDuration::from_hours(1);
/// Age at which an instance profile may be deleted, as upstream: a profile may be made before any NodeClass names it.
const PROFILE_MIN_AGE: SignedDuration = SignedDuration::from_hours(1);
/// Upper bound on deletions per collection: EC2's API budget is for launches.
pub const DELETIONS_MAX: usize = 20;

/// A launch template as DescribeLaunchTemplates shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplateFact {
    pub id: String,
    pub name: String,
    pub created_at: Option<Timestamp>,
    /// Tags by key.
    pub tags: BTreeMap<String, String>,
}

/// An instance profile as ListInstanceProfiles shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProfileFact {
    pub name: String,
    pub path: String,
    pub created_at: Option<Timestamp>,
    pub roles: Vec<String>,
}

/// The templates to delete, oldest first. A template without an age, with a name in another form or with tags of another cluster is kept.
pub fn expired_templates<'a>(
    found: &'a [TemplateFact],
    cluster: &str,
    node_classes: &[EC2NodeClass],
    now: Timestamp,
) -> Vec<&'a TemplateFact> {
    let live: BTreeSet<&str> = node_classes
        .iter()
        .map(|class| class.metadata.name.as_str())
        .collect();
    let is_expired = |template: &&TemplateFact| {
        let (true, Some(class), Some(created_at)) = (
            is_ours(template, cluster),
            template.tags.get(tag::EC2_NODE_CLASS),
            template.created_at,
        ) else {
            return false;
        };
        let kept = match live.contains(class.as_str()) {
            true => TEMPLATE_MAX_AGE,
            false => ORPHANED_TEMPLATE_MAX_AGE,
        };
        now.duration_since(created_at) >= kept
    };
    let mut expired: Vec<&TemplateFact> = found.iter().filter(is_expired).collect();
    expired.sort_by(|a, b| (a.created_at, &a.name).cmp(&(b.created_at, &b.name)));
    expired.truncate(DELETIONS_MAX);
    expired
}

fn is_ours(template: &TemplateFact, cluster: &str) -> bool {
    let tagged = |key: &str, value: &str| template.tags.get(key).map(String::as_str) == Some(value);
    let digest = template.name.strip_prefix(TEMPLATE_PREFIX);
    digest.is_some_and(|digest| {
        !digest.is_empty() && digest.bytes().all(|byte| byte.is_ascii_digit())
    }) && tagged(tag::EKS_CLUSTER, cluster)
        && tagged(&format!("{}{cluster}", tag::CLUSTER_PREFIX), "owned")
}

/// The profiles to delete, oldest first: those of deleted NodeClasses with which no NodeClaim runs. Returns none while a NodeClaim names a
/// NodeClass that is missing, because the profiles of that NodeClass's nodes are then unknown.
pub fn unused_profiles<'a>(
    found: &'a [ProfileFact],
    (cluster, region): (&str, &str),
    node_classes: &[EC2NodeClass],
    node_claims: &[NodeClaim],
    now: Timestamp,
) -> Vec<&'a ProfileFact> {
    let names: BTreeSet<&str> = node_classes
        .iter()
        .map(|class| class.metadata.name.as_str())
        .collect();
    let known = |claim: &NodeClaim| names.contains(claim.spec.node_class.name.as_str());
    if !node_claims.iter().all(known) {
        return Vec::new();
    }
    let of_classes = node_classes.iter().filter_map(|class| {
        let status = class.status.as_ref()?;
        status.instance_profile.as_deref()
    });
    let of_claims = node_claims.iter().filter_map(|claim| {
        let annotations = &claim.annotations;
        annotations
            .get(annotation::INSTANCE_PROFILE_NAME)
            .map(String::as_str)
    });
    let used: BTreeSet<&str> = of_classes.chain(of_claims).collect();
    let uids: BTreeSet<&str> = node_classes
        .iter()
        .map(|class| class.metadata.uid.as_str())
        .collect();
    let is_unused = |profile: &&ProfileFact| {
        let path = profile.path.strip_prefix(&profiles_path(cluster, region));
        let uid = path.and_then(|path| path.strip_suffix('/'));
        let old = profile
            .created_at
            .is_some_and(|created_at| now.duration_since(created_at) >= PROFILE_MIN_AGE);
        uid.is_some_and(|uid| !uid.is_empty() && !uid.contains('/') && !uids.contains(uid))
            && old
            && !used.contains(profile.name.as_str())
    };
    let mut unused: Vec<&ProfileFact> = found.iter().filter(is_unused).collect();
    unused.sort_by(|a, b| (a.created_at, &a.name).cmp(&(b.created_at, &b.name)));
    unused.truncate(DELETIONS_MAX);
    unused
}
