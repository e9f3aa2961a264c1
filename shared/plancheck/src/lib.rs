//! An independent check of plans: does what a turn decided hold by Kubernetes' own rules and by what the user's NodePools,
//! budgets and annotations allow?
//!
//! It looks at the result alone and shares nothing with the code that made it: of the project it depends on `model` only,
//! and must never depend on `scheduling` or `planner`. It is pure and total, and its cost grows about linearly with the
//! snapshot and the plan. Where several orders of events are possible, a plan passes if one of them is valid: a refusal
//! means that something is really wrong.

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

/// A rule that one decision of a plan breaks.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Offence {
    pub subject: Subject,
    /// Names what breaks which rule, for the journal and the alarm.
    pub text: String,
}

/// A decision of a plan, by its index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    Action(usize),
    Nomination(usize),
}

/// What is left of a plan, and what was taken out of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checked {
    pub plan: Plan,
    pub refused: Vec<Refused>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    pub decision: Decision,
    pub offences: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    Action(Box<Planned>),
    Nomination(Nomination),
}

/// Everything that is wrong with a plan, in the order of its decisions.
pub fn check(snapshot: &Snapshot, plan: &Plan) -> Vec<Offence> {
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

/// Upper bound on the rounds of dropping what offends, each of which costs a check. Each may reveal dependants of what was dropped,
/// such as pods that wanted to be near those of a refused launch: chains longer than this are no plan to trust.
const ROUNDS_MAX: usize = 32;

/// Drops the decisions that offend and those that depend on them, and nothing else. If the rest still offends after
/// [`ROUNDS_MAX`] rounds, nothing remains (docs/design.md#check).
pub fn filter(snapshot: &Snapshot, plan: Plan) -> Checked {
    filter_by(plan, |plan| check(snapshot, plan))
}

fn filter_by(plan: Plan, check: impl Fn(&Plan) -> Vec<Offence>) -> Checked {
    let mut checked = Checked {
        plan,
        refused: Vec::new(),
    };
    for _ in 0..ROUNDS_MAX {
        let offences = check(&checked.plan);
        if offences.is_empty() {
            return checked;
        }
        checked.drop_decisions(by_subject(offences));
    }
    let offences = check(&checked.plan);
    if !offences.is_empty() {
        let mut all = by_subject(offences);
        for subject in checked.subjects() {
            all.entry(subject)
                .or_insert_with(|| vec!["the rest of the plan offends".to_owned()]);
        }
        checked.drop_decisions(all);
    }
    checked
}

fn by_subject(offences: Vec<Offence>) -> BTreeMap<Subject, Vec<String>> {
    let mut by_subject: BTreeMap<Subject, Vec<String>> = BTreeMap::new();
    for offence in offences {
        by_subject
            .entry(offence.subject)
            .or_default()
            .push(offence.text);
    }
    by_subject
}

impl Checked {
    fn subjects(&self) -> Vec<Subject> {
        let actions = (0..self.plan.actions.len()).map(Subject::Action);
        let nominations = (0..self.plan.nominations.len()).map(Subject::Nomination);
        actions.chain(nominations).collect()
    }

    /// Nominations to a launch go with it.
    fn drop_decisions(&mut self, mut offences: BTreeMap<Subject, Vec<String>>) {
        let mut gone = BTreeSet::new();
        let mut kept = Vec::new();
        for (index, planned) in self.plan.actions.drain(..).enumerate() {
            match offences.remove(&Subject::Action(index)) {
                None => kept.push(planned),
                Some(offences) => {
                    if let model::Action::Launch(launch) = &planned.action {
                        gone.insert(launch.name.clone());
                    }
                    let decision = Decision::Action(Box::new(planned));
                    self.refused.push(Refused { decision, offences });
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
            match offences.remove(&Subject::Nomination(index)).or(dependent) {
                None => kept.push(nomination),
                Some(offences) => {
                    let decision = Decision::Nomination(nomination);
                    self.refused.push(Refused { decision, offences });
                }
            }
        }
        self.plan.nominations = kept;
    }
}

/// Offences found so far; the same one is kept once.
#[derive(Debug, Default)]
struct Findings(BTreeSet<Offence>);

impl Findings {
    fn add(&mut self, subject: Subject, text: String) {
        self.0.insert(Offence { subject, text });
    }
}

impl fmt::Display for Offence {
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

    /// A chain of that many decisions, each of which is a violation once the one before is gone, and one that is none.
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
            Some(first) if first.because != "other" => vec![Offence {
                subject: Subject::Action(0),
                text: "it depends on what is gone".to_owned(),
            }],
            Some(_) | None => Vec::new(),
        };
        filter_by(plan, first).plan.actions.len()
    }

    #[test]
    fn chain_of_dependants_takes_no_other_decision_with_it() {
        assert_eq!(left_of_chain(ROUNDS_MAX), 1);
    }

    #[test]
    fn plan_that_still_offends_after_all_rounds_is_dropped() {
        assert_eq!(left_of_chain(ROUNDS_MAX + 1), 0);
    }
}
