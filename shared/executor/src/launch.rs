//! Launching: which launches share a call of CreateFleet, and how many calls are under way at a time.

use model::{
    launch::LaunchRefusal,
    ledger::{Call, Intent, Lease, PauseLevel},
};
use ports::CloudError;

use crate::{
    ExecutionOutcome, Executor, ExecutorError, LaunchError, LaunchInputs, Postponed,
    call::{Group, SharedState, request},
    concurrent::{each_limited, each_with_outcome},
    members::Member,
};

/// Calls under way at a time: EC2 takes this many concurrently, and answers each after a second or more.
const CONCURRENT_CALLS: usize = 5;

impl Executor<'_> {
    /// Advances intents that this turn holds the lease of, from any state before a call to launched.
    pub async fn launch(
        &self,
        intents: Vec<Intent>,
        inputs: &LaunchInputs<'_>,
    ) -> ExecutionOutcome {
        let mut outcome = ExecutionOutcome::default();
        let mut members = Vec::new();
        let claimed = each_with_outcome(intents, &mut outcome, |intent| async move {
            let (name, mut own) = (intent.name().clone(), ExecutionOutcome::default());
            let claimed = self.claimed(intent, &mut own).await;
            ((name, claimed), own)
        });
        for (name, claimed) in claimed.await {
            match claimed {
                Ok(member) => members.extend(member),
                Err(error) => outcome.left(&name, error),
            }
        }
        let groups = self.group(members, inputs, &mut outcome).await;
        let shared = SharedState::new(inputs.free_addresses.clone());
        let begun = each_limited(CONCURRENT_CALLS, groups, |group| async {
            let mut own = ExecutionOutcome::default();
            self.begin_call(group, inputs, &shared, &mut own).await;
            own
        });
        for own in begun.await {
            outcome.absorb(own);
        }
        outcome
    }

    /// Makes one call, unless that is postponed.
    async fn begin_call(
        &self,
        group: Group,
        inputs: &LaunchInputs<'_>,
        shared: &SharedState,
        outcome: &mut ExecutionOutcome,
    ) {
        let members = group.members.clone();
        if let Some(postponed) = shared.postponed.get() {
            return self.postpone(&members, postponed.clone(), outcome).await;
        }
        let pools: Vec<_> = members.iter().map(Member::node_pool).collect();
        let begun = match self.may_begin(PauseLevel::All, &pools).await {
            Ok(None) => self.launch_group(group, inputs, shared, outcome).await,
            Ok(Some(stop)) => {
                let left = members.iter().map(|member| member.name().clone());
                outcome.unfinished.extend(left);
                outcome.stopped = Some(stop);
                Ok(())
            }
            Err(error) => Err(error),
        };
        if let Err(error) = begun {
            leave_unfinished_after(&members, &error, outcome);
        }
        if let Some(postponed) = &outcome.postponed {
            shared.postponed.get_or_init(|| postponed.clone());
        }
    }

    /// Groups launches with equal requests, in calls of bounded size; those that cannot be requested end here.
    async fn group(
        &self,
        members: Vec<Member>,
        inputs: &LaunchInputs<'_>,
        outcome: &mut ExecutionOutcome,
    ) -> Vec<Group> {
        let mut groups: Vec<Group> = Vec::new();
        for member in members {
            let request = match request(&member, inputs, &inputs.free_addresses) {
                Ok(request) => request,
                Err(refusal) => {
                    if let Err(error) = self.refuse(&member, &refusal, outcome).await {
                        outcome.left(member.name(), error);
                    }
                    continue;
                }
            };
            let attempt = member.attempt();
            let is_there = inputs.existing.contains_key(member.name());
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
                    existing: inputs.existing.get(member.name()).cloned(),
                    members: vec![member],
                }),
            }
        }
        groups
    }

    pub(crate) async fn refuse(
        &self,
        member: &Member,
        refusal: &LaunchRefusal,
        outcome: &mut ExecutionOutcome,
    ) -> Result<(), ExecutorError> {
        match refusal {
            // Nothing was requested from EC2, so there is no attempt to end.
            LaunchRefusal::Create { reason, message } => {
                outcome.errors.push(refusal.into());
                outcome.left(member.name(), message);
                self.explain(member, reason, message).await
            }
            LaunchRefusal::InsufficientCapacity { .. }
            | LaunchRefusal::NodeClassNotReady { .. } => {
                self.end_with_refusal(member, refusal, outcome).await
            }
        }
    }

    /// Postpones launches that were not requested from EC2: their leases end, so that a turn with budget resumes them.
    pub(crate) async fn postpone(
        &self,
        members: &[Member],
        postponed: Postponed,
        outcome: &mut ExecutionOutcome,
    ) {
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
                // The intent's lease lapses by itself.
                Err(error) => outcome.left(member.name(), error),
            }
        }
        outcome.postponed = Some(postponed);
    }
}

/// Leaves launches whose call failed, or could not be made.
pub(crate) fn leave_unfinished_after(
    members: &[Member],
    error: &ExecutorError,
    outcome: &mut ExecutionOutcome,
) {
    if let ExecutorError::Cloud(error) = error
        && !matches!(error, CloudError::NotSent { .. })
    {
        let errors = members.iter().map(|_| LaunchError::Unclassified);
        outcome.errors.extend(errors);
    }
    leave_unfinished(members, error, outcome);
}

pub(crate) fn leave_unfinished(
    members: &[Member],
    problem: &impl ToString,
    outcome: &mut ExecutionOutcome,
) {
    for member in members {
        outcome.left(member.name(), problem.to_string());
    }
}
