use std::collections::{BTreeMap, BTreeSet};

use model::{Plan, PodKey, Snapshot, plan::PodRef, pod::Pod};

use crate::{Executor, ExecutorError, concurrent::each, rebase};

/// Number of pods up to which each is read by itself. Of more, the unbound ones are listed together: they are few, whereas all
/// pods are many.
const SINGLE_READS_MAX: usize = 20;
/// Number of pods up to which they are read again for events about their failed launches, so that a turn with many failures
/// makes no more calls than others, and leaves room for other events.
const REPORTED_MAX: usize = 50;

impl Executor<'_> {
    /// Reads the pods that cause launches again, and drops those that are bound, gone or changed, with the nodes that no pod
    /// needs then (docs/protocol.md#a6).
    pub(crate) async fn drop_moved_pods(
        &self,
        snapshot: &Snapshot,
        plan: &mut Plan,
    ) -> Result<(), ExecutorError> {
        let wanted: BTreeSet<PodRef> = rebase::launches(plan)
            .flat_map(|launch| launch.pods.iter().cloned())
            .collect();
        if wanted.is_empty() {
            return Ok(());
        }
        let mut present: BTreeMap<PodKey, Pod> = BTreeMap::new();
        if wanted.len() > SINGLE_READS_MAX {
            let unassigned = self.api.unassigned_pods().await?.into_iter();
            present.extend(unassigned.map(|pod| (pod.key.clone(), pod)));
        }
        // Pods of nodes that leave, and pods that were bound in the meantime.
        let others = wanted.iter().filter(|pod| !present.contains_key(&pod.key));
        for found in each(others.collect::<Vec<_>>(), |pod| self.api.pod(&pod.key)).await {
            present.extend(found?.map(|pod| (pod.key.clone(), pod)));
        }
        let snapshot_pods: BTreeMap<&PodKey, &Pod> =
            snapshot.pods.iter().map(|pod| (&pod.key, pod)).collect();
        rebase::drop_pods(plan, |pod| {
            // Pods that go to existing nodes cause no launch, and were not read.
            if !wanted.contains(pod) {
                return false;
            }
            // Pods that the snapshot lacks are virtual: room kept free (docs/spec/scheduling.md#capacity-buffer).
            let Some(before) = snapshot_pods.get(&pod.key) else {
                return false;
            };
            present
                .get(&pod.key)
                .is_none_or(|now| !still_needs_node(before, now))
        });
        Ok(())
    }

    /// The unbound pods of a launch that are not being deleted. Pods that cannot be read are left out, and those beyond the
    /// bound that `others` events leave.
    pub(crate) async fn waiting_pods<'a>(
        &self,
        pods: &'a [PodRef],
        others: usize,
    ) -> Vec<&'a PodRef> {
        let left_out = pods
            .len()
            .saturating_sub(REPORTED_MAX.saturating_sub(others));
        if left_out > 0 {
            tracing::info!(pods = left_out, "events about a failed launch left out");
        }
        let pods = pods.iter().take(pods.len() - left_out);
        let now = each(pods.clone(), |pod| self.api.pod(&pod.key)).await;
        let waits = |pod: &PodRef, now: Option<Pod>| {
            now.is_some_and(|now| {
                now.uid == pod.uid && now.node_name.is_none() && now.deletion.is_none()
            })
        };
        let waiting = pods.zip(now).filter_map(|(pod, now)| {
            let is_waiting = waits(pod, now.ok().flatten());
            is_waiting.then_some(pod)
        });
        waiting.collect()
    }
}

/// Whether this is still the same unbound pod with the same constraints.
fn still_needs_node(before: &Pod, now: &Pod) -> bool {
    let asks = |pod: &Pod| {
        (
            pod.uid.clone(),
            pod.node_name.clone(),
            pod.deletion.is_some(),
            pod.requests.clone(),
            pod.node_selector.clone(),
            pod.node_affinity.clone(),
            pod.tolerations.clone(),
            pod.topology_spread.clone(),
            pod.scheduling_gates.clone(),
        )
    };
    asks(before) == asks(now)
}
