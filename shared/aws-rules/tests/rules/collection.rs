use api::EC2NodeClass;
use aws_rules::collection::{
    DELETIONS_MAX, ProfileFact, TemplateFact, expired_templates, unused_profiles,
};
use jiff::{SignedDuration, Timestamp};
use model::node_claim::NodeClaim;
use serde_json::json;

use crate::world::node_class;

fn now() -> Timestamp {
    "2026-08-22T12:00:00Z".parse().unwrap()
}

fn ago(minutes: i64) -> Option<Timestamp> {
    Some(now() - SignedDuration::from_mins(minutes))
}

const DAY: i64 = 24 * 60;

fn template(digest: &str, class: &str, minutes: i64) -> TemplateFact {
    let tags = [
        ("eks:eks-cluster-name", "demo"),
        ("kubernetes.io/cluster/demo", "owned"),
        ("karpenter.k8s.aws/ec2nodeclass", class),
    ];
    TemplateFact {
        id: format!("lt-{digest}"),
        name: format!("karpenter.k8s.aws/{digest}"),
        created_at: ago(minutes),
        tags: tags
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into(),
    }
}

fn classes() -> Vec<EC2NodeClass> {
    vec![node_class(json!({}))]
}

fn expired(found: &[TemplateFact]) -> Vec<&str> {
    let expired = expired_templates(found, "demo", &classes(), now());
    expired
        .into_iter()
        .map(|template| template.id.as_str())
        .collect()
}

#[test]
fn templates_expire_after_a_day_and_sooner_without_their_node_class() {
    let found = [
        template("1", "default", DAY - 1),
        template("2", "default", DAY),
        template("3", "gone", 59),
        template("4", "gone", 60),
    ];
    assert_eq!(expired(&found), ["lt-2", "lt-4"], "oldest first");
}

#[test]
fn templates_of_uncertain_ownership_are_kept() {
    let ours = template("1", "gone", DAY);
    let change = |change: fn(&mut TemplateFact)| {
        let mut changed = ours.clone();
        change(&mut changed);
        changed
    };
    let found = [
        change(|template| template.name = "web-servers".into()),
        change(|template| template.name = "karpenter.k8s.aws/".into()),
        change(|template| template.name = "karpenter.k8s.aws/by-hand".into()),
        change(|template| template.created_at = None),
        change(|template| {
            template
                .tags
                .insert("eks:eks-cluster-name".into(), "other".into());
        }),
        change(|template| {
            template.tags.remove("kubernetes.io/cluster/demo");
        }),
        change(|template| {
            template.tags.remove("karpenter.k8s.aws/ec2nodeclass");
        }),
    ];
    assert_eq!(expired(&found), [""; 0]);
    assert_eq!(expired(&[ours]), ["lt-1"]);
}

#[test]
fn template_deletions_per_collection_are_bounded() {
    let found: Vec<_> = (0..50)
        .map(|digest| template(&digest.to_string(), "gone", DAY + digest))
        .collect();
    let expired = expired(&found);
    assert_eq!(expired.len(), DELETIONS_MAX);
    assert_eq!(expired[0], "lt-49", "the oldest has waited longest");
}

fn profile(name: &str, uid: &str, minutes: i64) -> ProfileFact {
    ProfileFact {
        name: name.into(),
        path: format!("/karpenter/us-east-1/demo/{uid}/"),
        created_at: ago(minutes),
        roles: vec!["node-role".into()],
    }
}

fn spent_of<'a>(found: &'a [ProfileFact], claims: &[NodeClaim]) -> Vec<&'a str> {
    let expired = unused_profiles(found, ("demo", "us-east-1"), &classes(), claims, now());
    expired
        .into_iter()
        .map(|profile| profile.name.as_str())
        .collect()
}

fn claim(class: &str, profile: &str) -> NodeClaim {
    let mut claim = NodeClaim::default();
    claim.spec.node_class.name = class.into();
    let key = "karpenter.k8s.aws/instance-profile-name";
    claim.annotations.insert(key.into(), profile.into());
    claim
}

#[test]
fn profiles_of_deleted_node_classes_expire_after_an_hour() {
    let live = classes()[0].metadata.uid.clone();
    let found = [
        profile("of-a-live-class", &live, DAY),
        profile("new", "gone", 59),
        profile("old", "gone", 60),
        ProfileFact {
            path: "/karpenter/us-east-1/demo/".into(),
            ..profile("on-another-path", "gone", DAY)
        },
        ProfileFact {
            path: "/karpenter/us-east-1/demo-2/gone/".into(),
            ..profile("of-another-cluster", "gone", DAY)
        },
    ];
    assert_eq!(spent_of(&found, &[]), ["old"]);
}

#[test]
fn profiles_that_nodes_may_use_are_kept() {
    let found = [profile("used", "gone", DAY), profile("spent", "gone", DAY)];
    assert_eq!(spent_of(&found, &[claim("default", "used")]), ["spent"]);
    let stranded = claim("deleted-by-force", "unknown");
    assert_eq!(spent_of(&found, &[stranded]), [""; 0]);
    let named = profile("demo_profile", "gone", DAY);
    assert_eq!(spent_of(&[named], &[]), [""; 0], "a status names it");
}
