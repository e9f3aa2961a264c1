//! Resumes the work of a turn that ended early: its leases expire, and a later turn continues from the ledger's state
//! (docs/protocol.md#a3).

use std::collections::BTreeSet;

use api::names::tag;
use jiff::SignedDuration;
use model::{
    NodePoolName,
    ids::LaunchToken,
    launch::Instance,
    ledger::{Call, Intent, IntentState, Lease, PauseLevel},
};
use ports::{CloudError, LedgerError};

use crate::{
    ExecutionOutcome, Executor, ExecutorError, LaunchInputs, Postponed, call::SendOutcome,
    launch::leave_unfinished, members::Member, settle::InstanceDetails,
};

/// Time for which an unanswered call is left alone: its request may still be on its way, or its instances not listed yet.
pub(crate) const UNANSWERED_WAIT: SignedDuration = SignedDuration::from_secs(60);
/// Delay before an unresolved call is read again.
pub(crate) const RECHECK_AFTER: SignedDuration = SignedDuration::from_secs(15);

impl Executor<'_> {
    /// Resumes launches whose lease lapsed: open calls as they were frozen, then intents without a call. Launches for a
    /// NodePool that is `held` back wait (docs/protocol.md#c4).
    pub async fn resume(
        &self,
        intents: &[Intent],
        held: &BTreeSet<NodePoolName>,
        inputs: &LaunchInputs<'_>,
    ) -> Result<ExecutionOutcome, ExecutorError> {
        let mut outcome = ExecutionOutcome::default();
        let now = self.clock.now();
        let free = |lease: &Option<Lease>| lease.as_ref().is_none_or(|lease| !lease.is_live(now));
        let lapsed: Vec<&Intent> = intents
            .iter()
            .filter(|intent| intent.is_in_flight() && free(&intent.lease))
            .filter(|intent| !held.contains(&intent.launch.node_pool))
            .collect();
        let calls = self.ledger.open_calls(self.cluster).await?;
        let unended = calls
            .iter()
            .filter(|call| free(&call.lease))
            .filter(|call| node_pool(call).is_none_or(|pool| !held.contains(&pool)))
            .map(|call| &call.request.token);
        let launching = lapsed.iter().filter_map(|intent| token(intent));
        let mut tokens: Vec<&LaunchToken> = launching.chain(unended).collect();
        tokens.sort();
        tokens.dedup();
        if lapsed.is_empty() && tokens.is_empty() {
            return Ok(outcome);
        }
        if let Some(stop) = self.may_begin(PauseLevel::All, &[]).await? {
            outcome
                .unfinished
                .extend(lapsed.iter().map(|intent| intent.name().clone()));
            outcome.stopped = Some(stop);
            return Ok(outcome);
        }
        for token in tokens {
            if let Err(error) = self.resume_call(token, inputs, &mut outcome).await {
                outcome
                    .problems
                    .push(format!("launch call {token}: {error}"));
                if let ExecutorError::Cloud(CloudError::Postponed { action, until }) = error {
                    outcome.postponed = Some(Postponed { action, until });
                }
            }
        }
        let mut waiting = Vec::new();
        for intent in lapsed.into_iter().filter(|intent| token(intent).is_none()) {
            waiting.extend(self.take_over(intent, &mut outcome).await?);
        }
        outcome.absorb(self.launch(waiting, inputs).await);
        Ok(outcome)
    }

    /// Leases a lapsed intent. An intent older than the launch time-out becomes void: its pods are planned again.
    async fn take_over(
        &self,
        intent: &Intent,
        outcome: &mut ExecutionOutcome,
    ) -> Result<Option<Intent>, ExecutorError> {
        let now = self.clock.now();
        let leased = self
            .ledger
            .lease_intent(self.cluster, intent.name(), &self.lease(), now)
            .await?;
        let Some(intent) = leased else {
            return Ok(None);
        };
        if intent.state == IntentState::Intended
            && now.duration_since(intent.committed_at) >= self.launch_timeout
        {
            let why = "its launch did not begin within the launch timeout";
            self.void(&intent, why, outcome).await?;
            return Ok(None);
        }
        Ok(Some(intent))
    }

    async fn resume_call(
        &self,
        token: &LaunchToken,
        inputs: &LaunchInputs<'_>,
        outcome: &mut ExecutionOutcome,
    ) -> Result<(), ExecutorError> {
        let now = self.clock.now();
        let Some(call) = self.ledger.call(self.cluster, token).await? else {
            return Ok(());
        };
        let call = if call.closed {
            call
        } else {
            match self
                .ledger
                .lease_call(self.cluster, token, &self.lease(), now)
                .await?
            {
                Some(call) => call,
                None => return Ok(()),
            }
        };
        let (members, some_unreadable) = self.members(&call).await?;
        if members.is_empty() {
            return self.close_if_over(&call).await;
        }
        // Instances of a call stay as long as it is open: a member that cannot be read may own one.
        let close = async || match some_unreadable {
            true => Ok(()),
            false => self.close(&call).await,
        };
        let found = self.cloud.instances_of_launch(self.cluster, token).await?;
        let (alive, dead): (Vec<&Instance>, Vec<&Instance>) =
            found.iter().partition(|instance| instance.state.is_alive());
        let alive: Vec<InstanceDetails> = alive.into_iter().map(Into::into).collect();
        let (gone, present): (Vec<Member>, Vec<Member>) =
            members.into_iter().partition(Member::is_gone);
        let mut left = self
            .assign_and_show(&call, present, &alive, inputs, outcome)
            .await?;
        // A dead instance without an owner ends the attempt of the member it was for.
        for instance in &dead {
            let owner = match self.ledger.owner(&instance.id).await {
                // An owner that cannot be read is an owner.
                Err(LedgerError::Newer { .. } | LedgerError::Corrupt { .. }) => continue,
                owner => owner?,
            };
            if owner.is_none()
                && let Some(member) = left.pop()
            {
                let why = end_reasons(&dead);
                let ended = self.end_attempt(&member, "LaunchFailed", &why, outcome);
                let ended = ended.await;
                outcome.isolate(member.name(), ended)?;
            }
        }
        if now.duration_since(call.frozen_at) < UNANSWERED_WAIT {
            outcome
                .unfinished
                .extend(left.iter().chain(&gone).map(|member| member.name().clone()));
            return Ok(());
        }
        for member in &gone {
            // An instance that was launched for it is left to garbage collection.
            self.ledger.close_claim(self.cluster, member.name()).await?;
            let intent = &member.intent;
            self.void(intent, "its NodeClaim is gone", outcome).await?;
        }
        if left.is_empty() || call.closed {
            return close().await;
        }
        if self.is_overdue(&call) {
            for member in &left {
                let why = "EC2 gave no definite answer to the launch within the launch timeout";
                let failed = self.fail(member, why, None, outcome).await;
                outcome.isolate(member.name(), failed)?;
            }
            return close().await;
        }
        let not_after = self.lease().until;
        match self
            .request(&call, left, not_after, inputs, outcome)
            .await?
        {
            // The turn that froze it may have sent it.
            SendOutcome::NotSent(members, why) => leave_unfinished(&members, &why, outcome),
            SendOutcome::Answered(_) => close().await?,
            SendOutcome::Unanswered => {}
        }
        Ok(())
    }

    /// Closes a call that owes no member an instance any more; members leased by other turns are left to them.
    async fn close_if_over(&self, call: &Call) -> Result<(), ExecutorError> {
        for name in &call.members {
            let intent = match self.ledger.intent(self.cluster, name).await {
                // A launch that cannot be read may be under way.
                Err(LedgerError::Newer { .. } | LedgerError::Corrupt { .. }) => return Ok(()),
                intent => intent?,
            };
            if intent.is_some_and(|intent| token(&intent) == Some(&call.request.token)) {
                return Ok(());
            }
        }
        self.close(call).await
    }

    /// The members of a call that are still launching under it, leased. Members whose NodeClaim is gone have an empty one; a
    /// NodeClaim that is being deleted is left to the terminator, lease and all (docs/protocol.md#a5). Also returns whether
    /// there are members whose launch cannot be read, which are left to a function that can read it.
    async fn members(&self, call: &Call) -> Result<(Vec<Member>, bool), ExecutorError> {
        let mut members = Vec::new();
        let mut some_unreadable = false;
        for name in &call.members {
            let claim = self.api.node_claim(name).await?;
            if claim
                .as_ref()
                .is_some_and(|claim| claim.deleted_at.is_some())
            {
                continue;
            }
            let now = self.clock.now();
            let lease = self.lease();
            let leased = self.ledger.lease_intent(self.cluster, name, &lease, now);
            let leased = match leased.await {
                Err(error @ (LedgerError::Newer { .. } | LedgerError::Corrupt { .. })) => {
                    tracing::warn!(node_claim = %name, %error, "launch not resumed");
                    some_unreadable = true;
                    continue;
                }
                leased => leased?,
            };
            let Some(intent) = leased else { continue };
            let IntentState::Launching { uid, token, .. } = &intent.state else {
                continue;
            };
            if *token != call.request.token {
                continue;
            }
            let claim = claim.filter(|claim| claim.uid == *uid);
            members.push(Member {
                claim: claim.unwrap_or_default(),
                intent,
            });
        }
        Ok((members, some_unreadable))
    }
}

/// The NodePool of all members of a call.
fn node_pool(call: &Call) -> Option<NodePoolName> {
    let name = call.request.tags.get(tag::NODE_POOL)?;
    Some(name.as_str().into())
}

fn token(intent: &Intent) -> Option<&LaunchToken> {
    match &intent.state {
        IntentState::Launching { token, .. } => Some(token),
        IntentState::Intended
        | IntentState::Claimed { .. }
        | IntentState::Launched { .. }
        | IntentState::Failed { .. }
        | IntentState::Void { .. } => None,
    }
}

fn end_reasons(dead: &[&Instance]) -> String {
    let reasons: Vec<String> = dead
        .iter()
        .map(|instance| {
            format!(
                "{} ended: {}",
                instance.id,
                instance
                    .state_reason
                    .as_deref()
                    .unwrap_or("no reason given")
            )
        })
        .collect();
    reasons.join("; ")
}
