//! `whittle import`: Auto Scaling groups and managed node groups as NodePools and EC2NodeClasses, with the obstacles to the migration and
//! its steps (docs/spec/migrate.md#autoscaling-groups), and options of NTH as settings.
//!
//! It reads output of the AWS CLI from files, and queries neither AWS nor, unless a context is given, a cluster. Manifests go to standard
//! output, everything else to standard error.

mod asg;
mod bootstrap;
mod bottlerocket;
mod flags;
mod group;
mod kubelet;
mod market;
mod merge;
mod mng;
mod names;
mod node_config;
pub(crate) mod nth;
mod objects;
mod preflight;
mod requirements;
mod shell;
mod steps;
mod tags;
mod template;
mod unit;
mod user_data;

use std::{collections::BTreeMap, fs, path::PathBuf};

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use serde_json::Value;

use self::group::Group;
use crate::{
    aws_output,
    convert::{
        admission,
        outcome::{Outcome, Report},
    },
    exit::Exit,
    kubeconfig::Kubeconfig,
    launch_template,
};

#[derive(Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Import,
}

#[derive(Subcommand)]
enum Import {
    /// Import Auto Scaling groups, as printed by `aws autoscaling describe-auto-scaling-groups`
    #[command(after_help = "Examples:
  aws autoscaling describe-auto-scaling-groups > groups.json
  whittle import asg -f groups.json > nodepools.yaml
  whittle import asg -f groups.json --launch-template templates.json --context prod")]
    Asg(Sources),
    /// Import managed node groups, as printed by `aws eks describe-nodegroup`
    #[command(after_help = "Examples:
  aws eks describe-nodegroup --cluster-name prod --nodegroup-name web > web.json
  whittle import mng -f web.json > nodepools.yaml
  whittle import mng -f web.json --launch-template templates.json --account subnets.json")]
    Mng(Sources),
    /// Convert options of the AWS Node Termination Handler into settings of a cluster's registry entry
    Nth(nth::Arguments),
}

#[derive(Args)]
struct Sources {
    /// Output of the AWS CLI with the groups
    #[arg(short = 'f', long = "filename", required = true, num_args = 1.., value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Output of `aws ec2 describe-launch-template-versions` with the groups' launch templates
    #[arg(long, num_args = 1.., value_name = "FILE")]
    launch_template: Vec<PathBuf>,
    /// Import only groups of these names
    #[arg(long, value_name = "NAME")]
    name: Vec<String>,
    /// Name of the cluster; limits Auto Scaling groups to those that its Cluster Autoscaler discovers
    #[arg(long, value_name = "NAME")]
    cluster: Option<String>,
    /// IAM role of nodes whose launch template names none
    #[arg(long, value_name = "NAME")]
    role: Option<String>,
    /// Keep the number of nodes fixed, at the group's desired capacity
    #[arg(long = "static")]
    is_static: bool,
    /// Pin the image release of a managed node group, instead of using the newest
    #[arg(long)]
    pin: bool,
    /// Flag of Cluster Autoscaler, such as scale-down-unneeded-time=5m
    #[arg(long, value_name = "NAME=VALUE", value_parser = flags::name_value)]
    autoscaler_flag: Vec<(String, String)>,
    /// ConfigMap cluster-autoscaler-priority-expander of Cluster Autoscaler
    #[arg(long, value_name = "FILE")]
    priorities: Option<PathBuf>,
    /// Manifests of running workloads to check for obstacles: workloads, pods, PodDisruptionBudgets, volumes
    #[arg(long, num_args = 1.., value_name = "FILE", conflicts_with_all = ["context", "file"])]
    manifests: Vec<PathBuf>,
    /// Check the running cluster of this kubeconfig context instead; without it, no cluster is read
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    #[command(flatten)]
    kubeconfig: Kubeconfig,
    /// Output of the AWS CLI about the account: `ec2 describe-subnets`, `eks list-access-entries`, `service-quotas list-service-quotas
    /// --service-code ec2`
    #[arg(long, num_args = 1.., value_name = "FILE")]
    account: Vec<PathBuf>,
    /// Format of the report of decisions and refusals on standard error
    #[arg(long, value_enum, default_value_t = Report::Text)]
    report: Report,
}

/// Parses the groups in an answer of the AWS CLI; the text is the file's name.
type Read = fn(&Value, &str) -> Result<Vec<Group>>;

pub(crate) fn run(arguments: &Arguments) -> Result<Exit> {
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
        sources
            .kubeconfig
            .select_named(sources.context.as_deref())
            .as_ref(),
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

/// The manifests for groups with these launch templates, and the steps of the migration.
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
        kubeconfig: Kubeconfig::default(),
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

/// Contents of files, by name.
type Texts = Vec<(String, String)>;

fn texts(files: &[PathBuf]) -> Result<Texts> {
    let text = |file: &PathBuf| {
        let name = file.display().to_string();
        let text = fs::read_to_string(file).with_context(|| format!("cannot read {name}"))?;
        Ok((name, text))
    };
    files.iter().map(text).collect()
}

/// Groups, and the objects made from them.
struct Imported {
    outcome: Outcome,
    groups: Vec<Group>,
    pools: Vec<Value>,
}

fn convert(sources: &Sources, read: Read, files: &Texts, templates: &Texts) -> Result<Imported> {
    let mut groups = Vec::new();
    for (name, text) in files {
        for answer in aws_output::documents(name, text)? {
            groups.extend(read(&answer, name)?);
        }
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
        bail!("no group to import: check --name and --cluster");
    }
    let mut versions = Vec::new();
    for (name, text) in templates {
        versions.extend(launch_template::versions(name, text)?);
    }
    let mut outcome = Outcome::default();
    let mut groups = merge::merged(groups);
    for group in &mut groups {
        group.read_template(&versions);
        group.choose_identity(sources);
    }
    let flags = flags::Flags::read(&sources.autoscaler_flag, sources.priorities.as_deref())?;
    let refusals = flags.apply(&mut groups);
    outcome.refuse(refusals);
    refuse_equal_names(&mut groups);
    let mut pools = Vec::new();
    for group in &mut groups {
        let mut made = group.objects(sources);
        if group.refusals.is_empty() {
            made.iter_mut().for_each(admission::check);
        }
        let is_refused = made.iter().any(|made| !made.refusals.is_empty());
        group.is_imported = !is_refused;
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

/// Refuses groups whose objects would have the name of another group's.
fn refuse_equal_names(groups: &mut [Group]) {
    let mut names: BTreeMap<String, String> = BTreeMap::new();
    for group in groups {
        let name = names::object_name(&group.name);
        match names.get(&name) {
            Some(other) => {
                let remedy = format!(
                    "its objects would be named {name}, as those of {other}: import it alone with --name, and rename its objects"
                );
                group.refuse("name", &group.name.clone(), remedy);
            }
            None => drop(names.insert(name, group.name.clone())),
        }
    }
}
