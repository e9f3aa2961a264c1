//! Independent validation of plans: does a turn's decision comply with Kubernetes' rules and with the user's NodePools,
//! budgets and annotations?
//!
//! Validates the result alone and shares no code with the planner: of the workspace's crates it depends on `model`
//! only, and must never depend on `scheduling` or `planner`. Pure and total; its cost grows about linearly with the
//! snapshot and the plan. If several orders of events are possible, a plan passes if one of them is valid, so that a
//! refusal means that the plan is certainly wrong.

mod bits;
mod budget;
mod capacity;
mod caps;
mod catalog;
mod daemons;
mod devices;
mod identity;
mod label;
mod launch;
mod limits;
mod node_rules;
mod open_node;
mod overlays;
mod place;
mod removal;
mod topology;
mod volumes;
mod world;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use model::{
    Plan, Snapshot,
    plan::{Expected, Nomination, Planned},
};

use crate::{place::Placements, world::World};

/// A rule that a decision of a plan violates.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Violation {
    pub subject: Subject,
    /// Names the objects and the violated rule, for the journal and the alarm.
    pub text: String,
}

/// A decision of a plan, by its index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    Action(usize),
    Nomination(usize),
}

/// The valid part of a plan, and the decisions removed from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checked {
    pub plan: Plan,
    pub refused: Vec<Refused>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    pub decision: Decision,
    pub violations: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    Action(Box<Planned>),
    Nomination(Nomination),
}

/// All violations of a plan, in the order of its decisions.
pub fn check(snapshot: &Snapshot, plan: &Plan) -> Vec<Violation> {
    let types = overlays::types(snapshot);
    let world = World::new(snapshot, &types, plan);
    let mut findings = Findings::default();
    identity::check(&world, plan, &mut findings);
    let placements = Placements::new(&world, plan, &mut findings);
    launch::check(&world, plan, &placements, &mut findings);
    node_rules::check(&world, &placements, &mut findings);
    capacity::check(&world, &placements, &mut findings);
    volumes::check(&world, &placements, &mut findings);
    devices::check(&world, &placements, &mut findings);
    topology::check(&world, &placements, &mut findings);
    limits::check(&world, plan, &placements, &mut findings);
    caps::check(&world, plan, &mut findings);
    removal::check(&world, plan, &placements, &mut findings);
    findings.0.into_iter().collect()
}

/// Upper bound on the rounds of removing violating decisions, each of which costs a check. A round may invalidate
/// decisions that depend on the removed ones, such as pods with affinity to those of a refused launch. A plan with
/// longer chains is not trusted.
const ROUNDS_MAX: usize = 32;

/// Removes the decisions with violations and those that depend on them, and keeps all others. If violations remain
/// after [`ROUNDS_MAX`] rounds, the whole plan is refused (docs/design.md#check).
pub fn filter(snapshot: &Snapshot, plan: Plan) -> Checked {
    filter_by(plan, |plan| check(snapshot, plan))
}

fn filter_by(plan: Plan, check: impl Fn(&Plan) -> Vec<Violation>) -> Checked {
    let mut checked = Checked {
        plan,
        refused: Vec::new(),
    };
    for _ in 0..ROUNDS_MAX {
        let violations = check(&checked.plan);
        if violations.is_empty() {
            return checked;
        }
        checked.drop_decisions(by_subject(violations));
    }
    let violations = check(&checked.plan);
    if !violations.is_empty() {
        let mut all = by_subject(violations);
        for subject in checked.subjects() {
            all.entry(subject)
                .or_insert_with(|| vec!["the rest of the plan has violations".to_owned()]);
        }
        checked.drop_decisions(all);
    }
    checked
}

fn by_subject(violations: Vec<Violation>) -> BTreeMap<Subject, Vec<String>> {
    let mut by_subject: BTreeMap<Subject, Vec<String>> = BTreeMap::new();
    for violation in violations {
        by_subject
            .entry(violation.subject)
            .or_default()
            .push(violation.text);
    }
    by_subject
}

impl Checked {
    fn subjects(&self) -> Vec<Subject> {
        let actions = (0..self.plan.actions.len()).map(Subject::Action);
        let nominations = (0..self.plan.nominations.len()).map(Subject::Nomination);
        actions.chain(nominations).collect()
    }

    /// Removes decisions. Nominations to a removed launch are removed with it.
    fn drop_decisions(&mut self, mut violations: BTreeMap<Subject, Vec<String>>) {
        let mut gone = BTreeSet::new();
        let mut kept = Vec::new();
        for (index, planned) in self.plan.actions.drain(..).enumerate() {
            match violations.remove(&Subject::Action(index)) {
                None => kept.push(planned),
                Some(violations) => {
                    if let model::Action::Launch(launch) = &planned.action {
                        gone.insert(launch.name.clone());
                    }
                    let decision = Decision::Action(Box::new(planned));
                    self.refused.push(Refused {
                        decision,
                        violations,
                    });
                }
            }
        }
        self.plan.actions = kept;
        let mut kept = Vec::new();
        for (index, nomination) in self.plan.nominations.drain(..).enumerate() {
            let dependent = match &nomination.node {
                Expected::NodeClaim(name) if gone.contains(name) => {
                    Some(vec![format!("NodeClaim {name} is not launched")])
                }
                Expected::NodeClaim(_) | Expected::Node(_) => None,
            };
            match violations.remove(&Subject::Nomination(index)).or(dependent) {
                None => kept.push(nomination),
                Some(violations) => {
                    let decision = Decision::Nomination(nomination);
                    self.refused.push(Refused {
                        decision,
                        violations,
                    });
                }
            }
        }
        self.plan.nominations = kept;
    }
}

/// The violations found so far, without duplicates.
#[derive(Debug, Default)]
struct Findings(BTreeSet<Violation>);

impl Findings {
    fn add(&mut self, subject: Subject, text: String) {
        self.0.insert(Violation { subject, text });
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.subject, self.text)
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Action(index) => write!(f, "action {index}"),
            Self::Nomination(index) => write!(f, "nomination {index}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use model::{Action, plan::NodeUpdate};

    use super::*;

    /// Number of decisions left of a plan with a chain of `links` decisions, each of which is a violation once the
    /// previous one is removed, and one valid decision.
    fn left_of_chain(links: usize) -> usize {
        let planned = |name: String| Planned {
            action: Action::UpdateNode(NodeUpdate {
                name: name.as_str().into(),
                ..NodeUpdate::default()
            }),
            because: name,
        };
        let names = (0..links).map(|link| format!("link-{link}"));
        let plan = Plan {
            actions: names.chain(["other".to_owned()]).map(planned).collect(),
            ..Plan::default()
        };
        let first = |plan: &Plan| match plan.actions.first() {
            Some(first) if first.because != "other" => vec![Violation {
                subject: Subject::Action(0),
                text: "it depends on what is gone".to_owned(),
            }],
            Some(_) | None => Vec::new(),
        };
        filter_by(plan, first).plan.actions.len()
    }

    #[test]
    fn chain_of_dependants_drops_no_other_decision() {
        assert_eq!(left_of_chain(ROUNDS_MAX), 1);
    }

    #[test]
    fn plan_with_violations_after_all_rounds_is_dropped() {
        assert_eq!(left_of_chain(ROUNDS_MAX + 1), 0);
    }
}
