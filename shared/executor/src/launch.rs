use jiff::SignedDuration;
use model::{
    FreeAddresses,
    launch::{FleetRequest, Instance, LaunchRefusal},
    ledger::{Call, Intent, IntentState, Lease, PauseLevel},
};
use ports::{CloudError, ledger::Moved};

use crate::{
    Executor, LaunchFacts, Outcome, Postponed, Trouble,
    members::Member,
    naming,
    settle::{Answered, Facts},
    together::together,
};

/// The freezer starts no request later than this after its freeze (PROTOCOL A3).
pub(crate) const FREEZER_WINDOW: SignedDuration = SignedDuration::from_secs(30);

/// Launches that share one call.
struct Group {
    request: FleetRequest,
    attempt: u32,
    members: Vec<Member>,
    /// The only member's instance, where it needs none launched.
    existing: Option<Instance>,
}

impl Executor<'_> {
    /// Advances intents that this turn holds the lease of, from wherever they stand before a call to launched.
    pub async fn launch(&self, intents: Vec<Intent>, facts: &LaunchFacts<'_>) -> Outcome {
        let mut outcome = Outcome::default();
        let mut members = Vec::new();
        let claimed = together(intents, &mut outcome, |intent| async move {
            let (name, mut came) = (intent.name().clone(), Outcome::default());
            let claimed = self.claimed(intent, &mut came).await;
            ((name, claimed), came)
        });
        for (name, claimed) in claimed.await {
            match claimed {
                Ok(member) => members.extend(member),
                Err(trouble) => outcome.left(&name, trouble),
            }
        }
        let mut free = facts.free_addresses.clone();
        for group in self.group(members, facts, &mut outcome).await {
            if let Some(postponed) = outcome.postponed.clone() {
                self.postpone(&group.members, postponed, &mut outcome).await;
                continue;
            }
            match self.may_begin(PauseLevel::All).await {
                Ok(None) => {}
                Ok(Some(stop)) => {
                    outcome
                        .unfinished
                        .extend(group.members.iter().map(|member| member.name().clone()));
                    outcome.stopped = Some(stop);
                    continue;
                }
                Err(trouble) => {
                    leave(&group.members, &trouble, &mut outcome);
                    continue;
                }
            }
            let members = group.members.clone();
            if let Err(trouble) = self
                .launch_group(group, facts, &mut free, &mut outcome)
                .await
            {
                leave(&members, &trouble, &mut outcome);
            }
        }
        outcome
    }

    /// Groups launches with equal requests, in calls of bounded size; those that cannot be requested end here.
    async fn group(
        &self,
        members: Vec<Member>,
        facts: &LaunchFacts<'_>,
        outcome: &mut Outcome,
    ) -> Vec<Group> {
        let mut groups: Vec<Group> = Vec::new();
        for member in members {
            let request = match request(&member, facts, &facts.free_addresses) {
                Ok(request) => request,
                Err(refusal) => {
                    if let Err(trouble) = self.refuse(&member, &refusal, outcome).await {
                        outcome.left(member.name(), trouble);
                    }
                    continue;
                }
            };
            let attempt = member.attempt();
            let is_there = facts.existing.contains_key(member.name());
            let shares = |group: &&mut Group| {
                !is_there
                    && group.existing.is_none()
                    && group.attempt == attempt
                    && group.members.len() < Call::MEMBERS_MAX
                    && group.request == request
            };
            match groups.iter_mut().find(shares) {
                Some(group) => group.members.push(member),
                None => groups.push(Group {
                    request,
                    attempt,
                    existing: facts.existing.get(member.name()).cloned(),
                    members: vec![member],
                }),
            }
        }
        groups
    }

    async fn refuse(
        &self,
        member: &Member,
        refusal: &LaunchRefusal,
        outcome: &mut Outcome,
    ) -> Result<(), Trouble> {
        match refusal {
            // Nothing was asked of EC2, so there is no attempt to end.
            LaunchRefusal::Create { reason, message } => {
                outcome.left(member.name(), message);
                self.explain(member, reason, message).await
            }
            LaunchRefusal::InsufficientCapacity { .. }
            | LaunchRefusal::NodeClassNotReady { .. } => {
                self.end_with(member, refusal, outcome).await
            }
        }
    }

    /// Leaves launches that nothing was asked of EC2 for to whoever looks when there is budget again.
    async fn postpone(&self, members: &[Member], postponed: Postponed, outcome: &mut Outcome) {
        let now = self.clock.now();
        let ended = Lease {
            until: now,
            ..self.lease()
        };
        for member in members {
            let released = self
                .ledger
                .lease_intent(self.cluster, member.name(), &ended, now)
                .await;
            match released {
                Ok(_) => outcome.unfinished.push(member.name().clone()),
                // Its lease lapses by itself.
                Err(error) => outcome.left(member.name(), error),
            }
        }
        outcome.postponed = Some(postponed);
    }

    /// Prepares one call, freezes it (A2) and makes it.
    async fn launch_group(
        &self,
        group: Group,
        facts: &LaunchFacts<'_>,
        free: &mut FreeAddresses,
        outcome: &mut Outcome,
    ) -> Result<(), Trouble> {
        // The same request, by the addresses that the calls before it have left.
        let first = group.members.first();
        let placed = first.and_then(|member| request(member, facts, free).ok());
        let mut request = placed.unwrap_or(group.request);
        match self.cloud.ready(&request).await {
            Ok(()) => {}
            Err(CloudError::Postponed { action, until }) => {
                let postponed = Postponed { action, until };
                self.postpone(&group.members, postponed, outcome).await;
                return Ok(());
            }
            Err(
                error @ (CloudError::Throttled { .. }
                | CloudError::NotSent { .. }
                | CloudError::Unknown { .. }),
            ) => return Err(error.into()),
            Err(
                error @ (CloudError::NoCapacity { .. }
                | CloudError::Denied { .. }
                | CloudError::Invalid { .. }
                | CloudError::NotFound { .. }),
            ) => {
                let refusal = facts.builder.refused(&error.to_string());
                for member in &group.members {
                    self.refuse(member, &refusal, outcome).await?;
                }
                return Ok(());
            }
        }
        let token = naming::launch_token(group.members.iter().map(Member::uid), group.attempt);
        request
            .tags
            .insert(api::names::tag::LAUNCH.to_owned(), token.0.clone());
        request.token = token.clone();
        request.target_capacity = u32::try_from(group.members.len()).unwrap_or(u32::MAX);
        let call = Call {
            request,
            attempt: group.attempt,
            members: group
                .members
                .iter()
                .map(|member| member.name().clone())
                .collect(),
            frozen_at: self.clock.now(),
            lease: Some(self.lease()),
            closed: false,
        };
        if self.ledger.freeze(self.cluster, self.turn, &call).await? == Moved::No {
            outcome.unfinished.extend(call.members);
            return Ok(());
        }
        let launching = |mut member: Member| {
            let uid = member.uid().clone();
            member.intent.state = IntentState::Launching {
                uid,
                attempt: group.attempt,
                token: token.clone(),
            };
            member
        };
        let members: Vec<Member> = group.members.into_iter().map(launching).collect();
        if let Some(existing) = &group.existing {
            let instances = [Facts::from(existing)];
            let left = self
                .hand_out(&call, members, &instances, facts, outcome)
                .await?;
            for member in &left {
                let why = "the instance that was left for it is another's";
                self.end_attempt(member, "LaunchFailed", why, outcome)
                    .await?;
            }
            return self.close(&call).await;
        }
        let class = facts.classes.get(&call.request.node_class);
        let types = class.map_or(&[][..], |class| class.types.as_slice());
        let needed = FreeAddresses::needed(&call.request, types);
        free.take(&needed);
        let not_after = call.frozen_at + FREEZER_WINDOW;
        let sent = self
            .request(&call, members, not_after, facts, outcome)
            .await?;
        match sent {
            Sent::Answered(answered) => {
                let used: Vec<&str> = answered.subnets.iter().map(String::as_str).collect();
                free.give_back(&needed, &used);
                answered.full.iter().for_each(|subnet| free.exhaust(subnet));
            }
            // The addresses may be taken.
            Sent::Unanswered => {}
            // Nobody else may have sent it: the next attempt need not wait until that is certain.
            Sent::Not(members, why) => {
                free.give_back(&needed, &[]);
                for member in &members {
                    self.end_attempt(member, "LaunchFailed", &why, outcome)
                        .await?;
                }
                self.close(&call).await?;
            }
        }
        Ok(())
    }

    /// Sends a frozen request and sees to its answer.
    pub(crate) async fn request(
        &self,
        call: &Call,
        members: Vec<Member>,
        not_after: jiff::Timestamp,
        facts: &LaunchFacts<'_>,
        outcome: &mut Outcome,
    ) -> Result<Sent, Trouble> {
        let token = &call.request.token;
        tracing::info!(%token, claims = call.members.len(), attempt = call.attempt, "CreateFleet");
        match self
            .cloud
            .launch(&call.request, not_after.min(self.deadline))
            .await
        {
            Ok(answer) => {
                let settled = self
                    .settle_answer(call, members, answer, facts, outcome)
                    .await?;
                Ok(Sent::Answered(settled))
            }
            Err(CloudError::NoCapacity { code, message }) => {
                let why = format!("{code}: {message}");
                for member in &members {
                    self.fail(member, &why, Some("InsufficientCapacityError"), outcome)
                        .await?;
                }
                self.close(call).await?;
                Ok(Sent::Answered(Answered::default()))
            }
            Err(
                error @ (CloudError::Denied { .. }
                | CloudError::Invalid { .. }
                | CloudError::NotFound { .. }),
            ) => {
                let refusal = facts.builder.refused(&error.to_string());
                for member in &members {
                    self.end_with(member, &refusal, outcome).await?;
                }
                self.close(call).await?;
                Ok(Sent::Answered(Answered::default()))
            }
            Err(CloudError::Postponed { action, until }) => {
                // The request may have been sent before it was to be repeated: the frozen call is resumed (A3).
                let postponed = Postponed { action, until };
                for member in &members {
                    outcome.left(member.name(), &postponed);
                }
                outcome.postponed = Some(postponed);
                Ok(Sent::Unanswered)
            }
            Err(error @ CloudError::NotSent { .. }) => Ok(Sent::Not(members, error.to_string())),
            Err(error @ (CloudError::Throttled { .. } | CloudError::Unknown { .. })) => {
                let trouble = Trouble::from(error);
                leave(&members, &trouble, outcome);
                Ok(Sent::Unanswered)
            }
        }
    }

    pub(crate) async fn close(&self, call: &Call) -> Result<(), Trouble> {
        self.ledger
            .close_call(self.cluster, &call.request.token, self.turn)
            .await?;
        Ok(())
    }
}

/// What became of a frozen request.
pub(crate) enum Sent {
    Answered(Answered),
    /// The call stays open for a resumer.
    Unanswered,
    /// Not now, for this reason, and so its members have nothing of it.
    Not(Vec<Member>, String),
}

fn request(
    member: &Member,
    facts: &LaunchFacts<'_>,
    free: &FreeAddresses,
) -> Result<FleetRequest, LaunchRefusal> {
    let launch = &member.intent.launch;
    let name = &launch.spec.node_class.name;
    let Some(class) = facts.classes.get(name) else {
        return Err(LaunchRefusal::InsufficientCapacity {
            message: format!("EC2NodeClass {name} does not exist"),
        });
    };
    let overlaid = facts.overlaid.get(&launch.node_pool);
    let types = overlaid.unwrap_or(&class.types);
    facts.builder.request(launch, &class.object, types, free)
}

pub(crate) fn leave(members: &[Member], problem: &impl ToString, outcome: &mut Outcome) {
    for member in members {
        outcome.left(member.name(), problem.to_string());
    }
}
