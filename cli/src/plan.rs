//! `whittle plan`: the launches for manifests or a cluster, or the nodes that would be disrupted, with reasons.

pub(crate) mod disruption;
pub(crate) mod hints;
mod overlays;
mod parts;
mod protection;
mod refusals;
mod rows;
pub(crate) mod text;

use std::{
    collections::{BTreeMap, BTreeSet},
    io::Read,
    path::PathBuf,
    sync::Arc,
};

use anyhow::{Context, Result, bail};
use api::{
    SchedulerConfigError,
    manifests::{Manifests, Object},
};
use aws_rules::instance_types::Sharing;
use clap::{Args, ValueHint};
use jiff::Timestamp;
pub(crate) use model::counted;
use model::{
    Plan, PodKey, Snapshot,
    pod::{PodPhase, TopologySpread},
};

use crate::{
    admission, classes, cluster,
    convert::document,
    decision,
    kubeconfig::Kubeconfig,
    live,
    output::TextOutput,
    planning::Planning,
    regions::{self, Catalog},
    workloads,
};

#[derive(Args)]
#[command(after_help = "Examples:
  whittle plan
  whittle plan --context prod --disruption
  whittle plan -f manifests/ -f extra.yaml --region eu-west-1
  helm template web ./chart | whittle plan -f nodepools.yaml -f -
  whittle plan -f manifests/ -o wide")]
pub(crate) struct Arguments {
    /// Manifests, or folders of manifests at any depth: NodePools, EC2NodeClasses, workloads, pods, nodes, volumes …; `-` reads standard
    /// input
    #[arg(short = 'f', long = "filename", value_name = "FILE", value_hint = ValueHint::AnyPath, num_args = 1..)]
    files: Vec<PathBuf>,
    /// Kubeconfig context of the cluster to plan for, which is only read; defaults to the current context, unless manifests are given
    #[arg(long, value_name = "NAME", conflicts_with = "files")]
    context: Option<String>,
    #[command(flatten)]
    kubeconfig: Kubeconfig,
    #[command(flatten)]
    output: TextOutput,
    /// Show which nodes would be disrupted and why, and why the others stay, instead of launches
    #[arg(long)]
    disruption: bool,
    #[command(flatten)]
    catalog: Catalog,
    /// Show the parts of each node's price
    #[arg(short = 'v', long)]
    verbose: bool,
    #[command(flatten)]
    planning: Planning,
    /// Feature gates, as in Karpenter's option, such as `NodeOverlay=true,CapacityBuffer=true`
    #[arg(long, value_delimiter = ',', value_parser = gate)]
    feature_gates: Vec<(String, bool)>,
    /// Feature gates of the AWS provider that affect planning, as in Karpenter's option, such as `RebootForRepair=true`
    #[arg(long, value_delimiter = ',', value_parser = aws_gate)]
    aws_feature_gates: Vec<(String, bool)>,
    /// Karpenter's option: with `--feature-gates NodeRepair=true`, delete unhealthy nodes by force, without planning a disruption
    #[arg(long)]
    legacy_node_repair: bool,
    /// `settings.enableDRA` of Karpenter's chart: allocate devices for the resource claims of pods, NVIDIA GPUs and EFA interfaces included
    #[arg(long)]
    enable_dra: bool,
    /// Karpenter's option, in JSON or YAML: spread constraints for pods without any, such as `{podTopologySpread: {defaultConstraints:
    /// [{maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: ScheduleAnyway}]}}`
    #[arg(long, default_value = "", hide_default_value = true, value_parser = scheduler_config)]
    scheduler_config: DefaultSpread,
}

/// Default spread constraints from `--scheduler-config`.
#[derive(Clone)]
struct DefaultSpread(Vec<TopologySpread>);

fn scheduler_config(text: &str) -> Result<DefaultSpread, SchedulerConfigError> {
    let settings = serde_json::json!({ "schedulerConfig": text });
    api::default_topology_spread(&settings).map(DefaultSpread)
}

fn gate(text: &str) -> Result<(String, bool), String> {
    switch(
        text,
        api::feature_gate,
        &api::FEATURE_GATES.map(|(gate, _)| gate),
    )
}

fn aws_gate(text: &str) -> Result<(String, bool), String> {
    const REBOOT: &str = "RebootForRepair";
    let known = |name: &str| api::aws_feature_gate(name).filter(|gate| *gate == REBOOT);
    switch(text, known, &[REBOOT])
}

