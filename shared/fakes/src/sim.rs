use std::{
    collections::{BTreeMap, BTreeSet},
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
};

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use ledger::TableLedger;
use model::{ClusterName, Uid, Wake, ledger::RelayBeat};
use ports::{
    Clock, Metric, Metrics, QueueError, Wakes,
    limits::sqs::{DELAY_MAX, MESSAGE_BYTES},
    registry::RegistryEntry,
};

use crate::{
    account::Account,
    api_server::ApiServer,
    fault::{CallOutcome, CrashPoint, CrashTiming, Fault, FaultSchedule, FromFault, Process},
    notifier::DeliveredNotification,
    offered_types::Offered,
    provider,
    published_status::PublishedStatus,
    rows::Rows,
    step::Settled,
    table::MemoryTable,
};

/// A handle on the simulated world; clones share it.
#[derive(Clone)]
pub struct Sim {
    world: Arc<Mutex<World>>,
    /// The real ledger, over the world's table.
    ledger: Arc<TableLedger>,
    process: Option<Process>,
    /// Cluster whose API server this handle uses; `None` if the world has only one.
    cluster: Option<ClusterName>,
}

/// A change of the world that another component makes during a call.
pub type WorldChange = fn(&mut World);

/// The state of the simulated world.
pub struct World {
    pub now: Timestamp,
    pub account: Account,
    /// API server of the cluster that was used last.
    pub api: ApiServer,
    /// Name of that cluster.
    pub cluster: ClusterName,
    /// API servers of the account's other clusters.
    others: BTreeMap<ClusterName, ApiServer>,
    pub ledger: Rows,
    /// Wakes that were sent and not received yet, with the time of their delivery.
    pub wakes: Vec<(Timestamp, Wake)>,
    pub registry: Vec<RegistryEntry>,
    /// SecureString parameters, by name.
    pub secrets: BTreeMap<String, String>,
    /// Notifications that were delivered outside the cluster.
    pub notifications: Vec<DeliveredNotification>,
    /// The instance types that every NodeClass allows.
    pub catalog: Offered,
    pub crash_point: CrashPoint,
    /// The process crashes when the first call of this name has taken effect.
    pub crash_after: Option<&'static str>,
    /// Runs once, when a call of this name begins.
    pub on_call: Option<(&'static str, WorldChange)>,
    /// Names of the port calls made, in order.
    pub calls: Vec<&'static str>,
    faults: Vec<(&'static str, Fault)>,
    /// Calls that get no answer until they are removed from this set.
    pub down: BTreeSet<&'static str>,
    /// Metrics that turns published, in order.
    pub metrics: Vec<Metric>,
    /// Clusters that were deleted.
    pub deleted: BTreeSet<ClusterName>,
    /// Whether EC2 calls are taken out of the account's budget.
    pub budgeted: bool,
    /// For each renewal of prices, whether the Price List API could be called.
    pub looked_up: Vec<bool>,
    /// Duration of every port call.
    pub latency: SignedDuration,
    /// Additional duration of calls to these clusters' API servers; applies while calls overlap.
    pub slow: BTreeMap<ClusterName, SignedDuration>,
    /// Concurrent calls take their time in parallel instead of one after the other.
    pub overlapping: bool,
    /// Times at which overlapping calls are answered, with their number.
    under_way: BTreeMap<Timestamp, usize>,
    /// State of the generator that interleaves concurrent turns; 0 runs each turn to its end.
    pub interleaving: u64,
    /// Decides the outcomes of processes' calls.
    pub fault_schedule: Option<Box<dyn FaultSchedule>>,
    /// Processes that crashed during a call. Their futures never complete, so the runner drops them.
    pub dead: BTreeSet<u64>,
    /// Incremented by everything that may have changed the world, so that unchanged seconds can be skipped.
    pub changes: u64,
    /// The last second without changes, and until when no component has anything to do.
    pub(crate) settled: Option<Settled>,
}

impl Sim {
    /// 1 January 2026, the start of every test's clock.
    pub const START: i64 = 1_767_225_600;

    /// A world with one registered, active, empty cluster and a small catalog.
    pub fn new(cluster: &str) -> Self {
        let now = Timestamp::from_second(Self::START).unwrap_or_default();
        let table = Arc::new(MemoryTable::default());
        let mut world = World {
            now,
            account: Account::default(),
            api: ApiServer::default(),
            cluster: ClusterName::from(cluster),
            others: BTreeMap::new(),
            ledger: Rows::new(Arc::clone(&table)),
            wakes: Vec::new(),
            registry: vec![registered(cluster, "https://127.0.0.1")],
            secrets: BTreeMap::new(),
            notifications: Vec::new(),
            catalog: provider::small_catalog().into(),
            crash_point: CrashPoint::default(),
            crash_after: None,
            on_call: None,
            calls: Vec::new(),
            faults: Vec::new(),
            down: BTreeSet::new(),
            deleted: BTreeSet::new(),
            metrics: Vec::new(),
            budgeted: false,
            looked_up: Vec::new(),
            latency: SignedDuration::ZERO,
            slow: BTreeMap::new(),
            overlapping: false,
            under_way: BTreeMap::new(),
            interleaving: 0,
            fault_schedule: None,
            dead: BTreeSet::new(),
            changes: 0,
            settled: None,
        };
        world.api.status = Some(PublishedStatus::default());
        world.api.uid = uid_of(cluster);
        Self {
            world: Arc::new(Mutex::new(world)),
            ledger: Arc::new(Rows::ledger(table)),
            process: None,
            cluster: None,
        }
    }

    /// Adds a registered, active cluster with its own API server. Instances join the cluster named by their tag.
    pub fn add_cluster(&self, cluster: &str) {
        self.with(|world| {
            let mut api = ApiServer::of(uid_of(cluster));
            api.status = Some(PublishedStatus::default());
            world.others.insert(cluster.into(), api);
            let endpoint = format!("https://{cluster}.test");
            world.registry.push(registered(cluster, &endpoint));
        });
    }

    /// Handle of one process on this world.
    pub fn of(&self, process: Process) -> Self {
        Self {
            process: Some(process),
            ..self.clone()
        }
    }

    /// Handle on this world that uses the API server of one cluster.
    pub fn in_cluster(&self, cluster: &ClusterName) -> Self {
        Self {
            cluster: Some(cluster.clone()),
            ..self.clone()
        }
    }

    /// Reads the world directly, without a port call.
    pub fn look<T>(&self, look: impl FnOnce(&World) -> T) -> T {
        let mut world = self.lock();
        world.ledger.refresh();
        look(&world)
    }

    /// Reads or changes the world directly, without a port call.
    pub fn with<T>(&self, act: impl FnOnce(&mut World) -> T) -> T {
        let mut world = self.lock();
        world.changes += 1;
        world.ledger.refresh();
        let answer = act(&mut world);
        world.ledger.settle();
        answer
    }

    pub(crate) fn table_ledger(&self) -> &TableLedger {
        &self.ledger
    }

    /// Locks the world without updating views; for the sequence of calls and the clock.
    fn lock(&self) -> MutexGuard<'_, World> {
        let mut world = self.world.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(cluster) = &self.cluster {
            world.use_cluster(cluster);
        }
        world
    }

    /// Advances the clock second by second, and runs EC2, kubelets and controllers in each.
    pub fn advance(&self, time: SignedDuration) {
        let mut world = self.lock();
        for _ in 0..time.as_secs() {
            world.now += SignedDuration::from_secs(1);
            world.step();
        }
    }

    /// Makes the next call of this name fail. Several faults of one name apply in order.
    pub fn fail_next(&self, call: &'static str, fault: Fault) {
        self.with(|world| world.faults.push((call, fault)));
    }

    /// Receives the wakes that are deliverable now.
    pub fn take_wakes(&self) -> Vec<Wake> {
        let mut world = self.lock();
        let now = world.now;
        let ready = world.wakes.extract_if(.., |(at, _)| *at <= now);
        ready.map(|(_, wake)| wake).collect()
    }

    /// Waits for a call's duration, in parallel with all other calls under way.
    async fn overlap(&self) {
        let time = {
            let world = self.lock();
            if !world.overlapping {
                return;
            }
            let slow = self.cluster.as_ref();
            let slow = slow.and_then(|cluster| world.slow.get(cluster));
            world.latency + slow.copied().unwrap_or_default()
        };
        self.after(time).await;
    }

    /// Returns when this call or wait is the next of all under way to end, and advances the clock to that time.
    async fn after(&self, time: SignedDuration) {
        let until = {
            let mut world = self.lock();
            let until = world.now + time;
            *world.under_way.entry(until).or_default() += 1;
            until
        };
        let call = UnderWay { sim: self, until };
        // After one yield, calls that started together with this one are registered as under way.
        Yield(1).await;
        while !call.is_next() {
            Yield(1).await;
        }
    }

    /// Number of port calls since the last call of this method.
    pub fn take_calls(&self) -> usize {
        let calls = &mut self.lock().calls;
        let count = calls.len();
        calls.clear();
        count
    }

    /// Returns whether a process crashed during a call; `true` only once.
    pub fn has_died(&self, process: u64) -> bool {
        let dead = &mut self.lock().dead;
        !dead.is_empty() && dead.remove(&process)
    }

    /// Sends a wake from outside of turns.
    pub fn wake(&self, wake: Wake, delay: SignedDuration) {
        let mut world = self.lock();
        let at = world.now + delay;
        world.wakes.push((at, wake));
    }

    /// Writes the relay's heartbeat, which only turns read.
    pub fn beat(&self, cluster: &ClusterName, beat: RelayBeat) {
        self.lock().ledger.beat(cluster, beat);
    }

    /// One port call that may change the world: the crash point, a fault, the effect, and the crash point again.
    pub(crate) async fn changing_call<T, E: FromFault>(
        &self,
        call: &'static str,
        act: impl FnOnce(&mut World) -> Result<T, E>,
    ) -> Result<T, E> {
        self.neutral_call(call, |world| {
            world.changes += 1;
            act(world)
        })
        .await
    }

    /// One port call that changes nothing, or only state that concerns turns: reads, markers and due times.
    pub(crate) async fn neutral_call<T, E: FromFault>(
        &self,
        call: &'static str,
        act: impl FnOnce(&mut World) -> Result<T, E>,
    ) -> Result<T, E> {
        let pauses = self.lock().next_pause();
        Yield(pauses).await;
        self.overlap().await;
        let outcome = self.outcome(call);
        Yield(outcome.yields).await;
        self.sleep(outcome.delay).await;
        self.crash_if(outcome.crash == Some(CrashTiming::Before))
            .await;
        let answer = self.answer(call, outcome.fault, act);
        self.crash_if(outcome.crash == Some(CrashTiming::After))
            .await;
        answer
    }

    fn answer<T, E: FromFault>(
        &self,
        call: &'static str,
        scheduled: Option<Fault>,
        act: impl FnOnce(&mut World) -> Result<T, E>,
    ) -> Result<T, E> {
        let world = &mut *self.lock();
        if !world.crash_point.pass() {
            return Err(E::from_fault(Fault::Unavailable, call));
        }
        world.calls.push(call);
        if let Some((_, happens)) = world.on_call.take_if(|(name, _)| *name == call) {
            world.changes += 1;
            world.ledger.refresh();
            happens(world);
            world.ledger.settle();
        }
        if !world.overlapping {
            world.now += world.latency;
        }
        if world.down.contains(call) {
            return Err(E::from_fault(Fault::Unavailable, call));
        }
        let fault = world.take_fault(call).or(scheduled);
        match fault {
            Some(fault) if fault != Fault::LostAnswer => return Err(E::from_fault(fault, call)),
            Some(_) | None => {}
        }
        let answer = act(world);
        if world.crash_after.take_if(|name| *name == call).is_some() {
            world.crash_point = CrashPoint::at(1);
        }
        if !world.crash_point.pass() || fault.is_some() {
            return Err(E::from_fault(Fault::LostAnswer, call));
        }
        answer
    }

    fn outcome(&self, call: &'static str) -> CallOutcome {
        let Some(process) = self.process else {
            return CallOutcome::default();
        };
        let mut world = self.lock();
        let now = world.now;
        let schedule = world.fault_schedule.as_mut();
        let cluster = self.cluster.as_ref();
        schedule.map_or_else(CallOutcome::default, |schedule| {
            schedule.outcome(process.id, cluster, call, now)
        })
    }

    /// Yields until this much time has passed.
    async fn sleep(&self, time: SignedDuration) {
        if time.is_zero() {
            return;
        }
        let until = self.lock().now + time;
        while self.lock().now < until {
            Yield(1).await;
        }
    }

    async fn crash_if(&self, crashes: bool) {
        if let Some(process) = self.process.filter(|_| crashes) {
            self.lock().dead.insert(process.id);
            std::future::pending::<()>().await;
        }
    }
}

fn registered(cluster: &str, endpoint: &str) -> RegistryEntry {
    let body = serde_json::json!({"type": "endpoint", "endpoint": endpoint, "mode": "active"});
    RegistryEntry {
        cluster: ClusterName::from(cluster),
        body: Ok(body),
    }
}

impl World {
    /// Makes a cluster's API server [`World::api`]. A single API server serves all clusters.
    pub(crate) fn use_cluster(&mut self, cluster: &ClusterName) {
        if self.cluster == *cluster {
            return;
        }
        let Some(api) = self.others.remove(cluster) else {
            return;
        };
        let left = std::mem::replace(&mut self.api, api);
        let name = std::mem::replace(&mut self.cluster, cluster.clone());
        self.others.insert(name, left);
    }

