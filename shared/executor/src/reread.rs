use std::collections::{BTreeMap, BTreeSet};

use model::{Plan, PodKey, Snapshot, plan::PodRef, pod::Pod};

use crate::{Executor, Trouble, rebase};

/// Up to this many pods are read one by one; for more, one list is cheaper.
const SINGLE_READS_MAX: usize = 20;

impl Executor<'_> {
    /// A6: reads the pods that cause launches again, and drops those bound, gone or changed, with the nodes nobody needs
    /// then.
    pub(crate) async fn drop_moved_pods(
        &self,
        snapshot: &Snapshot,
        plan: &mut Plan,
    ) -> Result<(), Trouble> {
        let wanted: BTreeSet<PodRef> = rebase::launches(plan)
            .flat_map(|launch| launch.pods.iter().cloned())
            .collect();
        if wanted.is_empty() {
            return Ok(());
        }
        let mut present: BTreeMap<PodKey, Pod> = BTreeMap::new();
        if wanted.len() > SINGLE_READS_MAX {
            present.extend(
                self.api
                    .pods()
                    .await?
                    .into_iter()
                    .map(|pod| (pod.key.clone(), pod)),
            );
        } else {
            for pod in &wanted {
                present.extend(
                    self.api
                        .pod(&pod.key)
                        .await?
                        .map(|found| (found.key.clone(), found)),
                );
            }
        }
        let seen: BTreeMap<&PodKey, &Pod> =
            snapshot.pods.iter().map(|pod| (&pod.key, pod)).collect();
        rebase::drop_pods(plan, |pod| {
            // What goes to nodes that are there causes no launch, and was not read.
            if !wanted.contains(pod) {
                return false;
            }
            // Pods that the snapshot does not have are not real ones: room kept free (spec/scheduling §27).
            let Some(before) = seen.get(&pod.key) else {
                return false;
            };
            present
                .get(&pod.key)
                .is_none_or(|now| !still_needs_it(before, now))
        });
        Ok(())
    }
}

/// The same pod, still waiting, and asking for the same.
fn still_needs_it(before: &Pod, now: &Pod) -> bool {
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
