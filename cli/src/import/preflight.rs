//! Obstacles in the cluster to moving pods off their nodes: a finding, the objects, and a remedy
//! (docs/spec/migrate.md#pre-flight).

mod account;
mod checks;

use std::{fmt::Write, path::PathBuf};

use anyhow::Result;
use k8s::ContextSelection;
use serde_json::Value;

use self::account::Account;
use super::group::Group;
use crate::{
    finding::{self, Finding},
    objects::Objects,
};

/// API paths of lists, with the kind of their items.
const LISTS: &[(&str, &str)] = &[
    ("/api/v1/pods", "Pod"),
    ("/apis/apps/v1/deployments", "Deployment"),
    ("/apis/apps/v1/statefulsets", "StatefulSet"),
    ("/apis/apps/v1/daemonsets", "DaemonSet"),
    (
        "/apis/policy/v1/poddisruptionbudgets",
        "PodDisruptionBudget",
    ),
    ("/api/v1/persistentvolumes", "PersistentVolume"),
];

/// Runs the checks; `None` without anything to check.
pub(super) fn run(
    manifests: &[PathBuf],
    context: Option<&ContextSelection>,
    account: &[PathBuf],
    groups: &[Group],
    pools: &[Value],
) -> Result<Option<Vec<Finding>>> {
    let objects = match context {
        Some(context) => Objects::of_cluster(context, LISTS)?,
        None if manifests.is_empty() && account.is_empty() => return Ok(None),
        None if manifests.is_empty() => Objects::default(),
        None => Objects::of_files(manifests)?,
    };
    let mut findings = checks::all(&objects, groups, pools);
    findings.extend(Account::read(account)?.findings(&objects, groups)?);
    Ok(Some(findings))
}

pub(super) fn text(findings: Option<&[Finding]>) -> String {
    let mut text = String::from("\nPre-flight: ");
    match findings {
        None => text.push_str("not run; give --manifests or --context to check for obstacles.\n"),
        Some([]) => text.push_str("no obstacles.\n"),
        Some(findings) => {
            let _ = match findings.len() {
                1 => writeln!(text, "1 obstacle."),
                several => writeln!(text, "{several} obstacles."),
            };
            text.push_str(&finding::text(findings));
        }
    }
    text
}
