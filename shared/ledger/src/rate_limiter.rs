//! A process's share of the account's budget of EC2 calls. Calls are drawn several at a time, so that many calls cost one write to the
//! ledger.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use model::budget::{Api, Priority};
use ports::{Budget, BudgetExhausted, Clock, ledger::BudgetLedger};
use tokio::sync::Mutex;

/// Calls that are not made within this time after they were drawn are dropped: the bucket has refilled in the meantime.
const DRAWN_VALID: SignedDuration = SignedDuration::from_secs(10);
/// Upper bound on the wait for a call. Beyond it, the whole turn should be postponed instead.
const WAIT_MAX: SignedDuration = SignedDuration::from_secs(3);

/// Shortest wait before the next draw.
const WAIT_MIN: Duration = Duration::from_millis(20);
/// Upper bound on draws for one call: other processes may empty the bucket first each time.
const DRAWS_MAX: usize = 20;

/// Implements [`Budget`] on the token buckets in the ledger.
pub struct RateLimiter {
    ledger: Arc<dyn BudgetLedger>,
    clock: Arc<dyn Clock>,
    priority: Priority,
    /// Each API has its own lock, so that waiting for one does not block calls of another.
    drawn: BTreeMap<Api, Mutex<DrawnCalls>>,
}

/// Calls of one API that were drawn and not made yet.
#[derive(Default)]
struct DrawnCalls {
    calls: u32,
    /// Calls among them that [`Budget::hold`] has reserved.
    reserved: u32,
    until: Timestamp,
}

#[derive(Clone, Copy)]
enum Use {
    /// Makes a call: a reserved one, if there is any.
    Spend,
    Reserve,
}

impl DrawnCalls {
    fn try_use(&mut self, usage: Use, now: Timestamp) -> bool {
        if now >= self.until {
            return false;
        }
        match usage {
            Use::Reserve if self.calls > self.reserved => self.reserved += 1,
            Use::Spend if self.calls > 0 => {
                self.calls -= 1;
                self.reserved = self.reserved.saturating_sub(1);
            }
            Use::Reserve | Use::Spend => return false,
        }
        true
    }

    fn add(&mut self, granted: u32, now: Timestamp) {
        if now >= self.until {
            *self = Self::default();
        }
        self.calls += granted;
        self.until = now + DRAWN_VALID;
    }
}

impl RateLimiter {
    pub fn new(ledger: Arc<dyn BudgetLedger>, clock: Arc<dyn Clock>, priority: Priority) -> Self {
        let empty = Api::ALL.map(|api| (api, Mutex::default()));
        Self {
            ledger,
            clock,
            priority,
            drawn: BTreeMap::from(empty),
        }
    }

    /// Uses a call that was drawn before, or draws more.
    async fn take(&self, api: Api, usage: Use) -> Result<(), BudgetExhausted> {
        let Some(drawn) = self.drawn.get(&api) else {
            return Ok(());
        };
        let mut drawn = drawn.lock().await;
        let mut until = self.clock.now();
        let deadline = until + WAIT_MAX;
        for _ in 0..DRAWS_MAX {
            let now = self.clock.now();
            if drawn.try_use(usage, now) {
                return Ok(());
            }
            let wanted = api.draw_size();
            let draw = match self.ledger.draw(api, wanted, self.priority, now).await {
                Ok(draw) => draw,
                // The budget only avoids throttling; EC2 itself enforces its limits.
                Err(error) => {
                    tracing::warn!(?api, %error, "budget of EC2 calls cannot be read; the call is made without it");
                    return Ok(());
                }
            };
            if draw.granted > 0 {
                drawn.add(draw.granted, now);
                continue;
            }
            until = draw.again.unwrap_or(now);
            if until > deadline {
                break;
            }
            let wait = Duration::try_from(until.duration_since(now)).unwrap_or(Duration::ZERO);
            tokio::time::sleep(wait.max(WAIT_MIN)).await;
        }
        Err(BudgetExhausted { until })
    }
}

#[async_trait]
impl Budget for RateLimiter {
    async fn spend(&self, api: Api) -> Result<(), BudgetExhausted> {
        self.take(api, Use::Spend).await
    }

    async fn hold(&self, api: Api) -> Result<(), BudgetExhausted> {
        self.take(api, Use::Reserve).await
    }

    async fn throttled(&self, api: Api) {
        if let Some(drawn) = self.drawn.get(&api) {
            *drawn.lock().await = DrawnCalls::default();
        }
        if let Err(error) = self.ledger.throttled(api, self.clock.now()).await {
            tracing::warn!(?api, %error, "budget of EC2 calls cannot be reduced after throttling");
        }
    }
}
