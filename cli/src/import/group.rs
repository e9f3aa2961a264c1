//! A group of instances in a form common to both sources: its settings for nodes.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::{Sources, names::shell_word, tags::Origin, template, unit::Unit};
use crate::launch_template::Version;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    Asg,
    Mng,
}

/// Field that is refused where the group's launch template is missing.
const TEMPLATE: &str = "LaunchTemplate";

/// Reference of a group to a version of a launch template.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct TemplateRef {
    /// Name or id.
    pub(super) template: String,
    /// Which of the two: `name` or `id`.
    pub(super) by: &'static str,
    /// A number, `$Latest` or `$Default`.
    pub(super) version: String,
}

/// A group as it is in AWS.
#[derive(Clone, Debug)]
pub(super) struct Member {
    pub(super) name: String,
    /// Value and propagation of the tag by which Cluster Autoscaler discovers an Auto Scaling group.
    pub(super) autoscaler_tag: Option<(String, bool)>,
    pub(super) min: i64,
    pub(super) desired: i64,
}

#[derive(Clone, Debug)]
pub(super) struct Group {
    pub(super) source: Source,
    pub(super) file: String,
    pub(super) name: String,
    /// The groups that are merged in this one, itself included.
    pub(super) members: Vec<Member>,
    /// Clusters whose autoscaler discovers the group, or that it belongs to.
    pub(super) clusters: BTreeSet<String>,
    pub(super) max: i64,
    /// Unit of all sizes.
    pub(super) unit: Unit,
    pub(super) subnets: BTreeSet<String>,
    pub(super) template: Option<TemplateRef>,
    pub(super) labels: BTreeMap<String, String>,
    /// Labels and taints by identity, with their values and their origin.
    pub(super) said: BTreeMap<String, (String, Origin)>,
    pub(super) taints: Vec<Value>,
    pub(super) startup_taints: Vec<Value>,
    pub(super) requirements: Vec<Value>,
    /// The group selects instance types itself, and overrides its launch template.
    pub(super) chooses_types: bool,
    pub(super) capacity_types: Vec<&'static str>,
    /// Fields of the EC2NodeClass, and of the NodePool's `disruption`.
    pub(super) class: Map<String, Value>,
    pub(super) disruption: Map<String, Value>,
    pub(super) weight: Option<i64>,
    /// Maximum lifetime of a node, in seconds.
    pub(super) lifetime: Option<i64>,
    /// Alias of the release that nodes run now.
    pub(super) release: Option<String>,
    /// Comments on the class and on the pool, by field.
    pub(super) class_comments: Vec<(String, String)>,
    pub(super) pool_comments: Vec<(String, String)>,
    pub(super) warnings: Vec<String>,
    /// Field, value, remedy.
    pub(super) refusals: Vec<(String, String, String)>,
    /// Objects of the group are in the output.
    pub(super) is_imported: bool,
}

impl Group {
    pub(super) fn new(
        source: Source,
        file: &str,
        name: &str,
        (min, desired, max): (i64, i64, i64),
    ) -> Self {
        // AWS' own sizes have 32 bits: sums and products of them stay within 64.
        let [min, desired, max] =
            [min, desired, max].map(|size| size.clamp(0, i64::from(i32::MAX)));
        Self {
            source,
            file: file.to_owned(),
            name: name.to_owned(),
            members: vec![Member {
                name: name.to_owned(),
                autoscaler_tag: None,
                min,
                desired,
            }],
            clusters: BTreeSet::new(),
            max,
            unit: Unit::Node,
            subnets: BTreeSet::new(),
            template: None,
            labels: BTreeMap::new(),
            said: BTreeMap::new(),
            taints: Vec::new(),
            startup_taints: Vec::new(),
            requirements: Vec::new(),
            chooses_types: false,
            capacity_types: vec!["on-demand"],
            class: Map::new(),
            disruption: Map::new(),
            weight: None,
            lifetime: None,
            release: None,
            class_comments: Vec::new(),
            pool_comments: Vec::new(),
            warnings: Vec::new(),
            refusals: Vec::new(),
            is_imported: false,
        }
    }

    pub(super) fn belongs_to(&self, cluster: &str) -> bool {
        self.clusters.contains(cluster)
    }

