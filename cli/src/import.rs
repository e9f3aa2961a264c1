//! `whittle import`: Auto Scaling groups and managed node groups as NodePools and EC2NodeClasses, with what stands in the way of
//! moving and the steps of the move (docs/spec/migrate.md#autoscaling-groups), and options of NTH as settings.
//!
//! It reads what the AWS CLI prints from files, and asks neither AWS nor, unless a context is given, a cluster. Manifests go to
//! standard output, everything else to standard error.

mod asg;
mod bootstrap;
mod bottlerocket;
mod flags;
mod group;
mod kubelet;
mod market;
mod mng;
mod node_config;
pub(crate) mod nth;
mod preflight;
mod requirements;
mod steps;
mod tags;
mod template;

use std::{fs, path::PathBuf, process::ExitCode};

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use serde_json::Value;

use self::group::Group;
use crate::{
    convert::{
        admission,
        outcome::{Outcome, Report},
    },
    launch_template,
};

#[derive(Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Import,
}

#[derive(Subcommand)]
enum Import {
    /// Auto Scaling groups, as `aws autoscaling describe-auto-scaling-groups` prints them.
    Asg(Sources),
    /// Managed node groups, as `aws eks describe-nodegroup` prints them.
    Mng(Sources),
    /// Options of the AWS Node Termination Handler, as settings of a cluster's registry entry.
    Nth(nth::Arguments),
}

#[derive(Args)]
struct Sources {
    /// What the AWS CLI printed about groups.
    #[arg(short = 'f', long = "filename", required = true, num_args = 1.., value_name = "FILE")]
    files: Vec<PathBuf>,
    /// What `aws ec2 describe-launch-template-versions` printed about their launch templates.
    #[arg(long, num_args = 1.., value_name = "FILE")]
    launch_template: Vec<PathBuf>,
    /// Only groups of these names.
    #[arg(long, value_name = "NAME")]
    name: Vec<String>,
    /// The cluster; of Auto Scaling groups, only those that its Cluster Autoscaler discovers are taken.
    #[arg(long, value_name = "NAME")]
    cluster: Option<String>,
    /// The IAM role of nodes, where the launch template names none.
    #[arg(long, value_name = "NAME")]
    role: Option<String>,
    /// Keep the number of nodes fixed, as the group's desired capacity.
    #[arg(long = "static")]
    is_static: bool,
    /// Stay on the image release that a managed node group has, instead of the newest.
    #[arg(long)]
    pin: bool,
    /// A flag of Cluster Autoscaler, such as scale-down-unneeded-time=5m.
    #[arg(long, value_name = "NAME=VALUE", value_parser = flags::one)]
    autoscaler_flag: Vec<(String, String)>,
    /// Cluster Autoscaler's ConfigMap cluster-autoscaler-priority-expander.
    #[arg(long, value_name = "FILE")]
    priorities: Option<PathBuf>,
    /// Manifests of what runs, to look for what stands in the way: workloads, pods, PodDisruptionBudgets, volumes.
    #[arg(long, num_args = 1.., value_name = "FILE", conflicts_with = "context")]
    manifests: Vec<PathBuf>,
    /// Look at the running cluster of this kubeconfig context instead.
    #[arg(long)]
    context: Option<String>,
    /// What the AWS CLI printed about the account: `ec2 describe-subnets`, `eks list-access-entries`, `service-quotas
    /// list-service-quotas --service-code ec2`.
    #[arg(long, num_args = 1.., value_name = "FILE")]
    account: Vec<PathBuf>,
    /// How to tell what was decided and refused, on standard error.
    #[arg(long, value_enum, default_value_t = Report::Text)]
    report: Report,
}

