//! The EC2NodeClass and the NodePool of a group.

use serde_json::{Map, Value, json};

use super::{
    Sources,
    group::{Group, Source},
    names::{object_name, shell_word},
};
use crate::convert::{document::Document, edit::Edit};

const LIMITS: &str = "/spec/limits";
pub(super) const EXPIRE_AFTER: &str = "/spec/template/spec/expireAfter";

impl Group {
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
                format!("{least} was the least number of {what}: a NodePool without replicas has no such bound{remedy}"),
            );
        }
        if let Some(unit) = unit {
            pool.comment(LIMITS, format!("was MaxSize: {} {unit}", self.max));
        }
        if let Some(warning) = self.unit.warning(self.max) {
            pool.warn(warning);
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

/// The condition that a feature gate of the cluster is on, and the commands for it.
pub(super) fn gate_remedy(gate: &str, setting: &str, cluster: &str) -> String {
    let cluster = shell_word(cluster);
    format!(
        "the cluster's feature gate {gate} is on: whittle register {cluster} --settings '{{\"featureGates\": {{\"{setting}\": true}}}}'; \
         of a cluster that is registered, add it to the settings in the parameter /whittle/clusters/{cluster}"
    )
}
