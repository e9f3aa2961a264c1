//! Draining and the end of instances (docs/spec/lifecycle.md#termination, docs/spec/lifecycle.md#drain).

use std::collections::BTreeMap;

use fakes::Fault;
use model::{
    node::ConditionStatus,
    node_claim::NodeClaim,
    selector::LabelSelector,
    snapshot::PodDisruptionBudget,
    taint::{Toleration, TolerationOperator},
    volume::Attachment,
};
use stories::{Relay, Rig, all_bound, all_gone, consistent, secs, settled, transcript};

use crate::{
    change_claim, change_pods, claim, count, delete_claim, has_event, is_gone, node, serving,
};

#[tokio::test]
async fn deleted_node_claim_is_drained_and_its_pods_are_rescheduled() {
    let mut rig = serving(2).await;
    let old = claim(&rig);
    delete_claim(&rig, &old.name);
    let marked = rig
        .until(secs(30), |world| {
            world.api.nodes.values().any(|node| {
                node.taints
                    .iter()
                    .any(|taint| taint.key == "karpenter.sh/disrupted")
                    && node
                        .labels
                        .contains_key("node.kubernetes.io/exclude-from-external-load-balancers")
            })
        })
        .await;
    assert!(marked.is_some(), "{:#?}", rig.transcript);
    assert!(rig.until(secs(300), is_gone(&old)).await.is_some());
    assert!(rig.until(secs(300), all_bound).await.is_some());
    assert!(rig.sim.with(has_event("Evicted")));
    let ended = rig.sim.with(|world| {
        let ended = world
            .api
            .events
            .iter()
            .filter(|event| event.reason == "Finalized");
        ended.map(|event| event.message.clone()).collect::<Vec<_>>()
    });
    let claim = format!("Finalized {}", old.name);
    let node = format!("Finalized {}", old.status.node_name.as_ref().unwrap());
    assert!(ended.contains(&claim) && ended.contains(&node), "{ended:?}");
    rig.pass(secs(120)).await;
    assert!(rig.sim.with(consistent) && rig.sim.with(settled));
    transcript!(rig);
}

/// Whether the instance of a NodeClaim is alive, independently of what EC2 reports.
fn is_running(rig: &Rig, claim: &NodeClaim) -> bool {
    rig.sim.with(|world| {
        let mut alive = world.account.alive();
        alive.any(|instance| claim.status.provider_id.ends_with(instance.id.as_str()))
    })
}

#[tokio::test]
async fn instance_missing_in_ec2_is_terminated_while_its_kubelet_is_ready() {
    let mut rig = serving(2).await;
    let old = claim(&rig);
    rig.sim
        .with(|world| world.account.describe_lag = secs(7_200));
    delete_claim(&rig, &old.name);
    assert!(
        rig.until(secs(300), is_gone(&old)).await.is_some(),
        "{:#?}",
        rig.transcript
    );
    assert!(
        !is_running(&rig, &old),
        "the NodeClaim is deleted: {:#?}",
        rig.transcript
    );
    transcript!(rig);
}

#[tokio::test]
async fn instance_missing_in_ec2_is_terminated_while_its_kubelet_is_not_ready() {
    let mut rig = serving(2).await;
    let old = claim(&rig);
    rig.sim.with(|world| {
        world.account.describe_lag = secs(7_200);
        let id = old.status.provider_id.rsplit('/').next().unwrap().into();
        // The instance is running, and its kubelet is not ready.
        world.account.instances.get_mut(&id).unwrap().private_dns = None;
        for node in world.api.nodes.values_mut() {
            if node.provider_id == old.status.provider_id {
                node.ready.status = ConditionStatus::Unknown;
            }
        }
    });
    rig.pass(secs(60)).await;
    delete_claim(&rig, &old.name);
    assert!(
        rig.until(secs(300), is_gone(&old)).await.is_some(),
        "{:#?}",
        rig.transcript
    );
    assert!(!is_running(&rig, &old), "its NodeClaim is gone");
    transcript!(rig);
}

#[tokio::test]
async fn instance_missing_in_ec2_whose_termination_is_denied_counts_as_gone() {
    let mut rig = serving(2).await;
    let old = claim(&rig);
    rig.sim.with(|world| {
        world.account.instances.clear();
        for node in world.api.nodes.values_mut() {
            node.ready.status = ConditionStatus::Unknown;
        }
    });
    rig.pass(secs(60)).await;
    delete_claim(&rig, &old.name);
    // The instance has no tags that prove its ownership.
    (0..1_000).for_each(|_| rig.sim.fail_next("terminate", Fault::Denied));
    assert!(
        rig.until(secs(300), is_gone(&old)).await.is_some(),
        "{:#?}",
        rig.transcript
    );
    transcript!(rig);
}