    pub(crate) fn has_others(&self) -> bool {
        !self.others.is_empty()
    }

    /// All clusters; the one whose API server is [`World::api`] comes last.
    pub fn clusters(&self) -> Vec<ClusterName> {
        let current = std::iter::once(&self.cluster);
        self.others.keys().chain(current).cloned().collect()
    }

    pub(crate) fn other_api_servers(&self) -> impl Iterator<Item = &ApiServer> {
        self.others.values()
    }

    fn take_fault(&mut self, call: &str) -> Option<Fault> {
        let index = self.faults.iter().position(|(name, _)| *name == call)?;
        Some(self.faults.remove(index).1)
    }

    /// Number of times that a call yields to others: a xorshift sequence, so that a seed determines the interleaving.
    fn next_pause(&mut self) -> u64 {
        if self.interleaving == 0 {
            return 0;
        }
        self.interleaving ^= self.interleaving << 13;
        self.interleaving ^= self.interleaving >> 7;
        self.interleaving ^= self.interleaving << 17;
        self.interleaving % 5
    }
}

fn uid_of(cluster: &str) -> Uid {
    Uid(format!("uid-of-{cluster}"))
}

/// A call under way, until it is dropped.
struct UnderWay<'a> {
    sim: &'a Sim,
    until: Timestamp,
}

