//! Access of a stack's functions to an EKS cluster: each by its own role, as the group `whittle:<function>` of the chart.

use std::{collections::BTreeMap, fmt::Write};

use anyhow::{Context, Result, bail};
use ec2::Account;

pub(super) const FUNCTIONS: [&str; 6] = [
    "provisioner",
    "lifecycle",
    "disruption",
    "terminator",
    "interruption",
    "housekeeper",
];

pub(super) fn group(function: &str) -> String {
    format!("whittle:{function}")
}

/// Creates an access entry for each role that is not yet in its group. Returns a description of the entries.
pub(super) async fn grant(account: &Account, cluster: &str, stack: &str) -> Result<String> {
    let mut text = String::from("EKS lets in:\n");
    for (function, role) in roles(account, stack).await? {
        let group = group(&function);
        let done = account.grant_access(&cluster.into(), &role, &group).await;
        done.with_context(|| {
            format!(
                "cannot let {role} in as {group}: it takes eks:CreateAccessEntry, eks:DescribeAccessEntry and \
                 eks:UpdateAccessEntry on the cluster, whose authentication mode must not be CONFIG_MAP"
            )
        })?;
        let _ = writeln!(text, "  {role} as {group}");
    }
    Ok(text)
}

/// Deletes the access entries of the stack's functions.
pub(super) async fn revoke(account: &Account, cluster: &str, stack: &str) -> Result<String> {
    for (_, role) in roles(account, stack).await? {
        let done = account.revoke_access(&cluster.into(), &role).await;
        done.with_context(|| {
            format!(
                "cannot delete the access entry of {role}: it takes eks:DeleteAccessEntry. Delete it and those of the other \
                 functions of stack {stack} by aws eks delete-access-entry"
            )
        })?;
    }
    Ok(format!(
        "The functions of stack {stack} no longer have access entries.\n"
    ))
}

/// The role of each function.
async fn roles(account: &Account, stack: &str) -> Result<BTreeMap<String, String>> {
    let memory = account.memory(stack).await;
    let memory = memory.with_context(|| {
        format!(
            "cannot find stack {stack} in {}: --stack names the stack, and AWS_REGION its Region",
            account.region()
        )
    })?;
    roles_of_functions(stack, &memory.roles)
}

/// The roles of functions among the roles of a stack.
pub(super) fn roles_of_functions(
    stack: &str,
    roles: &BTreeMap<String, String>,
) -> Result<BTreeMap<String, String>> {
    let mut roles = roles.clone();
    roles.retain(|function, _| FUNCTIONS.contains(&function.as_str()));
    if roles.len() < FUNCTIONS.len() {
        bail!(
            "stack {stack} does not say which roles its functions have: deploy it with this version first"
        );
    }
    Ok(roles)
}
