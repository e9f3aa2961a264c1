//! `whittle register`, `activate`, `deactivate`, `unregister` and `clusters`: the registry of clusters in Parameter Store
//! (docs/design.md#registry).

use anyhow::Result;
use clap::Args;
use model::ledger::Mode;
use serde_json::{Value, json};

use crate::{exit::Exit, kubeconfig::Kubeconfig, output::ListOutput};

#[derive(Args)]
#[command(after_help = "Examples:
  whittle clusters
  whittle clusters -o wide
  whittle clusters -o name | xargs -n 1 whittle doctor")]
pub(crate) struct Clusters {
    #[command(flatten)]
    output: ListOutput,
    #[command(flatten)]
    registry: Registry,
    #[command(flatten)]
    stack: crate::stack::Stack,
}

#[derive(Args)]
#[cfg_attr(test, derive(Default))]
pub(crate) struct Registry {
    /// Path of the registry in Parameter Store
    #[arg(long, default_value = Registry::DEFAULT)]
    registry: String,
}

#[derive(Args)]
#[command(after_help = "Examples:
  whittle register prod
  whittle register prod --create-access-entries
  whittle register kops --endpoint https://api.example.com --credentials /whittle/credentials/kops
  whittle register prod --replace --reach vpc:vpc-0123456789abcdef0")]
pub(crate) struct Register {
    /// Name of the cluster: its name in EKS, or the name that instances of another cluster are tagged with
    #[arg(value_parser = name)]
    cluster: String,
    /// API server of a cluster outside EKS, such as https://api.example.com
    #[arg(long, requires = "credentials", value_parser = https)]
    endpoint: Option<String>,
    /// Certificate authority of the API server, PEM in base64; defaults to those of the platform
    #[arg(long, requires = "endpoint", value_name = "BASE64", value_parser = base64)]
    certificate_authority: Option<String>,
    /// SecureString parameter with a bearer token, or with a client certificate and its key
    #[arg(long, requires = "endpoint", value_name = "PARAMETER", value_parser = parameter)]
    credentials: Option<String>,
    /// Network from which the API server is reached: "public", or "vpc:<id>" if the stack has a lane in that VPC
    #[arg(long, default_value = "public", value_parser = reach)]
    reach: String,
    /// Settings of the cluster as JSON; docs/settings.md lists them
    #[arg(long, value_name = "JSON", value_parser = crate::settings::read)]
    settings: Option<Value>,
    #[command(flatten)]
    stack: crate::stack::Stack,
    /// Kubeconfig context for checking the cluster's objects; defaults to the entry's credentials, or for EKS to your AWS credentials
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    #[command(flatten)]
    kubeconfig: Kubeconfig,
    /// Overwrite an existing entry
    #[arg(long)]
    replace: bool,
    /// Create access entries of the EKS cluster for the roles of the stack's functions
    #[arg(long, conflicts_with = "endpoint")]
    create_access_entries: bool,
    #[command(flatten)]
    registry: Registry,
}

#[derive(Args)]
#[command(after_help = "Examples:
  whittle unregister prod
  whittle unregister prod --delete-access-entries --purge")]
pub(crate) struct Unregister {
    /// Name of the registered cluster
    #[arg(value_parser = name)]
    cluster: String,
    /// Delete the access entries of the stack's functions, too, once the cluster is removed
    #[arg(long)]
    delete_access_entries: bool,
    /// Delete the cluster's rows in the stack's ledger, too; also of a cluster whose entry is already gone
    #[arg(long)]
    purge: bool,
    /// Do not wait for the stack to release the cluster, and delete rows even if they own resources
    #[arg(long)]
    force: bool,
    /// Time to wait for the stack, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    timeout: u64,
    #[command(flatten)]
    stack: crate::stack::Stack,
    #[command(flatten)]
    registry: Registry,
}

impl Registry {
    pub(crate) const DEFAULT: &str = "/whittle/clusters";

    pub(crate) fn prefix(&self) -> &str {
        self.registry.trim_end_matches('/')
    }
}

/// The cluster whose mode is changed.
#[derive(Args)]
pub(crate) struct Switch {
    /// Name of the registered cluster
    #[arg(value_parser = name)]
    cluster: String,
    #[command(flatten)]
    registry: Registry,
}

impl Register {
    /// The entry, in shadow mode: turns change nothing until the user activates the cluster.
    fn entry(&self) -> Value {
        let mut entry = eks_entry(&self.reach, self.settings.as_ref());
        let mut set = |key: &str, value: Value| {
            if let Some(entry) = entry.as_object_mut() {
                entry.insert(key.to_owned(), value);
            }
        };
        if let Some(endpoint) = &self.endpoint {
            set("type", "endpoint".into());
            set("endpoint", endpoint.as_str().into());
        }
        if let Some(authority) = &self.certificate_authority {
            set("certificateAuthority", authority.as_str().into());
        }
        if let Some(credentials) = &self.credentials {
            set("credentials", credentials.as_str().into());
        }
        entry
    }
}

pub(crate) fn mode_text(mode: Mode) -> &'static str {
    match mode {
        Mode::Active => "active",
        Mode::Shadow => "shadow",
    }
}

/// The entry of an EKS cluster in shadow mode.
pub(crate) fn eks_entry(reach: &str, settings: Option<&Value>) -> Value {
    let mut entry = json!({"type": "eks", "reach": reach, "mode": "shadow"});
    if let (Some(settings), Some(entry)) = (settings, entry.as_object_mut()) {
        entry.insert("settings".to_owned(), settings.clone());
    }
    entry
}

