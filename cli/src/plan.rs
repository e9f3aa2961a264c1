//! `whittle plan`: what would be launched for these manifests or this cluster, or which nodes would go, and why.

pub(crate) mod disruption;
mod hints;
mod protection;
mod regions;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    io::{Read, Write as _},
    path::PathBuf,
    sync::Arc,
};

use anyhow::{Context, Result, bail};
use api::manifests::{Manifests, Object};
use clap::{Args, ValueEnum};
use jiff::Timestamp;
use model::{
    InstanceType, NanosPerHour, NodePoolName, Plan, PodKey, Snapshot,
    plan::{Action, Launch, PodRef, Unplaced},
    resources::amount_text,
};

use crate::{admission, catalogs, classes, cluster, convert::document, decision, live, workloads};

#[derive(Args)]
pub(crate) struct Arguments {
    /// Manifests, or folders of them: NodePools, EC2NodeClasses, workloads, pods, nodes, volumes …; `-` reads standard input.
    #[arg(short = 'f', long = "filename", required_unless_present = "context", num_args = 1..)]
    files: Vec<PathBuf>,
    /// The running cluster of this kubeconfig context instead. Nothing is done to it.
    #[arg(long, conflicts_with = "files")]
    context: Option<String>,
    /// How to print the plan.
    #[arg(short = 'o', long = "output", value_enum, default_value_t = Output::Text)]
    output: Output,
    /// Which nodes would go, for what, and why the others stay, instead of what would be launched.
    #[arg(long)]
    disruption: bool,
    /// Instance types to choose from, as JSON. Without it, those of us-east-1; for a running cluster, in a build with AWS, what
    /// EC2 offers in the Region of the environment.
    #[arg(long)]
    catalog: Option<PathBuf>,
    /// The Region of the nodes, instead of that whose zones the manifests name.
    #[arg(long, conflicts_with_all = ["catalog", "context"])]
    region: Option<String>,
    /// As Karpenter's option: `NodeOverlay=true,CapacityBuffer=true`.
    #[arg(long, value_delimiter = ',', value_parser = gate)]
    feature_gates: Vec<(String, bool)>,
}

fn gate(text: &str) -> Result<(String, bool), String> {
    let (gate, on) = text
        .split_once('=')
        .ok_or("expected <gate>=true or <gate>=false")?;
    let on = on
        .trim()
        .parse()
        .map_err(|_not_a_bool| format!("{on:?} is neither true nor false"))?;
    let gate = api::feature_gate(gate.trim()).ok_or_else(|| {
        let known = api::FEATURE_GATES.map(|(gate, _)| gate);
        format!(
            "there is no such feature gate: expected one of {}",
            known.join(", ")
        )
    })?;
    Ok((gate.to_owned(), on))
}

#[derive(Clone, Copy, ValueEnum)]
enum Output {
    Text,
    Json,
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
    if let Some(kinds) = kinds(&manifests) {
        eprintln!("whittle: planning does not look at {kinds}");
    }
    let types = arguments.catalog.as_deref().map(catalogs::read);
    let types = types.transpose()?;
    #[expect(
        clippy::disallowed_methods,
        reason = "the one reading of the clock of this command"
    )]
    let now = Timestamp::now();
    let mut settings = cluster::aws_settings();
    settings.feature_gates = arguments.feature_gates.iter().cloned().collect();
    let mut snapshot = cluster::empty(now, settings);
    let objects = manifests
        .objects
        .into_iter()
        .map(|manifest| manifest.object)
        .collect();
    let problems = match &arguments.context {
        Some(context) => live::observe(context, &mut snapshot, types)?,
        None => from_manifests(&mut snapshot, objects, types, arguments.region.as_deref())?,
    };
    for problem in problems {
        eprintln!("whittle: {problem}");
    }
    for pool in &snapshot.node_pools {
        if let Some(reason) = &pool.not_ready {
            eprintln!("whittle: NodePool {} is not used: {reason}", pool.name);
        }
    }
    let known = hints::Known::of(&snapshot);
    for hint in known.of_pools(&snapshot) {
        eprintln!("whittle: {hint}");
    }
    for note in protection::notes(&snapshot) {
        eprintln!("whittle: {note}");
    }
    let mut out = std::io::stdout().lock();
    if arguments.disruption {
        let (pass, nodes) = (planner::disrupt(&snapshot), planner::outlook(&snapshot));
        match arguments.output {
            Output::Json => {
                serde_json::to_writer_pretty(&mut out, &disruption::json(&pass, &nodes))?;
            }
            Output::Text => out.write_all(disruption::text(&pass, &nodes, &snapshot).as_bytes())?,
        }
    } else {
        let fixed = planner::static_capacity(&snapshot).plan;
        let mut plan = planner::provision(&snapshot, planner::Share::WHOLE);
        let hints = hints_of(&snapshot, &plan, &known);
        match arguments.output {
            Output::Json => {
                plan.actions.splice(0..0, fixed.actions);
                serde_json::to_writer_pretty(&mut out, &decision::provisioning(&plan))?;
            }
            Output::Text => {
                out.write_all(static_nodes(&fixed).as_bytes())?;
                out.write_all(text(&plan, &hints).as_bytes())?;
            }
        }
    }
    writeln!(out)?;
    if unread > 0 {
        bail!("{} left out of the plan", counted(unread, "manifest"));
    }
    Ok(())
}

