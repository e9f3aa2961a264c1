//! The ports of turns in the simulation: the laws check every act before it is done, and a planted bug may change requests and
//! answers.

mod catalog;
mod cloud;
mod cluster;
mod ledger;

use std::sync::Arc;

use fakes::{Process, Sim};
use model::{ClusterName, Lane, PodKey, pod::Pod};

use crate::{
    act::Act,
    laws::{AllLaws, Laws},
    planted::Bug,
};

/// Caches of a warm process.
#[derive(Clone, Default)]
pub(crate) struct ProcessCaches {
    pub(crate) heartbeats: Arc<turns::Heartbeats>,
    pub(crate) views: Arc<turns::Views>,
}

/// Access of one process to the world.
#[derive(Clone)]
pub(crate) struct CheckedPorts {
    pub(crate) sim: Sim,
    pub(crate) lane: Lane,
    process: u64,
    /// Cluster whose API server is used.
    cluster: ClusterName,
    pub(crate) bug: Option<Bug>,
    laws: AllLaws,
}

impl CheckedPorts {
    pub(crate) fn new(
        sim: &Sim,
        process: Process,
        lane: Lane,
        cluster: &ClusterName,
        bug: Option<Bug>,
        laws: &AllLaws,
    ) -> Self {
        Self {
            sim: sim.of(process).in_cluster(cluster),
            lane,
            process: process.id,
            cluster: cluster.clone(),
            bug,
            laws: laws.clone(),
        }
    }

    /// Ports of this process for another cluster.
    fn at(&self, cluster: &ClusterName) -> Self {
        Self {
            sim: self.sim.in_cluster(cluster),
            cluster: cluster.clone(),
            ..self.clone()
        }
    }

    pub(crate) fn world(self, holder: &str, warm: ProcessCaches) -> turns::World {
        let plain = Arc::new(self.sim.clone());
        let watched = Arc::new(self);
        turns::World {
            cloud: watched.clone(),
            ledger: watched.clone(),
            journal: watched.clone(),
            archive: watched.clone(),
            clusters: watched.clone(),
            wakes: plain.clone(),
            clock: plain.clone(),
            catalog: watched.clone(),
            node_classes: plain.clone(),
            launches: plain.clone(),
            registry: plain.clone(),
            upkeep: plain.clone(),
            metrics: plain.clone(),
            notifier: plain,
            holder: holder.to_owned(),
            share: turns::Share::TURN,
            views: warm.views,
            heartbeats: warm.heartbeats,
            reach: turns::PUBLIC.to_owned(),
        }
    }

    /// Records a pod that is read again as it really is (docs/protocol.md#a6).
    fn reread(&self, key: &PodKey, pod: Option<&Pod>) {
        self.sim.look(|world| {
            let check = |laws: &mut Laws| laws.rereads(world, self.lane, key, pod);
            self.laws.with(&self.cluster, check);
        });
    }

    /// Records that all inputs of the next plan are read now (docs/protocol.md#c1).
    fn reads(&self) {
        self.sim.look(|world| {
            self.laws
                .with(&self.cluster, |laws| laws.reads(world, self.process));
        });
    }

    fn has(&self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }

    fn check_before(&self, cluster: &ClusterName, act: &Act<'_>) {
        let clock = ports::Clock::now(&self.sim);
        self.sim.in_cluster(cluster).look(|world| {
            let check =
                |laws: &mut Laws| laws.check_act(world, self.process, self.lane, clock, act);
            self.laws.with(cluster, check);
        });
    }
}

/// Implements a port by delegating the listed methods; methods with a body come first.
macro_rules! delegate {
    (
        $port:ident for $to:ident, $error:ty { $($own:item)* }
        $(fn $name:ident($($arg:ident: $kind:ty),*) -> $answer:ty;)*
    ) => {
        #[async_trait::async_trait]
        impl $port for $to {
            $($own)*
            $(async fn $name(&self, $($arg: $kind),*) -> Result<$answer, $error> {
                $port::$name(&self.sim, $($arg),*).await
            })*
        }
    };
}
use delegate;
