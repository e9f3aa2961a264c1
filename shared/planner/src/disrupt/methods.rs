//! Disruption methods in their order of precedence (docs/spec/lifecycle.md#disruption-loop).

use std::{cell::OnceCell, collections::BTreeSet};

use jiff::Timestamp;
use model::{
    NodeClaimName, NodePoolName,
    ledger::{self, Cursor},
};

use super::{
    DisruptionResult, Method, Reason,
    balanced::Totals,
    budgets::Budgets,
    candidates::{Blocked, Candidate, Candidates, Class},
    command::{self, Command},
    consolidation::{Move, may_consolidate},
    context::{DisruptionContext, Lookahead},
    drift, emptiness, lookahead, move_costs, multi, repair, single,
    validation::{self, Rejection},
};
use crate::repair::FailureEvidence;

/// The disruption methods of one evaluation.
pub(super) struct Methods<'s, 'a> {
    pub(super) now: &'s DisruptionContext<'a>,
    /// Context at the time at which commands are validated.
    pub(super) later: &'s DisruptionContext<'a>,
    graceful: OnceCell<Candidates<'a>>,
    graceful_later: OnceCell<Candidates<'a>>,
}

impl<'s, 'a> Methods<'s, 'a> {
    pub(super) fn new(now: &'s DisruptionContext<'a>, later: &'s DisruptionContext<'a>) -> Self {
        Self {
            now,
            later,
            graceful: OnceCell::new(),
            graceful_later: OnceCell::new(),
        }
    }

    pub(super) fn evaluate(&self) -> DisruptionResult {
        let mut result = DisruptionResult {
            blocked: self.graceful_candidates().blocked.clone(),
            // A command found before the search continues leaves the cursor unchanged.
            cursor: self.now.snapshot.cursor.clone(),
            ..DisruptionResult::default()
        };
        let repair = repair::choose(self, &mut result);
        result.commands.extend(repair);
        if result.commands.is_empty() {
            result.commands = self.emptiness(&BTreeSet::new());
        }
        if result.commands.is_empty() {
            let eventual = Candidates::new(self.now, Class::Eventual);
            self.static_drift(&eventual, &mut result);
            if result.commands.is_empty() {
                self.drift(&eventual, &mut result);
            }
        }
        if result.commands.is_empty() && result.left == 0 {
            self.consolidation(&mut result);
        }
        let (exhausted, opens) = self.exhausted();
        result.exhausted.extend(exhausted);
        let due = result.due.into_iter().chain(opens);
        result.due = due.chain(self.graceful_candidates().unblocked_at).min();
        result.misread = move_costs::misread(self.now.snapshot);
        for message in [&mut result.blocked, &mut result.unconsolidatable] {
            message.sort();
            message.dedup();
        }
        result
    }

