use std::{
    collections::BTreeSet,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use jiff::Timestamp;
use tokio::sync::{Notify, watch};

use super::{Credential, SandboxOptions};
use crate::{
    access::UsedAccess,
    clock::WorldClock,
    faults::{Effect, Fault},
    world::World,
};

/// State shared by requests, controllers and the owner of the sandbox.
#[derive(Debug)]
pub(crate) struct Shared {
    world: Mutex<World>,
    pub(super) clock: WorldClock,
    pub(super) credentials: Vec<Credential>,
    accesses: Mutex<BTreeSet<UsedAccess>>,
    pub(super) faults: Mutex<Vec<Fault>>,
    /// Revision of the last write.
    writes: watch::Sender<u64>,
    pub(super) watch_ends: watch::Sender<u64>,
    /// Signals changes that are not in the store.
    pub(super) wake: Notify,
    bookmark_interval: Duration,
    streaming_lists: bool,
    compressed_watches: bool,
    kubernetes_minor: u32,
}

impl Shared {
    pub(super) fn new(options: SandboxOptions) -> Self {
        let now = options.clock.now();
        Self {
            world: Mutex::new(World::new(&options.world, now)),
            clock: options.clock,
            credentials: options.credentials,
            accesses: Mutex::default(),
            faults: Mutex::new(Vec::new()),
            writes: watch::Sender::new(0),
            watch_ends: watch::Sender::new(0),
            wake: Notify::new(),
            bookmark_interval: options.bookmark_interval,
            streaming_lists: options.streaming_lists,
            compressed_watches: options.compressed_watches,
            kubernetes_minor: options.kubernetes_minor,
        }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(crate) fn read<T>(&self, read: impl FnOnce(&World) -> T) -> T {
        read(&lock(&self.world))
    }

    /// Changes the simulation, and notifies watches if the store changed.
    pub(crate) fn write<T>(&self, act: impl FnOnce(&mut World, Timestamp) -> T) -> T {
        let mut world = lock(&self.world);
        let before = world.server.store.revision();
        let result = act(&mut world, self.clock.now());
        let after = world.server.store.revision();
        drop(world);
        if before != after {
            self.writes.send_replace(after);
        }
        result
    }

    /// Makes the simulation check for work.
    pub(crate) fn wake(&self) {
        self.wake.notify_one();
    }

    pub(crate) fn credentials(&self) -> &[Credential] {
        &self.credentials
    }

    pub(crate) fn record_access(&self, access: UsedAccess) {
        lock(&self.accesses).insert(access);
    }

    pub(crate) fn accesses(&self) -> Vec<UsedAccess> {
        lock(&self.accesses).iter().cloned().collect()
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<u64> {
        self.writes.subscribe()
    }

    pub(crate) fn watch_ends(&self) -> watch::Receiver<u64> {
        self.watch_ends.subscribe()
    }

    pub(crate) fn bookmark_interval(&self) -> Duration {
        self.bookmark_interval
    }

    pub(crate) fn kubernetes_minor(&self) -> u32 {
        self.kubernetes_minor
    }

    pub(crate) fn streams_lists(&self) -> bool {
        self.streaming_lists
    }

    pub(crate) fn compresses_watches(&self) -> bool {
        self.compressed_watches
    }

    /// Takes the fault that hits this request, if any.
    pub(crate) fn next_fault(
        &self,
        verb: &str,
        resource: &str,
        subresource: Option<&str>,
        name: Option<&str>,
    ) -> Option<Effect> {
        let resource = match subresource {
            Some(subresource) => format!("{resource}/{subresource}"),
            None => resource.to_owned(),
        };
        let mut faults = lock(&self.faults);
        let fault = faults
            .iter_mut()
            .find(|fault| fault.hits(verb, &resource, name))?;
        fault.times -= 1;
        let effect = fault.effect.clone();
        faults.retain(|fault| fault.times > 0);
        Some(effect)
    }
}

/// A panic elsewhere must not take the sandbox down with it: every change under these locks is complete or absent.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
