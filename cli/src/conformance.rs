//! `whittle conformance`: decides recorded cases, to be judged by the corpus' own scripts.

use std::{
    io::{BufRead, Write},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Arc,
};

use anyhow::{Context, Result, bail};
use api::manifests::{Manifests, Object};
use clap::{Args, ValueEnum};
use jiff::Timestamp;
use model::{
    InstanceType, Snapshot,
    snapshot::{
        MinValuesPolicy, Optimize, PreferencePolicy, ReservedOfferingMode, Service, Settings,
    },
};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    catalogs::{self, Catalogs},
    cluster, decision,
    timing::{Span, Times},
};

#[derive(Args)]
pub(crate) struct Arguments {
    /// Cases, one JSON object per line, gzipped or not.
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Where catalogs are that are not beside the cases.
    #[arg(long)]
    data: Option<PathBuf>,
    /// What to optimize for; unless given, cases compared exactly ask for upstream's answer and the others for cost.
    #[arg(long)]
    optimize: Option<Goal>,
    /// Decide only the cases whose id contains this.
    #[arg(long)]
    only: Option<String>,
    /// Add CPU times, wall times and peak memory to each line; every case runs in a process of its own.
    #[arg(long)]
    time: bool,
    /// The one case to decide and measure in this process.
    #[arg(long, hide = true)]
    measure: Option<String>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Goal {
    Upstream,
    Cost,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Case {
    id: String,
    kind: String,
    compare: String,
    now: Timestamp,
    #[serde(default)]
    options: Option<CaseOptions>,
    #[serde(default)]
    catalog: Option<String>,
    #[serde(default)]
    instance_types: Option<Value>,
    objects: Vec<Value>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct CaseOptions {
    preference_policy: Option<PreferencePolicy>,
    min_values_policy: Option<MinValuesPolicy>,
    reserved_offering_mode: Option<ReservedOfferingMode>,
    feature_gates: std::collections::BTreeMap<String, bool>,
    scheduler_config: Option<Value>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let mut out = std::io::stdout().lock();
    for file in &arguments.files {
        let beside = file.parent().map(Path::to_owned).unwrap_or_default();
        let folders = [Some(beside), arguments.data.clone()];
        let mut catalogs = Catalogs::new(folders.into_iter().flatten().collect());
        let bytes = catalogs::bytes(file)?;
        for (number, line) in bytes.lines().enumerate() {
            let line = line.with_context(|| format!("{}:{}", file.display(), number + 1))?;
            if line.trim().is_empty() {
                continue;
            }
            let case: Case = serde_json::from_str(&line)
                .with_context(|| format!("{}:{}: no case", file.display(), number + 1))?;
            if !arguments.wants(&case.id) {
                continue;
            }
            if arguments.time && arguments.measure.is_none() {
                out.write_all(&measured_apart(file, &case.id, arguments)?)?;
                continue;
            }
            let id = case.id.clone();
            let answer = match decide(case, arguments.optimize, &mut catalogs) {
                Ok((got, times)) if arguments.time => json!({"id": id, "got": got, "ms": times}),
                Ok((got, _)) => json!({"id": id, "got": got}),
                Err(error) => json!({"id": id, "error": format!("{error:#}")}),
            };
            writeln!(out, "{answer}")?;
        }
    }
    Ok(())
}

impl Arguments {
    fn wants(&self, id: &str) -> bool {
        match (&self.measure, &self.only) {
            (Some(one), _) => id == one,
            (None, Some(part)) => id.contains(part),
            (None, None) => true,
        }
    }
}

/// The line that a process of its own prints for a case.
fn measured_apart(file: &Path, id: &str, arguments: &Arguments) -> Result<Vec<u8>> {
    let mut command = Command::new(std::env::current_exe()?);
    command
        .args(["conformance", "--time", "--measure", id])
        .arg(file);
    if let Some(data) = &arguments.data {
        command.arg("--data").arg(data);
    }
    if let Some(goal) = arguments.optimize.and_then(|goal| goal.to_possible_value()) {
        command.args(["--optimize", goal.get_name()]);
    }
    let output = command.stderr(Stdio::inherit()).output()?;
    if !output.status.success() {
        bail!("case {id}: its process ended with {}", output.status);
    }
    Ok(output.stdout)
}

fn decide(case: Case, goal: Option<Goal>, catalogs: &mut Catalogs) -> Result<(Value, Times)> {
    if case.kind != "provisioning" {
        bail!("cases of kind {} are not decided here", case.kind);
    }
    let id = case.id.clone();
    let snapshot = snapshot(case, goal, catalogs)?;
    let mut solve = Span::default();
    let (plan, whole) = Span::of(|| {
        let plan = planner::provision_with(&snapshot, |question| {
            let (answer, span) = Span::of(|| scheduling::solve(question));
            solve = span;
            answer
        });
        plancheck::filter(&snapshot, plan)
    });
    for refused in &plan.refused {
        eprintln!(
            "whittle: {id}: the check refuses: {}",
            refused.offences.join("; ")
        );
    }
    let times = Times::new(&solve, &whole);
    Ok((decision::provisioning(&plan.plan), times))
}

fn snapshot(case: Case, goal: Option<Goal>, catalogs: &mut Catalogs) -> Result<Snapshot> {
    let types: Arc<Vec<InstanceType>> = match (&case.instance_types, &case.catalog) {
        (Some(inline), _) => Arc::new(api::convert::catalog_file::read(&serde_json::to_vec(
            inline,
        )?)?),
        (None, Some(name)) => catalogs.named(name)?,
        (None, None) => bail!("the case names no catalog"),
    };
    let on_aws = case
        .catalog
        .as_ref()
        .is_some_and(|name| name.starts_with("aws"));
    let mut settings = if on_aws {
        cluster::aws_settings()
    } else {
        generic_settings()
    };
    settings.optimize = match goal {
        Some(Goal::Upstream) => Optimize::Upstream,
        Some(Goal::Cost) => Optimize::Cost,
        None if case.compare == "exact" => Optimize::Upstream,
        None => Optimize::Cost,
    };
    apply(case.options.unwrap_or_default(), &mut settings)?;
    let mut snapshot = cluster::empty(case.now, settings);
    snapshot.services = case.objects.iter().filter_map(service).collect();
    let ready = ready_pools(&case.objects);
    let list = json!({"apiVersion": "v1", "kind": "List", "items": case.objects});
    let mut manifests = Manifests::default();
    manifests.read(&case.id, &list.to_string());
    if let Some(error) = manifests.errors.first() {
        bail!("{error}");
    }
    let objects: Vec<Object> = manifests
        .objects
        .into_iter()
        .map(|one| one.object)
        .collect();
    cluster::add_objects(&mut snapshot, objects, &types);
    for pool in &mut snapshot.node_pools {
        let class = &pool.template.node_class;
        let managed = NODE_CLASSES.contains(&(class.group.as_str(), class.kind.as_str()));
        if !managed {
            pool.not_ready = Some(format!(
                "node class {}/{} is not ours",
                class.group, class.kind
            ));
        } else if !ready.contains(&pool.name.0) && pool.not_ready.is_none() {
            pool.not_ready = Some("its status has no condition Ready".to_owned());
        }
    }
    Ok(snapshot)
}

const NODE_CLASSES: [(&str, &str); 2] = [
    ("karpenter.test.sh", "TestNodeClass"),
    ("karpenter.k8s.aws", "EC2NodeClass"),
];

/// The labels of the corpus' made-up provider.
fn generic_settings() -> Settings {
    let own = [
        "karpenter.test.sh/reservation-id",
        "karpenter.test.sh/instance-family",
        "karpenter.test.sh/instance-size",
        "karpenter.test.sh/instance-cpu",
        "karpenter.test.sh/instance-memory",
        "karpenter.test.sh/instance-generation",
        "karpenter.test.sh/instance-gpu-name",
        "karpenter.test.sh/instance-gpu-count",
        "karpenter.test.sh/instance-local-nvme",
    ];
    cluster::settings(&own, &[], "karpenter.test.sh/reservation-id")
}

fn apply(options: CaseOptions, settings: &mut Settings) -> Result<()> {
    settings.preference_policy = options.preference_policy.unwrap_or_default();
    settings.min_values_policy = options.min_values_policy.unwrap_or_default();
    settings.reserved_offering_mode = options.reserved_offering_mode.unwrap_or_default();
    settings.feature_gates = options.feature_gates;
    let spread = options.scheduler_config.and_then(|config| {
        config
            .pointer("/podTopologySpread/defaultConstraints")
            .cloned()
    });
    if let Some(constraints) = spread {
        // A pod is the one thing that has such constraints.
        let pod = json!({"metadata": {"name": ""}, "spec": {"containers": [], "topologySpreadConstraints": constraints}});
        let pod: api::kubernetes::Pod = serde_json::from_value(pod).context("schedulerConfig")?;
        settings.default_topology_spread = model::pod::Pod::from(pod).topology_spread;
    }
    Ok(())
}

fn ready_pools(objects: &[Value]) -> Vec<String> {
    let is_ready = |pool: &&Value| {
        let conditions = pool.pointer("/status/conditions").and_then(Value::as_array);
        conditions
            .into_iter()
            .flatten()
            .any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
    };
    let pools = objects.iter().filter(|object| object["kind"] == "NodePool");
    let names = pools
        .filter(is_ready)
        .filter_map(|pool| pool.pointer("/metadata/name"));
    names.filter_map(Value::as_str).map(str::to_owned).collect()
}

fn service(object: &Value) -> Option<Service> {
    if object["kind"] != "Service" {
        return None;
    }
    let text = |path: &str| object.pointer(path).and_then(Value::as_str);
    let selector = object.pointer("/spec/selector")?.as_object()?;
    Some(Service {
        key: model::PodKey::new(
            text("/metadata/namespace").unwrap_or("default"),
            text("/metadata/name").unwrap_or_default(),
        ),
        selector: selector
            .iter()
            .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
            .collect(),
    })
}
