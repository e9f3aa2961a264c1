//! Time of the last pod event of a node (docs/spec/lifecycle.md#pod-events), derived without watching pods.
//!
//! The NodeClaim carries a digest of the pods that count, and a change of the digest is an event. No turn depends on having
//! observed a pod's arrival or departure, and a restart of the watcher is no event.

use api::names::annotation::PODS_DIGEST;
use jiff::{SignedDuration, Timestamp};
use model::{node_claim::NodeClaim, pod::Pod};
use sha2::{Digest, Sha256};

use crate::inventory::{is_daemon, is_terminal};

/// Time within which changes count as one event, to save writes. Well below the shortest useful `consolidateAfter`.
const MERGED_WITHIN: SignedDuration = SignedDuration::from_secs(10);

/// Update to write: the digest, and the time if it is an event.
pub(crate) struct PodChange {
    pub(crate) digest: String,
    pub(crate) event: Option<Timestamp>,
}

/// Whether the pods of a node have changed.
pub(crate) enum Judged {
    Unchanged,
    Changed(PodChange),
    /// The last event is too recent; the next one is written at this time.
    Later(Timestamp),
}

pub(crate) fn judge(pods: &[&Pod], claim: &NodeClaim, now: Timestamp) -> Judged {
    let digest = digest(pods);
    let Some(before) = claim.annotations.get(PODS_DIGEST) else {
        // Without an earlier digest, the time of the last pod event is unknown.
        return Judged::Changed(PodChange {
            digest,
            event: None,
        });
    };
    if *before == digest {
        return Judged::Unchanged;
    }
    let settled = claim.status.last_pod_event.map(|at| at + MERGED_WITHIN);
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