/// Fills the snapshot with what a cluster would make of manifests. Returns what users should know of that.
fn from_manifests(
    snapshot: &mut Snapshot,
    mut objects: Vec<Object>,
    types: Option<Vec<InstanceType>>,
    region: Option<&str>,
) -> Result<Vec<String>> {
    let mut notes = classes::without_others(&mut objects);
    notes.extend(admission::admit(&mut objects));
    let (ownership, doubled) = workloads::settle(&mut objects);
    notes.extend(doubled);
    let classes = classes::of(&objects);
    let types = match types {
        Some(types) => types,
        None => {
            let (types, more) = regions::types(&objects, region)?;
            notes.extend(more);
            types
        }
    };
    let types = Arc::new(types);
    notes.extend(cluster::add_objects(snapshot, objects, &types));
    notes.extend(workloads::make_pods(snapshot, &ownership));
    notes.extend(classes::apply(snapshot, &classes, &types));
    Ok(notes)
}

/// Kinds of objects that have no part in planning, with their numbers.
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

/// Words about waiting pods that ask for what no node has.
fn hints_of(
    snapshot: &Snapshot,
    plan: &Plan,
    known: &hints::Known,
) -> BTreeMap<PodKey, Vec<String>> {
    let waiting = plan.unplaced.iter().map(|left| (&left.pod.key, left));
    let waiting: BTreeMap<&PodKey, _> = waiting.collect();
    let pods = snapshot.pods.iter();
    let hints = pods.filter_map(|pod| {
        let left = waiting.get(&pod.key)?;
        let mut hints = known.of_pod(pod);
        // A reason that says what was meant needs no hint.
        hints.retain(|hint| {
            let meant = hint.find("(did you mean").and_then(|at| hint.get(at..));
            meant.is_none_or(|meant| {
                !left
                    .reasons
                    .iter()
                    .any(|reason| reason.text.contains(meant))
            })
        });
        Some((pod.key.clone(), hints))
    });
    hints.collect()
}

