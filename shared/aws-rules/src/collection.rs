//! Launch templates and instance profiles that were made for a cluster and that nothing needs any more
//! (docs/spec/aws.md#launch-template-names, docs/spec/aws.md#instance-profiles).

use std::collections::{BTreeMap, BTreeSet};

use api::{
    EC2NodeClass,
    names::{annotation, tag},
};
use jiff::{SignedDuration, Timestamp};
use model::node_claim::NodeClaim;

use crate::{launch::TEMPLATE_PREFIX, node_class::profiles_path};

/// What a launch template is made again for is found missing by the next launch, so even one that is still needed may go.
/// This long after it was made, most are of an image, a NodeClass or a token that changed since.
const TEMPLATE_KEPT: SignedDuration = SignedDuration::from_hours(24);
/// Those of a NodeClass that is gone go sooner, but not under a launch that is under way.
const TEMPLATE_ORPHANED: SignedDuration = SignedDuration::from_hours(1);
/// As upstream: a profile may be made before anything names it.
const PROFILE_KEPT: SignedDuration = SignedDuration::from_hours(1);
/// One look deletes no more than this: EC2's budget is for launches.
pub const COLLECTED_MAX: usize = 20;

/// A launch template as DescribeLaunchTemplates shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplateFact {
    pub id: String,
    pub name: String,
    pub created_at: Option<Timestamp>,
    /// By key.
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

/// The templates to delete, oldest first. What has no age, or another name than ours, or other tags than this cluster's,
/// stays.
pub fn spent_templates<'a>(
    found: &'a [TemplateFact],
    cluster: &str,
    node_classes: &[EC2NodeClass],
    now: Timestamp,
) -> Vec<&'a TemplateFact> {
    let live: BTreeSet<&str> = node_classes
        .iter()
        .map(|class| class.metadata.name.as_str())
        .collect();
    let is_spent = |template: &&TemplateFact| {
        let (true, Some(class), Some(created_at)) = (
            is_ours(template, cluster),
            template.tags.get(tag::EC2_NODE_CLASS),
            template.created_at,
        ) else {
            return false;
        };
        let kept = match live.contains(class.as_str()) {
            true => TEMPLATE_KEPT,
            false => TEMPLATE_ORPHANED,
        };
        now.duration_since(created_at) >= kept
    };
    let mut spent: Vec<&TemplateFact> = found.iter().filter(is_spent).collect();
    spent.sort_by(|a, b| (a.created_at, &a.name).cmp(&(b.created_at, &b.name)));
    spent.truncate(COLLECTED_MAX);
    spent
}

fn is_ours(template: &TemplateFact, cluster: &str) -> bool {
    let tagged = |key: &str, value: &str| template.tags.get(key).map(String::as_str) == Some(value);
    let digest = template.name.strip_prefix(TEMPLATE_PREFIX);
    digest.is_some_and(|digest| {
        !digest.is_empty() && digest.bytes().all(|byte| byte.is_ascii_digit())
    }) && tagged(tag::EKS_CLUSTER, cluster)
        && tagged(&format!("{}{cluster}", tag::CLUSTER_PREFIX), "owned")
}

/// The profiles to delete, oldest first: those of NodeClasses that are gone, that no NodeClaim runs with. None at all while
/// NodeClaims name a NodeClass that is not there: nobody knows what they run with.
pub fn spent_profiles<'a>(
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
    let is_spent = |profile: &&ProfileFact| {
        let path = profile.path.strip_prefix(&profiles_path(cluster, region));
        let uid = path.and_then(|path| path.strip_suffix('/'));
        let old = profile
            .created_at
            .is_some_and(|created_at| now.duration_since(created_at) >= PROFILE_KEPT);
        uid.is_some_and(|uid| !uid.is_empty() && !uid.contains('/') && !uids.contains(uid))
            && old
            && !used.contains(profile.name.as_str())
    };
    let mut spent: Vec<&ProfileFact> = found.iter().filter(is_spent).collect();
    spent.sort_by(|a, b| (a.created_at, &a.name).cmp(&(b.created_at, &b.name)));
    spent.truncate(COLLECTED_MAX);
    spent
}