impl UnderWay<'_> {
    /// Returns whether no other call ends before this one, and if so advances the clock to its end.
    fn is_next(&self) -> bool {
        let mut world = self.sim.lock();
        let is_next = world.under_way.keys().next() == Some(&self.until);
        if is_next {
            world.now = world.now.max(self.until);
        }
        is_next
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        let mut world = self.sim.lock();
        if let Some(calls) = world.under_way.get_mut(&self.until) {
            *calls -= 1;
        }
        world.under_way.retain(|_, calls| *calls > 0);
    }
}

/// Yields this many times.
struct Yield(u64);

impl Future for Yield {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.0 == 0 {
            return Poll::Ready(());
        }
        self.0 -= 1;
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

impl Metrics for Sim {
    fn publish(&self, _: Option<&ClusterName>, _: Timestamp, metrics: &[Metric]) {
        self.lock().metrics.extend_from_slice(metrics);
    }
}

#[async_trait]
impl Clock for Sim {
    /// If calls do not overlap, only calls advance the clock, so this waits for them.
    async fn sleep(&self, time: SignedDuration) {
        let (is_event, until) = self.look(|world| (world.overlapping, world.now + time));
        match is_event {
            true => self.after(time).await,
            false => {
                std::future::poll_fn(|_| match self.look(|world| world.now >= until) {
                    true => Poll::Ready(()),
                    false => Poll::Pending,
                })
                .await;
            }
        }
    }

