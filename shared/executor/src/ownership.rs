use std::collections::{BTreeMap, VecDeque};

use model::{InstanceId, NodeClaimName, ledger::Call, node_claim::NodeClaim};
use ports::ledger::Moved;

use crate::{Executor, ExecutorError, concurrent::each, members::Member, settle::InstanceDetails};

impl Executor<'_> {
    /// Assigns instances to members, both sorted by id, one transaction per pair, then the remaining ones
    /// (docs/protocol.md#a4). Assignments by other turns are kept.
    pub(crate) async fn assign(
        &self,
        call: &Call,
        members: &[Member],
        instances: &[InstanceDetails],
    ) -> Result<BTreeMap<NodeClaimName, OwnedInstance>, ExecutorError> {
        let mut owned: BTreeMap<NodeClaimName, OwnedInstance> = BTreeMap::new();
        let mut waiting: Vec<&Member> = Vec::new();
        let owned_already = each(members, |member| self.owned(member, instances)).await;
        for (member, owned_already) in members.iter().zip(owned_already) {
            match owned_already? {
                None => waiting.push(member),
                Some(instance) => {
                    owned.insert(member.name().clone(), instance);
                }
            }
        }
        waiting.sort_by(|a, b| a.name().cmp(b.name()));
        let mut free: Vec<&InstanceDetails> = instances
            .iter()
            .filter(|instance| owned.values().all(|taken| !taken.is_instance(instance)))
            .collect();
        free.sort_by(|a, b| a.id.cmp(&b.id));
        // Without other turns at work, this completes the assignment.
        let pairs: Vec<(&Member, &InstanceDetails)> =
            waiting.iter().copied().zip(free.iter().copied()).collect();
        let taken = each(&pairs, |(member, instance)| {
            self.ledger.own(
                self.cluster,
                member.name(),
                &instance.id,
                &call.request.token,
            )
        });
        for ((member, instance), taken) in pairs.iter().zip(taken.await) {
            if taken? == Moved::Yes {
                owned.insert(
                    member.name().clone(),
                    OwnedInstance::Known((*instance).clone()),
                );
            }
        }
        waiting.retain(|member| !owned.contains_key(member.name()));
        free.retain(|instance| owned.values().all(|taken| !taken.is_instance(instance)));
        let mut free: VecDeque<&InstanceDetails> = free.into();
        for member in waiting {
            while let Some(instance) = free.pop_front() {
                let token = &call.request.token;
                if self
                    .ledger
                    .own(self.cluster, member.name(), &instance.id, token)
                    .await?
                    == Moved::Yes
                {
                    owned.insert(
                        member.name().clone(),
                        OwnedInstance::Known(instance.clone()),
                    );
                    break;
                }
                // Another turn was faster: with this member, or with this instance.
                match self.owned(member, instances).await? {
                    None => {
                        let intent = self.ledger.intent(self.cluster, member.name()).await?;
                        if intent.is_some_and(|intent| intent.state == member.intent.state) {
                            continue;
                        }
                    }
                    Some(other) => {
                        owned.insert(member.name().clone(), other);
                    }
                }
                free.push_front(instance);
                break;
            }
        }
        Ok(owned)
    }

    /// The instance that a member owns already.
    async fn owned(
        &self,
        member: &Member,
        instances: &[InstanceDetails],
    ) -> Result<Option<OwnedInstance>, ExecutorError> {
        let Some(row) = self.ledger.claim(self.cluster, member.name()).await? else {
            return Ok(None);
        };
        let known = instances
            .iter()
            .find(|instance| instance.id == row.instance);
        if let Some(instance) = known {
            return Ok(Some(OwnedInstance::Known(instance.clone())));
        }
        let ids = std::slice::from_ref(&row.instance);
        let described = self.cloud.describe_instances(ids).await?;
        Ok(Some(match described.first() {
            Some(instance) if instance.state.is_alive() => OwnedInstance::Known(instance.into()),
            Some(_) => OwnedInstance::Dead,
            None if instance_of(&member.claim) == Some(row.instance.as_str()) => {
                OwnedInstance::OnlyInNodeClaim(row.instance)
            }
            None => OwnedInstance::Unlisted,
        }))
    }
}

/// Instance id in a provider id such as `aws:///zone/i-…`.
fn instance_of(claim: &NodeClaim) -> Option<&str> {
    claim.status.provider_id.rsplit('/').next()
}

/// The instance that a member owns, as far as EC2 lists it.
pub(crate) enum OwnedInstance {
    Known(InstanceDetails),
    /// EC2 does not list the instance, but the NodeClaim names it: its node may have joined long since.
    OnlyInNodeClaim(InstanceId),
    /// EC2 does not list the instance, which may be too new.
    Unlisted,
    Dead,
}

impl OwnedInstance {
    /// Whether this is the owned instance; an unlisted instance is none of those to assign.
    fn is_instance(&self, instance: &InstanceDetails) -> bool {
        matches!(self, Self::Known(known) if known.id == instance.id)
    }
}
