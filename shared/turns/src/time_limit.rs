use std::{future::Future, pin::pin};

use futures::future::{Either, select};
use jiff::SignedDuration;

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
