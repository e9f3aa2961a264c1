//! Features behind feature gates, which few seeds enable: node repair, static NodePools and capacity reservations.

use super::{Event, EventKind, FAULT_SECONDS, Setting};
use crate::rng::Rng;

/// Probability that a seed enables each feature, per mille.
const REPAIR: u64 = 160;
const STATIC: u64 = 130;
const RESERVED: u64 = 130;
/// Probability of an outbreak among seeds with node repair, per mille.
const OUTBREAKS: u64 = 400;
/// Seconds until there are nodes that can fail.
const NODES_AFTER: i64 = 200;
/// Attempts to make a node fail: there may be no healthy one, and a second node does not fail while another has failed.
const ATTEMPTS: usize = 4;
/// Maximum number of nodes of a static NodePool.
const REPLICAS_MAX: usize = 4;

/// Features that are enabled for a whole run.
#[derive(Clone, Debug, Default)]
pub struct GatedFeatures {
    /// Whether node repair is enabled.
    pub repairs: bool,
    /// Initial number of nodes of the static NodePool.
    pub replicas: Option<usize>,
    /// Instances of a capacity reservation that all NodePools may use.
    pub reserved: Option<u32>,
    /// Whether nodes may be terminated before their replacements are ready.
    pub terminates_first: bool,
}

/// A component of a machine that fails permanently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureMode {
    Storage,
    Accelerator,
}

/// Common cause of several failing nodes; nodes that start later with the cause fail as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommonCause {
    /// The AMI that a NodeClass selects from then on.
    Image,
    Zone(&'static str),
    /// The API server no longer hears from kubelets.
    ApiServer,
}

impl GatedFeatures {
    pub(super) fn draw(seed: u64, setting: &mut Setting) -> Vec<Event> {
        let mut rng = Rng::new(seed, 13);
        // A burst uses a single instance type, and takes long enough without these features.
        if setting.burst {
            return Vec::new();
        }
        let mut events = Vec::new();
        if rng.chance(REPAIR) {
            setting.gated.repairs = true;
            events.extend(failures(&mut rng, setting.clusters));
        }
        if rng.chance(STATIC) {
            setting.gated.replicas = Some(rng.index(REPLICAS_MAX));
            events.extend((0..rng.between(1, 2)).map(|_| Event {
                at: rng.between(1, FAULT_SECONDS - 1),
                cluster: rng.index(setting.clusters),
                kind: EventKind::Replicas {
                    count: rng.index(REPLICAS_MAX + 1),
                },
            }));
        }
        // Clusters that share a reservation cannot rely on its capacity.
        if setting.clusters == 1 && rng.chance(RESERVED) {
            setting.gated.reserved = u32::try_from(rng.between(1, 3)).ok();
        }
        setting.gated.terminates_first = rng.chance(500);
        events
    }
}

fn failures(rng: &mut Rng, clusters: usize) -> Vec<Event> {
    let cluster = rng.index(clusters);
    let ailments = [FailureMode::Storage, FailureMode::Accelerator];
    let failure_mode = rng.pick(&ailments).copied().unwrap_or(FailureMode::Storage);
    let single = |rng: &mut Rng| Event {
        at: rng.between(NODES_AFTER, FAULT_SECONDS - 1),
        cluster,
        kind: EventKind::NodeFails { failure_mode },
    };
    if !rng.chance(OUTBREAKS) {
        let scaled = Event {
            at: NODES_AFTER / 4,
            cluster,
            kind: EventKind::Scale {
                deployment: "web",
                replicas: 4,
            },
        };
        let attempts = (0..ATTEMPTS).map(|_| single(rng));
        return [scaled].into_iter().chain(attempts).collect();
    }
    let causes = [
        CommonCause::Image,
        CommonCause::Zone("us-east-1a"),
        CommonCause::Zone("us-east-1b"),
        CommonCause::ApiServer,
    ];
    let cause = rng.pick(&causes).copied().unwrap_or(CommonCause::ApiServer);
    let outbreak = Event {
        at: rng.between(NODES_AFTER, FAULT_SECONDS - 1),
        cluster,
        kind: EventKind::Outbreak {
            cause,
            failure_mode,
        },
    };
    vec![outbreak]
}
