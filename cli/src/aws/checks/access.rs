//! Access to the cluster, of the functions and of nodes.

use anyhow::{Context, Result};
use ec2::{AccessEntry, Account, EksCluster};
use ports::CloudError;

use crate::{
    aws::access::{self, FUNCTIONS, group},
    finding::Finding,
    objects::{Objects, text},
};

/// Checks of an EKS cluster; the authentication of other clusters is unknown.
pub(super) async fn checks(
    account: &Account,
    cluster: &str,
    described: Option<&EksCluster>,
    objects: &Objects,
) -> Result<Vec<Finding>> {
    let Some(described) = described else {
        return Ok(Vec::new());
    };
    let entries = match described.authentication_mode.as_str() {
        "CONFIG_MAP" => Ok(Vec::new()),
        _ => account.access_entries(&cluster.into()).await,
    };
    let entries = match entries {
        Ok(entries) => entries,
        Err(error) => return Ok(vec![unseen(&error)]),
    };
    Ok(vec![
        functions_left_out(&entries, mapped_roles(objects)),
        gone_roles(account, &entries).await?,
        unknown_roles(&roles_not_mapped(objects), &entries),
    ])
}

/// The role mappings in the ConfigMap aws-auth, as text.
fn mapped_roles(objects: &Objects) -> &str {
    let mut maps = objects.of_kind("ConfigMap");
    let map = maps.find(|map| text(map, "/metadata/name") == "aws-auth");
    map.map_or("", |map| text(map, "/data/mapRoles"))
}

/// Roles of nodes that the ConfigMap aws-auth does not map; access entries may cover them.
fn roles_not_mapped(objects: &Objects) -> Vec<String> {
    let mapped = mapped_roles(objects);
    let classes = objects.of_kind("EC2NodeClass");
    let roles = classes.map(|class| text(class, "/spec/role"));
    let roles = roles.filter_map(|role| role.rsplit('/').next());
    let missing = |role: &&str| {
        let mut words = mapped.split(|c: char| c.is_whitespace() || c == '"' || c == '\'');
        !role.is_empty() && !words.any(|word| is_role(word, role))
    };
    let mut roles: Vec<String> = roles.filter(missing).map(str::to_owned).collect();
    roles.sort();
    roles.dedup();
    roles
}

/// Whether an ARN, with or without a path, belongs to a role.
fn is_role(arn: &str, role: &str) -> bool {
    arn.contains(":role/") && arn.rsplit('/').next() == Some(role)
}

fn unseen(error: &CloudError) -> Finding {
    Finding::new(
        "30. the access of the roles of functions and nodes cannot be checked",
        vec![error.to_string()],
        "allow the user of this command to call eks:ListAccessEntries and eks:DescribeAccessEntry",
    )
}

fn functions_left_out(entries: &[AccessEntry], aws_auth: &str) -> Finding {
    let is_in = |function: &&str| {
        let group = group(function);
        let mut words =
            aws_auth.split(|c: char| c.is_whitespace() || ['"', '\'', '[', ']', ','].contains(&c));
        entries.iter().any(|entry| entry.groups.contains(&group)) || words.any(|word| word == group)
    };
    let out = FUNCTIONS.iter().filter(|function| !is_in(function));
    Finding::new(
        "functions that neither an access entry nor aws-auth lets in",
        out.map(|function| format!("{function}, as {}", group(function)))
            .collect(),
        "whittle register <cluster> --replace --create-access-entries, or aws eks create-access-entry --cluster-name <cluster> \
         --principal-arn <its role, an output of the stack> --kubernetes-groups whittle:<function>",
    )
}

/// Access entries whose role no longer exists: entries outlive a stack that is deleted and deployed again.
async fn gone_roles(account: &Account, entries: &[AccessEntry]) -> Result<Finding> {
    let mut gone = Vec::new();
    for entry in entries {
        let ours = |group: &String| {
            FUNCTIONS
                .iter()
                .any(|function| *group == access::group(function))
        };
        let role = entry.principal.rsplit('/').next().unwrap_or_default();
        if entry.groups.iter().any(ours) && is_role(&entry.principal, role) {
            let there = account.has_role(role).await;
            if !there.with_context(|| format!("cannot look up the role {role}"))? {
                gone.push(entry.principal.clone());
            }
        }
    }
    Ok(Finding::new(
        "access entries for functions whose role is gone",
        gone,
        "aws eks delete-access-entry, and create one for the role in the stack's outputs",
    ))
}

fn unknown_roles(roles: &[String], entries: &[AccessEntry]) -> Finding {
    let known = |role: &&String| entries.iter().any(|entry| is_role(&entry.principal, role));
    Finding::new(
        "30. roles of nodes that neither an access entry nor aws-auth lets in: their nodes never join",
        roles.iter().filter(|role| !known(role)).cloned().collect(),
        "aws eks create-access-entry --cluster-name <cluster> --principal-arn <role> --type EC2_LINUX, or EC2_WINDOWS",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(principal: &str, groups: &[&str]) -> AccessEntry {
        AccessEntry {
            principal: principal.to_owned(),
            groups: groups.iter().map(|group| (*group).to_owned()).collect(),
        }
    }

    #[test]
    fn role_is_recognized_with_any_path() {
        let roles = ["node".to_owned(), "other".to_owned()];
        let entries = [
            entry("arn:aws:iam::123456789012:role/team/node", &[]),
            entry("arn:aws:iam::123456789012:user/other", &[]),
        ];
        assert_eq!(unknown_roles(&roles, &entries).objects, ["other"]);
    }

    #[test]
    fn each_function_has_access_by_an_entry_or_aws_auth() {
        let entries = [
            entry("arn:aws:iam::123456789012:role/p", &["whittle:provisioner"]),
            entry("arn:aws:iam::123456789012:role/l", &["whittle:lifecycle"]),
        ];
        let map = "- rolearn: arn:aws:iam::123456789012:role/d\n  groups: [whittle:disruption, 'whittle:terminator']\n\
                   - rolearn: arn:aws:iam::123456789012:role/i\n  groups:\n  - whittle:interruption\n  - whittle:housekeepers\n";
        let out = functions_left_out(&entries, map);
        assert_eq!(out.objects, ["housekeeper, as whittle:housekeeper"]);
        assert_eq!(functions_left_out(&[], "").objects.len(), FUNCTIONS.len());
    }
}
