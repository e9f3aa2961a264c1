//! The roles of SQS, Lambda and the Scheduler for the functions: delivers wakes when they are due, runs a turn for each, and runs a sweep
//! every minute.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use model::{ClusterName, Lane, Wake, ids::TurnId};
use ports::{Clusters, QueueError, Wakes};
use sandbox::WorldClock;
use tokio::{sync::Notify, task::JoinSet};

use super::audience::{Message, MessageSender, send_message};

/// Wakes in flight. Two wakes for the same lane and time are merged.
pub(super) struct Queue {
    clock: WorldClock,
    waiting: Mutex<BTreeMap<Timestamp, BTreeSet<(ClusterName, Lane)>>>,
    arrived: Notify,
}

impl Queue {
    pub(super) fn new(clock: WorldClock) -> Self {
        Self {
            clock,
            waiting: Mutex::default(),
            arrived: Notify::new(),
        }
    }

    pub(super) fn put(&self, cluster: &ClusterName, lane: Lane, delay: SignedDuration) {
        let now = self.clock.now();
        let due = now.checked_add(delay).unwrap_or(now);
        self.with(|waiting| {
            waiting
                .entry(due)
                .or_default()
                .insert((cluster.clone(), lane));
        });
        self.arrived.notify_one();
    }

    /// The lanes whose wakes are due, each once; waits for the first.
    async fn take(&self) -> BTreeSet<(ClusterName, Lane)> {
        loop {
            let now = self.clock.now();
            let (due, next) = self.with(|waiting| {
                let mut due = BTreeSet::new();
                while let Some(first) = waiting.first_entry().filter(|first| *first.key() <= now) {
                    due.append(&mut first.remove());
                }
                (due, waiting.keys().next().copied())
            });
            if !due.is_empty() {
                return due;
            }
            let nap = next.map_or(Duration::MAX, |next| self.clock.sleep_until(next));
            tokio::select! {
                () = self.arrived.notified() => {}
                () = tokio::time::sleep(nap) => {}
            }
        }
    }

    fn with<T>(
        &self,
        act: impl FnOnce(&mut BTreeMap<Timestamp, BTreeSet<(ClusterName, Lane)>>) -> T,
    ) -> T {
        act(&mut self.waiting.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[async_trait]
impl Wakes for Queue {
    async fn send(&self, wake: &Wake, delay: SignedDuration) -> Result<(), QueueError> {
        self.put(&wake.cluster, wake.lane, delay);
        Ok(())
    }
}

/// The world of turns, per function.
#[derive(Clone)]
pub(super) struct Worlds {
    shared: turns::World,
    /// Cluster clients by lane, with the identity of the lane's function; other lanes use the client of `shared`.
    clusters: BTreeMap<Lane, Arc<dyn Clusters>>,
}

impl Worlds {
    pub(super) fn new(shared: turns::World, clusters: BTreeMap<Lane, Arc<dyn Clusters>>) -> Self {
        Self { shared, clusters }
    }

    pub(super) fn of(&self, lane: Lane) -> turns::World {
        let mut world = self.shared.clone();
        if let Some(clusters) = self.clusters.get(&lane) {
            world.clusters = clusters.clone();
        }
        world
    }
}

/// Runs a turn for every wake. Turns of one lane may overlap, as they do in Lambda: the lane's lease keeps them apart.
pub(super) async fn serve(
    worlds: Worlds,
    queue: Arc<Queue>,
    clock: WorldClock,
    sender: MessageSender,
) {
    let mut turns = JoinSet::new();
    loop {
        for (cluster, lane) in queue.take().await {
            let (world, clock, sender) = (worlds.of(lane), clock.clone(), sender.clone());
            turns.spawn(async move {
                let _at_work = clock.real_time();
                let turn = Box::pin(turns::run(
                    &world,
                    &cluster,
                    lane,
                    &next_turn(),
                    world.clock.now() + turns::budget(lane),
                ))
                .await;
                let turned = |report| Message::Turn(Box::new(report));
                send_message(&sender, turn.map_or_else(Message::Broken, turned));
            });
        }
        while turns.try_join_next().is_some() {}
    }
}

const SWEEP: SignedDuration = SignedDuration::from_mins(1);

/// Runs a sweep every minute, starting in a minute.
pub(super) async fn sweeps(worlds: Worlds, clock: WorldClock, sender: MessageSender) {
    loop {
        let now = clock.now();
        let next = now.checked_add(SWEEP).unwrap_or(now);
        while clock.now() < next {
            tokio::time::sleep(clock.sleep_until(next)).await;
        }
        sweep(&worlds, &clock, &sender).await;
    }
}

pub(super) async fn sweep(worlds: &Worlds, clock: &WorldClock, sender: &MessageSender) {
    let real_time = clock.real_time();
    let world = worlds.of(Lane::Housekeeper);
    let swept = Box::pin(turns::housekeep(&world, &next_turn())).await;
    drop(real_time);
    send_message(sender, swept.map_or_else(Message::Broken, Message::Sweep));
}

pub(super) fn next_turn() -> TurnId {
    static TURNS: AtomicU64 = AtomicU64::new(1);
    TurnId(format!("turn-{}", TURNS.fetch_add(1, Ordering::Relaxed)))
}
