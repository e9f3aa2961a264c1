use std::sync::Arc;

use executor::Executor;
use jiff::{SignedDuration, Timestamp};
use model::{
    Batch, ClusterName, Lane, Wake,
    ids::TurnId,
    ledger::{Cursor, Meta, Mode},
    view::ViewPointer,
};
use ports::Cluster;

use super::{error::TurnError, world::World};
use crate::settings::entry::Entry;

/// A turn that holds its lane.
pub(crate) struct Turn<'a> {
    pub(crate) world: &'a World,
    pub(crate) cluster: &'a ClusterName,
    pub(crate) lane: Lane,
    pub(crate) id: &'a TurnId,
    pub(crate) meta: Meta,
    pub(crate) entry: Entry,
    pub(crate) api: Arc<dyn Cluster>,
    pub(crate) now: Timestamp,
    pub(crate) deadline: Timestamp,
    /// The view of the cluster's pods that its wake referred to.
    pub(crate) view: Option<ViewPointer>,
    /// Whether the batch of pods that its wake referred to is still open.
    pub(crate) batch: Batch,
    /// Position of the lane's last evaluation, if it did not get through.
    pub(crate) cursor: Option<Cursor>,
}

impl Turn<'_> {
    pub(crate) fn executor(&self) -> Executor<'_> {
        Executor {
            cluster: self.cluster,
            turn: self.id,
            lane: self.lane,
            holder: &self.world.holder,
            uid: self.meta.uid.as_ref(),
            cloud: &*self.world.cloud,
            api: &*self.api,
            ledger: &*self.world.ledger,
            clock: &*self.world.clock,
            deadline: self.deadline,
            launch_timeout: self.entry.timeouts.launch,
        }
    }

    /// Whether the turn may act: turns in shadow mode stop before they commit or act (docs/protocol.md#c4). Pauses hold back
    /// only voluntary actions, which plans leave out.
    pub(crate) fn may_act(&self) -> bool {
        self.meta.mode == Mode::Active
    }

    /// Makes another lane due now, and wakes it: the row obliges, the wake only makes it faster (docs/protocol.md#l4).
    pub(crate) async fn wake(&self, lane: Lane, reason: &str) -> Result<(), TurnError> {
        self.world
            .ledger
            .make_due(self.cluster, lane, self.world.clock.now())
            .await?;
        let wake = Wake::new(self.cluster.clone(), lane, reason);
        self.world.wakes.send(&wake, SignedDuration::ZERO).await?;
        Ok(())
    }
}
