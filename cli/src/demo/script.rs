//! Scripts of the stories: a user's acts, changes in AWS, and the expected effects, as pages of YAML.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use model::CapacityType;
use serde::Deserialize;
use serde_json::Value;

pub(super) const DEFAULT: &str = "growth";

/// Stories by name.
const STORIES: [(&str, &str); 8] = [
    ("growth", include_str!("stories/growth.yaml")),
    ("consolidation", include_str!("stories/consolidation.yaml")),
    ("drift", include_str!("stories/drift.yaml")),
    ("interruption", include_str!("stories/interruption.yaml")),
    ("capacity", include_str!("stories/capacity.yaml")),
    (
        "broken-node-class",
        include_str!("stories/broken-node-class.yaml"),
    ),
    ("explain", include_str!("stories/explain.yaml")),
    ("takeover", include_str!("stories/takeover.yaml")),
];

/// Manifests that stories apply, by file name.
const MANIFESTS: [(&str, &str); 12] = [
    ("api.yaml", include_str!("manifests/api.yaml")),
    ("budget.yaml", include_str!("manifests/budget.yaml")),
    ("cache.yaml", include_str!("manifests/cache.yaml")),
    ("drift.yaml", include_str!("manifests/drift.yaml")),
    ("fallback.yaml", include_str!("manifests/fallback.yaml")),
    ("inflate.yaml", include_str!("manifests/inflate.yaml")),
    ("karpenter.yaml", include_str!("manifests/karpenter.yaml")),
    ("node-class.yaml", include_str!("manifests/node-class.yaml")),
    (
        "broken-node-class.yaml",
        include_str!("manifests/broken-node-class.yaml"),
    ),
    ("node-pool.yaml", include_str!("manifests/node-pool.yaml")),
    ("on-demand.yaml", include_str!("manifests/on-demand.yaml")),
    ("web.yaml", include_str!("manifests/web.yaml")),
];

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Script {
    /// One line for the list of stories.
    pub(super) summary: String,
    /// Deployment that a user may scale after the story.
    pub(super) deployment: String,
    pub(super) chapters: Vec<Chapter>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct Chapter {
    pub(super) title: String,
    /// Left out if the cluster stays up after the story.
    #[serde(default)]
    pub(super) tidies_up: bool,
    pub(super) steps: Vec<Step>,
}

/// An act, or an effect that must occur before the next step.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Step {
    /// The user applies a manifest.
    Apply(String),
    /// The user scales Deployments.
    Scale(Replicas),
    /// The user runs a `whittle` command that reads the journal: `{pod:APP}`, `{node:APP}`, `{turn}` and `{directory}` are replaced.
    Whittle(String),
    /// The user registers the cluster, which then is in shadow mode.
    Register,
    /// The user lets Whittle act for the cluster.
    Activate,
    /// The control plane is upgraded to a `major.minor` version.
    Upgrade(String),
    /// EC2 announces that it takes back a spot node of this Deployment.
    Notice(String),
    /// EC2 has only so many instances left in pools.
    Capacity(CapacityLimit),
    /// The nodes become those of a running Karpenter, which holds the Lease.
    KarpenterRuns,
    /// Karpenter is scaled to zero.
    KarpenterEnds,
    /// All pods of each Deployment run, and every node is Ready.
    Runs(Replicas),
    /// The nodes of a Deployment are as expected.
    Nodes(ExpectedNodes),
    /// As `Runs`, and none of the nodes that the last act concerned are left.
    Replaced(Replicas),
    /// As `Runs`, and the nodes cost less than before the last act.
    Cheaper(ExpectedCost),
    /// A condition of an object.
    Condition(ExpectedCondition),
    /// An event of Whittle since the last act.
    Event(ExpectedEvent),
    /// For so many minutes no node comes or goes.
    Unchanged(i64),
    /// No instance, node and NodeClaim is left.
    Gone,
}

/// Number of replicas by Deployment.
pub(super) type Replicas = BTreeMap<String, usize>;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct CapacityLimit {
    pub(super) instance_type: String,
    pub(super) capacity_type: CapacityType,
    /// Number of instances that EC2 has left in each zone.
    pub(super) instances: u32,
}

/// Expectation about the nodes on which a Deployment runs; what is left out is not compared.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct ExpectedNodes {
    pub(super) of: String,
    /// The expectation in words.
    pub(super) are: String,
    pub(super) count: Option<usize>,
    pub(super) instance_types: Option<BTreeSet<String>>,
    pub(super) capacity_types: Option<BTreeSet<CapacityType>>,
    pub(super) zones: Option<BTreeSet<String>>,
    pub(super) node_pools: Option<BTreeSet<String>>,
    /// Upper bound on the CPUs of spot nodes.
    pub(super) spot_cpus_max: Option<u64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ExpectedCost {
    pub(super) runs: Replicas,
    /// Upper bound on the cost, in percent of the cost before the last act.
    pub(super) percent: i64,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ExpectedCondition {
    pub(super) api_version: String,
    pub(super) kind: String,
    pub(super) name: String,
    #[serde(rename = "type")]
    pub(super) condition: String,
    pub(super) status: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ExpectedEvent {
    pub(super) kind: String,
    pub(super) reason: String,
}

impl Script {
    pub(super) fn read(text: &str) -> Result<Self> {
        let page: Value = serde_saphyr::from_str(text)?;
        serde_json::from_value(page).context("a story cannot be read")
    }

    /// The script of a story.
    pub(super) fn named(name: &str) -> Result<Self> {
        let names = || STORIES.map(|(name, _)| name).join(", ");
        let story = STORIES.iter().find(|(story, _)| *story == name);
        let (_, text) =
            story.with_context(|| format!("there is no story {name:?}: expected {}", names()))?;
        Self::read(text)
    }
}

/// The text of a manifest.
pub(super) fn manifest(file: &str) -> Result<&'static str> {
    let found = MANIFESTS.iter().find(|(name, _)| *name == file);
    let (_, text) = found.with_context(|| format!("the demo has no manifest {file}"))?;
    Ok(text)
}

/// The list of stories with their summaries.
pub(super) fn list() -> Result<String> {
    let mut text = String::new();
    for (name, story) in STORIES {
        let summary = Script::read(story)?.summary;
        text.push_str(&format!("  {name:18} {summary}\n"));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_story_is_readable_and_its_manifests_exist() {
        assert_eq!(list().unwrap().lines().count(), STORIES.len());
        assert_eq!(STORIES[0].0, DEFAULT);
        for (name, text) in STORIES {
            let script = Script::read(text).unwrap();
            for step in script.chapters.iter().flat_map(|chapter| &chapter.steps) {
                if let Step::Apply(file) = step {
                    manifest(file).unwrap();
                }
            }
            let last = script.chapters.last().unwrap();
            assert!(last.tidies_up, "{name} leaves nothing behind");
        }
    }

    #[test]
    fn unknown_story_names_those_that_exist() {
        let error = Script::named("groth").unwrap_err().to_string();
        assert!(error.contains("expected growth, consolidation"), "{error}");
    }
}