    /// Returns the NodePools whose budgets block candidates of a method, and the earliest end of such a block.
    fn exhausted(&self) -> (BTreeSet<(NodePoolName, String)>, Option<Timestamp>) {
        let applies_to = |candidate: &Candidate<'a>, reason| match reason {
            Reason::Empty => emptiness::applies_to(candidate) == Ok(true),
            Reason::Drifted => drift::applies_to(candidate) || drift::applies_to_static(candidate),
            Reason::Underutilized => may_consolidate(candidate) == Ok(true),
            // Repair has its own candidates.
            Reason::Unhealthy => false,
        };
        let (mut exhausted, mut opens) = (BTreeSet::new(), None);
        for reason in [Reason::Empty, Reason::Drifted, Reason::Underutilized] {
            let budgets = self.budgets(self.now, reason);
            for candidate in self.graceful_candidates().all.iter() {
                if let Some(message) = budgets
                    .exhausted_message(candidate.pool)
                    .filter(|_| applies_to(candidate, reason))
                {
                    exhausted.insert((candidate.pool.name.clone(), message));
                    opens = opens
                        .into_iter()
                        .chain(budgets.reopens_at(candidate.pool))
                        .min();
                }
                let waits = budgets.evictions.wait_message(candidate);
                if let Some((message, when)) = waits.filter(|_| applies_to(candidate, reason)) {
                    exhausted.insert((candidate.pool.name.clone(), message));
                    opens = opens.into_iter().chain(when).min();
                }
            }
        }
        (exhausted, opens)
    }

    /// Number of candidates for each reason.
    pub(super) fn eligible(&self) -> [(Reason, usize); 4] {
        let eventual = Candidates::new(self.now, Class::Eventual);
        let count = |candidates: &Candidates<'a>, applies_to: fn(&Candidate<'a>) -> bool| {
            let all = candidates.all.iter();
            all.filter(|candidate| applies_to(candidate)).count()
        };
        [
            (
                Reason::Unhealthy,
                repair::UnhealthyNodes::new(self.now).due.len(),
            ),
            (
                Reason::Empty,
                count(self.graceful_candidates(), |candidate| {
                    emptiness::applies_to(candidate) == Ok(true)
                }),
            ),
            (
                Reason::Drifted,
                count(&eventual, |candidate| {
                    drift::applies_to(candidate) || drift::applies_to_static(candidate)
                }),
            ),
            (
                Reason::Underutilized,
                count(self.graceful_candidates(), |candidate| {
                    may_consolidate(candidate) == Ok(true)
                }),
            ),
        ]
    }

    /// Returns a command for the empty nodes, except `proposed`, which count against the budgets.
    pub(super) fn emptiness(&self, proposed: &BTreeSet<NodeClaimName>) -> Vec<Command> {
        let is_proposed = |candidate: &Candidate<'a>| proposed.contains(&candidate.claim.name);
        let empty = self.graceful_candidates().all.iter();
        let mut empty: Vec<&Candidate<'a>> = empty
            .filter(|candidate| emptiness::applies_to(candidate) == Ok(true))
            .filter(|candidate| !is_proposed(candidate))
            .collect();
        if !empty.is_empty() {
            let expected = emptiness::nodes_expected_by_pods(self.now);
            empty.retain(|candidate| !expected.contains(&candidate.index));
        }
        let budgets_of = |context| {
            let mut budgets = self.budgets(context, Reason::Empty);
            let proposed = self.graceful_candidates().all.iter();
            for candidate in proposed.filter(|candidate| is_proposed(candidate)) {
                budgets.take(candidate);
            }
            budgets
        };
        let chosen = emptiness::choose(&empty, &mut budgets_of(self.now));
        if chosen.is_empty() {
            return Vec::new();
        }
        let budgets = budgets_of(self.later);
        let still = validation::still_empty(self.graceful_candidates_later(), &chosen, budgets);
        if still.is_empty() {
            return Vec::new();
        }
        vec![command::of_empty(&still)]
    }

    /// Drifted nodes, without those whose replacements are expected to fail.
    fn drifted<'c>(
        &self,
        candidates: &'c Candidates<'a>,
        applies_to: fn(&Candidate<'a>) -> bool,
        result: &mut DisruptionResult,
    ) -> Vec<&'c Candidate<'a>> {
        let evidence = FailureEvidence::new(self.now.snapshot);
        let mut drifted = Vec::new();
        for candidate in candidates
            .all
            .iter()
            .filter(|candidate| applies_to(candidate))
        {
            match evidence.drift(candidate.node, candidate.pool) {
                None => drifted.push(candidate),
                Some(message) => {
                    let pool = candidate.pool.name.clone();
                    result.exhausted.insert((pool, message.clone()));
                    result.blocked.push(Blocked {
                        node: candidate.node.name.to_string(),
                        message,
                    });
                }
            }
        }
        drifted
    }

    fn static_drift(&self, candidates: &Candidates<'a>, result: &mut DisruptionResult) {
        let drifted = self.drifted(candidates, drift::applies_to_static, result);
        let budgets = self.budgets(self.now, Reason::Drifted);
        let commands = drift::choose_static(self.now, &drifted, &budgets, &mut result.blocked);
        result.commands.extend(commands);
    }

    fn drift(&self, candidates: &Candidates<'a>, result: &mut DisruptionResult) {
        let drifted = self.drifted(candidates, drift::applies_to, result);
        let searched = drift::choose(self, &drifted, &mut result.blocked);
        result.commands.extend(searched.found);
        if !result.commands.is_empty() || searched.left > 0 {
            (result.cursor, result.left) = (searched.cursor, searched.left);
        }
    }

    fn consolidation(&self, result: &mut DisruptionResult) {
        let Some((candidates, totals)) = self.search_consolidation(result) else {
            return;
        };
        for command in &result.commands {
            let is_target = |candidate: &&&Candidate<'a>| {
                let mut names = command.nodes.iter();
                names.any(|name| candidate.node.name.as_str() == name)
            };
            let own = candidates.iter().filter(is_target).copied();
            result
                .judged
                .extend(totals.verdicts(own, command.savings, true));
        }
    }

    /// Searches for a consolidation. Returns the candidates, and the totals that policy Balanced judged them by.
    fn search_consolidation<'c>(
        &'c self,
        result: &mut DisruptionResult,
    ) -> Option<(Vec<&'c Candidate<'a>>, Totals)> {
        let mut candidates: Vec<&Candidate<'a>> = Vec::new();
        for candidate in self.graceful_candidates().all.iter() {
            match may_consolidate(candidate) {
                Ok(true) => candidates.push(candidate),
                Ok(false) => {}
                Err(message) => result.unconsolidatable.push(Blocked {
                    node: candidate.node.name.to_string(),
                    message,
                }),
            }
        }
        if candidates.is_empty() {
            result.cursor = None;
            return None;
        }
        let totals = Totals::new(self.now, &self.graceful_candidates().all);
        let continued = match self.now.options.lookahead {
            Lookahead::ActivePlan => lookahead::continue_plan(self, &candidates, &totals),
            Lookahead::NextStep | Lookahead::ToConvergence => lookahead::Selection::default(),
        };
        if let Some(command) = continued.command {
            result.commands.push(command);
            result.cursor = continued.plan;
            return Some((candidates, totals));
        }
        let mut found = self.multi(&candidates, &totals);
        result.cursor = result.cursor.take().filter(Cursor::is_unfinished);
        if found.is_none() {
            let searched = single::search(self, &candidates, &totals, result);
            (result.cursor, result.left) = (searched.cursor, searched.left);
            found = searched.found;
        }
        match self.now.options.lookahead {
            Lookahead::NextStep | Lookahead::ActivePlan => {
                let command = found.map(|(step, method)| self.command(step, method));
                result.commands.extend(command);
                result.cursor = continued.plan.or(result.cursor.take());
            }
            Lookahead::ToConvergence => {
                let planned = lookahead::select(self, &candidates, &totals, found);
                result.commands.extend(planned.command);
                // While a search is unfinished the cursor holds its position, not a plan.
                if result.left == 0 && planned.plan.is_some() {
                    result.cursor = planned.plan;
                }
            }
        }
        Some((candidates, totals))
    }

    fn multi(&self, candidates: &[&Candidate<'a>], totals: &Totals) -> Option<(Move<'a>, Method)> {
        let budgets = self.budgets(self.now, Reason::Underutilized);
        let step = multi::search(self.now, candidates, budgets, totals)?;
        self.validated(step, Method::MultiNode)
    }

    /// Whether this evaluation has used up its share of simulations.
    pub(super) fn share_is_used_up(&self) -> bool {
        let simulated = self.now.simulated.get() + self.later.simulated.get();
        simulated >= self.now.options.simulated
    }

    pub(super) fn validated(&self, step: Move<'a>, method: Method) -> Option<(Move<'a>, Method)> {
        let budgets = self.budgets(self.later, Reason::Underutilized);
        validation::holds(self.later, self.graceful_candidates_later(), &step, budgets)
            .then_some((step, method))
    }

    /// Plans the valid part of a proposal again.
    pub(super) fn validate(&self, proposal: &ledger::Command) -> Result<Command, Rejection> {
        let Some(choice) = &proposal.choice else {
            return Err(Rejection::churn(
                "the proposed command names no disruption method".to_owned(),
            ));
        };
        let candidates = self.graceful_candidates();
        match choice.method {
            Method::Emptiness => {
                let budgets = self.budgets(self.now, Reason::Empty);
                let still = validation::still_empty_proposal(
                    candidates,
                    &proposal.delete,
                    &emptiness::nodes_expected_by_pods(self.now),
                    budgets,
                )?;
                Ok(command::of_empty(&still))
            }
            Method::MultiNode | Method::SingleNode => {
                let budgets = self.budgets(self.now, Reason::Underutilized);
                let step = validation::replan(self.now, candidates, proposal, choice, budgets)?;
                Ok(self.command(step, choice.method))
            }
            // Commands of these methods start without a proposal.
            Method::Repair | Method::StaticDrift | Method::Drift => {
                let method = proposal.reason.as_str();
                Err(Rejection::churn(format!(
                    "commands for {method} start without a proposal"
                )))
            }
        }
    }

    pub(super) fn command(&self, step: Move<'a>, method: Method) -> Command {
        let reason_and_method = (Reason::Underutilized, method);
        command::of_simulation(
            self.now,
            reason_and_method,
            &step.candidates,
            &step.simulation,
            &step.replacements,
        )
    }

    fn graceful_candidates(&self) -> &Candidates<'a> {
        self.graceful
            .get_or_init(|| Candidates::new(self.now, Class::Graceful))
    }

    pub(super) fn graceful_candidates_later(&self) -> &Candidates<'a> {
        self.graceful_later
            .get_or_init(|| Candidates::new(self.later, Class::Graceful))
    }

    pub(super) fn budgets(&self, context: &DisruptionContext<'a>, reason: Reason) -> Budgets {
        Budgets::new(context.snapshot, context.inventory, reason, context.now)
    }
}
