//! When a node's pods last changed (docs/spec/lifecycle.md#pod-events), without having watched them come and go.
//!
//! The NodeClaim carries a digest of the pods that count; a different one is an event. So no turn depends on having seen a
//! pod arrive or leave, and a restart of whoever watches is none.

use api::names::annotation::PODS_DIGEST;
use jiff::{SignedDuration, Timestamp};
use model::{node_claim::NodeClaim, pod::Pod};
use sha2::{Digest, Sha256};

use crate::inventory::{is_daemon, is_terminal};

/// Changes within this time count as one, to spare writes; well below the shortest useful `consolidateAfter`.
const TOLERANCE: SignedDuration = SignedDuration::from_secs(10);

/// What must be written: the digest, and the time if this is an event.
pub(super) struct PodChange {
    pub(super) digest: String,
    pub(super) event: Option<Timestamp>,
}

pub(super) enum Judged {
    Unchanged,
    Changed(PodChange),
    /// Another event was so recent that this one is written then.
    Later(Timestamp),
}

pub(super) fn judge(pods: &[&Pod], claim: &NodeClaim, now: Timestamp) -> Judged {
    let digest = digest(pods);
    let Some(before) = claim.annotations.get(PODS_DIGEST) else {
        // The first look at this node tells nothing about when its pods came.
        return Judged::Changed(PodChange {
            digest,
            event: None,
        });
    };
    if *before == digest {
        return Judged::Unchanged;
    }
    let settled = claim.status.last_pod_event.map(|at| at + TOLERANCE);
    match settled.filter(|settled| now < *settled) {
        Some(settled) => Judged::Later(settled),
        None => Judged::Changed(PodChange {
            digest,
            event: Some(now),
        }),
    }
}

fn digest(pods: &[&Pod]) -> String {
    let counts = |pod: &&&Pod| !is_daemon(pod) && !is_terminal(pod) && pod.deletion.is_none();
    let counted = pods.iter().filter(counts);
    let mut uids: Vec<&str> = counted.map(|pod| pod.uid.as_str()).collect();
    uids.sort_unstable();
    Sha256::digest(uids.join("\n"))
        .iter()
        .take(8)
        .map(|byte| format!("{byte:02x}"))
        .collect()
}
