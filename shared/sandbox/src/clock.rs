use std::sync::atomic::{AtomicI64, Ordering};

use jiff::{SignedDuration, Timestamp};

/// The time of the embedded world: the wall's, or one that moves only when told.
#[derive(Debug)]
pub struct WorldClock {
    /// Milliseconds since the epoch; `None` follows the wall.
    virtual_millis: Option<AtomicI64>,
}

impl WorldClock {
    pub fn wall() -> Self {
        Self {
            virtual_millis: None,
        }
    }

    pub fn starting_at(start: Timestamp) -> Self {
        Self {
            virtual_millis: Some(AtomicI64::new(start.as_millisecond())),
        }
    }

    pub fn is_virtual(&self) -> bool {
        self.virtual_millis.is_some()
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "this is where the wall clock enters the embedded world"
    )]
    pub fn now(&self) -> Timestamp {
        match &self.virtual_millis {
            Some(millis) => {
                Timestamp::from_millisecond(millis.load(Ordering::SeqCst)).unwrap_or(Timestamp::MAX)
            }
            None => Timestamp::now(),
        }
    }

    /// Moves a virtual clock; the wall's does not move.
    pub fn advance(&self, by: SignedDuration) {
        if let Some(millis) = &self.virtual_millis {
            let by = i64::try_from(by.as_millis()).unwrap_or(i64::MAX);
            millis.fetch_add(by, Ordering::SeqCst);
        }
    }
}