/// Nodes that static NodePools lack, whatever waits.
fn static_nodes(plan: &Plan) -> String {
    let mut numbers: BTreeMap<&NodePoolName, usize> = BTreeMap::new();
    for planned in &plan.actions {
        if let Action::Launch(launch) = &planned.action {
            *numbers.entry(&launch.node_pool).or_default() += 1;
        }
    }
    let mut text = String::new();
    for (pool, number) in numbers {
        let _ = writeln!(
            text,
            "{} to launch for the replicas of static NodePool {pool}; pods that wait may go there when they are ready.\n",
            counted(number, "node")
        );
    }
    text
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

fn text(plan: &Plan, hints: &BTreeMap<PodKey, Vec<String>>) -> String {
    let mut launches: Vec<(&Launch, &str)> = Vec::new();
    for planned in &plan.actions {
        if let Action::Launch(launch) = &planned.action {
            launches.push((launch, &planned.because));
        }
    }
    let cost: i64 = launches
        .iter()
        .map(|(launch, _)| launch.cheapest.price.0)
        .sum();
    let placed: usize = launches.iter().map(|(launch, _)| launch.pods.len()).sum();
    let mut text = String::new();
    if launches.is_empty() {
        text.push_str("Nothing to launch.\n");
    } else {
        let _ = writeln!(
            text,
            "{} to launch for {}, from ${}/h:",
            counted(launches.len(), "node"),
            if placed == 0 {
                "capacity buffers".to_owned()
            } else {
                counted(placed, "pod")
            },
            NanosPerHour(cost)
        );
    }
    for (launch, because) in launches {
        let _ = write!(text, "\n{}", launch_text(launch, because));
    }
    if !plan.nominations.is_empty() {
        let _ = writeln!(
            text,
            "\n{} on nodes there are:",
            counted(plan.nominations.len(), "pod")
        );
        for nomination in &plan.nominations {
            let _ = writeln!(text, "  {} on {}", nomination.pod.key, nomination.node);
        }
    }
    if !plan.unplaced.is_empty() {
        let _ = writeln!(text, "\n{} waiting:", counted(plan.unplaced.len(), "pod"));
        for (pods, reasons) in alike(&plan.unplaced, hints) {
            let _ = writeln!(text, "  {}", names(&pods));
            for reason in reasons {
                let _ = writeln!(text, "    {reason}");
            }
        }
    }
    text.truncate(text.trim_end().len());
    text
}

fn launch_text(launch: &Launch, because: &str) -> String {
    let cheapest = &launch.cheapest;
    let others = launch.instance_types.len().saturating_sub(1);
    let requests: Vec<String> = launch
        .spec
        .requests
        .iter()
        .map(|(name, amount)| format!("{} {name}", amount_text(name, amount)))
        .collect();
    format!(
        "{}  {} {} {}  ${}/h{}\n  requests {}\n  {because}\n",
        launch.name,
        cheapest.instance_type,
        cheapest.capacity_type,
        cheapest.zone,
        cheapest.price,
        if others > 0 {
            format!(", or {}", counted(others, "other type"))
        } else {
            String::new()
        },
        requests.join(", "),
    )
}

/// Waiting pods with the same reasons, together.
fn alike<'p>(
    unplaced: &'p [Unplaced],
    hints: &BTreeMap<PodKey, Vec<String>>,
) -> Vec<(Vec<&'p PodRef>, Vec<String>)> {
    let mut groups: Vec<(Vec<&PodRef>, Vec<String>)> = Vec::new();
    for left in unplaced {
        let mut reasons: Vec<String> = left
            .reasons
            .iter()
            .map(|refusal| match &refusal.node_pool {
                Some(pool) => format!("NodePool {pool}: {}", refusal.text),
                None => refusal.text.clone(),
            })
            .collect();
        reasons.extend(hints.get(&left.pod.key).into_iter().flatten().cloned());
        match groups.iter_mut().find(|(_, known)| *known == reasons) {
            Some((pods, _)) => pods.push(&left.pod),
            None => groups.push((vec![&left.pod], reasons)),
        }
    }
    groups
}

const NAMES_SHOWN: usize = 5;

fn names(pods: &[&PodRef]) -> String {
    let mut shown: Vec<String> = pods
        .iter()
        .take(NAMES_SHOWN)
        .map(|pod| pod.key.to_string())
        .collect();
    let more = pods.len().saturating_sub(NAMES_SHOWN);
    if more > 0 {
        shown.push(format!("and {more} more"));
    }
    shown.join(", ")
}

pub(crate) fn counted(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gates_are_named_as_in_karpenters_option_or_its_chart() {
        for name in ["NodeOverlay", "nodeOverlay"] {
            let read = gate(&format!(" {name} = true "));
            assert_eq!(read, Ok(("NodeOverlay".to_owned(), true)));
        }
        let refused = gate("NodeOverlays=true").unwrap_err();
        assert!(refused.contains("NodeOverlay, NodeRepair"), "{refused}");
        assert!(gate("NodeOverlay=on").is_err());
    }
}