/// Validates a name by the rules of Parameter Store and EKS, which leave nothing to be quoted.
pub(crate) fn name(text: &str) -> Result<String, String> {
    const MOST: usize = 100;
    let may = |c: char| c.is_ascii_alphanumeric() || ['-', '_', '.'].contains(&c);
    match !text.is_empty() && text.len() <= MOST && text.chars().all(may) {
        true => Ok(text.to_owned()),
        false => Err(
            "expected the name of a cluster: at most 100 letters, digits, -, _ and .".to_owned(),
        ),
    }
}

pub(crate) fn reach(text: &str) -> Result<String, String> {
    let read = turns::Entry::read(&json!({ "reach": text }));
    read.map(|_| text.to_owned())
        .map_err(|error| error.to_string())
}

fn https(text: &str) -> Result<String, String> {
    match text.starts_with("https://") {
        true => Ok(text.to_owned()),
        false => Err("expected an HTTPS URL".to_owned()),
    }
}

fn parameter(text: &str) -> Result<String, String> {
    match text.starts_with('/') {
        true => Ok(text.to_owned()),
        false => Err(
            "expected the full name of a parameter, such as /whittle/credentials/demo".to_owned(),
        ),
    }
}

fn base64(text: &str) -> Result<String, String> {
    use base64::{Engine, prelude::BASE64_STANDARD};
    let pem = BASE64_STANDARD.decode(text).unwrap_or_default();
    match pem.starts_with(b"-----BEGIN CERTIFICATE-----") {
        true => Ok(text.to_owned()),
        false => Err("expected a certificate: PEM in base64, as in a kubeconfig".to_owned()),
    }
}

#[cfg(feature = "aws")]
pub(crate) fn register(arguments: &Register) -> Result<Exit> {
    use crate::{aws::registry, doctor::LISTS, objects::Objects};
    let context = arguments
        .kubeconfig
        .select_named(arguments.context.as_deref());
    let asked = registry::RegisterOptions {
        replace: arguments.replace,
        grants_access: arguments.create_access_entries,
        stack: &arguments.stack.name,
        objects: context
            .map(|context| Objects::of_cluster(&context, LISTS))
            .transpose()?,
    };
    let (prefix, entry) = (arguments.registry.prefix(), arguments.entry());
    registry::register(prefix, &arguments.cluster, &entry, asked)
}

#[cfg(feature = "aws")]
pub(crate) fn unregister(arguments: &Unregister) -> Result<Exit> {
    let asked = crate::aws::unregister::UnregisterOptions {
        stack: &arguments.stack.name,
        revokes_access: arguments.delete_access_entries,
        purges: arguments.purge,
        force: arguments.force,
        timeout: std::time::Duration::from_secs(arguments.timeout),
    };
    crate::aws::unregister::unregister(arguments.registry.prefix(), &arguments.cluster, &asked)
}

#[cfg(feature = "aws")]
pub(crate) fn switch(arguments: &Switch, mode: Mode) -> Result<Exit> {
    crate::aws::registry::switch(arguments.registry.prefix(), &arguments.cluster, mode)
}

#[cfg(feature = "aws")]
pub(crate) fn clusters(arguments: &Clusters) -> Result<Exit> {
    let (registry, stack) = (&arguments.registry, &arguments.stack);
    crate::aws::clusters::list(registry.prefix(), stack, &arguments.output)
}

#[cfg(not(feature = "aws"))]
pub(crate) fn register(arguments: &Register) -> Result<Exit> {
    let context = arguments
        .kubeconfig
        .select_named(arguments.context.as_deref());
    let context = context.map(|selection| selection.context);
    anyhow::bail!(
        "register calls AWS, which this build cannot: build it with `--features aws`, or write {} as the parameter {}/{} \
         (stack {}, context {}, access entries {})",
        arguments.entry(),
        arguments.registry.prefix(),
        arguments.cluster,
        arguments.stack.name,
        match &context {
            None => "none",
            Some(None) => "the current one",
            Some(Some(name)) => name,
        },
        arguments.create_access_entries,
    )
}

#[cfg(not(feature = "aws"))]
pub(crate) fn unregister(arguments: &Unregister) -> Result<Exit> {
    anyhow::bail!(
        "unregister {} calls AWS, which this build cannot: build it with `--features aws` (stack {}, access entries {}, purge {}, \
         force {}, timeout {} s)",
        arguments.cluster,
        arguments.stack.name,
        arguments.delete_access_entries,
        arguments.purge,
        arguments.force,
        arguments.timeout,
    )
}

#[cfg(not(feature = "aws"))]
pub(crate) fn switch(arguments: &Switch, mode: Mode) -> Result<Exit> {
    anyhow::bail!(
        "{} mode is set in AWS, which this build cannot: build it with `--features aws`, or edit the parameter {}/{}",
        mode_text(mode),
        arguments.registry.prefix(),
        arguments.cluster,
    )
}

#[cfg(not(feature = "aws"))]
pub(crate) fn clusters(arguments: &Clusters) -> Result<Exit> {
    anyhow::bail!(
        "clusters reads {} in AWS, which this build cannot: build it with `--features aws`",
        arguments.registry.prefix()
    )
}
