use jiff::{SignedDuration, Timestamp};

use super::{Client, Controller};
use crate::{
    error::ApiResult,
    json,
    server::{EVENTS, parse_time},
    store::{Object, ObjectKey, TableId},
};

/// Deletes events an hour after their last occurrence, as API servers do, and the oldest ones of too many.
#[derive(Debug, Default)]
pub(super) struct EventExpiry {
    /// Earliest time at which an event can expire.
    next: Option<Timestamp>,
}

const LIFETIME: SignedDuration = SignedDuration::from_hours(1);
/// Upper bound on stored events, each of about a kilobyte: those of some thousand pods and their nodes.
pub(super) const EVENTS_MAX: usize = 5_000;
/// Number of events kept of too many: few enough that the next ones do not exceed the bound at once.
pub(super) const EVENTS_KEPT: usize = 4_000;

impl Controller for EventExpiry {
    fn name(&self) -> &'static str {
        "event-expiry"
    }

    fn inputs(&self) -> &'static [TableId] {
        const { &[EVENTS] }
    }

    fn run(&mut self, client: &mut Client<'_>) -> ApiResult<Option<Timestamp>> {
        let count = client.server.store.count(&EVENTS);
        if count <= EVENTS_MAX && self.next.is_some_and(|next| client.now < next) {
            return Ok(self.next);
        }
        let mut events: Vec<(Timestamp, ObjectKey)> = client
            .all(&EVENTS)
            .iter()
            .map(|event| (last_seen(event), event.key()))
            .collect();
        events.sort_unstable();
        let surplus = match count > EVENTS_MAX {
            true => count.saturating_sub(EVENTS_KEPT),
            false => 0,
        };
        self.next = None;
        for (index, (seen, key)) in events.into_iter().enumerate() {
            let end = seen.checked_add(LIFETIME).unwrap_or(Timestamp::MAX);
            if end <= client.now || index < surplus {
                client.delete_now(&EVENTS, &key)?;
            } else {
                self.next = Some(end);
                break;
            }
        }
        Ok(self.next)
    }
}

/// Time of an event's last occurrence.
fn last_seen(event: &Object) -> Timestamp {
    let times: [&[&str]; 4] = [
        &["series", "lastObservedTime"],
        &["lastTimestamp"],
        &["eventTime"],
        &["metadata", "creationTimestamp"],
    ];
    event.peek(|event| {
        let mut times = times.into_iter();
        let seen = times.find_map(|path| parse_time(json::text(event, path)));
        seen.unwrap_or(Timestamp::MAX)
    })
}
