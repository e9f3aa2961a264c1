//! A launch under way: its intent and its NodeClaim.

use api::{
    ConditionSet,
    conditions::types::LAUNCHED,
    convert::change_conditions,
    names::{annotation, finalizer},
};
use jiff::Timestamp;
use model::{
    NodeClaimName, NodePoolName, Uid,
    ledger::{Intent, IntentState},
    node_claim::NodeClaim,
    plan::{Launch, NodeClaimUpdate, Target},
};
use ports::{
    ClusterError,
    cluster::{Event, EventKind, EventTarget},
    ledger::Moved,
};

use crate::{ExecutionOutcome, Executor, ExecutorError, FailedLaunch};

#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub(crate) intent: Intent,
    pub(crate) claim: NodeClaim,
}

impl Member {
    pub(crate) fn name(&self) -> &NodeClaimName {
        self.intent.name()
    }

    pub(crate) fn node_pool(&self) -> &NodePoolName {
        &self.intent.launch.node_pool
    }

    pub(crate) fn attempt(&self) -> u32 {
        match &self.intent.state {
            IntentState::Claimed { attempt, .. } | IntentState::Launching { attempt, .. } => {
                *attempt
            }
            IntentState::Intended
            | IntentState::Launched { .. }
            | IntentState::Failed { .. }
            | IntentState::Void { .. } => 1,
        }
    }

    pub(crate) fn uid(&self) -> &Uid {
        &self.claim.uid
    }

    /// Whether its NodeClaim no longer exists.
    pub(crate) fn is_gone(&self) -> bool {
        self.claim.name.as_str().is_empty()
    }

    fn target(&self) -> Target {
        Target {
            name: self.claim.name.clone(),
            uid: self.claim.uid.clone(),
            resource_version: self.claim.resource_version.clone(),
        }
    }
}

/// Event on the NodePool whose NodeClaim may not be created: there is no NodeClaim to emit it on.
fn refused_creation(launch: &Launch, error: &ClusterError, at: Timestamp) -> Event {
    Event {
        about: EventTarget::NodePool(launch.node_pool.clone(), launch.node_pool_uid.clone()),
        kind: EventKind::Warning,
        reason: "ChangeRefused".to_owned(),
        message: format!(
            "NodeClaim {} cannot be created: {error}; check the cluster's admission policies and webhooks",
            launch.name
        ),
        at,
    }
}

/// Upper bound on tries to update an object that changes between its read and its write.
const CONFLICTS_MAX: u32 = 4;

