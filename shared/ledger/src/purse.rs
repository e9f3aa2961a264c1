//! A process's share of the account's budget of EC2 calls: a few at a time, so that the ledger is written to once for many.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use model::budget::{Api, Priority};
use ports::{Budget, Clock, Ledger, Spent};
use tokio::sync::Mutex;

/// What is not spent by then is forgotten: the bucket has filled up again meanwhile.
const KEPT: SignedDuration = SignedDuration::from_secs(10);
/// A call waits so long for its turn. Longer, and the whole turn had better wait.
const PATIENCE: SignedDuration = SignedDuration::from_secs(3);

/// Others may draw first, again and again.
const SHORTEST: Duration = Duration::from_millis(20);
const TRIES: usize = 20;

pub struct Purse {
    ledger: Arc<dyn Ledger>,
    clock: Arc<dyn Clock>,
    priority: Priority,
    /// Each with its own lock: whoever waits for one kind of call holds up no other.
    held: BTreeMap<Api, Mutex<Held>>,
}

/// Calls drawn and not made yet.
#[derive(Default)]
struct Held {
    calls: u32,
    /// Those of them that something was begun for.
    promised: u32,
    until: Timestamp,
}

#[derive(Clone, Copy)]
enum Use {
    /// Of one that was promised, if any was.
    Spend,
    Promise,
}

impl Held {
    fn is_used(&mut self, how: Use, now: Timestamp) -> bool {
        if now >= self.until {
            return false;
        }
        match how {
            Use::Promise if self.calls > self.promised => self.promised += 1,
            Use::Spend if self.calls > 0 => {
                self.calls -= 1;
                self.promised = self.promised.saturating_sub(1);
            }
            Use::Promise | Use::Spend => return false,
        }
        true
    }

    fn add(&mut self, granted: u32, now: Timestamp) {
        if now >= self.until {
            *self = Self::default();
        }
        self.calls += granted;
        self.until = now + KEPT;
    }
}

impl Purse {
    pub fn new(ledger: Arc<dyn Ledger>, clock: Arc<dyn Clock>, priority: Priority) -> Self {
        let empty = Api::ALL.map(|api| (api, Mutex::default()));
        Self {
            ledger,
            clock,
            priority,
            held: BTreeMap::from(empty),
        }
    }

    /// Uses a call in hand, or one that is drawn for that.
    async fn take(&self, api: Api, how: Use) -> Result<(), Spent> {
        let Some(held) = self.held.get(&api) else {
            return Ok(());
        };
        let mut held = held.lock().await;
        let mut until = self.clock.now();
        let patient_until = until + PATIENCE;
        for _ in 0..TRIES {
            let now = self.clock.now();
            if held.is_used(how, now) {
                return Ok(());
            }
            let wanted = api.at_once();
            let draw = match self.ledger.draw(api, wanted, self.priority, now).await {
                Ok(draw) => draw,
                // The budget spares EC2's limits; EC2 itself enforces them.
                Err(error) => {
                    tracing::warn!(?api, %error, "the budget of EC2 calls cannot be read");
                    return Ok(());
                }
            };
            if draw.granted > 0 {
                held.add(draw.granted, now);
                continue;
            }
            until = draw.again.unwrap_or(now);
            if until > patient_until {
                break;
            }
            let wait = Duration::try_from(until.duration_since(now)).unwrap_or(Duration::ZERO);
            tokio::time::sleep(wait.max(SHORTEST)).await;
        }
        Err(Spent { until })
    }
}

#[async_trait]
impl Budget for Purse {
    async fn spend(&self, api: Api) -> Result<(), Spent> {
        self.take(api, Use::Spend).await
    }

    async fn hold(&self, api: Api) -> Result<(), Spent> {
        self.take(api, Use::Promise).await
    }

    async fn throttled(&self, api: Api) {
        if let Some(held) = self.held.get(&api) {
            *held.lock().await = Held::default();
        }
        if let Err(error) = self.ledger.throttled(api, self.clock.now()).await {
            tracing::warn!(?api, %error, "the budget of EC2 calls cannot be slowed down");
        }
    }
}
