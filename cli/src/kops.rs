//! `whittle kops convert`: InstanceGroups that kOps leaves to Karpenter, as EC2NodeClasses and NodePools like those that kOps 1.36
//! generates (docs/spec/migrate.md#kops).

mod cluster;
mod fields;
mod group;
mod image;
mod manifest;
mod node_class;
mod node_pool;
mod user_data;
mod volume;

use std::{collections::BTreeSet, path::PathBuf};

use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use serde_json::Value;

use self::{cluster::Cluster, user_data::UserData};
use crate::{
    convert::{
        admission,
        document::{self, Source},
        edit::Edit,
        outcome::{Outcome, Report},
    },
    exit::Exit,
};

#[derive(Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Kops,
}

#[derive(Subcommand)]
enum Kops {
    /// Convert InstanceGroups with `manager: Karpenter` into EC2NodeClasses and NodePools
    Convert(Convert),
}

#[derive(Args)]
#[command(after_help = "Examples:
  kops get cluster,ig --name prod.example.com -o yaml > kops.yaml
  whittle kops convert -f kops.yaml --user-data nodeupscript.sh > nodepools.yaml
  whittle kops convert -f kops.yaml --user-data nodes=nodeupscript.sh --previous nodepools.yaml")]
struct Convert {
    /// Output of `kops get cluster,ig -o yaml`; `-` reads standard input
    #[arg(short = 'f', long = "filename", value_name = "FILE", required = true, num_args = 1..)]
    files: Vec<PathBuf>,
    /// Nodeup script of a group, `igconfig/node/<group>/nodeupscript.sh` in the state store; GROUP may be omitted if there is only one
    #[arg(long, value_name = "[GROUP=]FILE", value_parser = user_data::of_group)]
    user_data: Vec<(Option<String>, PathBuf)>,
    /// Launch templates with the user data, as printed by `aws ec2 describe-launch-template-versions`
    #[arg(long, value_name = "FILE")]
    launch_template: Vec<PathBuf>,
    /// Root device of the groups' images, as named by `aws ec2 describe-images`, such as /dev/sda1
    #[arg(long, value_name = "DEVICE")]
    root_device: Option<String>,
    /// Manifests that were applied before, to detect changes that the cluster would refuse
    #[arg(long, value_name = "FILE")]
    previous: Vec<PathBuf>,
    /// Ignore fields that kOps does not have, instead of refusing their group
    #[arg(long)]
    allow_unknown: bool,
    /// Format of the report of decisions and refusals on standard error
    #[arg(long, value_enum, default_value_t = Report::Text)]
    report: Report,
}

/// Inputs for all groups.
struct Inputs {
    user_data: UserData,
    root_device: Option<String>,
    /// NodePools that were applied before: those with replicas, and those without.
    fixed_before: BTreeSet<String>,
    dynamic_before: BTreeSet<String>,
    allow_unknown: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Exit> {
    let Kops::Convert(arguments) = &arguments.command;
    let sources = document::read(&arguments.files)?;
    let scripts = |groups| UserData::read(&arguments.user_data, &arguments.launch_template, groups);
    convert(sources, arguments, scripts)?.deliver(arguments.report)
}

/// Output for all groups of a cluster with one script.
pub(crate) fn printed(sources: Vec<Source>, script: &str) -> Result<Outcome> {
    let arguments = Convert {
        files: Vec::new(),
        user_data: Vec::new(),
        launch_template: Vec::new(),
        root_device: None,
        previous: Vec::new(),
        allow_unknown: false,
        report: Report::Text,
    };
    convert(sources, &arguments, |_| Ok(UserData::of_all(script)))
}

/// Converts groups. `scripts` is called with the number of groups.
fn convert(
    sources: Vec<Source>,
    arguments: &Convert,
    scripts: impl FnOnce(usize) -> Result<UserData>,
) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    let (mut clusters, mut groups) = (Vec::new(), Vec::new());
    for source in sources {
        match source {
            Source::Unreadable(refusal) => outcome.refuse([refusal]),
            Source::Document(document) => {
                let edit = Edit::new(document);
                match edit.type_of().1.as_str() {
                    "Cluster" => clusters.push(edit),
                    "InstanceGroup" => groups.push(edit),
                    _ => outcome.warn(
                        edit.name(),
                        "skipped: neither a Cluster nor an InstanceGroup".to_owned(),
                    ),
                }
            }
        }
    }
    let [edit] = clusters.as_mut_slice() else {
        bail!(
            "expected one kOps Cluster, found {}: give what `kops get cluster,ig --name <cluster> -o yaml` prints",
            clusters.len()
        );
    };
    let cluster = Cluster::read(edit);
    if !edit.refusals.is_empty() {
        outcome.refuse(std::mem::take(&mut edit.refusals));
        return Ok(outcome);
    }
    let wanted = groups
        .iter()
        .filter(|group| group::is_karpenters(group))
        .count();
    let (fixed_before, dynamic_before) = applied_before(&arguments.previous)?;
    let inputs = Inputs {
        user_data: scripts(wanted)?,
        root_device: arguments.root_device.clone(),
        fixed_before,
        dynamic_before,
        allow_unknown: arguments.allow_unknown,
    };
    let mut is_anything_made = false;
    for mut edit in groups {
        if !group::is_karpenters(&edit) {
            outcome.warn(
                edit.name(),
                "skipped: its manager is not Karpenter".to_owned(),
            );
            continue;
        }
        let mut made = group::convert(&mut edit, &cluster, &inputs);
        if !edit.refusals.is_empty() {
            outcome.refuse(edit.refusals);
            continue;
        }
        for made in &mut made {
            admission::check(made);
        }
        let is_refused = made.iter().any(|made| !made.refusals.is_empty());
        for made in made {
            match is_refused {
                true => outcome.refuse(made.refusals),
                false => {
                    is_anything_made = true;
                    outcome.add(made);
                }
            }
        }
    }
    if !is_anything_made {
        return Ok(outcome);
    }
    outcome.warn(
        format!("Cluster/{}", cluster.name),
        format!(
            "save the output as nodes.yaml and apply it with `kubectl apply --prune -l {}={},{}={} -f nodes.yaml`, which removes the objects of deleted \
             groups and no object of kOps",
            fields::MANAGED_BY.0,
            fields::MANAGED_BY.1,
            fields::CLUSTER_LABEL,
            cluster.name,
        ),
    );
    Ok(outcome)
}

fn applied_before(files: &[PathBuf]) -> Result<(BTreeSet<String>, BTreeSet<String>)> {
    let (mut fixed, mut dynamic) = (BTreeSet::new(), BTreeSet::new());
    for source in document::read(files)? {
        let document = match source {
            Source::Document(document) => document,
            Source::Unreadable(refusal) => bail!("--previous: {refusal}"),
        };
        if document.object.get("kind").and_then(Value::as_str) != Some("NodePool") {
            continue;
        }
        let name = document
            .object
            .pointer("/metadata/name")
            .and_then(Value::as_str);
        let name = name.unwrap_or_default().to_owned();
        match document.object.pointer("/spec/replicas") {
            Some(_) => fixed.insert(name),
            None => dynamic.insert(name),
        };
    }
    Ok((fixed, dynamic))
}
