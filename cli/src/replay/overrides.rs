//! Overrides of manifests and settings for a turn's snapshot.

use std::{path::PathBuf, sync::Arc};

use anyhow::{Context, Result, bail};
use clap::Args;
use model::{NodePoolName, Snapshot, node_pool::NodePool};

use crate::{admission, cluster, plan, workloads};

#[derive(Args)]
pub(crate) struct Changes {
    /// Manifests to add, or to replace objects of the same name: NodePools, NodeOverlays, workloads, pods, PodDisruptionBudgets …
    #[arg(long = "with", value_name = "FILE", num_args = 1..)]
    files: Vec<PathBuf>,
    /// NodePools to remove
    #[arg(long = "without", value_name = "NODEPOOL", num_args = 1..)]
    without: Vec<String>,
    /// Cluster setting, as in the registry: `preferencePolicy=Ignore`, `minValuesPolicy=BestEffort`, `optimize=upstream` or a feature gate
    /// such as `SpotToSpotConsolidation=true`
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = setting)]
    settings: Vec<(String, String)>,
}

fn setting(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("expected NAME=VALUE")?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

/// Overrides to apply.
pub(crate) struct Overrides {
    objects: Vec<api::manifests::Object>,
    without: Vec<NodePoolName>,
    settings: Vec<(String, String)>,
}

impl Overrides {
    /// Parses the overrides. Anything that cannot be parsed is an error: a replay with half of the changes would mislead.
    pub(crate) fn read(arguments: &Changes) -> Result<Self> {
        let manifests = plan::read(&arguments.files)?;
        for manifest in &manifests.objects {
            for field in &manifest.unknown_fields {
                eprintln!(
                    "whittle: {}: unknown field {field} has no effect",
                    manifest.place
                );
            }
        }
        let wrong: Vec<String> = manifests.errors.iter().map(ToString::to_string).collect();
        if !wrong.is_empty() {
            bail!("nothing was replayed:\n  {}", wrong.join("\n  "));
        }
        let objects = manifests.objects.into_iter();
        let overrides = Self {
            objects: objects.map(|manifest| manifest.object).collect(),
            without: arguments
                .without
                .iter()
                .map(|name| name.as_str().into())
                .collect(),
            settings: arguments.settings.clone(),
        };
        let mut scratch = cluster::empty(jiff::Timestamp::UNIX_EPOCH, cluster::aws_settings());
        overrides.set(&mut scratch)?;
        Ok(overrides)
    }

    /// No overrides.
    pub(crate) fn none() -> Self {
        Self {
            objects: Vec::new(),
            without: Vec::new(),
            settings: Vec::new(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.objects.is_empty() && self.without.is_empty() && self.settings.is_empty()
    }

    /// Applies the overrides; returns those without an effect, with the reason.
    pub(crate) fn apply(&self, snapshot: &mut Snapshot) -> Result<Vec<String>> {
        self.set(snapshot)?;
        let mut notes = Vec::new();
        for name in &self.without {
            let pools = snapshot.node_pools.len();
            snapshot.node_pools.retain(|pool| pool.name != *name);
            if snapshot.node_pools.len() == pools {
                notes.push(format!(
                    "NodePool {name} was not there, and cannot be taken away"
                ));
            }
        }
        let mut given = cluster::empty(snapshot.now, snapshot.settings.clone());
        let classes = self
            .objects
            .iter()
            .any(|object| matches!(object, api::manifests::Object::EC2NodeClass(_)));
        if classes {
            notes.push(
                "EC2NodeClasses have no effect: which types and zones they allow was found out when the turn looked".to_owned(),
            );
        }
        let mut objects = self.objects.clone();
        notes.extend(admission::admit(&mut objects));
        let (ownership, duplicates) = workloads::settle(&mut objects);
        notes.extend(duplicates);
        notes.extend(cluster::add_objects(&mut given, objects, &Arc::default()));
        notes.extend(workloads::make_pods(&mut given, &ownership));
        for pool in std::mem::take(&mut given.node_pools) {
            notes.extend(put_pool(snapshot, pool)?);
        }
        put(&mut snapshot.pods, given.pods, |pod| pod.key.clone());
        put(&mut snapshot.daemon_sets, given.daemon_sets, |daemon_set| {
            daemon_set.key.clone()
        });
        put(&mut snapshot.namespaces, given.namespaces, |namespace| {
            namespace.name.clone()
        });
        put(
            &mut snapshot.disruption_budgets,
            given.disruption_budgets,
            |budget| budget.key.clone(),
        );
        put(
            &mut snapshot.node_overlays,
            given.node_overlays,
            |overlay| overlay.name.clone(),
        );
        put(
            &mut snapshot.capacity_buffers,
            given.capacity_buffers,
            |buffer| buffer.key.clone(),
        );
        put(&mut snapshot.workloads, given.workloads, |workload| {
            (workload.kind.clone(), workload.key.clone())
        });
        model::share_shapes(&mut snapshot.pods);
        Ok(notes)
    }

    fn set(&self, snapshot: &mut Snapshot) -> Result<()> {
        for (name, value) in &self.settings {
            let settings = &mut snapshot.settings;
            let wrong = |known: &str| format!("--set {name}={value}: expected {known}");
            match name.as_str() {
                "preferencePolicy" => {
                    settings.preference_policy =
                        enumerated(value).with_context(|| wrong("Respect or Ignore"))?;
                }
                "minValuesPolicy" => {
                    settings.min_values_policy =
                        enumerated(value).with_context(|| wrong("Strict or BestEffort"))?;
                }
                "optimize" => {
                    settings.optimize =
                        enumerated(value).with_context(|| wrong("cost or upstream"))?;
                }
                _ => {
                    let Some(gate) = api::feature_gate(name) else {
                        bail!(
                            "--set {name}={value}: expected preferencePolicy, minValuesPolicy, optimize or the name of a feature gate"
                        );
                    };
                    let on = value.parse().with_context(|| wrong("true or false"))?;
                    settings.feature_gates.insert(gate.to_owned(), on);
                }
            }
        }
        Ok(())
    }
}

fn enumerated<T: serde::de::DeserializeOwned>(value: &str) -> Result<T> {
    Ok(serde_json::from_value(value.into())?)
}

/// Adds a NodePool. Its types are those that its EC2NodeClass allows, as far as the turn's snapshot contains them.
fn put_pool(snapshot: &mut Snapshot, pool: NodePool) -> Result<Option<String>> {
    let same_class = |known: &&NodePool| known.template.node_class == pool.template.node_class;
    let known = snapshot.node_pools.iter().find(same_class);
    let types = known.and_then(|known| snapshot.instance_types.get(&known.name));
    let Some(types) = types.cloned() else {
        bail!(
            "NodePool {} names EC2NodeClass {}, which no NodePool had when the turn looked: its instance types are not known",
            pool.name,
            pool.template.node_class.name
        );
    };
    snapshot.instance_types.insert(pool.name.clone(), types);
    let note = pool
        .not_ready
        .as_ref()
        .map(|why| format!("NodePool {} is not used: {why}", pool.name));
    match snapshot
        .node_pools
        .iter_mut()
        .find(|known| known.name == pool.name)
    {
        Some(known) => {
            let (uid, annotations) = (known.uid.clone(), pool.annotations.clone());
            *known = NodePool {
                uid,
                annotations,
                ..pool
            };
        }
        None => snapshot.node_pools.push(pool),
    }
    snapshot.node_pools.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(note)
}

/// Replaces elements with the same key, and adds the others.
fn put<T, K: PartialEq>(all: &mut Vec<T>, given: Vec<T>, key: impl Fn(&T) -> K) {
    for element in given {
        match all.iter_mut().find(|known| key(known) == key(&element)) {
            Some(known) => *known = element,
            None => all.push(element),
        }
    }
}