fn switch(
    text: &str,
    known: impl Fn(&str) -> Option<&'static str>,
    all: &[&str],
) -> Result<(String, bool), String> {
    let (gate, on) = text
        .split_once('=')
        .ok_or("expected <gate>=true or <gate>=false")?;
    let on = on
        .trim()
        .parse()
        .map_err(|_not_a_bool| format!("{on:?} is neither true nor false"))?;
    let gate = known(gate.trim()).ok_or_else(|| {
        let all = all.join(", ");
        format!("unknown feature gate: expected one of {all}")
    })?;
    Ok((gate.to_owned(), on))
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let manifests = read(&arguments.files)?;
    let places = manifests.errors.iter().map(|error| &error.place);
    let unread: BTreeSet<_> = places
        .map(|place| (place.file.clone(), place.document, place.item))
        .collect();
    let unread = unread.len();
    for manifest in &manifests.objects {
        for field in &manifest.unknown_fields {
            eprintln!(
                "whittle: {}: unknown field {field} has no effect",
                manifest.place
            );
        }
    }
    for error in &manifests.errors {
        eprintln!("whittle: {error}");
    }
    let refusals = refusals::of(&manifests)?;
    for refusal in &refusals.others {
        eprintln!("whittle: {refusal}");
    }
    if let Some(kinds) = kinds(&manifests) {
        eprintln!("whittle: planning does not look at {kinds}");
    }
    #[expect(
        clippy::disallowed_methods,
        reason = "the one reading of the clock of this command"
    )]
    let now = Timestamp::now();
    let mut settings = arguments.planning.settings()?;
    let gates = arguments.feature_gates.iter();
    let gates = gates.chain(&arguments.aws_feature_gates);
    settings.feature_gates.extend(gates.cloned());
    settings.legacy_node_repair |= arguments.legacy_node_repair;
    if !arguments.scheduler_config.0.is_empty() {
        settings.default_topology_spread = arguments.scheduler_config.0.clone();
    }
    settings.device_claims |= arguments.enable_dra;
    let mut snapshot = cluster::empty(now, settings);
    let objects = manifests
        .objects
        .into_iter()
        .map(|manifest| manifest.object)
        .collect();
    let problems = match arguments.files.is_empty() {
        true => arguments.observe(&mut snapshot)?,
        false => from_manifests(&mut snapshot, objects, &arguments.catalog)?,
    };
    for problem in problems {
        eprintln!("whittle: {problem}");
    }
    refusals.apply(&mut snapshot);
    for pool in &snapshot.node_pools {
        if let Some(reason) = &pool.not_ready {
            eprintln!("whittle: NodePool {} is not used: {reason}", pool.name);
        }
    }
    let known = hints::KnownLabels::of(&snapshot);
    for hint in known.of_pools(&snapshot) {
        eprintln!("whittle: {hint}");
    }
    for note in overlays::notes(&snapshot, &known) {
        eprintln!("whittle: {note}");
    }
    for note in protection::notes(&snapshot) {
        eprintln!("whittle: {note}");
    }
    if let Some(note) = gated(&snapshot).filter(|_| !arguments.disruption) {
        eprintln!("whittle: {note}");
    }
    let output = &arguments.output;
    if arguments.disruption {
        let (pass, nodes) = (
            planner::disrupt(&snapshot),
            planner::node_reports(&snapshot),
        );
        let text = disruption::text(&pass, &nodes, &snapshot, arguments.verbose) + "\n";
        let document = disruption::json(&pass, &nodes, &snapshot);
        output.print(&text, &rows::of_reports(&nodes), &document)?;
    } else {
        let fixed = planner::static_capacity(&snapshot).plan;
        let mut plan = planner::provision(&snapshot, planner::Share::WHOLE);
        let hints = hints_of(&snapshot, &plan, &known);
        let parts = arguments.verbose.then_some(&snapshot);
        let text = text::of(&plan, &fixed, &hints, parts) + "\n";
        plan.actions.splice(0..0, fixed.actions);
        let mut document = decision::provisioning(&plan);
        let launches = plan.actions.iter();
        let launches = launches.filter_map(|entry| entry.action.launch());
        parts::add_to(document.get_mut("newNodes"), launches, &snapshot);
        output.print(&text, &rows::of_plan(&plan), &document)?;
        if let Some(note) = rows::waiting(&plan).filter(|_| output.is_table()) {
            eprintln!("whittle: {note}");
        }
    }
    if unread > 0 {
        bail!("{} left out of the plan", counted(unread, "manifest"));
    }
    Ok(())
}

impl Arguments {
    /// Fills the snapshot from the cluster of the named context, or of the current one. Returns warnings for the user.
    fn observe(&self, snapshot: &mut Snapshot) -> Result<Vec<String>> {
        let selection = self.kubeconfig.select(self.context.as_deref());
        let observed = live::observe(&selection, snapshot, &self.catalog);
        match self.context.is_some() {
            true => observed,
            false => observed.context("no manifests are named with -f"),
        }
    }
}

