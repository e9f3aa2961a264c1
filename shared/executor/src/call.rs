//! One call of CreateFleet: prepared, frozen (docs/protocol.md#a2), sent, and its answer settled.

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use api::names::tag;
use jiff::SignedDuration;
use model::{
    FreeAddresses, Uid,
    ids::LaunchToken,
    launch::{FleetRequest, Instance, LaunchRefusal},
    ledger::{Call, IntentState},
};
use ports::{CloudError, ledger::Moved};

use crate::{
    ExecutionOutcome, Executor, ExecutorError, LaunchError, LaunchInputs, Postponed,
    launch::leave_unfinished_after,
    members::Member,
    naming,
    settle::{InstanceDetails, SubnetUse},
};

/// Time after its freeze within which the freezer starts a request (docs/protocol.md#a3).
pub(crate) const FREEZER_WINDOW: SignedDuration = SignedDuration::from_secs(30);

/// Launches that share one call.
pub(crate) struct Group {
    pub(crate) request: FleetRequest,
    pub(crate) attempt: u32,
    pub(crate) members: Vec<Member>,
    /// The only member's instance, if it needs none launched.
    pub(crate) existing: Option<Instance>,
}

/// State shared by calls that are under way together.
pub(crate) struct SharedState {
    /// Free addresses that the calls leave.
    free: Mutex<FreeAddresses>,
    /// Reason why no other call is begun.
    pub(crate) postponed: OnceLock<Postponed>,
}

impl SharedState {
    pub(crate) fn new(free: FreeAddresses) -> Self {
        Self {
            free: Mutex::new(free),
            postponed: OnceLock::new(),
        }
    }

    fn free(&self) -> MutexGuard<'_, FreeAddresses> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Executor<'_> {
    /// Prepares one call, freezes it (docs/protocol.md#a2) and sends it.
    pub(crate) async fn launch_group(
        &self,
        group: Group,
        inputs: &LaunchInputs<'_>,
        shared: &SharedState,
        outcome: &mut ExecutionOutcome,
    ) -> Result<(), ExecutorError> {
        let token = naming::launch_token(group.members.iter().map(Member::uid), group.attempt);
        let (request, needed) = placed(&group, self.uid, token.clone(), inputs, shared);
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
                let refusal = inputs.builder.refused(&error.to_string());
                for member in &group.members {
                    let refused = self.refuse(member, &refusal, outcome).await;
                    outcome.isolate(member.name(), refused)?;
                }
                return Ok(());
            }
        }
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
            let instances = [InstanceDetails::from(existing)];
            let left = self
                .assign_and_show(&call, members, &instances, inputs, outcome)
                .await?;
            for member in &left {
                let why = "the remaining instance of the launch belongs to another NodeClaim";
                let ended = self.end_attempt(member, "LaunchFailed", why, outcome);
                let ended = ended.await;
                outcome.isolate(member.name(), ended)?;
            }
            return self.close(&call).await;
        }
        let not_after = call.frozen_at + FREEZER_WINDOW;
        let sent = self
            .request(&call, members, not_after, inputs, outcome)
            .await?;
        match sent {
            SendOutcome::Answered(answered) => {
                self.close(&call).await?;
                let used: Vec<&str> = answered.subnets.iter().map(String::as_str).collect();
                let mut free = shared.free();
                free.give_back(&needed, &used);
                answered.full.iter().for_each(|subnet| free.exhaust(subnet));
            }
            // The addresses may be taken.
            SendOutcome::Unanswered => {}
            // No other turn may have sent the request: the next attempt need not wait until that is certain.
            SendOutcome::NotSent(members, why) => {
                shared.free().give_back(&needed, &[]);
                for member in &members {
                    let ended = self.end_attempt(member, "LaunchFailed", &why, outcome);
                    let ended = ended.await;
                    outcome.isolate(member.name(), ended)?;
                }
                self.close(&call).await?;
            }
        }
        Ok(())
    }

    /// Sends a frozen request and settles its answer. The caller closes the call if it was answered.
    pub(crate) async fn request(
        &self,
        call: &Call,
        members: Vec<Member>,
        not_after: jiff::Timestamp,
        inputs: &LaunchInputs<'_>,
        outcome: &mut ExecutionOutcome,
    ) -> Result<SendOutcome, ExecutorError> {
        let token = &call.request.token;
        tracing::info!(%token, claims = call.members.len(), attempt = call.attempt, "sending CreateFleet request");
        let begun = self.clock.now();
        let deadline = not_after.min(self.deadline);
        let answer = self.cloud.launch(&call.request, deadline).await;
        let is_unsent = matches!(
            answer,
            Err(CloudError::Postponed { .. } | CloudError::NotSent { .. })
        );
        if !is_unsent {
            let took = self.clock.now().duration_since(begun);
            outcome.requests.push(took);
        }
        match answer {
            Ok(answer) => {
                let settled = self
                    .settle_answer(call, members, answer, inputs, outcome)
                    .await?;
                Ok(SendOutcome::Answered(settled))
            }
            Err(CloudError::NoCapacity { code, message }) => {
                let why = format!("{code}: {message}");
                for member in &members {
                    let reason = Some("InsufficientCapacityError");
                    outcome.errors.push(LaunchError::InsufficientCapacity);
                    let failed = self.fail(member, &why, reason, outcome).await;
                    outcome.isolate(member.name(), failed)?;
                }
                Ok(SendOutcome::Answered(SubnetUse::default()))
            }
            Err(
                error @ (CloudError::Denied { .. }
                | CloudError::Invalid { .. }
                | CloudError::NotFound { .. }),
            ) => {
                let refusal = inputs.builder.refused(&error.to_string());
                for member in &members {
                    let ended = self.end_with_refusal(member, &refusal, outcome).await;
                    outcome.isolate(member.name(), ended)?;
                }
                Ok(SendOutcome::Answered(SubnetUse::default()))
            }
            Err(CloudError::Postponed { action, until }) => {
                // The request may have been sent before it was to be repeated: the frozen call is resumed (docs/protocol.md#a3).
                let postponed = Postponed { action, until };
                for member in &members {
                    outcome.left(member.name(), &postponed);
                }
                outcome.postponed = Some(postponed);
                Ok(SendOutcome::Unanswered)
            }
            Err(error @ CloudError::NotSent { .. }) => {
                Ok(SendOutcome::NotSent(members, error.to_string()))
            }
            Err(error @ (CloudError::Throttled { .. } | CloudError::Unknown { .. })) => {
                let error = ExecutorError::from(error);
                leave_unfinished_after(&members, &error, outcome);
                Ok(SendOutcome::Unanswered)
            }
        }
    }

    pub(crate) async fn close(&self, call: &Call) -> Result<(), ExecutorError> {
        self.ledger
            .close_call(self.cluster, &call.request.token, self.turn)
            .await?;
        Ok(())
    }
}

