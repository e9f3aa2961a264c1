//! `whittle conformance`: decides recorded cases, whose results the corpus' own scripts evaluate.

mod arrivals;
mod aws;
mod case;
mod converge;
mod disruption;

use std::{
    io::{BufRead, Write},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use model::{NanosPerHour, Snapshot};
use planner::DisruptionResult;
use serde_json::{Value, json};

use self::{
    arrivals::Arrivals,
    case::{Case, Kind, Question},
};
use crate::{
    catalogs::{self, Catalogs},
    decision,
    timing::{Span, Times},
};

#[derive(Args)]
pub(crate) struct Arguments {
    /// Files of cases, with one JSON object per line or one document of AWS cases, gzipped or not
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Folder of catalogs and EC2 facts that are not beside the cases
    #[arg(long)]
    data: Option<PathBuf>,
    /// Goal of planning; defaults to upstream for cases whose decision must equal the recorded one, and to cost for others
    #[arg(long)]
    optimize: Option<Goal>,
    /// Price the disturbance of disruption, as in a cluster; the recorded decisions do not price it
    #[arg(long)]
    priced: bool,
    /// Add the time of evaluating every node by itself to each disruption case
    #[arg(long)]
    outlook: bool,
    /// Add a lower bound on the cost of the new nodes to each answer, whatever the packing
    #[arg(long)]
    bound: bool,
    /// Let the pods of provisioning cases arrive over time, and print the cost of their nodes beside that of a single batch
    #[arg(long)]
    arrivals: Option<Arrivals>,
    /// Hourly dollars of each node besides its instance; the recorded decisions have none
    #[arg(long, value_parser = dollars, default_value = "0")]
    node_price: NanosPerHour,
    /// Run only cases whose id contains this text
    #[arg(long)]
    only: Option<String>,
    /// Add CPU times, wall times and peak memory to each line; runs every case in a separate process
    #[arg(long)]
    time: bool,
    /// Decide and measure the single case on standard input, which comes from the named file
    #[arg(long, hide = true)]
    measure: bool,
}

fn dollars(text: &str) -> Result<NanosPerHour, String> {
    let price = NanosPerHour::from_dollars(text);
    price.ok_or_else(|| "expected dollars per hour, such as 0.0022".to_owned())
}

#[derive(Clone, Copy, ValueEnum)]
enum Goal {
    Upstream,
    Cost,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let mut out = std::io::stdout().lock();
    for file in &arguments.files {
        let beside = file.parent().map(Path::to_owned).unwrap_or_default();
        let folders = [Some(beside), arguments.data.clone()];
        if !arguments.measure && aws::is_document(file)? {
            let only = arguments.only.as_deref().unwrap_or_default();
            aws::run(file, arguments.data.as_deref(), only, &mut out)?;
            continue;
        }
        let mut catalogs = Catalogs::new(folders.into_iter().flatten().collect());
        if arguments.measure {
            let line = std::io::read_to_string(std::io::stdin())?;
            let answer = answer(line, arguments, &mut catalogs).context("standard input")?;
            writeln!(out, "{answer}")?;
            continue;
        }
        for (number, line) in catalogs::open(file)?.lines().enumerate() {
            let place = || format!("{}:{}", file.display(), number + 1);
            let line = line.with_context(place)?;
            if line.trim().is_empty() || !arguments.wants(&line).with_context(place)? {
                continue;
            }
            if arguments.time {
                let measured = measured_apart(file, &line, arguments).with_context(place)?;
                out.write_all(&measured)?;
            } else {
                let answer = answer(line, arguments, &mut catalogs).with_context(place)?;
                writeln!(out, "{answer}")?;
            }
        }
    }
    Ok(())
}

/// The cluster of a case that contains its own instance types.
pub(crate) fn cluster(line: &str) -> Result<Snapshot> {
    let case: Case<'_> = serde_json::from_str(line).context("no case")?;
    case.snapshot(None, &mut Catalogs::new(Vec::new()))
}

impl Arguments {
    fn wants(&self, line: &str) -> Result<bool> {
        let case: Case<'_> = serde_json::from_str(line).context("no case")?;
        let part = self.only.as_deref().unwrap_or_default();
        Ok(case.id.contains(part))
    }
}

/// Output of a separate process for one case.
fn measured_apart(file: &Path, line: &str, arguments: &Arguments) -> Result<Vec<u8>> {
    let mut command = Command::new(std::env::current_exe()?);
    command
        .args(["conformance", "--time", "--measure"])
        .arg(file);
    if let Some(data) = &arguments.data {
        command.arg("--data").arg(data);
    }
    if arguments.priced {
        command.arg("--priced");
    }
    if arguments.outlook {
        command.arg("--outlook");
    }
    if let Some(goal) = arguments.optimize.and_then(|goal| goal.to_possible_value()) {
        command.args(["--optimize", goal.get_name()]);
    }
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    // Dropping the pipe closes the child's input.
    if let Some(mut input) = child.stdin.take() {
        input.write_all(line.as_bytes())?;
    }
    let output = child.wait_with_output()?;
    if !output.status.success() {
        bail!("the case's process ended with {}", output.status);
    }
    Ok(output.stdout)
}

fn answer(line: String, arguments: &Arguments, catalogs: &mut Catalogs) -> Result<Value> {
    let case: Case<'_> = serde_json::from_str(&line).context("no case")?;
    let id = case.id.clone();
    let question = case.question();
    let mut snapshot = case.snapshot(arguments.optimize, catalogs);
    if let Ok(snapshot) = &mut snapshot {
        snapshot.settings.node_price = arguments.node_price;
    }
    // The text of a case may be larger than everything that planning needs.
    drop(line);
    Ok(match snapshot {
        Ok(snapshot) if let Some(arrivals) = arguments.arrivals => {
            json!({"id": id, "got": arrivals::replay(&snapshot, arrivals)})
        }
        Ok(snapshot) => {
            let outlook = arguments.outlook.then(|| outlook(&snapshot));
            let (got, times) = match question.kind {
                Kind::Provisioning => decide(&id, &snapshot, arguments.bound),
                Kind::Disruption => {
                    let evaluate = match arguments.priced {
                        true => planner::disrupt,
                        false => planner::disrupt_at_any_price,
                    };
                    disrupt(snapshot, question, evaluate)
                }
            };
            let mut answer = json!({"id": id, "got": got});
            if let Some(fields) = answer.as_object_mut() {
                fields.extend(arguments.time.then(|| ("ms".to_owned(), json!(times))));
                fields.extend(outlook.map(|value| ("outlook".to_owned(), value)));
            }
            answer
        }
        Err(error) => json!({"id": id, "error": format!("{error:#}")}),
    })
}

fn outlook(snapshot: &Snapshot) -> Value {
    let (nodes, span) = Span::of(|| planner::node_reports(snapshot));
    let may_go = nodes.iter().filter(|node| node.kept.is_none()).count();
    let times = Times::new(&Span::default(), &span);
    json!({"nodes": nodes.len(), "mayGo": may_go, "ms": times})
}

fn disrupt(
    mut snapshot: Snapshot,
    question: Question,
    evaluate: fn(&Snapshot) -> DisruptionResult,
) -> (Value, Times) {
    let conditions = question
        .compute_conditions
        .then(|| disruption::compute_conditions(&mut snapshot));
    let ((pass, end), whole) = Span::of(|| {
        if question.converge {
            let (first, end) = converge::converge(snapshot, evaluate);
            (first, Some(end))
        } else {
            (evaluate(&snapshot), None)
        }
    });
    let mut got = decision::disruption(&pass);
    if let Some(fields) = got.as_object_mut() {
        fields.extend(conditions.map(|value| ("conditions".to_owned(), value)));
        fields.extend(end.map(|value| ("converge".to_owned(), value)));
    }
    (got, Times::new(&Span::default(), &whole))
}

fn decide(id: &str, snapshot: &Snapshot, bound: bool) -> (Value, Times) {
    let mut solve = Span::default();
    let mut least = None;
    let (plan, whole) = Span::of(|| {
        let plan = planner::provision_with(snapshot, planner::Share::WHOLE, |question| {
            let precomputed = scheduling::PrecomputedIndexes::of(question);
            let prepared = scheduling::PreparedSolve::new(&precomputed, question);
            let (answer, span) = Span::of(|| prepared.solve());
            solve = span;
            least = bound.then(|| scheduling::least_cost(question, &answer));
            answer
        });
        plancheck::filter(snapshot, plan)
    });
    for refused in &plan.refused {
        eprintln!(
            "whittle: {id}: the check refuses: {}",
            refused.violations.join("; ")
        );
    }
    let times = Times::new(&solve, &whole);
    let mut got = decision::provisioning(&plan.plan);
    if let (Some(least), Some(fields)) = (least, got.as_object_mut()) {
        let bound = decision::dollars(model::NanosPerHour(least));
        fields.insert("bound".to_owned(), bound.into());
    }
    (got, times)
}