#[tokio::test]
async fn deleting_a_node_deletes_its_node_claim() {
    let mut rig = serving(2).await;
    let old = claim(&rig);
    let name = node(&rig);
    rig.sim
        .with(|world| world.api.request_node_deletion(&name, world.now));
    assert!(
        rig.until(secs(300), is_gone(&old)).await.is_some(),
        "{:#?}",
        rig.transcript
    );
    assert!(rig.until(secs(300), all_bound).await.is_some());
    assert!(rig.sim.with(consistent));
    transcript!(rig);
}

/// Terminates the instance outside of Whittle.
pub(crate) fn end_instance(rig: &Rig, claim: &NodeClaim) {
    let id = claim.status.provider_id.rsplit('/').next().unwrap();
    rig.sim
        .with(|world| world.account.terminate(&id.into(), world.now));
}

#[tokio::test]
async fn externally_terminated_instance_removes_its_node_and_node_claim() {
    let mut rig = serving(2).await;
    let old = claim(&rig);
    end_instance(&rig, &old);
    assert!(
        rig.until(secs(600), is_gone(&old)).await.is_some(),
        "{:#?}",
        rig.transcript
    );
    assert!(rig.until(secs(600), all_bound).await.is_some());
    assert!(rig.sim.with(consistent));
    transcript!(rig);
}

#[tokio::test]
async fn vanished_node_object_registers_again() {
    let mut rig = serving(1).await;
    let name = node(&rig);
    rig.sim.with(|world| world.api.nodes.remove(&name));
    let joined = rig
        .until(secs(120), |world| {
            world.api.nodes.get(&name).is_some_and(|node| {
                node.labels.contains_key("karpenter.sh/registered")
                    && node
                        .finalizers
                        .contains(&"karpenter.sh/termination".to_owned())
            })
        })
        .await;
    assert!(joined.is_some(), "{:#?}", rig.transcript);
    assert!(rig.until(secs(120), all_bound).await.is_some());
    assert_eq!(rig.sim.with(|world| world.account.instances.len()), 1);
    transcript!(rig);
}

/// PodDisruptionBudget of all pods of the Deployment.
fn budget(name: &str, allowed: i64) -> PodDisruptionBudget {
    PodDisruptionBudget {
        key: model::PodKey::new("default", name),
        selector: Some(LabelSelector {
            match_labels: BTreeMap::from([("app".to_owned(), "web".to_owned())]),
            match_expressions: Vec::new(),
        }),
        disruptions_allowed: allowed,
        ..PodDisruptionBudget::default()
    }
}

#[tokio::test]
async fn blocking_budget_delays_a_drain_with_few_retries() {
    let mut rig = serving(1).await;
    let old = claim(&rig);
    rig.sim.with(|world| {
        world.api.disruption_budgets = vec![budget("web", 0)];
        world.calls.clear();
    });
    delete_claim(&rig, &old.name);
    rig.pass(secs(3 * 3_600)).await;
    assert!(rig.sim.with(|world| {
        world
            .account
            .alive()
            .any(|instance| old.status.provider_id.ends_with(instance.id.as_str()))
    }));
    assert!(rig.sim.with(has_event("FailedDraining")));
    let tried = count(&rig, "evict");
    // Every five seconds at first, then with backoff to once a minute.
    assert!(
        (200..260).contains(&tried),
        "{tried} evictions in three hours"
    );
    let launched = rig.sim.with(|world| world.account.instances.len());
    assert_eq!(launched, 2, "the node that waits for the pod stays");
    rig.sim
        .with(|world| world.api.disruption_budgets = vec![budget("web", 1)]);
    let gone = rig.until(secs(300), is_gone(&old)).await;
    assert!(gone.is_some(), "{:#?}", rig.transcript.last());
    assert!(rig.until(secs(300), all_bound).await.is_some());
    transcript!(rig);
}

#[tokio::test]
async fn pod_with_two_budgets_blocks_its_drain_and_is_an_event() {
    let mut rig = serving(1).await;
    let old = claim(&rig);
    rig.sim
        .with(|world| world.api.disruption_budgets = vec![budget("a", 1), budget("b", 1)]);
    delete_claim(&rig, &old.name);
    rig.pass(secs(300)).await;
    rig.sim.with(|world| {
        let mut events = world.api.events.iter();
        assert!(events.any(|event| event.message.contains("more than one PodDisruptionBudget")));
        world.api.disruption_budgets.pop();
    });
    assert!(rig.until(secs(300), is_gone(&old)).await.is_some());
    transcript!(rig);
}

