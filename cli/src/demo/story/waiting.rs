//! Waits for the world to reach a state, within limits of simulated and of real time.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use tokio::time::Instant;

use super::Story;
use crate::demo::picture::Picture;

/// Upper bound on the wait for one effect in real time: the machine may be slow.
const REAL_TIMEOUT: Duration = Duration::from_secs(300);

pub(super) struct Deadline {
    simulated: Timestamp,
    real: Instant,
}

impl Story<'_> {
    pub(super) fn deadline(&self) -> Deadline {
        let now = self.world.now();
        Deadline {
            simulated: now.checked_add(self.timeout).unwrap_or(Timestamp::MAX),
            real: Instant::now() + REAL_TIMEOUT,
        }
    }

    /// Waits for the next picture; returns false if the deadline has passed.
    pub(super) async fn next_picture(&mut self, deadline: &Deadline) -> bool {
        if self.pictures.borrow().at > deadline.simulated {
            return false;
        }
        let changed = tokio::time::timeout_at(deadline.real, self.pictures.changed()).await;
        matches!(changed, Ok(Ok(())))
    }

    /// Waits until a condition holds; on a timeout, returns the last picture.
    pub(in crate::demo) async fn wait(
        &mut self,
        is_so: impl Fn(&Picture) -> bool,
    ) -> Result<(), Arc<Picture>> {
        let deadline = self.deadline();
        loop {
            let picture = self.pictures.borrow_and_update().clone();
            if is_so(&picture) {
                return Ok(());
            }
            if !self.next_picture(&deadline).await {
                return Err(picture);
            }
        }
    }
}
