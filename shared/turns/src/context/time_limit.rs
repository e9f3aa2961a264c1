use std::{future::Future, pin::pin};

use futures::future::{Either, select};
use jiff::SignedDuration;
use model::Lane;

use crate::{TurnError, World};

/// Does a piece of work within a time limit, by the ports' clock. Work that is late is dropped at its next await, as by a crash:
/// its steps are conditional or idempotent.
pub(crate) async fn within<T>(
    world: &World,
    limit: SignedDuration,
    work: impl Future<Output = T>,
) -> Result<T, TurnError> {
    let (work, late) = (pin!(work), pin!(world.clock.sleep(limit)));
    match select(work, late).await {
        Either::Left((done, _)) => Ok(done),
        Either::Right(_) => Err(TurnError::Late { limit }),
    }
}

/// Upper bound on a turn's duration: its function's time-out, less the time that Lambda needs to start and the turn to record
/// its outcome.
pub fn budget(lane: Lane) -> SignedDuration {
    match lane {
        Lane::Disruption => SignedDuration::from_secs(290),
        Lane::Provisioner
        | Lane::Lifecycle
        | Lane::Terminator
        | Lane::Interruption
        | Lane::Housekeeper => SignedDuration::from_secs(50),
    }
}