impl Executor<'_> {
    /// Makes sure that the NodeClaim of a leased intent exists and is recorded in the intent. `None` if there is nothing to
    /// launch any more.
    pub(crate) async fn claimed(
        &self,
        intent: Intent,
        outcome: &mut ExecutionOutcome,
    ) -> Result<Option<Member>, ExecutorError> {
        let (claim, intent) = match &intent.state {
            IntentState::Intended => {
                let mut launch = intent.launch.clone();
                let own_name = launch.name.to_string();
                launch
                    .annotations
                    .insert(annotation::COMMITTED.to_owned(), own_name);
                let created = self.api.create_node_claim(&launch).await;
                if let Err(error) = &created
                    && error.is_about_one_object()
                {
                    let refused = refused_creation(&launch, error, self.clock.now());
                    outcome.events.push(refused);
                }
                let claim = match created {
                    Ok(claim) => claim,
                    Err(error @ ClusterError::Invalid { .. }) => {
                        let why = error.to_string();
                        self.advance(&intent, IntentState::Failed { why: why.clone() })
                            .await?;
                        outcome.failed.push(FailedLaunch {
                            claim: intent.name().clone(),
                            why,
                            pods: Vec::new(),
                        });
                        return Ok(None);
                    }
                    Err(error) => return Err(error.into()),
                };
                let state = IntentState::Claimed {
                    uid: claim.uid.clone(),
                    attempt: 1,
                };
                match self.advance(&intent, state).await? {
                    Some(intent) => (Some(claim), intent),
                    None => return Ok(None),
                }
            }
            IntentState::Claimed { uid, .. } => {
                let claim = self
                    .api
                    .node_claim(intent.name())
                    .await?
                    .filter(|claim| claim.uid == *uid);
                (claim, intent)
            }
            IntentState::Launching { .. }
            | IntentState::Launched { .. }
            | IntentState::Failed { .. }
            | IntentState::Void { .. } => return Ok(None),
        };
        match claim.filter(|claim| claim.deleted_at.is_none()) {
            Some(claim) => Ok(Some(Member { intent, claim })),
            None => {
                self.void(&intent, "its NodeClaim is gone", outcome).await?;
                Ok(None)
            }
        }
    }

    /// Moves a leased intent to another state; `None` if the intent is no longer in the state that was read.
    pub(crate) async fn advance(
        &self,
        intent: &Intent,
        to: IntentState,
    ) -> Result<Option<Intent>, ExecutorError> {
        match self
            .ledger
            .move_intent(self.cluster, self.turn, intent, &to)
            .await?
        {
            Moved::Yes => Ok(Some(Intent {
                state: to,
                ..intent.clone()
            })),
            Moved::No => Ok(None),
        }
    }

    /// Ends a launch whose NodeClaim is not needed any more.
    pub(crate) async fn void(
        &self,
        intent: &Intent,
        why: &str,
        outcome: &mut ExecutionOutcome,
    ) -> Result<(), ExecutorError> {
        let why = why.to_owned();
        let ended = self
            .advance(intent, IntentState::Void { why: why.clone() })
            .await?;
        if ended.is_some() {
            outcome.failed.push(FailedLaunch {
                claim: intent.name().clone(),
                why,
                pods: intent.launch.pods.clone(),
            });
        }
        Ok(())
    }

    /// Ends a launch without an instance: the intent first, so that the NodeClaim may be removed (docs/protocol.md#a5), then the NodeClaim.
    pub(crate) async fn fail(
        &self,
        member: &Member,
        why: &str,
        event_reason: Option<&str>,
        outcome: &mut ExecutionOutcome,
    ) -> Result<(), ExecutorError> {
        if self
            .advance(
                &member.intent,
                IntentState::Failed {
                    why: why.to_owned(),
                },
            )
            .await?
            .is_none()
        {
            return Ok(());
        }
        // An instance that is recorded for it is garbage from here on (docs/protocol.md#g1).
        self.ledger.close_claim(self.cluster, member.name()).await?;
        outcome.failed.push(FailedLaunch {
            claim: member.name().clone(),
            why: why.to_owned(),
            pods: member.intent.launch.pods.clone(),
        });
        if let Some(reason) = event_reason {
            let event = |about, message| Event {
                about,
                kind: EventKind::Warning,
                reason: reason.to_owned(),
                message,
                at: self.clock.now(),
            };
            let name = member.name();
            outcome.events.push(event(
                EventTarget::NodeClaim(name.clone(), member.uid().clone()),
                format!("NodeClaim {name} event: {why}"),
            ));
            // Owners of pods seldom read NodeClaims' events (docs/spec/v1.15.md#capacity-events). Pods that run elsewhere, such
            // as those that a replacement is for, miss nothing.
            let emitted = outcome.events.iter();
            let emitted = emitted.filter(|event| matches!(event.about, EventTarget::Pod(..)));
            let pods = &member.intent.launch.pods;
            let waiting = self.waiting_pods(pods, emitted.count()).await;
            let pods = waiting.into_iter().map(|pod| {
                event(
                    EventTarget::Pod(pod.key.clone(), pod.uid.clone()),
                    format!("NodeClaim {name}, nominated for this pod, failed to launch: {why}"),
                )
            });
            outcome.events.extend(pods);
        }
        self.remove_claim(member).await
    }

    /// Deletes a NodeClaim without an instance, and removes its finalizer.
    async fn remove_claim(&self, member: &Member) -> Result<(), ExecutorError> {
        let mut member = member.clone();
        for _ in 0..CONFLICTS_MAX {
            let deleted = match self.api.delete_node_claim(&member.target()).await {
                Ok(()) | Err(ClusterError::Conflict { .. }) => {
                    self.api.node_claim(member.name()).await?
                }
                Err(ClusterError::NotFound { .. }) => None,
                Err(error) => return Err(error.into()),
            };
            let Some(claim) = deleted.filter(|claim| claim.uid == *member.uid()) else {
                return Ok(());
            };
            member.claim = claim;
            if member.claim.deleted_at.is_none() {
                continue;
            }
            let update = NodeClaimUpdate {
                remove_finalizers: vec![finalizer::TERMINATION.to_owned()],
                ..update_of(&member.claim)
            };
            match self.api.update_node_claim(&update).await {
                Ok(_) | Err(ClusterError::NotFound { .. }) => return Ok(()),
                Err(ClusterError::Conflict { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        // The NodeClaim is being deleted, and the terminator finds its launch over.
        Ok(())
    }

    /// Ends an attempt that is certain to have launched nothing more: the next one has a new token (docs/protocol.md#a3).
    pub(crate) async fn end_attempt(
        &self,
        member: &Member,
        reason: &str,
        message: &str,
        outcome: &mut ExecutionOutcome,
    ) -> Result<(), ExecutorError> {
        // By Whittle's own clock: the API server's may differ by minutes.
        let age = self.clock.now().duration_since(member.intent.committed_at);
        if age >= self.launch_timeout {
            return self
                .fail(
                    member,
                    &format!("launch timed out: {message}"),
                    None,
                    outcome,
                )
                .await;
        }
        let next = IntentState::Claimed {
            uid: member.uid().clone(),
            attempt: member.attempt() + 1,
        };
        if self.advance(&member.intent, next).await?.is_some() {
            outcome.left(member.name(), message);
            self.explain(member, reason, message).await?;
        }
        Ok(())
    }

    /// Writes into the NodeClaim's Launched condition why there is no instance yet, unless another turn has recorded one in the meantime.
    pub(crate) async fn explain(
        &self,
        member: &Member,
        reason: &str,
        message: &str,
    ) -> Result<(), ExecutorError> {
        let shown = cut(message);
        self.update(member, |claim, set| {
            if !claim.is_true(LAUNCHED) {
                set.set_unknown(LAUNCHED, reason, &shown);
            }
            update_of(claim)
        })
        .await
        .map(|_| ())
    }

    /// Updates a NodeClaim, again if it changed in the meantime. `None` if the NodeClaim no longer exists or was replaced by
    /// another of its name.
    pub(crate) async fn update(
        &self,
        member: &Member,
        mut change: impl FnMut(&NodeClaim, &mut ConditionSet<'_>) -> NodeClaimUpdate,
    ) -> Result<Option<NodeClaim>, ExecutorError> {
        let mut claim = member.claim.clone();
        let mut last = None;
        for _ in 0..CONFLICTS_MAX {
            let mut update = NodeClaimUpdate::default();
            let conditions =
                change_conditions(&claim, self.clock.now(), |set| update = change(&claim, set));
            update.conditions = conditions.set;
            update.clear_conditions = conditions.cleared;
            match self.api.update_node_claim(&update).await {
                Ok(claim) => return Ok(Some(claim)),
                Err(ClusterError::NotFound { .. }) => return Ok(None),
                Err(error @ ClusterError::Conflict { .. }) => last = Some(error),
                Err(error) => return Err(error.into()),
            }
            match self
                .api
                .node_claim(member.name())
                .await?
                .filter(|now| now.uid == *member.uid())
            {
                Some(now) => claim = now,
                None => return Ok(None),
            }
        }
        last.map_or(Ok(None), |error| Err(error.into()))
    }
}

/// An update of this NodeClaim in this version that changes nothing yet.
pub(crate) fn update_of(claim: &NodeClaim) -> NodeClaimUpdate {
    NodeClaimUpdate {
        name: claim.name.clone(),
        uid: claim.uid.clone(),
        resource_version: claim.resource_version.clone(),
        ..NodeClaimUpdate::default()
    }
}

/// Cuts a condition's message to what fits a screen (docs/spec/lifecycle.md#launch).
fn cut(message: &str) -> String {
    const SHOWN: usize = 300;
    if message.chars().count() <= SHOWN {
        return message.to_owned();
    }
    message.chars().take(SHOWN).chain("...".chars()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn condition_message_is_cut_to_300_characters() {
        let fits = "ü".repeat(300);
        assert_eq!(cut(&fits), fits);
        let cut = cut(&"ü".repeat(301));
        assert_eq!(cut, format!("{fits}..."));
    }

    #[test]
    fn update_names_the_version_that_was_read() {
        let claim = NodeClaim {
            name: "a".into(),
            uid: "a-uid".into(),
            resource_version: "7".into(),
            ..NodeClaim::default()
        };
        let update = update_of(&claim);
        let of = (
            update.name.as_str(),
            update.uid.as_str(),
            update.resource_version.as_str(),
        );
        assert_eq!(of, ("a", "a-uid", "7"));
    }
}
