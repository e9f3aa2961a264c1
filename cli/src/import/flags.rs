//! Flags of Cluster Autoscaler, as far as NodePools have counterparts (docs/spec/migrate.md#cluster-autoscaler-flags).

use std::{collections::BTreeMap, path::Path};

use anyhow::{Context, Result};
use regex::Regex;
use serde_json::{Value, json};

use super::group::Group;
use crate::convert::edit::Refusal;

pub(super) fn name_value(text: &str) -> Result<(String, String), String> {
    let (name, value) = text
        .trim_start_matches('-')
        .split_once('=')
        .ok_or("expected <name>=<value>")?;
    Ok((name.to_owned(), value.to_owned()))
}

pub(super) struct Flags {
    flags: Vec<(String, String)>,
    /// Patterns of group names by priority.
    priorities: BTreeMap<i64, Vec<Regex>>,
}

impl Flags {
    pub(super) fn read(flags: &[(String, String)], priorities: Option<&Path>) -> Result<Self> {
        let flags = flags.to_vec();
        let Some(file) = priorities else {
            return Ok(Self {
                flags,
                priorities: BTreeMap::new(),
            });
        };
        let name = file.display();
        let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {name}"))?;
        let config: Value =
            serde_saphyr::from_str(&text).with_context(|| format!("{name} is not YAML"))?;
        let text = config
            .pointer("/data/priorities")
            .and_then(Value::as_str)
            .with_context(|| format!("{name} has no data.priorities"))?;
        let texts: BTreeMap<i64, Vec<String>> =
            serde_saphyr::from_str(text).with_context(|| {
                format!("{name}: data.priorities: expected lists of patterns by number")
            })?;
        let mut priorities = BTreeMap::new();
        for (priority, patterns) in texts {
            let patterns: Result<Vec<Regex>, _> =
                patterns.iter().map(|pattern| Regex::new(pattern)).collect();
            priorities.insert(
                priority,
                patterns.with_context(|| format!("{name}: priority {priority}"))?,
            );
        }
        Ok(Self { flags, priorities })
    }

    /// Applies the flags to groups; refuses flags without a counterpart in NodePools.
    pub(super) fn apply(&self, groups: &mut [Group]) -> Vec<Refusal> {
        let mut refusals = Vec::new();
        for (name, value) in &self.flags {
            if let Err(remedy) = flag(name, value, groups) {
                refusals.push(Refusal {
                    object: "Cluster Autoscaler".to_owned(),
                    field: format!("--{name}"),
                    value: value.clone(),
                    remedy,
                });
            }
        }
        self.weigh(groups);
        refusals
    }

    /// Sets weights to ranks from 1 up, with the highest priority last: weights end at 100.
    fn weigh(&self, groups: &mut [Group]) {
        for (rank, patterns) in (1_i64..=100).zip(self.priorities.values()) {
            for group in &mut *groups {
                let is_meant = |pattern: &Regex| {
                    group
                        .members
                        .iter()
                        .any(|member| pattern.is_match(&member.name))
                };
                if patterns.iter().any(is_meant) {
                    group.weight = Some(rank);
                }
            }
        }
    }
}

fn set(groups: &mut [Group], field: &str, value: &Value, why: &str) {
    for group in groups {
        if !group.disruption.contains_key(field) {
            group.disruption.insert(field.to_owned(), value.clone());
            group.about_pool(&format!("/spec/disruption/{field}"), why.to_owned());
        }
    }
}

fn flag(name: &str, value: &str, groups: &mut [Group]) -> Result<(), String> {
    let why = format!("was --{name}={value}");
    let number = || {
        value
            .parse::<i32>()
            .map(i64::from)
            .map_err(|_not_one| "expected a number".to_owned())
    };
    match name {
        "scale-down-unneeded-time" => match api::duration::parse_go_duration(value) {
            Some(_) => set(groups, "consolidateAfter", &value.into(), &why),
            None => return Err("expected a duration such as 10m".to_owned()),
        },
        "scale-down-enabled" if value == "false" => {
            set(groups, "consolidateAfter", &"Never".into(), &why)
        }
        "scale-down-utilization-threshold" if value.parse() == Ok(0.0_f64) => {
            set(groups, "consolidationPolicy", &"WhenEmpty".into(), &why);
        }
        "max-empty-bulk-delete" => {
            let budget = json!([{ "nodes": number()?.to_string(), "reasons": ["Empty"] }]);
            set(groups, "budgets", &budget, &why);
        }
        "max-nodes-total" => {
            let nodes = |group: &Group| group.unit.nodes(group.max).unwrap_or(group.max);
            let (most, sum) = (number()?, groups.iter().map(nodes).sum::<i64>());
            if most > 0 && sum > most {
                let split: Vec<String> = groups
                    .iter()
                    .map(|group| format!("{} {}", group.name, nodes(group) * most / sum))
                    .collect();
                return Err(format!(
                    "the groups may grow to {sum} nodes together, and only limits of each NodePool bound them: lower their MaxSize, \
                     such as {}",
                    split.join(", ")
                ));
            }
        }
        "expander" if value == "grpc" => {
            return Err(
                "Whittle calls no expander of yours: express its choices by weights and requirements of NodePools"
                    .to_owned(),
            );
        }
        "startup-taint" => {
            for group in groups {
                group
                    .startup_taints
                    .push(json!({ "effect": "NoSchedule", "key": value }));
            }
        }
        "scale-down-enabled" | "expander" => {}
        _ => {
            for group in groups {
                group.warnings.push(format!(
                    "--{name}={value} of Cluster Autoscaler has no counterpart in a NodePool"
                ));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{super::group::Source, *};

    #[test]
    fn group_sizes_are_bounded() {
        let group = |name| Group::new(Source::Asg, "asg.json", name, (0, 0, i64::MAX));
        let mut groups = [group("web"), group("batch")];
        let refused = flag("max-nodes-total", "2147483647", &mut groups).unwrap_err();
        assert!(
            refused.contains("such as web 1073741823, batch"),
            "{refused}"
        );
        assert!(flag("max-nodes-total", "9223372036854775807", &mut groups).is_err());
    }
}
