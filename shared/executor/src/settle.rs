//! Settlement of a launch call: facts first, then ownership, then the NodeClaims.

use std::collections::{BTreeMap, BTreeSet};

use api::conditions::types::LAUNCHED;
use model::{
    InstanceId, labels,
    launch::{FleetResponse, Instance, LaunchRefusal, Launched, LaunchedClaim},
    ledger::{Call, IntentState},
    node_claim::NodeClaim,
    plan::NodeClaimUpdate,
};
use ports::cluster::{Event, EventKind, EventTarget};

use crate::{
    ExecutionOutcome, Executor, ExecutorError, LackingOffering, LaunchInputs,
    concurrent::each_with_outcome,
    members::{Member, update_of},
    ownership::OwnedInstance,
};

/// The details of an instance that its NodeClaim shows.
#[derive(Clone, Debug)]
pub(crate) struct InstanceDetails {
    pub id: InstanceId,
    launched: Launched,
    /// The capacity reservation that it runs in, if EC2 has reported it.
    reservation: Option<String>,
}

impl From<&Launched> for InstanceDetails {
    fn from(launched: &Launched) -> Self {
        Self {
            id: launched.instance.clone(),
            launched: launched.clone(),
            reservation: None,
        }
    }
}

impl From<&Instance> for InstanceDetails {
    fn from(instance: &Instance) -> Self {
        Self {
            id: instance.id.clone(),
            launched: Launched {
                instance: instance.id.clone(),
                instance_type: instance.instance_type.clone(),
                zone: instance.zone.clone(),
                capacity_type: instance.capacity_type,
                image: instance.image.clone(),
                subnet: instance.subnet.clone(),
            },
            reservation: instance.reservation.clone(),
        }
    }
}

/// Subnets in an answer.
#[derive(Default)]
pub(crate) struct SubnetUse {
    /// Subnets that instances were launched into.
    pub(crate) subnets: Vec<String>,
    /// Subnets without a free address.
    pub(crate) full: BTreeSet<String>,
}

