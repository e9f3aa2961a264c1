//! The relay where it publishes pods, and what may be wrong with what it publishes.

use model::{ClusterName, ledger::RelayBeat, pod::Pod, view::ViewPointer};
use view::Publisher;

/// A relay that publishes every pod it sees, at once.
pub struct Publishing {
    publisher: Publisher,
    /// Changes what it shows of the pods.
    pub lie: fn(&mut Vec<Pod>),
    /// Spoils what it announces, or what lies in the bucket.
    pub spoil: fn(&mut ViewPointer, &mut fakes::World),
}

impl Publishing {
    pub fn new(cluster: ClusterName, beat: &RelayBeat) -> Self {
        Self {
            publisher: Publisher::new(cluster, beat.epoch.clone()),
            lie: |_| {},
            spoil: |_, _| {},
        }
    }

    /// Publishes what has changed, and says where it is.
    pub(crate) fn publish(
        &mut self,
        world: &mut fakes::World,
        beat: &RelayBeat,
    ) -> Option<ViewPointer> {
        let mut pods: Vec<Pod> = world.api.pods.values().cloned().collect();
        (self.lie)(&mut pods);
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
        (self.spoil)(&mut pointer, world);
        Some(pointer)
    }
}
