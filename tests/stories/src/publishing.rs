//! Publication of the view by the relay, and corruptions of it.

use model::{ClusterName, ledger::RelayBeat, pod::Pod, view::ViewPointer};
use view::Publisher;

/// A relay that publishes every pod immediately.
pub struct Publishing {
    publisher: Publisher,
    /// Falsifies the pods before they are published.
    pub falsify: fn(&mut Vec<Pod>),
    /// Corrupts the published pointer or the object in the bucket.
    pub corrupt: fn(&mut ViewPointer, &mut fakes::World),
}

impl Publishing {
    pub fn new(cluster: ClusterName, beat: &RelayBeat) -> Self {
        Self {
            publisher: Publisher::new(cluster, beat.epoch.clone()),
            falsify: |_| {},
            corrupt: |_, _| {},
        }
    }

    /// Publishes changes and returns the pointer to the view.
    pub(crate) fn publish(
        &mut self,
        world: &mut fakes::World,
        beat: &RelayBeat,
    ) -> Option<ViewPointer> {
        let mut pods: Vec<Pod> = world.api.pods.values().cloned().collect();
        (self.falsify)(&mut pods);
        self.publisher.begin_list();
        pods.into_iter().for_each(|pod| self.publisher.upsert(pod));
        self.publisher.end_list();
        if self.publisher.is_due()
            && let Ok(issue) = self.publisher.issue()
        {
            world.ledger.archive.insert(issue.name, issue.object);
            self.publisher.stored();
        }
        let (last, full) = self.publisher.latest()?;
        let mut pointer = ViewPointer {
            epoch: beat.epoch.clone(),
            version: last.version,
            full,
            digest: last.digest.clone(),
            at: world.now,
            counters: beat.counters.clone(),
        };
        (self.corrupt)(&mut pointer, world);
        Some(pointer)
    }
}
