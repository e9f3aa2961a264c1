//! A group of instances in a form common to both sources: its settings for nodes, and the objects made from it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::{Sources, tags::Origin, template};
use crate::{
    convert::{document::Document, edit::Edit},
    launch_template::Version,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    Asg,
    Mng,
}

const LIMITS: &str = "/spec/limits";
pub(super) const EXPIRE_AFTER: &str = "/spec/template/spec/expireAfter";

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

/// Unit of a group's sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    Node,
    /// Weighted capacity, with the weights of the lightest and of the heaviest instance type.
    Weight {
        least: i64,
        most: i64,
    },
    Cpu,
    MebibyteOfMemory,
}

impl Unit {
    /// Most nodes of a group of this size: Auto Scaling launches until the capacity is reached or exceeded. `None` if the number depends on the instance types.
    pub(super) fn nodes(self, size: i64) -> Option<i64> {
        match self {
            Self::Node => Some(size),
            Self::Weight { least, .. } => {
                let least = least.max(1);
                Some(size.saturating_add(least - 1) / least)
            }
            Self::Cpu | Self::MebibyteOfMemory => None,
        }
    }

    /// Whether each node is the same number of units.
    fn is_uniform(self) -> bool {
        match self {
            Self::Node => true,
            Self::Weight { least, most } => least == most,
            Self::Cpu | Self::MebibyteOfMemory => false,
        }
    }

    /// The limits of a NodePool of this size.
    fn limits(self, size: i64) -> Value {
        match self {
            Self::Cpu => json!({ "cpu": size.to_string() }),
            Self::MebibyteOfMemory => json!({ "memory": format!("{size}Mi") }),
            Self::Node | Self::Weight { .. } => {
                json!({ "nodes": self.nodes(size).unwrap_or(size).to_string() })
            }
        }
    }

    /// Name of the unit, for messages; `None` for nodes.
    fn name(self) -> Option<String> {
        match self {
            Self::Node => None,
            Self::Weight { least, most } if least == most => {
                Some(format!("units of weight, of which a node has {least}"))
            }
            Self::Weight { least, most } => Some(format!(
                "units of weight, of which a node has from {least} to {most}"
            )),
            Self::Cpu => Some("vCPUs".to_owned()),
            Self::MebibyteOfMemory => Some("MiB of memory".to_owned()),
        }
    }
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
                    quoted(&wanted.template),
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

    /// The EC2NodeClass and the NodePool, both named after the group.
    pub(super) fn objects(&self, sources: &Sources) -> [Edit; 2] {
        let name = object_name(&self.name);
        let mut class = self.object(
            "karpenter.k8s.aws/v1",
            "EC2NodeClass",
            &name,
            Value::Object(self.class(sources)),
        );
        let mut pool = self.object(
            "karpenter.sh/v1",
            "NodePool",
            &name,
            self.pool(&name, sources),
        );
        let of = match self.source {
            Source::Asg => "Auto Scaling group",
            Source::Mng => "managed node group",
        };
        let names: Vec<&str> = self
            .members
            .iter()
            .map(|member| member.name.as_str())
            .collect();
        class.comment("", format!("of {of} {}", names.join(", ")));
        for (field, text) in &self.class_comments {
            class.comment(field, text.clone());
        }
        self.describe_sizes(&mut pool, sources.is_static);
        if self.lifetime.is_none() {
            pool.comment(
                EXPIRE_AFTER,
                "nodes of the group did not expire; without this field v1 ends them by force after 720h, outside of budgets",
            );
        }
        let is_said = |field: &str| !sources.is_static || !field.starts_with("/spec/disruption");
        for (field, text) in self
            .pool_comments
            .iter()
            .filter(|(field, _)| is_said(field))
        {
            pool.comment(field, text.clone());
        }
        for text in &self.warnings {
            pool.warn(text.clone());
        }
        for (field, value, remedy) in &self.refusals {
            let field = field.replace('.', "/");
            pool.refuse(&field, value, remedy.clone());
        }
        [class, pool]
    }

    /// Comments on sizes that count something else than nodes, and on those without a counterpart.
    fn describe_sizes(&self, pool: &mut Edit, is_static: bool) {
        let unit = self.unit.name();
        let least: i64 = self.members.iter().map(|member| member.min).sum();
        if least > 0 && !is_static {
            let remedy = match self.unit.is_uniform() {
                true => ", --static fixes it",
                false => "",
            };
            let what = unit.as_deref().unwrap_or("nodes");
            pool.comment(
                LIMITS,
                format!("{least} was the least number of {what}: a NodePool that grows has no such bound{remedy}"),
            );
        }
        if let Some(unit) = unit {
            pool.comment(LIMITS, format!("was MaxSize: {} {unit}", self.max));
        }
        if !is_static {
            return;
        }
        if !self.unit.is_uniform() {
            pool.refuse(
                "/DesiredCapacity",
                &self.desired().to_string(),
                "it counts units of which nodes have different numbers, and a NodePool is fixed at a number of nodes: leave --static out",
            );
        }
        let cluster = self.clusters.first().map_or("<cluster>", String::as_str);
        pool.warn(format!(
            "a NodePool with replicas launches nothing until {}",
            gate_remedy("StaticCapacity", "staticCapacity", cluster)
        ));
    }

    /// The desired size of all members.
    fn desired(&self) -> i64 {
        self.members.iter().map(|member| member.desired).sum()
    }

