//! Expiration of NodeClaims at a maximum age (docs/spec/lifecycle.md#expiration).

use api::duration::parse_go_duration;
use jiff::Timestamp;
use model::{Snapshot, ledger::Command, node_claim::NodeClaim};

use crate::{
    decision::{Decision, Note},
    machine::Ending,
};

/// Time at which the NodeClaim expires, from its own spec: changes of the NodePool affect new NodeClaims only. `Never` does not
/// parse.
pub(crate) fn expires_at(claim: &NodeClaim) -> Option<Timestamp> {
    let age = parse_go_duration(claim.spec.expire_after.as_deref()?)?;
    claim.created_at?.checked_add(age).ok()
}

/// Number of NodeClaims that may still expire within the hour. Disruption budgets do not bound expiration, so a wrong clock or
/// an `expireAfter` of minutes could otherwise end a whole cluster at once.
pub(super) struct Allowance {
    most: usize,
    made: usize,
    /// Time at which the oldest counted expiration leaves the hour.
    opens: Timestamp,
}

/// Least number of NodeClaims that may expire within an hour, for small clusters.
const EXPIRATIONS_MIN: usize = 10;
/// Percentage of a cluster's NodeClaims that may expire within an hour. It lets an `expireAfter` of four hours be kept.
const EXPIRATIONS_PERCENT: usize = 25;
/// Most NodeClaims per turn that get an event. All of them wait for the same reason.
const EVENTS_MAX: usize = 5;
/// Reason of these events.
const HELD: &str = "ExpirationHeld";

impl Allowance {
    pub(super) fn new(snapshot: &Snapshot) -> Self {
        let now = snapshot.now;
        let share = snapshot.node_claims.len() * EXPIRATIONS_PERCENT / 100;
        let set = snapshot.caps.terminations.map(whole);
        let opens = now.saturating_add(Command::CAP_WINDOW).unwrap_or(now);
        let mut allowance = Self {
            most: set.unwrap_or(share.max(EXPIRATIONS_MIN)),
            made: 0,
            opens,
        };
        let commands = snapshot.commands.iter();
        for command in commands.filter(|command| set.is_some() || is_expiry(command)) {
            if let Some((nodes, until)) = command.counted_terminations(now) {
                allowance.made += whole(nodes);
                allowance.opens = allowance.opens.min(until);
            }
        }
        allowance
    }

    /// Returns the time until which the expiration is held back, if it is, and emits an event.
    pub(super) fn hold(&self, claim: &NodeClaim, decision: &mut Decision) -> Option<Timestamp> {
        let (expired, _) = Ending::Expired.because();
        let endings = decision.endings.values();
        let now = endings.filter(|reason| **reason == expired).count();
        if self.made + now < self.most {
            return None;
        }
        let held = decision.notes.iter().filter(|note| note.reason == HELD);
        if held.count() < EVENTS_MAX {
            let most = self.most;
            decision.notes.push(Note::warning(
                claim,
                HELD,
                format!(
                    "it is older than its expireAfter and waits: at most {most} NodeClaims expire within an hour (settings.guards.terminationsPerHour); `whittle approve <cluster>` releases the others"
                ),
            ));
        }
        Some(self.opens)
    }
}

fn whole(nodes: u32) -> usize {
    usize::try_from(nodes).unwrap_or(usize::MAX)
}

/// Whether a command records the expiration of a NodeClaim.
fn is_expiry(command: &Command) -> bool {
    let (expired, _) = Ending::Expired.because();
    command.choice.is_none() && command.reason.starts_with(expired)
}

#[cfg(test)]
mod tests {
    use api::conditions::types::{INITIALIZED, LAUNCHED, REGISTERED};
    use jiff::SignedDuration;
    use model::{ledger::CommandState, plan::Target};

    use super::*;
    use crate::{fixtures, lifecycle};

    /// Snapshot of `count` NodeClaims that expired a day ago.
    fn old(count: usize) -> Snapshot {
        let mut snapshot = fixtures::snapshot();
        for at in 0..count {
            let name = format!("c-{at:03}");
            let mut claim = fixtures::claim(&name, &[LAUNCHED, REGISTERED, INITIALIZED]);
            claim.spec.expire_after = Some("1h".to_owned());
            claim.created_at = Some(snapshot.now - SignedDuration::from_hours(25));
            snapshot
                .nodes
                .push(fixtures::node(&format!("n-{at}"), &claim));
            snapshot.node_claims.push(claim);
        }
        snapshot
    }

    fn expired(snapshot: &Snapshot) -> usize {
        lifecycle(snapshot).endings.len()
    }

    fn recorded(snapshot: &Snapshot, minutes_ago: i64, reason: &str, count: usize) -> Command {
        let target = |at: usize| Target {
            name: format!("gone-{at}").as_str().into(),
            uid: format!("gone-{at}").into(),
            resource_version: "1".to_owned(),
        };
        Command {
            reboot: None,
            id: "ended".to_owned(),
            reason: reason.to_owned(),
            delete: (0..count).map(target).collect(),
            replacements: Vec::new(),
            state: CommandState::Done,
            committed_at: snapshot.now - SignedDuration::from_mins(minutes_ago),
            choice: None,
            initialized: Vec::new(),
        }
    }

    #[test]
    fn at_most_a_quarter_of_a_cluster_expires_within_an_hour() {
        assert_eq!(expired(&old(8)), 8);
        assert_eq!(expired(&old(30)), 10);
        assert_eq!(expired(&old(100)), 25);
    }

    #[test]
    fn only_expirations_of_the_last_hour_count() {
        let mut snapshot = old(100);
        snapshot.commands = vec![
            recorded(&snapshot, 59, "expired: it is old", 20),
            recorded(&snapshot, 60, "expired: it is old", 20),
            recorded(&snapshot, 1, "launch_timeout: it came to nothing", 20),
        ];
        let decision = lifecycle(&snapshot);
        assert_eq!(decision.endings.len(), 5);
        assert_eq!(
            decision.due,
            Some(snapshot.now + SignedDuration::from_mins(1))
        );
        let held = decision.notes.iter().filter(|note| note.reason == HELD);
        assert_eq!(held.count(), EVENTS_MAX);
    }

    #[test]
    fn terminations_per_hour_replaces_the_default_and_counts_all_terminations() {
        let mut snapshot = old(100);
        snapshot.caps.terminations = Some(40);
        assert_eq!(expired(&snapshot), 40);
        snapshot.commands = vec![recorded(&snapshot, 1, "launch_timeout: it is late", 15)];
        assert_eq!(expired(&snapshot), 25);
        snapshot.caps.terminations = Some(u32::MAX);
        assert_eq!(expired(&snapshot), 100, "it is approved");
    }
}