/// Fills the snapshot with the objects that a cluster would make of manifests. Returns warnings for the user.
fn from_manifests(
    snapshot: &mut Snapshot,
    mut objects: Vec<Object>,
    catalog: &Catalog,
) -> Result<Vec<String>> {
    let mut notes = classes::without_other_providers(&mut objects);
    notes.extend(admission::admit(&mut objects));
    let (ownership, duplicates) = workloads::settle(&mut objects);
    notes.extend(duplicates);
    let classes = classes::of(&objects);
    let (types, more) = catalog.types(&regions::of_manifests(&objects))?;
    notes.extend(more);
    let types = aws_rules::instance_types::with_attach_limits(types);
    let types = match snapshot.settings.device_claims {
        true => {
            let settings = classes::provider_settings(&snapshot.settings);
            aws_rules::instance_types::with_devices(types, Sharing::None, &settings)
        }
        false => types,
    };
    let types = Arc::new(types);
    notes.extend(cluster::add_objects(snapshot, objects, &types));
    notes.extend(workloads::make_pods(snapshot, &ownership));
    notes.extend(classes::apply(snapshot, &classes, &types));
    Ok(notes)
}

/// Kinds of objects that do not affect planning, with their numbers.
fn kinds(manifests: &Manifests) -> Option<String> {
    let mut numbers: BTreeMap<&str, usize> = BTreeMap::new();
    for ignored in &manifests.ignored {
        *numbers.entry(ignored.kind.as_str()).or_default() += 1;
    }
    let kinds: Vec<String> = numbers
        .iter()
        .map(|(kind, number)| match number {
            1 => (*kind).to_owned(),
            number => format!("{kind} ({number})"),
        })
        .collect();
    (!kinds.is_empty()).then(|| kinds.join(", "))
}

/// Names the pods that wait for their scheduling gates, for which nothing is planned.
pub(crate) fn gated(snapshot: &Snapshot) -> Option<String> {
    let pods = snapshot.pods.iter().filter(|pod| {
        let is_pending = pod.node_name.is_none() && pod.phase == PodPhase::Pending;
        is_pending && pod.deletion.is_none() && !pod.scheduling_gates.is_empty()
    });
    let names: Vec<String> = pods.map(|pod| pod.key.to_string()).collect();
    let are = match names.len() {
        0 => return None,
        1 => "is held back by its",
        _ => "are held back by their",
    };
    Some(format!(
        "{} {are} scheduling gates: {}",
        counted(names.len(), "pod"),
        listed(&names)
    ))
}

/// Upper bound on listed names; the others are counted.
const NAMES_SHOWN: usize = 5;

/// The first names, and the number of the others.
pub(crate) fn listed(names: &[impl AsRef<str>]) -> String {
    let mut shown: Vec<String> = names
        .iter()
        .take(NAMES_SHOWN)
        .map(|name| name.as_ref().to_owned())
        .collect();
    let more = names.len().saturating_sub(NAMES_SHOWN);
    if more > 0 {
        shown.push(format!("and {more} more"));
    }
    shown.join(", ")
}

/// Hints about pending pods that require what no node has.
pub(crate) fn hints_of(
    snapshot: &Snapshot,
    plan: &Plan,
    known: &hints::KnownLabels,
) -> BTreeMap<PodKey, Vec<String>> {
    let waiting = plan.unplaced.iter().map(|left| (&left.pod.key, left));
    let waiting: BTreeMap<&PodKey, _> = waiting.collect();
    let pods = snapshot.pods.iter();
    let hints = pods.filter_map(|pod| {
        let left = waiting.get(&pod.key)?;
        let mut hints = known.of_pod(pod);
        // A reason that names the value, or the intended one, needs no hint.
        hints.retain(|hint| {
            let meant = hint.find("(did you mean").and_then(|at| hint.get(at..));
            let lacking = hint.strip_suffix(hints::NO_TYPE);
            let lacking = lacking.and_then(|hint| hint.split_once('='));
            let said = match (meant, lacking) {
                (Some(meant), _) => meant.to_owned(),
                (None, Some((key, value))) => format!("no instance type has {key} In [{value}]"),
                (None, None) => return true,
            };
            !left
                .reasons
                .iter()
                .any(|reason| reason.text.contains(&said))
        });
        Some((pod.key.clone(), hints))
    });
    hints.collect()
}

pub(crate) fn read(files: &[PathBuf]) -> Result<Manifests> {
    let mut manifests = Manifests::default();
    for file in document::files(files)? {
        let name = file.display().to_string();
        let text = if name == "-" {
            let mut text = String::new();
            std::io::stdin()
                .read_to_string(&mut text)
                .context("cannot read standard input")?;
            text
        } else {
            std::fs::read_to_string(&file).with_context(|| format!("cannot read {name}"))?
        };
        manifests.read(&name, &text);
    }
    Ok(manifests)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn feature_gates_have_the_names_of_karpenters_option_or_chart() {
        for name in ["NodeOverlay", "nodeOverlay"] {
            let read = gate(&format!(" {name} = true "));
            assert_eq!(read, Ok(("NodeOverlay".to_owned(), true)));
        }
        let refused = gate("NodeOverlays=true").unwrap_err();
        assert!(refused.contains("NodeOverlay, NodeRepair"), "{refused}");
        assert!(gate("NodeOverlay=on").is_err());
    }
}
