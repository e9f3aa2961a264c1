//! The kubeconfig of commands with the option `--context`.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use k8s::ContextSelection;

#[derive(Args, Default)]
pub(crate) struct Kubeconfig {
    /// Path of the kubeconfig; defaults to KUBECONFIG, then to ~/.kube/config
    #[arg(long = "kubeconfig", value_name = "FILE", value_hint = ValueHint::FilePath)]
    file: Option<PathBuf>,
}

impl Kubeconfig {
    /// Selects this context, or the current one without a name.
    pub(crate) fn select(&self, context: Option<&str>) -> ContextSelection {
        ContextSelection {
            file: self.file.clone(),
            context: context.map(str::to_owned),
        }
    }

    /// Selects this context, or the current one of the named kubeconfig; `None` if neither is named.
    pub(crate) fn select_named(&self, context: Option<&str>) -> Option<ContextSelection> {
        let is_named = context.is_some() || self.file.is_some();
        is_named.then(|| self.select(context))
    }
}
