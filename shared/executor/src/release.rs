use jiff::Timestamp;
use model::{
    InstanceId,
    ids::LaunchToken,
    ledger::{Intent, IntentState, Lease},
    node_claim::NodeClaim,
};
use ports::ledger::Moved;

use crate::{
    Executor, ExecutorError,
    resume::{RECHECK_AFTER, UNANSWERED_WAIT},
};

/// Obstacle between a deleting NodeClaim and the end of its launch (docs/protocol.md#a5).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReleaseState {
    /// Nothing was launched, and nothing will be.
    Free,
    /// This instance belongs to the NodeClaim and must be gone first.
    Instance(InstanceId),
    /// The launch is unresolved; it is checked again at this time.
    Wait(Timestamp),
}

impl Executor<'_> {
    /// Resolves the launch of a deleting NodeClaim whose status names no instance.
    pub async fn release(&self, claim: &NodeClaim) -> Result<ReleaseState, ExecutorError> {
        let now = self.clock.now();
        if let Some(row) = self.ledger.claim(self.cluster, &claim.name).await? {
            return Ok(ReleaseState::Instance(row.instance));
        }
        let Some(intent) = self.ledger.intent(self.cluster, &claim.name).await? else {
            return Ok(ReleaseState::Free);
        };
        match &intent.state {
            IntentState::Failed { .. } | IntentState::Void { .. } => Ok(ReleaseState::Free),
            IntentState::Launched { instance } => Ok(ReleaseState::Instance(instance.clone())),
            IntentState::Launching { token, .. } => {
                let token = token.clone();
                self.resolve(claim, &token).await
            }
            IntentState::Intended | IntentState::Claimed { .. } => {
                let leased = self
                    .ledger
                    .lease_intent(self.cluster, &claim.name, &self.lease(), now)
                    .await?;
                let Some(leased) = leased else {
                    return Ok(wait(intent.lease.as_ref(), now));
                };
                let why = "its NodeClaim is being deleted".to_owned();
                let ended = self.advance(&leased, IntentState::Void { why }).await?;
                Ok(ended.map_or(ReleaseState::Wait(now), |_| ReleaseState::Free))
            }
        }
    }

    /// Finds the instance that a launch under way has launched for this NodeClaim.
    async fn resolve(
        &self,
        claim: &NodeClaim,
        token: &LaunchToken,
    ) -> Result<ReleaseState, ExecutorError> {
        let now = self.clock.now();
        let Some(intent) = self
            .ledger
            .lease_intent(self.cluster, &claim.name, &self.lease(), now)
            .await?
        else {
            return Ok(ReleaseState::Wait(now + RECHECK_AFTER));
        };
        let mut found = self.cloud.instances_of_launch(self.cluster, token).await?;
        found.sort_by(|a, b| a.id.cmp(&b.id));
        for instance in found.iter().filter(|instance| instance.state.is_alive()) {
            if self
                .ledger
                .own(self.cluster, &claim.name, &instance.id, token)
                .await?
                == Moved::Yes
            {
                return Ok(ReleaseState::Instance(instance.id.clone()));
            }
        }
        let Some(call) = self.ledger.call(self.cluster, token).await? else {
            return Ok(ReleaseState::Wait(now + RECHECK_AFTER));
        };
        let certain_at = call.frozen_at + UNANSWERED_WAIT;
        if now < certain_at {
            return Ok(ReleaseState::Wait(certain_at));
        }
        if !call.closed && self.others_launch(&call.members, claim, token).await? {
            // The turn that resumes the call for the others resolves it.
            return Ok(ReleaseState::Wait(now + RECHECK_AFTER));
        }
        let why = "its NodeClaim was deleted before an instance was launched".to_owned();
        let ended = self.advance(&intent, IntentState::Void { why }).await?;
        Ok(ended.map_or(ReleaseState::Wait(now), |_| ReleaseState::Free))
    }

    /// Whether a call has other members that are launching, and whose NodeClaims are not being deleted.
    async fn others_launch(
        &self,
        members: &[model::NodeClaimName],
        claim: &NodeClaim,
        token: &LaunchToken,
    ) -> Result<bool, ExecutorError> {
        for name in members.iter().filter(|name| **name != claim.name) {
            let intent = self.ledger.intent(self.cluster, name).await?;
            let launching = intent.is_some_and(|intent| {
                matches!(&intent.state, IntentState::Launching { token: current, .. } if current == token)
            });
            if launching
                && self
                    .api
                    .node_claim(name)
                    .await?
                    .is_some_and(|other| other.deleted_at.is_none())
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Ends launches of this turn for which nothing has been done yet.
    pub async fn withdraw(&self, intents: &[Intent], why: &str) -> Result<(), ExecutorError> {
        for intent in intents {
            let why = why.to_owned();
            self.advance(intent, IntentState::Void { why }).await?;
        }
        Ok(())
    }

    /// Ends the records of a NodeClaim whose instance is gone: from here on no instance is owed to it.
    pub async fn finish_claim(&self, claim: &NodeClaim) -> Result<(), ExecutorError> {
        self.ledger.close_claim(self.cluster, &claim.name).await?;
        let now = self.clock.now();
        let leased = self
            .ledger
            .lease_intent(self.cluster, &claim.name, &self.lease(), now)
            .await?;
        if let Some(intent) = leased.filter(Intent::is_in_flight) {
            self.advance(
                &intent,
                IntentState::Void {
                    why: "its instance is gone".into(),
                },
            )
            .await?;
        }
        Ok(())
    }
}

fn wait(lease: Option<&Lease>, now: Timestamp) -> ReleaseState {
    ReleaseState::Wait(lease.map_or(now, |lease| lease.until.max(now)))
}
