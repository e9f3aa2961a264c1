//! Lifecycle hooks of Auto Scaling groups, which hold an instance until its node is drained.

use jiff::Timestamp;
use model::{InstanceId, Snapshot, interruption::LifecycleHook, ledger::Notice};
use ports::{CloudError, LedgerError, cluster::EventTarget};

use super::RECHECK_AFTER;
use crate::{
    Report,
    act::backoff::Backoff,
    context::{
        Turn,
        node_claims::{instance_of, target_of},
    },
};

/// Prefix of ledger keys of calls, with their instances, that a lifecycle hook refused a short while ago.
const REFUSED_PREFIX: &str = "hook-refused/";

/// Calls for lifecycle hooks. A call that fails keeps no other node waiting, whatever the reason: Auto Scaling is called for
/// nothing else.
pub(super) struct Hooks<'t> {
    turn: &'t Turn<'t>,
    snapshot: &'t Snapshot,
    backoff: Option<Backoff<'t>>,
}

impl<'t> Hooks<'t> {
    pub(super) fn new(turn: &'t Turn<'t>, snapshot: &'t Snapshot) -> Self {
        Self {
            turn,
            snapshot,
            backoff: None,
        }
    }

    /// Lets the instance of a notice end. Returns whether no hook holds it any more.
    pub(super) async fn complete(
        &mut self,
        notice: &Notice,
        report: &mut Report,
    ) -> Result<bool, LedgerError> {
        let cloud = &self.turn.world.cloud;
        let call = |hook| cloud.complete_hook(&notice.instance, hook);
        let since = notice.at.unwrap_or(self.turn.now);
        self.call("complete", since, notice, call, report).await
    }

    /// Restarts the time-out of the hook that holds the instance of a notice.
    pub(super) async fn extend(
        &mut self,
        notice: &Notice,
        report: &mut Report,
    ) -> Result<(), LedgerError> {
        let cloud = &self.turn.world.cloud;
        let call = |hook| cloud.extend_hook(&notice.instance, hook);
        // The hook's time-out, often a few minutes, bounds the time between two attempts.
        let since = self.turn.now;
        let called = self.call("extend", since, notice, call, report).await;
        called.map(drop)
    }

    /// Calls Auto Scaling for the notice's hook, unless it refused the same a short while ago. Returns whether it succeeded. A
    /// refused extension does not hold back the completion.
    async fn call<'n, F>(
        &mut self,
        name: &str,
        since: Timestamp,
        notice: &'n Notice,
        call: impl FnOnce(&'n LifecycleHook) -> F,
        report: &mut Report,
    ) -> Result<bool, LedgerError>
    where
        F: Future<Output = Result<(), CloudError>>,
    {
        let Some(hook) = &notice.hook else {
            return Ok(true);
        };
        let (turn, instance) = (self.turn, &notice.instance);
        let refused = format!("{name}/{instance}");
        let backoff = match &mut self.backoff {
            Some(backoff) => backoff,
            unread => unread.insert(Backoff::read(turn, REFUSED_PREFIX).await?),
        };
        if backoff.holds(&refused, since, report) {
            return Ok(false);
        }
        let called = call(hook).await;
        let isolated = match subject_of(self.snapshot, instance) {
            Some(about) => report.isolate(&about, called),
            None => report.isolate_unseen(format!("hook of {instance}"), called),
        };
        match isolated {
            Ok(Some(())) => return Ok(true),
            Ok(None) => backoff.record_refusal(&refused, since).await?,
            Err(error) => {
                report.problems.push(format!("hook of {instance}: {error}"));
                report.run_again_at(turn.now + RECHECK_AFTER * 2);
            }
        }
        Ok(false)
    }
}

/// The Node of an instance, or else its NodeClaim.
fn subject_of(snapshot: &Snapshot, instance: &InstanceId) -> Option<EventTarget> {
    let id = instance.as_str();
    let mut nodes = snapshot.nodes.iter();
    let node = nodes.find(|node| node.provider_id.rsplit('/').next() == Some(id));
    let of_node = node.map(|node| EventTarget::Node(node.name.clone(), node.uid.clone()));
    of_node.or_else(|| {
        let mut claims = snapshot.node_claims.iter();
        let claim = claims.find(|claim| instance_of(claim).as_ref() == Some(instance));
        claim.map(target_of)
    })
}
