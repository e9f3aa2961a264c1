//! `whittle settings` in AWS: settings in a cluster's registry entry.

use std::io::{IsTerminal, Write};

use anyhow::{Context, Result, bail};
use serde_json::{Map, json};

use super::registry::{account, entry_of};
use crate::{
    exit::Exit,
    journal::source::block_on,
    settings::{
        change::{at, changed, difference},
        command::{Get, Set},
    },
};

pub(crate) fn print(get: &Get) -> Result<Exit> {
    block_on(async {
        let prefix = get.registry.prefix();
        let account = account(prefix).await;
        let body = entry_of(&account, prefix, &get.cluster).await?.body;
        let body = body.map_err(anyhow::Error::msg)?;
        let settings = body.get("settings").cloned();
        let settings = settings.unwrap_or_else(|| json!({}));
        let shown = match &get.key {
            None => &settings,
            Some(key) => at(&settings, key).with_context(|| {
                format!("{key} is not set for {}: its default applies", get.cluster)
            })?,
        };
        let shown = serde_json::to_string_pretty(shown)?;
        writeln!(std::io::stdout(), "{shown}")?;
        Ok(Exit::Done)
    })
}

pub(crate) fn change(set: &Set) -> Result<Exit> {
    block_on(async {
        let (prefix, cluster) = (set.registry.prefix(), &set.cluster);
        let account = account(prefix).await;
        let before = entry_of(&account, prefix, cluster).await?.body;
        let before = before.map_err(anyhow::Error::msg)?;
        let old = before.get("settings").cloned().unwrap_or_default();
        let new = changed(&old, &set.assignments).map_err(anyhow::Error::msg)?;
        let lines = difference(&old, &new);
        let mut out = std::io::stdout().lock();
        if lines.is_empty() {
            writeln!(out, "{cluster} has these settings already.")?;
            return Ok(Exit::Done);
        }
        for line in lines {
            writeln!(out, "{line}")?;
        }
        if !set.yes && !confirmed(&mut out)? {
            writeln!(out, "Nothing was changed.")?;
            return Ok(Exit::Left);
        }
        let mut after = before.clone();
        if let Some(after) = after.as_object_mut() {
            match new.as_object().is_some_and(Map::is_empty) {
                true => after.remove("settings"),
                false => after.insert("settings".to_owned(), new),
            };
        }
        let name = format!("{prefix}/{cluster}");
        let written = account
            .replace_entry(&cluster.as_str().into(), &before, &after)
            .await;
        written.with_context(|| format!("cannot change {name}"))?;
        writeln!(out, "{name} is written: functions read it within a minute.")?;
        Ok(Exit::Done)
    })
}

/// Prompts the user for confirmation; an error without a terminal.
fn confirmed(out: &mut impl Write) -> Result<bool> {
    if !std::io::stdin().is_terminal() {
        bail!("nothing was changed: --yes confirms where there is no terminal");
    }
    write!(out, "Change these settings? [y/N] ")?;
    out.flush()?;
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    Ok(["y", "yes"].contains(&answer.trim().to_ascii_lowercase().as_str()))
}