#[tokio::test]
async fn do_not_disrupt_pod_stays_until_the_termination_grace_period_ends() {
    let mut rig = serving(1).await;
    let old = claim(&rig);
    change_claim(&rig, &old.name, |claim| {
        claim.spec.termination_grace_period = Some("10m".into());
    });
    change_pods(&rig, |pod| {
        pod.annotations
            .insert("karpenter.sh/do-not-disrupt".into(), "true".into());
        pod.termination_grace_seconds = Some(60);
    });
    delete_claim(&rig, &old.name);
    rig.pass(secs(500)).await;
    assert!(
        !rig.sim.with(has_event("Disrupted")),
        "{:#?}",
        rig.transcript
    );
    assert!(rig.sim.with(has_event("TerminationGracePeriodExpiring")));
    let forced = rig.until(secs(70), has_event("Disrupted")).await;
    assert!(
        forced.is_some(),
        "a minute before the end: {:#?}",
        rig.transcript
    );
    let gone = rig.until(secs(180), is_gone(&old)).await;
    assert!(gone.is_some(), "{:#?}", rig.transcript);
    transcript!(rig);
}

#[tokio::test]
async fn stuck_terminating_pod_delays_termination_by_a_minute() {
    let mut rig = serving(1).await;
    let old = claim(&rig);
    rig.sim
        .with(|world| world.api.stuck = world.api.pods.keys().cloned().collect());
    delete_claim(&rig, &old.name);
    let gone = rig.until(secs(300), is_gone(&old)).await;
    assert!(
        gone.is_some_and(|took| took > 60),
        "{gone:?} {:#?}",
        rig.transcript
    );
    assert!(rig.until(secs(300), all_bound).await.is_some());
    transcript!(rig);
}

#[tokio::test]
async fn pods_that_tolerate_the_disruption_taint_are_not_evicted() {
    let mut rig = serving(1).await;
    let old = claim(&rig);
    change_pods(&rig, |pod| {
        pod.tolerations = vec![Toleration {
            key: String::new(),
            operator: TolerationOperator::Exists,
            value: String::new(),
            effect: None,
            toleration_seconds: None,
        }];
    });
    delete_claim(&rig, &old.name);
    assert!(rig.until(secs(300), is_gone(&old)).await.is_some());
    assert_eq!(count(&rig, "evict"), 0);
    transcript!(rig);
}

#[tokio::test]
async fn volumes_are_detached_before_termination() {
    let mut rig = serving(1).await;
    let old = claim(&rig);
    let name = node(&rig);
    rig.sim.with(|world| {
        world.api.storage.attachments = vec![Attachment {
            name: "csi-1".into(),
            node: name.clone(),
            volume: Some("pv-1".into()),
            attached: true,
        }];
    });
    delete_claim(&rig, &old.name);
    rig.pass(secs(240)).await;
    assert!(rig.sim.with(has_event("AwaitingVolumeDetachment")));
    assert!(!rig.sim.with(is_gone(&old)), "{:#?}", rig.transcript);
    rig.sim.with(|world| world.api.storage.attachments.clear());
    assert!(rig.until(secs(300), is_gone(&old)).await.is_some());
    transcript!(rig);
}

/// `kubectl delete nodepool`: the API server's garbage collector deletes the NodeClaims.
pub(crate) fn delete_node_pool(rig: &Rig) {
    rig.sim.with(|world| {
        world.api.node_pools.clear();
        let claims: Vec<_> = world.api.node_claims.keys().cloned().collect();
        for name in claims {
            world.api.request_deletion(&name, world.now);
        }
    });
}

#[tokio::test]
async fn deleting_a_node_pool_removes_its_nodes() {
    let mut rig = serving(3).await;
    delete_node_pool(&rig);
    assert!(
        rig.until(secs(600), all_gone).await.is_some(),
        "{:#?}",
        rig.transcript
    );
    rig.pass(secs(300)).await;
    rig.sim.with(|world| {
        let rows = world.ledger.of(&Rig::cluster());
        assert!(rows.intents.is_empty() && rows.claims.is_empty());
        assert!(world.api.pods.values().all(|pod| pod.node_name.is_none()));
    });
    transcript!(rig);
}

#[tokio::test]
async fn deletion_is_handled_without_the_relay() {
    let mut rig = serving(1).await;
    rig.relay = Relay::Dead;
    let old = claim(&rig);
    delete_claim(&rig, &old.name);
    assert!(
        rig.until(secs(900), is_gone(&old)).await.is_some(),
        "{:#?}",
        rig.transcript
    );
    transcript!(rig);
}
