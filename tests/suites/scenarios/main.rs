//! Scenarios: YAML files with a cluster (`given`) and the expected plan as text (`expect`). Each file is a test.
//!
//! `UPDATE_EXPECT=1` rewrites the file's `expect` block with the actual plan and keeps the rest.

#![expect(
    clippy::indexing_slicing,
    reason = "on JSON values, where assigning adds the field"
)]

mod catalog;
mod cluster;
mod given;
mod in_flight;
mod pod;
mod shorthand;

use std::{fs, path::Path};

use model::{Action, NodeClaimName, Plan, Snapshot};
use planner::Share;
use serde::Deserialize;

use given::Given;

datatest_stable::harness! {
    { test = scenario, root = ".", pattern = r"\.yaml$" },
}

/// One scenario file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Scenario {
    /// One-sentence description of the rule that the scenario shows.
    #[serde(rename = "about")]
    _about: String,
    given: Given,
    expect: String,
}

fn scenario(path: &Path) -> datatest_stable::Result<()> {
    let text = fs::read_to_string(path)?;
    let scenario: Scenario = serde_saphyr::from_str(&text)
        .map_err(|error| report_unreadable(path, &error.to_string()))?;
    let snapshot = scenario
        .given
        .snapshot()
        .map_err(|error| report_unreadable(path, &error))?;
    let planned = plan_as_text(&snapshot, scenario.given.turn.share());
    if planned.trim_end() == scenario.expect.trim_end() {
        return Ok(());
    }
    #[expect(clippy::disallowed_methods, reason = "the one setting of this harness")]
    let update =
        std::env::var("UPDATE_EXPECT").is_ok_and(|value| !value.is_empty() && value != "0");
    if update {
        fs::write(path, with_expectation(&text, &planned))?;
        return Ok(());
    }
    eprintln!(
        "{}\n--- expected\n{}\n--- planned\n{planned}",
        path.display(),
        scenario.expect
    );
    Err("the plan differs from the expectation; UPDATE_EXPECT=1 accepts it".into())
}

fn report_unreadable(path: &Path, text: &str) -> String {
    eprintln!("{}: {text}", path.display());
    "the scenario cannot be read".to_owned()
}

/// Plans the snapshot and returns the plan and the violations found by `plancheck` as text.
fn plan_as_text(snapshot: &Snapshot, share: Share) -> String {
    let mut plan = planner::provision(snapshot, share);
    let violations = plancheck::check(snapshot, &plan);
    number_launches(&mut plan);
    let mut text = plan.to_string();
    for violation in violations {
        text += &format!("refused, {violation}\n");
    }
    text
}

/// Replaces the digests in launch names by numbers, so that scenarios name launches by NodePool and number.
fn number_launches(plan: &mut Plan) {
    let mut number = 0;
    for planned in &mut plan.actions {
        if let Action::Launch(launch) = &mut planned.action {
            number += 1;
            launch.name = NodeClaimName(format!("{}-{number}", launch.node_pool));
        }
    }
}

/// Replaces the `expect` block, the last of the file.
fn with_expectation(scenario: &str, planned: &str) -> String {
    let head = scenario
        .find("\nexpect:")
        .map_or(scenario, |at| scenario.split_at(at + 1).0);
    let body: String = planned.lines().map(|line| format!("  {line}\n")).collect();
    format!("{head}expect: |\n{body}")
}