/// ExecutionOutcome of a frozen request.
pub(crate) enum SendOutcome {
    Answered(SubnetUse),
    /// The call stays open for a resumer.
    Unanswered,
    /// The request was not sent, for this reason, so its members have no instances.
    NotSent(Vec<Member>, String),
}

/// The request of a group for the addresses that the other calls leave, and the number that it takes itself. Addresses of a
/// failed request count as taken for the rest of the turn: that only steers other calls to other subnets.
fn placed(
    group: &Group,
    uid: Option<&Uid>,
    token: LaunchToken,
    inputs: &LaunchInputs<'_>,
    shared: &SharedState,
) -> (FleetRequest, FreeAddresses) {
    let mut free = shared.free();
    let first = group.members.first();
    let placed = first.and_then(|member| request(member, inputs, &free).ok());
    let mut request = placed.unwrap_or_else(|| group.request.clone());
    let launch = (tag::LAUNCH.to_owned(), token.0.clone());
    let of_cluster = uid.map(|uid| (tag::CLUSTER_UID.to_owned(), uid.to_string()));
    request.tags.extend([launch].into_iter().chain(of_cluster));
    request.token = token;
    request.target_capacity = u32::try_from(group.members.len()).unwrap_or(u32::MAX);
    let class = inputs.classes.get(&request.node_class);
    let types = class.map_or(&[][..], |class| class.types.as_slice());
    let needed = match group.existing {
        Some(_) => FreeAddresses::default(),
        None => FreeAddresses::needed(&request, types),
    };
    free.take(&needed);
    (request, needed)
}

pub(crate) fn request(
    member: &Member,
    inputs: &LaunchInputs<'_>,
    free: &FreeAddresses,
) -> Result<FleetRequest, LaunchRefusal> {
    let launch = &member.intent.launch;
    let name = &launch.spec.node_class.name;
    let Some(class) = inputs.classes.get(name) else {
        return Err(LaunchRefusal::InsufficientCapacity {
            message: format!("EC2NodeClass {name} does not exist"),
        });
    };
    let overlaid = inputs.overlaid.get(&launch.node_pool);
    let types = overlaid.unwrap_or(&class.types);
    inputs.builder.request(launch, &class.object, types, free)
}
