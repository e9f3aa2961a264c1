//! Launching: which launches share a call of CreateFleet, and how many calls are under way at a time.

use model::{
    launch::LaunchRefusal,
    ledger::{Call, Intent, Lease, PauseLevel},
};
use ports::CloudError;

use crate::{
    Executor, LaunchError, LaunchFacts, Outcome, Postponed, Trouble,
    call::{Common, Group, request},
    members::Member,
    together::{each_at_once, together},
};

/// Calls under way at a time: EC2 takes this many at once, and answers each after a second or more.
const AT_ONCE: usize = 5;

impl Executor<'_> {
    /// Advances intents that this turn holds the lease of, from any state before a call to launched.
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
        let groups = self.group(members, facts, &mut outcome).await;
        let common = Common::new(facts.free_addresses.clone());
        let begun = each_at_once(AT_ONCE, groups, |group| async {
            let mut came = Outcome::default();
            self.begin(group, facts, &common, &mut came).await;
            came
        });
        for came in begun.await {
            outcome.absorb(came);
        }
        outcome
    }

    /// Makes one call, unless that is postponed.
    async fn begin(
        &self,
        group: Group,
        facts: &LaunchFacts<'_>,
        common: &Common,
        outcome: &mut Outcome,
    ) {
        let members = group.members.clone();
        if let Some(postponed) = common.postponed.get() {
            return self.postpone(&members, postponed.clone(), outcome).await;
        }
        let pools: Vec<_> = members.iter().map(Member::node_pool).collect();
        let begun = match self.may_begin(PauseLevel::All, &pools).await {
            Ok(None) => self.launch_group(group, facts, common, outcome).await,
            Ok(Some(stop)) => {
                let left = members.iter().map(|member| member.name().clone());
                outcome.unfinished.extend(left);
                outcome.stopped = Some(stop);
                Ok(())
            }
            Err(trouble) => Err(trouble),
        };
        if let Err(trouble) = begun {
            leave_after(&members, &trouble, outcome);
        }
        if let Some(postponed) = &outcome.postponed {
            common.postponed.get_or_init(|| postponed.clone());
        }
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

    pub(crate) async fn refuse(
        &self,
        member: &Member,
        refusal: &LaunchRefusal,
        outcome: &mut Outcome,
    ) -> Result<(), Trouble> {
        match refusal {
            // Nothing was requested from EC2, so there is no attempt to end.
            LaunchRefusal::Create { reason, message } => {
                outcome.errors.push(refusal.into());
                outcome.left(member.name(), message);
                self.explain(member, reason, message).await
            }
            LaunchRefusal::InsufficientCapacity { .. }
            | LaunchRefusal::NodeClassNotReady { .. } => {
                self.end_with(member, refusal, outcome).await
            }
        }
    }

    /// Postpones launches that were not requested from EC2: their leases end, so that a turn with budget resumes them.
    pub(crate) async fn postpone(
        &self,
        members: &[Member],
        postponed: Postponed,
        outcome: &mut Outcome,
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
pub(crate) fn leave_after(members: &[Member], trouble: &Trouble, outcome: &mut Outcome) {
    if let Trouble::Cloud(error) = trouble
        && !matches!(error, CloudError::NotSent { .. })
    {
        let errors = members.iter().map(|_| LaunchError::Unclassified);
        outcome.errors.extend(errors);
    }
    leave(members, trouble, outcome);
}

pub(crate) fn leave(members: &[Member], problem: &impl ToString, outcome: &mut Outcome) {
    for member in members {
        outcome.left(member.name(), problem.to_string());
    }
}
