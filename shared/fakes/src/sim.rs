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
    fault::{Death, Fate, Fault, Fuse, Process, Trouble, Weather},
    notifier::Told,
    offered::Offered,
    provider,
    rows::Rows,
    seconds::Settled,
    table::MemoryTable,
    told::ToldStatus,
};

/// A handle on the simulated world; clones share it.
#[derive(Clone)]
pub struct Sim {
    world: Arc<Mutex<World>>,
    /// The real one, over the world's table.
    ledger: Arc<TableLedger>,
    process: Option<Process>,
    /// Cluster whose API server this handle reaches; `None` where the world has only one.
    cluster: Option<ClusterName>,
}

/// Something that others do to the world meanwhile.
pub type Happening = fn(&mut World);

/// Everything there is.
pub struct World {
    pub now: Timestamp,
    pub account: Account,
    /// API server of the cluster that the last handle reached.
    pub api: ApiServer,
    /// Name of that cluster.
    pub cluster: ClusterName,
    /// API servers of the account's other clusters.
    others: BTreeMap<ClusterName, ApiServer>,
    pub ledger: Rows,
    /// Wakes sent and not taken yet, with the time of their delivery.
    pub wakes: Vec<(Timestamp, Wake)>,
    pub registry: Vec<RegistryEntry>,
    /// SecureString parameters, by name.
    pub secrets: BTreeMap<String, String>,
    /// What people were told outside the cluster.
    pub told: Vec<Told>,
    /// The instance types that every NodeClass allows.
    pub catalog: Offered,
    pub fuse: Fuse,
    /// The process dies when the first call of this name has taken effect.
    pub fuse_after: Option<&'static str>,
    /// Happens once, when a call of this name begins.
    pub on_call: Option<(&'static str, Happening)>,
    /// Names of the port calls made, in order.
    pub calls: Vec<&'static str>,
    faults: Vec<(&'static str, Fault)>,
    /// Calls that get no answer until they are taken out of here.
    pub down: BTreeSet<&'static str>,
    /// What turns measured, in order.
    pub metrics: Vec<Metric>,
    /// Clusters that somebody deleted.
    pub deleted: BTreeSet<ClusterName>,
    /// Whether EC2 calls are taken out of the account's budget.
    pub budgeted: bool,
    /// Whether the Price List might be asked, each time prices were renewed.
    pub looked_up: Vec<bool>,
    /// How long every port call takes.
    pub latency: SignedDuration,
    /// How much longer API servers of these clusters take for each call; counts while calls overlap.
    pub slow: BTreeMap<ClusterName, SignedDuration>,
    /// Calls that are made together take their time together, instead of one after the other.
    pub overlapping: bool,
    /// When the calls under way are answered, while they overlap.
    under_way: BTreeMap<Timestamp, usize>,
    /// Decides how turns that run together interleave; 0 runs each to its end.
    pub interleaving: u64,
    /// Decides what becomes of the calls of processes.
    pub weather: Option<Box<dyn Weather>>,
    /// Processes that ended in the middle of a call. Nobody answers them: whoever runs one drops it.
    pub dead: BTreeSet<u64>,
    /// Grows with everything that may have changed something, so that nobody need look again where nothing has.
    pub changes: u64,
    /// What the world was when nothing was left to happen by itself, and until when that holds.
    pub(crate) settled: Option<Settled>,
}

impl Sim {
    /// 1 January 2026; story times count from here.
    pub const START: i64 = 1_767_225_600;

    /// A world with one registered, active cluster, a small catalog, and nothing in it.
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
            told: Vec::new(),
            catalog: provider::small_catalog().into(),
            fuse: Fuse::default(),
            fuse_after: None,
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
            weather: None,
            dead: BTreeSet::new(),
            changes: 0,
            settled: None,
        };
        world.api.status = Some(ToldStatus::default());
        world.api.uid = uid_of(cluster);
        Self {
            world: Arc::new(Mutex::new(world)),
            ledger: Arc::new(Rows::ledger(table)),
            process: None,
            cluster: None,
        }
    }

