//! `whittle convert`: manifests of Karpenter's v1beta1 and v1alpha5 APIs as v1, with a comment above every change.
//!
//! Files go in and text comes out: neither a cluster nor AWS is queried. A document that cannot be converted with its meaning preserved is
//! refused by name, field and remedy, and the others are still converted.

pub(crate) mod admission;
pub(crate) mod document;
pub(crate) mod edit;
mod kubelet;
mod layout;
mod leftovers;
mod list;
mod names;
mod node_claim;
mod node_class;
mod node_pool;
mod node_template;
pub(crate) mod outcome;
mod pointer;
mod provisioner;
mod selector;
mod settings;
mod unknown;
mod workload;
pub(crate) mod yaml;

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;

use self::{
    document::Source,
    edit::Edit,
    outcome::{Outcome, Report},
    settings::Settings,
};

use crate::exit::Exit;

#[derive(Args)]
#[command(after_help = "Examples:
  whittle convert -f manifests/ > converted.yaml
  kubectl get provisioners,awsnodetemplates -o yaml | whittle convert -f -")]
pub(crate) struct Arguments {
    /// Manifests, or folders of manifests at any depth; `-` reads standard input
    #[arg(short = 'f', long = "filename", value_name = "FILE", required = true, num_args = 1..)]
    files: Vec<PathBuf>,
    /// Turn fields that no version has into comments, instead of refusing their document
    #[arg(long)]
    allow_unknown: bool,
    /// Leave out the requirements that v1alpha5 added by default to a Provisioner
    #[arg(long)]
    ignore_defaults: bool,
    /// IAM role of nodes, instead of the instance profiles of AWSNodeTemplates
    #[arg(long, value_name = "NAME")]
    role: Option<String>,
    /// Use the defaults of AWSNodeTemplates for clusters with IPv6 addresses
    #[arg(long)]
    ipv6: bool,
    /// Convert NodeClaims, too, which are normally generated
    #[arg(long = "nodeclaims")]
    node_claims: bool,
    /// Print a fragment for an EC2NodeClass that is not among the manifests, instead of refusing NodePools with kubelet settings
    #[arg(long)]
    kubelet_fragment: bool,
    /// Format of the report of changes and refusals on standard error
    #[arg(long, value_enum, default_value_t = Report::Text)]
    report: Report,
}

/// Warning about an alias of AL2.
pub(crate) const NO_AL2: &str = "EKS publishes no AL2 image for Kubernetes 1.33 and later";

/// Options that apply to all documents.
struct Options {
    allow_unknown: bool,
    ignore_defaults: bool,
    role: Option<String>,
    ipv6: bool,
    node_claims: bool,
    settings: Settings,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Exit> {
    let sources = document::read(&arguments.files)?;
    convert(sources, arguments).deliver(arguments.report)
}

/// Output with the options that change least.
pub(crate) fn printed(sources: Vec<Source>) -> Outcome {
    let arguments = Arguments {
        files: Vec::new(),
        allow_unknown: false,
        ignore_defaults: false,
        role: None,
        ipv6: false,
        node_claims: true,
        kubelet_fragment: false,
        report: Report::Text,
    };
    convert(sources, &arguments)
}

/// Converts documents. The output does not depend on the order of documents that refer to each other.
fn convert(sources: Vec<Source>, arguments: &Arguments) -> Outcome {
    let mut refusals = Vec::new();
    let mut documents: Vec<Edit> = Vec::new();
    for source in sources {
        match source {
            Source::Document(document) => documents.push(Edit::new(document)),
            Source::Unreadable(refusal) => refusals.push(refusal),
        }
    }
    let options = Options {
        allow_unknown: arguments.allow_unknown,
        ignore_defaults: arguments.ignore_defaults,
        role: arguments.role.clone(),
        ipv6: arguments.ipv6,
        node_claims: arguments.node_claims,
        settings: Settings::of(&documents),
    };
    let mut edits: Vec<Edit> = Vec::new();
    for mut edit in documents {
        let caused = first_pass(&mut edit, &options);
        edits.push(edit);
        edits.extend(caused);
    }
    provisioner::refuse_name_clashes(&mut edits);
    node_claim::expiry(&mut edits);
    kubelet::move_to_classes(&mut edits, arguments.kubelet_fragment);
    for edit in edits.iter_mut().filter(|edit| edit.is_changed()) {
        admission::check(edit);
    }
    let mut outcome = Outcome::default();
    outcome.refuse(refusals);
    for edit in edits {
        outcome.add(edit);
    }
    outcome
}

/// Converts what a document alone determines. Returns an object that was inline in it.
fn first_pass(edit: &mut Edit, options: &Options) -> Option<Edit> {
    let (version, kind) = edit.type_of();
    if !names::versions_of(&kind).is_empty() {
        leftovers::warn_of_placeholders(edit);
    }
    match (version.as_str(), kind.as_str()) {
        (names::NODE_POOL_V1BETA1, "NodePool") => node_pool::convert(edit, options.allow_unknown),
        (names::NODE_CLASS_V1BETA1, "EC2NodeClass") => {
            node_class::convert(edit, options.allow_unknown);
        }
        (names::NODE_POOL_V1BETA1, "NodeClaim") => node_claim::convert(edit, options),
        (names::PROVISIONER_V1ALPHA5, "Provisioner") => return provisioner::convert(edit, options),
        (names::NODE_TEMPLATE_V1ALPHA1, "AWSNodeTemplate") => node_template::convert(edit, options),
        (names::PROVISIONER_V1ALPHA5, "Machine") => edit.refuse(
            "kind",
            "Machine",
            "Machines are generated: leave them out, the NodePool creates NodeClaims",
        ),
        (_, kind) if !names::is_known(kind, &version) => {
            let remedy = match names::versions_of(kind).is_empty() {
                true => format!("{version} has no such kind: correct it"),
                false => format!(
                    "there is no {kind} of this version: expected {}",
                    names::versions_of(kind).join(" or ")
                ),
            };
            match names::versions_of(kind).is_empty() {
                true => edit.refuse("kind", kind, remedy),
                false => edit.refuse("apiVersion", &version, remedy),
            }
        }
        (names::NODE_POOL_V1, "NodePool") | (names::NODE_CLASS_V1, "EC2NodeClass") => {
            leftovers::clean(edit);
            admission::check(edit);
        }
        ("", "") => {
            edit.warn(
                "it has neither apiVersion nor kind, and is copied unchanged: give objects of Kubernetes, such as what `helm template` \
                 or `kubectl get -o yaml` prints",
            );
            leftovers::warn_of_old_names(edit);
        }
        _ if settings::is_settings(edit) => settings::convert(edit),
        _ => workload::convert(edit),
    }
    None
}
