use jiff::{SignedDuration, Timestamp};

use super::{Client, Controller, EVENTS};
use crate::{error::ApiResult, json, server::parse_time, store::TableId};

/// Deletes events an hour after their last occurrence, as API servers do.
#[derive(Debug, Default)]
pub(super) struct EventExpiry {
    /// Earliest time at which an event can expire.
    next: Option<Timestamp>,
}

const LIFETIME: SignedDuration = SignedDuration::from_hours(1);

impl Controller for EventExpiry {
    fn name(&self) -> &'static str {
        "event-expiry"
    }

    fn inputs(&self) -> &'static [TableId] {
        const { &[EVENTS] }
    }

    fn run(&mut self, client: &mut Client<'_>) -> ApiResult<Option<Timestamp>> {
        if self.next.is_some_and(|next| client.now < next) {
            return Ok(self.next);
        }
        let mut next = None;
        for event in client.all(&EVENTS) {
            let seen = [
                &["series", "lastObservedTime"][..],
                &["lastTimestamp"],
                &["eventTime"],
                &["metadata", "creationTimestamp"],
            ]
            .into_iter()
            .find_map(|path| parse_time(json::text(event.value(), path)));
            let Some(end) = seen.and_then(|seen| seen.checked_add(LIFETIME).ok()) else {
                continue;
            };
            if end <= client.now {
                client.delete_now(&EVENTS, &event.key())?;
            } else {
                next = [next, Some(end)].into_iter().flatten().min();
            }
        }
        self.next = next;
        Ok(next)
    }
}