impl Executor<'_> {
    /// Settles CreateFleet's own answer: the only proof that some members got nothing (docs/protocol.md#a4).
    pub(crate) async fn settle_answer(
        &self,
        call: &Call,
        members: Vec<Member>,
        answer: FleetResponse,
        inputs: &LaunchInputs<'_>,
        outcome: &mut ExecutionOutcome,
    ) -> Result<SubnetUse, ExecutorError> {
        let zone_ids = zone_ids(inputs);
        let reading = inputs.builder.read(&call.request, &answer, &zone_ids);
        let failures = answer.failures.iter();
        outcome.lacking.extend(failures.map(|failure| {
            let zone_id = zone_ids.get(failure.zone.as_str()).copied();
            LackingOffering {
                zone: failure.zone.clone(),
                zone_id: zone_id.unwrap_or_default().to_owned(),
                capacity_type: call.request.capacity_type,
                code: failure.code.clone(),
            }
        }));
        for offering in &reading.unavailable {
            self.ledger
                .mark_unavailable(offering, self.clock.now())
                .await?;
        }
        for subnet in &reading.full_subnets {
            self.ledger.mark_full(subnet, self.clock.now()).await?;
        }
        let instances: Vec<InstanceDetails> = answer.instances.iter().map(Into::into).collect();
        let left = self
            .assign_and_show(call, members, &instances, inputs, outcome)
            .await?;
        for member in &left {
            if let Some(warning) = &reading.warning {
                outcome.events.push(Event {
                    about: EventTarget::NodeClaim(member.name().clone(), member.uid().clone()),
                    kind: EventKind::Warning,
                    reason: warning.reason.to_owned(),
                    message: warning.message.to_owned(),
                    at: self.clock.now(),
                });
            }
            let ended = self
                .end_with_refusal(member, &reading.refusal, outcome)
                .await;
            outcome.isolate(member.name(), ended)?;
        }
        let launched = answer.instances.into_iter();
        Ok(SubnetUse {
            subnets: launched.filter_map(|launched| launched.subnet).collect(),
            full: reading.full_subnets,
        })
    }

    /// Ends an attempt for which EC2's answer has no instance for this member.
    pub(crate) async fn end_with_refusal(
        &self,
        member: &Member,
        refusal: &LaunchRefusal,
        outcome: &mut ExecutionOutcome,
    ) -> Result<(), ExecutorError> {
        outcome.errors.push(refusal.into());
        match refusal {
            LaunchRefusal::InsufficientCapacity { message } => {
                self.fail(member, message, Some("InsufficientCapacityError"), outcome)
                    .await
            }
            LaunchRefusal::NodeClassNotReady { message } => {
                self.fail(member, message, None, outcome).await
            }
            LaunchRefusal::Create { reason, message } => {
                self.end_attempt(member, reason, message, outcome).await
            }
        }
    }

    /// Assigns instances to members (docs/protocol.md#a4) and shows them on their NodeClaims; returns the members that got
    /// none. A member whose instance is not listed yet does not change, regardless of the call; the launch of a member
    /// whose instance died is over, because its records name that instance permanently.
    pub(crate) async fn assign_and_show(
        &self,
        call: &Call,
        members: Vec<Member>,
        instances: &[InstanceDetails],
        inputs: &LaunchInputs<'_>,
        outcome: &mut ExecutionOutcome,
    ) -> Result<Vec<Member>, ExecutorError> {
        let mut owned = self.assign(call, &members, instances).await?;
        let mut owners = Vec::new();
        let mut left = Vec::new();
        for member in members {
            match owned.remove(member.name()) {
                Some(owned) => owners.push((member, owned)),
                None => left.push(member),
            }
        }
        let ended = each_with_outcome(&owners, outcome, |(member, owned)| async move {
            let mut own = ExecutionOutcome::default();
            let ended = self.end_launch(call, member, owned, inputs, &mut own).await;
            (ended, own)
        });
        let ended: Vec<Result<(), ExecutorError>> = ended.await;
        for ((member, _), ended) in owners.iter().zip(ended) {
            outcome.isolate(member.name(), ended)?;
        }
        Ok(left)
    }

    /// Ends the launch of a member that owns an instance.
    async fn end_launch(
        &self,
        call: &Call,
        member: &Member,
        owned: &OwnedInstance,
        inputs: &LaunchInputs<'_>,
        outcome: &mut ExecutionOutcome,
    ) -> Result<(), ExecutorError> {
        let why = match owned {
            OwnedInstance::Known(instance) => {
                return self.show(call, member, instance, inputs, outcome).await;
            }
            OwnedInstance::OnlyInNodeClaim(instance) => {
                return self.launched(member, instance, outcome).await;
            }
            OwnedInstance::Unlisted if !self.is_overdue(call) => {
                outcome.left(member.name(), "EC2 does not list its instance yet");
                return Ok(());
            }
            OwnedInstance::Unlisted => "EC2 did not list its instance within the launch timeout",
            OwnedInstance::Dead => "its instance terminated while it was being launched",
        };
        self.fail(member, why, None, outcome).await
    }

    /// Whether a call's attempts are past the launch time-out (docs/protocol.md#a3).
    pub(crate) fn is_overdue(&self, call: &Call) -> bool {
        self.clock.now().duration_since(call.frozen_at) >= self.launch_timeout
    }

    /// Writes the instance to the NodeClaim's status, then ends the launch.
    async fn show(
        &self,
        call: &Call,
        member: &Member,
        instance: &InstanceDetails,
        inputs: &LaunchInputs<'_>,
        outcome: &mut ExecutionOutcome,
    ) -> Result<(), ExecutorError> {
        let class = inputs
            .classes
            .get(&member.intent.launch.spec.node_class.name);
        let name = &instance.launched.instance_type;
        let known = class.and_then(|class| {
            let instance_type = class
                .types
                .iter()
                .find(|instance_type| instance_type.name == *name)?;
            Some((&class.object, instance_type))
        });
        let shown = known.map(|(class, instance_type)| {
            let reservation = instance.reservation.as_deref();
            let launch = &member.intent.launch;
            let builder = inputs.builder;
            builder.launched(
                launch,
                class,
                instance_type,
                &instance.launched,
                reservation,
            )
        });
        let updated = self
            .update(member, |claim, set| {
                set.set_true(LAUNCHED);
                NodeClaimUpdate {
                    set_annotations: call.request.claim_annotations.clone(),
                    ..details(claim, instance, shown.clone())
                }
            })
            .await?;
        // A NodeClaim that is being deleted is finished by the terminator: the instance is recorded (docs/protocol.md#a5).
        if updated.is_none_or(|claim| claim.deleted_at.is_some()) {
            outcome.left(member.name(), "it was deleted while it was being launched");
            return Ok(());
        }
        self.launched(member, &instance.id, outcome).await
    }

    /// Ends a launch whose NodeClaim shows its instance.
    async fn launched(
        &self,
        member: &Member,
        instance: &InstanceId,
        outcome: &mut ExecutionOutcome,
    ) -> Result<(), ExecutorError> {
        let launched = IntentState::Launched {
            instance: instance.clone(),
        };
        if self.advance(&member.intent, launched).await?.is_some() {
            tracing::info!(node_claim = %member.name(), %instance, "instance launched");
            outcome.events.push(Event {
                about: EventTarget::NodeClaim(member.name().clone(), member.uid().clone()),
                kind: EventKind::Normal,
                reason: LAUNCHED.to_owned(),
                message: "Status condition transitioned, Type: Launched, Status: Unknown -> True, Reason: Launched"
                    .to_owned(),
                at: self.clock.now(),
            });
            outcome
                .launched
                .push((member.name().clone(), instance.clone()));
        }
        Ok(())
    }
}

/// Details of a NodeClaim's instance (docs/spec/lifecycle.md#launch); the NodeClaim's own labels win.
fn details(
    claim: &NodeClaim,
    instance: &InstanceDetails,
    shown: Option<LaunchedClaim>,
) -> NodeClaimUpdate {
    let known = shown.is_some();
    let LaunchedClaim {
        mut labels,
        capacity,
        allocatable,
        ..
    } = shown.unwrap_or_default();
    let launched = &instance.launched;
    labels.extend([
        (
            labels::INSTANCE_TYPE.to_owned(),
            launched.instance_type.clone(),
        ),
        (labels::ZONE.to_owned(), launched.zone.clone()),
        (
            labels::CAPACITY_TYPE.to_owned(),
            launched.capacity_type.as_str().to_owned(),
        ),
    ]);
    labels.retain(|key, _| !claim.labels.contains_key(key));
    NodeClaimUpdate {
        set_labels: labels,
        provider_id: Some(format!("aws:///{}/{}", launched.zone, instance.id)),
        image_id: Some(launched.image.clone()),
        capacity: known.then_some(capacity),
        allocatable: known.then_some(allocatable),
        ..update_of(claim)
    }
}

fn zone_ids<'a>(inputs: &'a LaunchInputs<'_>) -> BTreeMap<&'a str, &'a str> {
    let offerings = inputs
        .classes
        .values()
        .flat_map(|class| class.types.iter())
        .flat_map(|instance_type| &instance_type.offerings);
    offerings
        .map(|offering| (offering.zone.as_str(), offering.zone_id.as_str()))
        .collect()
}
