//! The nodeup script, by which an instance joins the cluster.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};

use crate::launch_template;

/// Scripts by group.
pub(super) struct UserData {
    of_groups: BTreeMap<String, String>,
    /// Script for the only group.
    of_all: Option<String>,
    templates: Vec<launch_template::Version>,
}

pub(super) fn of_group(text: &str) -> Result<(Option<String>, PathBuf), String> {
    Ok(match text.split_once('=') {
        Some(("", _) | (_, "")) => return Err("expected FILE or GROUP=FILE".to_owned()),
        Some((group, file)) => (Some(group.to_owned()), file.into()),
        None => (None, text.into()),
    })
}

impl UserData {
    /// One script for all groups.
    pub(super) fn of_all(script: &str) -> Self {
        Self {
            of_groups: BTreeMap::new(),
            of_all: Some(script.to_owned()),
            templates: Vec::new(),
        }
    }

    pub(super) fn read(
        files: &[(Option<String>, PathBuf)],
        templates: &[PathBuf],
        groups: usize,
    ) -> Result<Self> {
        let read = |file: &Path| {
            let name = file.display();
            fs::read_to_string(file).with_context(|| format!("cannot read {name}"))
        };
        let mut data = Self {
            of_groups: BTreeMap::new(),
            of_all: None,
            templates: Vec::new(),
        };
        for (group, file) in files {
            let script = read(file)?;
            match group {
                Some(group) => {
                    data.of_groups.insert(group.clone(), script);
                }
                None if groups > 1 => bail!(
                    "--user-data {}: each of the {groups} groups has a script of its own: give --user-data <group>={0} for each",
                    file.display(),
                ),
                None => data.of_all = Some(script),
            }
        }
        for file in templates {
            let name = file.display().to_string();
            data.templates
                .extend(launch_template::versions(&name, &read(file)?)?);
        }
        Ok(data)
    }

    /// The script given for the group, or in the launch template that kOps names after it.
    pub(super) fn of(&self, group: &str, cluster: &str) -> Option<&str> {
        let given = self.of_groups.get(group).or(self.of_all.as_ref());
        given.map(String::as_str).or_else(|| {
            let name = format!("{group}.{cluster}");
            let versions = self.templates.iter().filter(|version| version.name == name);
            versions
                .max_by_key(|version| version.number)?
                .user_data
                .as_deref()
        })
    }
}
