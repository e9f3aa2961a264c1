//! The ports of turns in the simulation: the laws check every act before it is done, and a planted bug may change requests and
//! answers.

mod catalog;
mod cloud;
mod cluster;
mod ledger;

use std::{fmt, sync::Arc};

use fakes::{Process, Sim};
use model::{
    ClusterName, InstanceId, Lane, NodeName, PodKey,
    ids::TurnId,
    launch::FleetRequest,
    ledger::Lease,
    plan::{NodeClaimUpdate, Target},
    pod::Pod,
};
use ports::ledger::Commit;

use crate::{
    laws::{AllLaws, Laws},
    planted::Bug,
};

/// An act of a turn.
pub(crate) enum Act<'a> {
    Take { lane: Lane, lease: &'a Lease },
    End { lane: Lane, turn: &'a TurnId },
    Commit(&'a Commit),
    Launch(&'a FleetRequest),
    Terminate(&'a [InstanceId]),
    DeleteClaim(&'a Target),
    UpdateClaim(&'a NodeClaimUpdate),
    DeleteNode(&'a NodeName),
    Evict(Option<Pod>),
    DeletePod(Option<Pod>),
}

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

impl Act<'_> {
    /// Returns whether only the leader of an active cluster may do this.
    pub(crate) fn is_destructive(&self) -> bool {
        match self {
            Self::Launch(_)
            | Self::Terminate(_)
            | Self::DeleteClaim(_)
            | Self::DeleteNode(_)
            | Self::Evict(_)
            | Self::DeletePod(_) => true,
            Self::Take { .. } | Self::End { .. } | Self::Commit(_) | Self::UpdateClaim(_) => false,
        }
    }
}

impl fmt::Display for Act<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = |pod: &Option<Pod>| {
            pod.as_ref()
                .map(|pod| pod.key.to_string())
                .unwrap_or_default()
        };
        match self {
            Self::Take { lane, lease } => write!(f, "{} takes {lane}", lease.owner),
            Self::End { lane, turn } => write!(f, "{turn} ends {lane}"),
            Self::Commit(commit) => write!(f, "commit of {}", commit.turn),
            Self::Launch(request) => write!(f, "launch {}", request.token),
            Self::Terminate(ids) => write!(f, "termination of {ids:?}"),
            Self::DeleteClaim(target) => write!(f, "deletion of NodeClaim {}", target.name),
            Self::UpdateClaim(update) => write!(f, "update of NodeClaim {}", update.name),
            Self::DeleteNode(name) => write!(f, "deletion of Node {name}"),
            Self::Evict(pod) => write!(f, "eviction of {}", key(pod)),
            Self::DeletePod(pod) => write!(f, "deletion of {}", key(pod)),
        }
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