    fn now(&self) -> Timestamp {
        let skew = self
            .process
            .map_or(SignedDuration::ZERO, |process| process.skew);
        self.lock().now + skew
    }
}

#[async_trait]
impl Wakes for Sim {
    async fn send(&self, wake: &Wake, delay: SignedDuration) -> Result<(), QueueError> {
        self.neutral_call("send", |world| {
            check_limits(wake, delay)?;
            let at = world.now + delay;
            // A standard queue may hold the same wake twice; one is enough for a lane. A wake with another delivery time is
            // another wake.
            world.wakes.retain(|(then, other)| {
                *then != at
                    || (&other.cluster, other.lane) != (&wake.cluster, wake.lane)
                    || other.hints != wake.hints
            });
            world.wakes.push((at, wake.clone()));
            Ok(())
        })
        .await
    }
}

/// SQS rejects messages that are too long or delayed for too long.
fn check_limits(wake: &Wake, delay: SignedDuration) -> Result<(), QueueError> {
    let bytes = serde_json::to_string(wake).map_or(usize::MAX, |body| body.len());
    let message = if delay.is_negative() || delay > DELAY_MAX {
        format!(
            "DelaySeconds must be >= 0 and <= 900, not {}",
            delay.as_secs()
        )
    } else if bytes > MESSAGE_BYTES {
        format!("Message must be shorter than {MESSAGE_BYTES} bytes, not {bytes}")
    } else {
        return Ok(());
    };
    let message = format!("InvalidParameterValue: {message}");
    let lane = wake.lane;
    Err(QueueError::Unavailable { lane, message })
}

#[cfg(test)]
mod tests {
    use model::Lane;

    use super::*;

    #[tokio::test]
    async fn wakes_beyond_sqs_limits_are_rejected() {
        let sim = Sim::new("demo");
        let mut wake = Wake::new("demo".into(), Lane::Provisioner, "test");
        assert!(sim.send(&wake, DELAY_MAX).await.is_ok());
        let late = DELAY_MAX + SignedDuration::from_secs(1);
        assert!(sim.send(&wake, late).await.is_err());
        // The longest possible names, and as many hints as a wake holds.
        wake.hints = vec!["n".repeat(253 * 2 + 1); Wake::HINTS_MAX];
        assert!(sim.send(&wake, SignedDuration::ZERO).await.is_ok());
        wake.hints = vec!["n".repeat(MESSAGE_BYTES)];
        assert!(sim.send(&wake, SignedDuration::ZERO).await.is_err());
    }
}