/// Reads the groups of an answer of the AWS CLI; the text names the file.
type Read = fn(&Value, &str) -> Result<Vec<Group>>;

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let (sources, read): (_, Read) = match &arguments.command {
        Import::Asg(sources) => (sources, asg::read),
        Import::Mng(sources) => (sources, mng::read),
        Import::Nth(arguments) => return nth::run(arguments),
    };
    let files = texts(&sources.files)?;
    let templates = texts(&sources.launch_template)?;
    let Imported {
        outcome,
        groups,
        pools,
    } = convert(sources, read, &files, &templates)?;
    let code = outcome.deliver(sources.report)?;
    let found = preflight::run(
        &sources.manifests,
        sources.context.as_deref(),
        &sources.account,
        &groups,
        &pools,
    )?;
    if matches!(sources.report, Report::Text) {
        eprint!("{}", preflight::text(found.as_deref()));
        eprint!("{}", steps::text(&groups));
    }
    Ok(code)
}

/// What groups become whose launch templates are these, with the steps of the move.
pub(crate) fn printed(of: Of, groups: &str, templates: Option<&str>) -> Result<(String, String)> {
    let read: Read = match of {
        Of::Asg => asg::read,
        Of::Mng => mng::read,
    };
    let text = |text: &str| vec![("input".to_owned(), text.to_owned())];
    let sources = Sources {
        files: Vec::new(),
        launch_template: Vec::new(),
        name: Vec::new(),
        cluster: None,
        role: Some("nodes".to_owned()),
        is_static: false,
        pin: true,
        autoscaler_flag: Vec::new(),
        priorities: None,
        manifests: Vec::new(),
        context: None,
        account: Vec::new(),
        report: Report::Text,
    };
    let templates = templates.map(text).unwrap_or_default();
    let made = convert(&sources, read, &text(groups), &templates)?;
    Ok((made.outcome.into_text(), steps::text(&made.groups)))
}

/// Kinds of groups.
pub(crate) enum Of {
    Asg,
    Mng,
}

/// What files hold, by their names.
type Texts = Vec<(String, String)>;

fn texts(files: &[PathBuf]) -> Result<Texts> {
    let text = |file: &PathBuf| {
        let name = file.display().to_string();
        let text = fs::read_to_string(file).with_context(|| format!("cannot read {name}"))?;
        Ok((name, text))
    };
    files.iter().map(text).collect()
}

/// Groups, and what they become.
struct Imported {
    outcome: Outcome,
    groups: Vec<Group>,
    pools: Vec<Value>,
}

fn convert(sources: &Sources, read: Read, files: &Texts, templates: &Texts) -> Result<Imported> {
    let mut groups = Vec::new();
    for (name, text) in files {
        let answer: Value =
            serde_json::from_str(text).with_context(|| format!("{name} is not JSON"))?;
        groups.extend(read(&answer, name)?);
    }
    let wanted = |group: &Group| {
        let named = sources.name.is_empty() || sources.name.contains(&group.name);
        named
            && sources
                .cluster
                .as_deref()
                .is_none_or(|cluster| group.belongs_to(cluster))
    };
    groups.retain(wanted);
    if groups.is_empty() {
        bail!("no group is left to import: look at --name and --cluster");
    }
    let mut versions = Vec::new();
    for (name, text) in templates {
        versions.extend(launch_template::versions(name, text)?);
    }
    let mut outcome = Outcome::default();
    let mut groups = group::merged(groups);
    for group in &mut groups {
        group.read_template(&versions);
        group.choose_identity(sources);
    }
    let flags = flags::Flags::read(&sources.autoscaler_flag, sources.priorities.as_deref())?;
    let refusals = flags.apply(&mut groups);
    outcome.refuse(refusals);
    let mut pools = Vec::new();
    for group in &groups {
        let mut made = group.objects(sources);
        if group.refusals.is_empty() {
            made.iter_mut().for_each(admission::check);
        }
        let is_refused = made.iter().any(|made| !made.refusals.is_empty());
        for made in made {
            match is_refused {
                true => outcome.refuse(made.refusals),
                false => {
                    if made.type_of().1 == "NodePool" {
                        pools.push(made.object.clone());
                    }
                    outcome.add(made);
                }
            }
        }
    }
    Ok(Imported {
        outcome,
        groups,
        pools,
    })
}