    pub(super) fn refuse(&mut self, field: &str, value: &str, remedy: impl Into<String>) {
        self.refusals
            .push((field.to_owned(), value.to_owned(), remedy.into()));
    }

    pub(super) fn about_pool(&mut self, field: &str, text: impl Into<String>) {
        self.pool_comments.push((field.to_owned(), text.into()));
    }

    pub(super) fn about_class(&mut self, field: &str, text: impl Into<String>) {
        self.class_comments.push((field.to_owned(), text.into()));
    }

    /// Reports that something is left out, and why.
    pub(super) fn not_imported(&mut self, what: &str, why: &str) {
        self.warnings.push(format!("{what} is not imported: {why}"));
    }

    pub(super) fn require(
        &mut self,
        key: &str,
        operator: &str,
        values: impl IntoIterator<Item = String>,
    ) {
        let values: Vec<String> = values.into_iter().collect();
        let requirement = json!({ "key": key, "operator": operator, "values": values });
        if !self.requirements.contains(&requirement) {
            self.requirements.push(requirement);
        }
    }

    /// Adds a tag for instances, unless Whittle or AWS sets it.
    pub(super) fn tag_instances(&mut self, key: &str, value: &str) {
        const RESTRICTED: [&str; 3] = [
            "karpenter.sh/nodepool",
            "karpenter.sh/nodeclaim",
            "karpenter.k8s.aws/ec2nodeclass",
        ];
        let is_restricted = RESTRICTED.contains(&key)
            || [
                "aws:",
                "eks:",
                "kubernetes.io/cluster",
                "k8s.io/cluster-autoscaler/",
            ]
            .iter()
            .any(|prefix| key.starts_with(prefix));
        if is_restricted {
            let text = format!("tag {key} is left out: Whittle tags instances itself");
            self.about_class("/spec", text);
            return;
        }
        let tags = self.class.entry("tags").or_insert_with(|| json!({}));
        if let Value::Object(tags) = tags {
            tags.entry(key).or_insert_with(|| value.into());
        }
    }

    /// Reads the group's version of its launch template.
    pub(super) fn read_template(&mut self, versions: &[Version]) {
        let Some(wanted) = self.template.clone() else {
            return;
        };
        let mut own: Vec<&Version> = versions
            .iter()
            .filter(|version| version.name == wanted.template || version.id == wanted.template)
            .collect();
        own.sort_by_key(|version| version.number);
        let version = match wanted.version.as_str() {
            "$Latest" => own.last().copied(),
            "$Default" | "" => own.iter().find(|version| version.is_default).copied(),
            number => own
                .iter()
                .find(|version| version.number.to_string() == number)
                .copied(),
        };
        match version {
            Some(version) => {
                if wanted.version.starts_with('$') {
                    let text = format!(
                        "{} of launch template {} is version {}",
                        wanted.version, version.name, version.number
                    );
                    self.about_class("", text);
                }
                template::read(self, version);
            }
            None => {
                let by = wanted.by;
                let version = match wanted.version.as_str() {
                    "" => "$Default",
                    version => version,
                };
                let remedy = format!(
                    "give --launch-template <file> with the output of `aws ec2 describe-launch-template-versions \
                     --launch-template-{by} {} --versions '{version}'`",
                    shell_word(&wanted.template),
                );
                self.refuse(
                    TEMPLATE,
                    &format!("{}, version {version}", wanted.template),
                    remedy,
                );
            }
        }
    }

    /// Chooses a role or a profile, one of which v1 requires.
    pub(super) fn choose_identity(&mut self, sources: &Sources) {
        if let Some(role) = &sources.role {
            self.class.remove("instanceProfile");
            self.class.insert("role".to_owned(), role.as_str().into());
        }
        if !self.class.contains_key("role") && !self.class.contains_key("instanceProfile") {
            let is_refused = |field: &str| self.refusals.iter().any(|(known, ..)| known == field);
            let remedy = if is_refused(TEMPLATE) {
                "the group names none, and its launch template, which may name one, is not given: give that, or --role <name>"
            } else if is_refused("LaunchConfigurationName") {
                "the group names none, and its launch configuration, which may name one, is not read: give --role <name>"
            } else {
                "neither the group nor its launch template names one: give --role <name>"
            };
            self.refuse("IamInstanceProfile", "", remedy);
        }
    }
}