    fn object(&self, version: &str, kind: &str, name: &str, spec: Value) -> Edit {
        let object = json!({ "apiVersion": version, "kind": kind, "metadata": { "name": name }, "spec": spec });
        let mut edit = Edit::new(Document {
            place: self.file.clone(),
            text: None,
            loses_comments: false,
            object,
        });
        // Generated objects must be validated, as changed ones are.
        edit.touch();
        edit
    }

    fn class(&self, sources: &Sources) -> Map<String, Value> {
        let mut class = self.class.clone();
        if let Some(release) = self.release.as_ref().filter(|_| sources.pin) {
            class.insert("amiSelectorTerms".to_owned(), json!([{ "alias": release }]));
        }
        if !class.contains_key("subnetSelectorTerms") {
            let terms: Vec<Value> = self.subnets.iter().map(|id| json!({ "id": id })).collect();
            class.insert("subnetSelectorTerms".to_owned(), terms.into());
        }
        class
    }

    fn pool(&self, class: &str, sources: &Sources) -> Value {
        let mut requirements = self.requirements.clone();
        requirements.push(json!({ "key": "karpenter.sh/capacity-type", "operator": "In", "values": self.capacity_types }));
        let mut spec = Map::new();
        spec.insert(
            "nodeClassRef".to_owned(),
            json!({ "group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": class }),
        );
        spec.insert("requirements".to_owned(), requirements.into());
        let lifetime = self.lifetime.map(|seconds| format!("{seconds}s"));
        spec.insert(
            "expireAfter".to_owned(),
            lifetime.as_deref().unwrap_or("Never").into(),
        );
        for (field, taints) in [
            ("taints", &self.taints),
            ("startupTaints", &self.startup_taints),
        ] {
            if !taints.is_empty() {
                spec.insert(field.to_owned(), taints.clone().into());
            }
        }
        let mut template = Map::from_iter([("spec".to_owned(), Value::Object(spec))]);
        if !self.labels.is_empty() {
            template.insert("metadata".to_owned(), json!({ "labels": self.labels }));
        }
        let mut pool = Map::from_iter([("template".to_owned(), Value::Object(template))]);
        if sources.is_static {
            let nodes = self.unit.nodes(self.desired());
            pool.insert("replicas".to_owned(), nodes.unwrap_or_default().into());
        } else {
            if let Some(weight) = self.weight {
                pool.insert("weight".to_owned(), weight.into());
            }
            if !self.disruption.is_empty() {
                let mut disruption = self.disruption.clone();
                disruption.entry("consolidateAfter").or_insert("0s".into());
                pool.insert("disruption".to_owned(), Value::Object(disruption));
            }
        }
        pool.insert("limits".to_owned(), self.unit.limits(self.max));
        Value::Object(pool)
    }
}

/// Merges groups that differ only in their zones: a NodePool balances zones itself.
pub(super) fn merged(groups: Vec<Group>) -> Vec<Group> {
    let mut merged: Vec<Group> = Vec::new();
    for group in groups {
        let same = |other: &&mut Group| {
            group.source == Source::Asg
                && other.source == Source::Asg
                && group.template.is_some()
                // A group with refusals stays separate, so that they name it.
                && group.refusals.is_empty()
                && other.refusals.is_empty()
                && (
                    &other.template,
                    &other.unit,
                    &other.labels,
                    &other.taints,
                    &other.requirements,
                    &other.capacity_types,
                ) == (
                    &group.template,
                    &group.unit,
                    &group.labels,
                    &group.taints,
                    &group.requirements,
                    &group.capacity_types,
                )
        };
        match merged.iter_mut().find(same) {
            Some(other) => {
                other.name = common(&other.name, &group.name);
                other.members.extend(group.members);
                other.max += group.max;
                other.subnets.extend(group.subnets);
                for warning in group.warnings {
                    if !other.warnings.contains(&warning) {
                        other.warnings.push(warning);
                    }
                }
                for comment in group.pool_comments {
                    if !other.pool_comments.contains(&comment) {
                        other.pool_comments.push(comment);
                    }
                }
            }
            None => merged.push(group),
        }
    }
    merged
}

/// The common prefix of two names, up to a separator; the first name where there is none.
fn common(first: &str, second: &str) -> String {
    let shared = first
        .bytes()
        .zip(second.bytes())
        .take_while(|(a, b)| a == b)
        .count();
    let start = first.get(..shared).unwrap_or_default();
    let start = start
        .rfind(['-', '_', '.'])
        .and_then(|end| start.get(..end))
        .unwrap_or(start);
    match start.is_empty() {
        true => first.to_owned(),
        false => start.to_owned(),
    }
}

/// The condition that a feature gate of the cluster is on, and the commands for it.
pub(super) fn gate_remedy(gate: &str, setting: &str, cluster: &str) -> String {
    let cluster = quoted(cluster);
    format!(
        "the cluster's feature gate {gate} is on: whittle register {cluster} --settings '{{\"featureGates\": {{\"{setting}\": true}}}}'; \
         of a cluster that is registered, add it to the settings in the parameter /whittle/clusters/{cluster}"
    )
}

/// A word quoted for a shell command.
pub(super) fn quoted(word: &str) -> String {
    let quoted = shlex::try_quote(word).unwrap_or_default();
    quoted.into_owned()
}

/// A valid Kubernetes object name.
pub(super) fn object_name(name: &str) -> String {
    let lower = name.to_ascii_lowercase();
    let plain = lower.replace(
        |c: char| !c.is_ascii_alphanumeric() && c != '-' && c != '.',
        "-",
    );
    plain.trim_matches(['-', '.']).to_owned()
}