    /// Adds a registered, active cluster with an API server of its own. Instances join the cluster that their tag names.
    pub fn add_cluster(&self, cluster: &str) {
        self.with(|world| {
            let mut api = ApiServer::of(uid_of(cluster));
            api.status = Some(ToldStatus::default());
            world.others.insert(cluster.into(), api);
            let endpoint = format!("https://{cluster}.test");
            world.registry.push(registered(cluster, &endpoint));
        });
    }

    /// The same world as one process reaches it.
    pub fn of(&self, process: Process) -> Self {
        Self {
            process: Some(process),
            ..self.clone()
        }
    }

    /// Handle on this world that reaches the API server of one cluster.
    pub fn in_cluster(&self, cluster: &ClusterName) -> Self {
        Self {
            cluster: Some(cluster.clone()),
            ..self.clone()
        }
    }

    /// Looks at the world directly, without passing a port.
    pub fn look<T>(&self, look: impl FnOnce(&World) -> T) -> T {
        let mut world = self.lock();
        world.ledger.refresh();
        look(&world)
    }

    /// Looks at or changes the world directly, without passing a port.
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

    /// For what is no part of the world: the course of calls, and the clock.
    fn lock(&self) -> MutexGuard<'_, World> {
        let mut world = self.world.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(cluster) = &self.cluster {
            world.turn_to(cluster);
        }
        world
    }

    /// Lets time pass in steps of a second, with everything that happens by itself.
    pub fn advance(&self, time: SignedDuration) {
        let mut world = self.lock();
        for _ in 0..time.as_secs() {
            world.now += SignedDuration::from_secs(1);
            world.step();
        }
    }

    /// The next call of this name fails so. Several faults for one name are used up in order.
    pub fn fail_next(&self, call: &'static str, fault: Fault) {
        self.with(|world| world.faults.push((call, fault)));
    }

    /// Wakes that are deliverable now, taken out of the queues.
    pub fn take_wakes(&self) -> Vec<Wake> {
        let mut world = self.lock();
        let now = world.now;
        let ready = world.wakes.extract_if(.., |(at, _)| *at <= now);
        ready.map(|(_, wake)| wake).collect()
    }

    /// Lets a call's time pass, together with that of all others that are under way.
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

    /// Returns when the next of all calls and waits under way is this one, and moves the clock there.
    async fn after(&self, time: SignedDuration) {
        let until = {
            let mut world = self.lock();
            let until = world.now + time;
            *world.under_way.entry(until).or_default() += 1;
            until
        };
        let call = UnderWay { sim: self, until };
        // Whoever is called together with this one is under way when this one is looked at again.
        Yield(1).await;
        while !call.is_next() {
            Yield(1).await;
        }
    }

    /// How many port calls were made since this was asked last.
    pub fn take_calls(&self) -> usize {
        let calls = &mut self.lock().calls;
        let count = calls.len();
        calls.clear();
        count
    }

    /// Whether a process ended in the middle of a call; said once.
    pub fn has_died(&self, process: u64) -> bool {
        let dead = &mut self.lock().dead;
        !dead.is_empty() && dead.remove(&process)
    }

    /// Somebody besides turns sends a wake.
    pub fn wake(&self, wake: Wake, delay: SignedDuration) {
        let mut world = self.lock();
        let at = world.now + delay;
        world.wakes.push((at, wake));
    }

    /// What the relay writes. Nobody but turns looks at it.
    pub fn beat(&self, cluster: &ClusterName, beat: RelayBeat) {
        self.lock().ledger.beat(cluster, beat);
    }

    /// One call through a port: the fuse, a fault, the act, the fuse again.
    pub(crate) async fn port<T, E: Trouble>(
        &self,
        call: &'static str,
        act: impl FnOnce(&mut World) -> Result<T, E>,
    ) -> Result<T, E> {
        self.aside(call, |world| {
            world.changes += 1;
            act(world)
        })
        .await
    }

    /// The same for what changes nothing, or only what concerns nobody but turns: what they have read, said or are due for.
    pub(crate) async fn aside<T, E: Trouble>(
        &self,
        call: &'static str,
        act: impl FnOnce(&mut World) -> Result<T, E>,
    ) -> Result<T, E> {
        let pauses = self.lock().next_pause();
        Yield(pauses).await;
        self.overlap().await;
        let fate = self.fate(call);
        Yield(fate.gives_way).await;
        self.sleep(fate.takes).await;
        self.may_die(fate.dies == Some(Death::Before)).await;
        let answer = self.answer(call, fate.fault, act);
        self.may_die(fate.dies == Some(Death::After)).await;
        answer
    }

    fn answer<T, E: Trouble>(
        &self,
        call: &'static str,
        fated: Option<Fault>,
        act: impl FnOnce(&mut World) -> Result<T, E>,
    ) -> Result<T, E> {
        let world = &mut *self.lock();
        if !world.fuse.pass() {
            return Err(E::of(Fault::Unavailable, call));
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
            return Err(E::of(Fault::Unavailable, call));
        }
        let fault = world.take_fault(call).or(fated);
        match fault {
            Some(fault) if fault != Fault::LostAnswer => return Err(E::of(fault, call)),
            Some(_) | None => {}
        }
        let answer = act(world);
        if world.fuse_after.take_if(|name| *name == call).is_some() {
            world.fuse = Fuse::blowing_at(1);
        }
        if !world.fuse.pass() || fault.is_some() {
            return Err(E::of(Fault::LostAnswer, call));
        }
        answer
    }

    fn fate(&self, call: &'static str) -> Fate {
        let Some(process) = self.process else {
            return Fate::default();
        };
        let mut world = self.lock();
        let now = world.now;
        let weather = world.weather.as_mut();
        let cluster = self.cluster.as_ref();
        weather.map_or_else(Fate::default, |weather| {
            weather.fate(process.id, cluster, call, now)
        })
    }

    /// Gives way until so much time has passed.
    async fn sleep(&self, time: SignedDuration) {
        if time.is_zero() {
            return;
        }
        let until = self.lock().now + time;
        while self.lock().now < until {
            Yield(1).await;
        }
    }

    async fn may_die(&self, dies: bool) {
        if let Some(process) = self.process.filter(|_| dies) {
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
    /// Brings a cluster's API server to [`World::api`]. Where there is only one, it stands for every cluster.
    pub(crate) fn turn_to(&mut self, cluster: &ClusterName) {
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

    /// All clusters, that at [`World::api`] last.
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

    /// How often a call gives way to others: a xorshift sequence, so that a seed is one interleaving.
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

/// A call whose answer is on its way, until it is dropped.
struct UnderWay<'a> {
    sim: &'a Sim,
    until: Timestamp,
}

impl UnderWay<'_> {
    /// Moves the clock if no other call is answered before this one.
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

/// Gives way this many times.
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
    /// Where calls take their time one after the other, the clock is moved by them alone.
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
        self.aside("send", |world| {
            takes(wake, delay)?;
            let at = world.now + delay;
            // A standard queue may hold the same wake twice; holding it once is enough for a lane. One that comes at another
            // time is another one.
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

/// SQS refuses a message that is too long, or kept back for too long.
fn takes(wake: &Wake, delay: SignedDuration) -> Result<(), QueueError> {
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
    async fn wakes_beyond_the_limits_of_sqs_are_refused() {
        let sim = Sim::new("demo");
        let mut wake = Wake::new("demo".into(), Lane::Provisioner, "test");
        assert!(sim.send(&wake, DELAY_MAX).await.is_ok());
        let late = DELAY_MAX + SignedDuration::from_secs(1);
        assert!(sim.send(&wake, late).await.is_err());
        // As long as any name, and as many as a wake takes.
        wake.hints = vec!["n".repeat(253 * 2 + 1); Wake::HINTS_MAX];
        assert!(sim.send(&wake, SignedDuration::ZERO).await.is_ok());
        wake.hints = vec!["n".repeat(MESSAGE_BYTES)];
        assert!(sim.send(&wake, SignedDuration::ZERO).await.is_err());
    }
}
