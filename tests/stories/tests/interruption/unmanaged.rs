//! Nodes without a NodePool, of managed node groups and of kOps, which are handled only if they are opted in.

use fakes::Fault;
use model::{CapacityType, InstanceId, NodeName, PodKey, launch::Instance, node::Node};
use serde_json::json;
use stories::{Relay, Rig, secs};

use crate::{counts, deliver, event, instances, running, spot, warning};

const GROUP_NODE: &str = "ip-10-0-0-9.ec2.internal";
const MANAGED: &str = "aws-node-termination-handler/managed";

/// A cluster of one node of a NodePool and one of a managed node group, which runs a pod and a DaemonSet's pod.
async fn with_group(relay: Relay) -> (Rig, InstanceId) {
    let rig = running(relay, 1).await;
    let like = instances(&rig)[0].clone();
    let id = InstanceId::from("i-0group");
    rig.sim.with(|world| {
        let one = world.account.instances[&like].clone();
        let tags = [
            ("eks:cluster-name", "demo"),
            ("eks:nodegroup-name", "workers"),
        ];
        let instance = Instance {
            id: id.clone(),
            capacity_type: CapacityType::Spot,
            private_dns: Some(GROUP_NODE.into()),
            tags: tags.map(|(key, value)| (key.into(), value.into())).into(),
            ..one
        };
        let node = world.api.nodes.values().next().unwrap().clone();
        let old = node.name.clone();
        let mut node = Node {
            name: GROUP_NODE.into(),
            uid: "group-node".into(),
            provider_id: format!("aws:///{}/{id}", instance.zone),
            finalizers: Vec::new(),
            ..node
        };
        node.labels
            .retain(|key, _| !key.contains("karpenter") && !key.contains("whittle"));
        let mut pods = world.api.pods.values();
        let pod = pods
            .find(|pod| pod.node_name.as_ref() == Some(&old))
            .unwrap();
        let mut web = pod.clone();
        web.key = PodKey::new("default", "group-web");
        web.uid = "group-web".into();
        web.node_name = Some(GROUP_NODE.into());
        let mut daemon = web.clone();
        daemon.key = PodKey::new("default", "group-agent");
        daemon.uid = "group-agent".into();
        if let Some(owner) = &mut daemon.owner {
            owner.kind = "DaemonSet".into();
            owner.api_version = "apps/v1".into();
        }
        world.account.instances.insert(id.clone(), instance);
        world.api.nodes.insert(node.name.clone(), node);
        world.api.deployments.get_mut("web").unwrap().replicas += 1;
        for pod in [web, daemon] {
            world.api.pods.insert(pod.key.clone(), pod);
        }
    });
    (rig, id)
}

fn opt_in(rig: &Rig, id: &InstanceId) {
    rig.sim.with(|world| {
        let instance = world.account.instances.get_mut(id).unwrap();
        instance.tags.insert(MANAGED.into(), String::new());
    });
}

fn options(rig: &Rig, options: &serde_json::Value) {
    rig.configure(&json!({"nodeTerminationHandler": options}));
}

fn node(world: &fakes::World) -> &Node {
    &world.api.nodes[&NodeName::from(GROUP_NODE)]
}

fn is_drained(world: &mut fakes::World) -> bool {
    let left = world.api.pods.values();
    let mut left = left.filter(|pod| pod.node_name == Some(GROUP_NODE.into()));
    left.all(|pod| pod.key.name == "group-agent")
}

fn reasons(rig: &Rig) -> Vec<String> {
    rig.sim.with(|world| {
        let events = world.api.events.iter();
        let about = |event: &&ports::cluster::Event| {
            matches!(&event.about, ports::cluster::EventTarget::Node(name, _) if name.as_str() == GROUP_NODE)
        };
        let reasons = events.filter(about).map(|event| event.reason.clone());
        let mut reasons: Vec<String> = reasons.collect();
        reasons.retain(|reason| reason != "FailedDraining");
        reasons.sort();
        reasons.dedup();
        reasons
    })
}

fn ends(rig: &Rig, id: &InstanceId) -> String {
    let mut body: serde_json::Value = serde_json::from_str(&event(
        rig,
        "EC2 Instance-terminate Lifecycle Action",
        json!({
            "EC2InstanceId": id, "AutoScalingGroupName": "workers", "LifecycleHookName": "drain",
            "LifecycleActionToken": "t-1", "LifecycleTransition": "autoscaling:EC2_INSTANCE_TERMINATING"
        }),
    ))
    .unwrap();
    body["source"] = "aws.autoscaling".into();
    body.to_string()
}

fn calls(rig: &Rig, name: &str) -> usize {
    rig.sim.with(|world| {
        let calls = world.calls.iter();
        calls.filter(|call| **call == name).count()
    })
}

#[tokio::test]
async fn unmanaged_node_without_tag_or_label_is_ignored() {
    let (mut rig, id) = with_group(Relay::Dead).await;
    let body = spot(&rig, &id);
    let delivery = deliver(&mut rig, &[body]).await;
    assert_eq!(counts(&delivery), [("spot_interrupted/not-ours", 1)]);
    rig.pass(secs(60)).await;
    rig.sim
        .with(|world| assert!(!node(world).unschedulable && !is_drained(world)));
}

#[tokio::test]
async fn spot_notice_for_an_instance_that_ec2_shows_as_on_demand_is_ignored() {
    let (mut rig, id) = with_group(Relay::Dead).await;
    opt_in(&rig, &id);
    rig.sim.with(|world| {
        let instance = world.account.instances.get_mut(&id).unwrap();
        instance.capacity_type = CapacityType::OnDemand;
    });
    let body = warning(&rig, &id);
    let delivery = deliver(&mut rig, &[body]).await;
    assert_eq!(counts(&delivery), [("spot_interrupted/not-ours", 1)]);
    rig.pass(secs(60)).await;
    rig.sim
        .with(|world| assert!(!node(world).unschedulable && !is_drained(world)));
    // Events that apply to any capacity type still count.
    let body = ends(&rig, &id);
    let delivery = deliver(&mut rig, &[body]).await;
    assert_eq!(counts(&delivery), [("group_terminating/recorded", 1)]);
}

#[tokio::test]
async fn tagged_unmanaged_node_is_cordoned_and_drained_but_never_terminated() {
    let (mut rig, id) = with_group(Relay::Dead).await;
    opt_in(&rig, &id);
    let body = spot(&rig, &id);
    let delivery = deliver(&mut rig, &[body]).await;
    assert_eq!(counts(&delivery), [("spot_interrupted/recorded", 1)]);
    rig.sim.with(|world| {
        let node = node(world);
        assert!(node.unschedulable, "at once");
        let excluded = &node.labels["node.kubernetes.io/exclude-from-external-load-balancers"];
        assert_eq!(excluded, "aws-node-termination-handler");
    });
    let moved = |world: &mut fakes::World| {
        is_drained(world) && world.api.pods.values().all(|pod| pod.node_name.is_some())
    };
    let took = rig.until(secs(115), moved).await;
    assert!(took.is_some(), "{:#?}", rig.transcript);
    rig.pass(secs(10)).await;
    rig.sim.with(|world| {
        assert!(world.account.instances[&id].state.is_alive());
        let notices = world.ledger.of(&Rig::cluster()).notices.values();
        assert!(notices.into_iter().all(|notice| notice.done));
    });
    assert_eq!(
        reasons(&rig),
        ["CordonAndDrain", "PostDrain", "SpotInterruption"]
    );
}

#[tokio::test]
async fn node_label_opts_an_unmanaged_node_in() {
    let (mut rig, id) = with_group(Relay::Dead).await;
    rig.sim.with(|world| {
        let node = world
            .api
            .nodes
            .get_mut(&NodeName::from(GROUP_NODE))
            .unwrap();
        node.labels.insert(MANAGED.into(), "true".into());
    });
    let body = spot(&rig, &id);
    // A failing read does not prove that the node has no label.
    rig.sim.fail_next("node", Fault::Throttled);
    let delivery = deliver(&mut rig, std::slice::from_ref(&body)).await;
    assert_eq!(delivery.kept.len(), 1);
    let delivery = deliver(&mut rig, &[body]).await;
    assert_eq!(counts(&delivery), [("spot_interrupted/recorded", 1)]);
    assert!(rig.until(secs(115), is_drained).await.is_some());
}

#[tokio::test]
async fn lifecycle_hook_is_completed_when_the_node_is_drained() {
    let (mut rig, id) = with_group(Relay::Watching).await;
    opt_in(&rig, &id);
    rig.sim.with(|world| {
        let pod = world
            .api
            .pods
            .get_mut(&PodKey::new("default", "group-web"))
            .unwrap();
        pod.annotations
            .insert("karpenter.sh/do-not-disrupt".into(), "true".into());
        world.calls.clear();
    });
    let body = ends(&rig, &id);
    let delivery = deliver(&mut rig, &[body]).await;
    assert_eq!(counts(&delivery), [("group_terminating/recorded", 1)]);
    rig.pass(secs(120)).await;
    assert!(
        calls(&rig, "extend_hook") >= 8,
        "at least each fifteen seconds"
    );
    assert_eq!(calls(&rig, "complete_hook"), 0);
    rig.sim.with(|world| {
        let pod = world
            .api
            .pods
            .get_mut(&PodKey::new("default", "group-web"))
            .unwrap();
        pod.annotations.clear();
    });
    // The first completion of the hook fails.
    rig.sim.fail_next("complete_hook", Fault::Throttled);
    let ended = |world: &mut fakes::World| !world.account.instances[&id].state.is_alive();
    let took = rig.until(secs(120), ended).await;
    assert!(took.is_some(), "{:#?}", rig.transcript);
    rig.sim.with(|world| {
        let notices = world.ledger.of(&Rig::cluster()).notices.values();
        assert!(notices.into_iter().all(|notice| notice.done));
    });
}

#[tokio::test]
async fn cordon_only_evicts_no_pod_and_completes_the_hook() {
    let (mut rig, id) = with_group(Relay::Dead).await;
    opt_in(&rig, &id);
    options(&rig, &json!({"cordonOnly": true, "taintNode": true}));
    let body = ends(&rig, &id);
    rig.sim.with(|world| world.calls.clear());
    deliver(&mut rig, &[body]).await;
    rig.pass(secs(5)).await;
    rig.sim.with(|world| {
        let node = node(world);
        assert!(node.unschedulable);
        let taint = "aws-node-termination-handler/asg-lifecycle-termination";
        assert!(node.taints.iter().any(|existing| existing.key == taint));
    });
    assert_eq!(calls(&rig, "complete_hook"), 1);
    assert_eq!((calls(&rig, "evict"), calls(&rig, "delete_pod")), (0, 0));
    assert_eq!(reasons(&rig), ["ASGLifecycle", "Cordon"]);
}

#[tokio::test]
async fn dry_run_and_ignored_rebalance_recommendation_change_nothing() {
    let (mut rig, id) = with_group(Relay::Dead).await;
    opt_in(&rig, &id);
    options(&rig, &json!({"dryRun": true}));
    let body = spot(&rig, &id);
    let delivery = deliver(&mut rig, &[body]).await;
    assert_eq!(counts(&delivery), [("spot_interrupted/shadow", 1)]);
    options(&rig, &json!({"rebalance": "ignore"}));
    let body = event(
        &rig,
        "EC2 Instance Rebalance Recommendation",
        json!({ "instance-id": id }),
    );
    let delivery = deliver(&mut rig, &[body]).await;
    assert_eq!(
        counts(&delivery),
        [("rebalance_recommendation/tolerated", 1)]
    );
    rig.pass(secs(60)).await;
    rig.sim.with(|world| {
        assert!(!node(world).unschedulable && !is_drained(world));
        assert!(world.ledger.of(&Rig::cluster()).notices.is_empty());
    });
}

#[tokio::test]
async fn drained_node_gets_the_out_of_service_taint_if_configured() {
    let (mut rig, id) = with_group(Relay::Dead).await;
    opt_in(&rig, &id);
    options(&rig, &json!({"enableOutOfServiceTaint": true}));
    let body = spot(&rig, &id);
    deliver(&mut rig, &[body]).await;
    let marked = |world: &mut fakes::World| {
        let mut taints = node(world).taints.iter();
        taints.any(|taint| taint.key == "node.kubernetes.io/out-of-service")
    };
    let took = rig.until(secs(120), marked).await;
    assert!(took.is_some(), "{:#?}", rig.transcript);
    rig.sim.with(|world| assert!(is_drained(world)));
}

/// AWS Health event about the instance; `code` is the suffix of its event type.
fn health(rig: &Rig, id: &InstanceId, code: &str) -> String {
    let mut body: serde_json::Value = serde_json::from_str(&event(
        rig,
        "AWS Health Event",
        json!({
            "service": "EC2", "eventTypeCategory": "scheduledChange", "statusCode": "upcoming",
            "eventTypeCode": format!("AWS_EC2_{code}_SCHEDULED"), "affectedEntities": [{"entityValue": id}]
        }),
    ))
    .unwrap();
    body["source"] = "aws.health".into();
    body["id"] = "event-1".into();
    body.to_string()
}

fn boot(rig: &Rig, id: &str) {
    rig.sim.with(|world| {
        let node = world.api.nodes.get_mut(&NodeName::from(GROUP_NODE));
        node.unwrap().boot_id = id.into();
    });
}

#[tokio::test]
async fn node_with_a_scheduled_reboot_is_drained_and_uncordoned_afterwards() {
    let (mut rig, id) = with_group(Relay::Dead).await;
    opt_in(&rig, &id);
    options(&rig, &json!({"taintNode": true}));
    boot(&rig, "first");
    let before = rig.sim.with(|world| node(world).clone());
    let body = health(&rig, &id, "SYSTEM_REBOOT_MAINTENANCE");
    deliver(&mut rig, &[body]).await;
    rig.sim.with(|world| {
        let node = node(world);
        let label = |key: &str| node.labels[&format!("aws-node-termination-handler/{key}")].clone();
        assert_eq!(label("action"), "UncordonAfterReboot");
        assert_eq!(label("action-time"), world.now.as_second().to_string());
        assert_eq!(label("event-id"), "event-1");
        let mut taints = node.taints.iter();
        let taint = taints.find(|taint| taint.key.ends_with("/scheduled-maintenance"));
        assert_eq!(taint.unwrap().value, "event-1");
    });
    assert!(rig.until(secs(120), is_drained).await.is_some());
    rig.pass(secs(900)).await;
    rig.sim.with(|world| assert!(node(world).unschedulable));
    boot(&rig, "second");
    let is_back = |world: &mut fakes::World| !node(world).unschedulable;
    let took = rig.until(secs(700), is_back).await;
    assert!(took.is_some(), "{:#?}", rig.transcript);
    let after = rig.sim.with(|world| node(world).clone());
    assert_eq!(
        (after.labels, after.annotations, after.taints),
        (before.labels, before.annotations, before.taints)
    );
    assert_eq!(
        reasons(&rig),
        ["CordonAndDrain", "PostDrain", "ScheduledEvent", "Uncordon"]
    );
    rig.pass(secs(700)).await;
    rig.sim.with(|world| assert!(!node(world).unschedulable));
}

#[tokio::test]
async fn reboot_ends_a_pending_drain() {
    let (mut rig, id) = with_group(Relay::Dead).await;
    opt_in(&rig, &id);
    boot(&rig, "first");
    rig.sim.with(|world| {
        let key = PodKey::new("default", "group-web");
        let pod = world.api.pods.get_mut(&key).unwrap();
        let never = ("karpenter.sh/do-not-disrupt".into(), "true".into());
        pod.annotations.extend([never]);
    });
    let body = health(&rig, &id, "INSTANCE_REBOOT_MAINTENANCE");
    deliver(&mut rig, &[body]).await;
    rig.pass(secs(60)).await;
    boot(&rig, "second");
    let is_back = |world: &mut fakes::World| !node(world).unschedulable;
    assert!(rig.until(secs(1300), is_back).await.is_some());
    rig.pass(secs(1300)).await;
    rig.sim.with(|world| {
        assert!(!node(world).unschedulable, "a closed event has no effect");
        assert!(!is_drained(world));
    });
}

#[tokio::test]
async fn retirement_drains_the_node_permanently_and_a_closed_event_changes_nothing() {
    let (mut rig, id) = with_group(Relay::Dead).await;
    opt_in(&rig, &id);
    boot(&rig, "first");
    let over = health(&rig, &id, "SYSTEM_REBOOT_MAINTENANCE").replace("upcoming", "closed");
    let delivery = deliver(&mut rig, &[over]).await;
    assert_eq!(counts(&delivery), [("harmless", 1)]);
    rig.sim.with(|world| assert!(!node(world).unschedulable));
    let body = health(&rig, &id, "INSTANCE_RETIREMENT");
    deliver(&mut rig, &[body]).await;
    boot(&rig, "second");
    rig.pass(secs(1300)).await;
    rig.sim.with(|world| assert!(node(world).unschedulable));
}

#[tokio::test]
async fn pod_grace_period_is_capped_by_the_cluster_setting() {
    let (mut rig, id) = with_group(Relay::Dead).await;
    opt_in(&rig, &id);
    options(&rig, &json!({"podTerminationGracePeriod": 7}));
    let body = health(&rig, &id, "INSTANCE_RETIREMENT");
    deliver(&mut rig, &[body]).await;
    let asked = |world: &mut fakes::World| {
        let pod = world.api.pods.get(&PodKey::new("default", "group-web"));
        pod.is_some_and(|pod| pod.deletion.is_some())
    };
    assert!(rig.until(secs(30), asked).await.is_some());
    rig.sim.with(|world| {
        let pod = &world.api.pods[&PodKey::new("default", "group-web")];
        let left = pod.deletion.as_ref().unwrap().at.duration_since(world.now);
        assert!(left <= secs(7), "{left}");
    });
}

#[tokio::test]
async fn kops_and_self_managed_groups_are_recognized_by_their_tags() {
    for (key, value) in [
        ("KubernetesCluster", "demo"),
        ("kubernetes.io/cluster/demo", "owned"),
        ("aws:eks:cluster-name", "demo"),
    ] {
        let (mut rig, id) = with_group(Relay::Dead).await;
        rig.sim.with(|world| {
            let instance = world.account.instances.get_mut(&id).unwrap();
            instance.tags = [(key.into(), value.into())].into();
        });
        opt_in(&rig, &id);
        let body = spot(&rig, &id);
        let delivery = deliver(&mut rig, &[body]).await;
        assert_eq!(
            counts(&delivery),
            [("spot_interrupted/recorded", 1)],
            "{key}"
        );
        rig.sim.with(|world| assert!(node(world).unschedulable));
    }
}

#[tokio::test]
async fn missing_lifecycle_hook_blocks_no_other_drain() {
    let (mut rig, id) = with_group(Relay::Watching).await;
    opt_in(&rig, &id);
    rig.sim
        .with(|world| world.account.without_hook.insert(id.clone()));
    let body = ends(&rig, &id);
    deliver(&mut rig, &[body]).await;
    assert!(rig.until(secs(120), is_drained).await.is_some());
    let own = rig.sim.with(|world| {
        let claim = world.api.node_claims.values().next().unwrap().clone();
        world.api.request_deletion(&claim.name, world.now);
        claim
    });
    let gone = |world: &mut fakes::World| !world.api.node_claims.contains_key(&own.name);
    let took = rig.until(secs(300), gone).await;
    assert!(took.is_some(), "{:#?}", rig.transcript);
}

#[tokio::test]
async fn refused_lifecycle_hook_is_reported_and_retried_with_backoff() {
    let (mut rig, id) = with_group(Relay::Watching).await;
    opt_in(&rig, &id);
    rig.sim
        .with(|world| world.account.without_hook.insert(id.clone()));
    let body = ends(&rig, &id);
    deliver(&mut rig, &[body]).await;
    rig.sim.with(|world| world.calls.clear());
    rig.pass(secs(3_600)).await;
    let tries = calls(&rig, "complete_hook") + calls(&rig, "extend_hook");
    assert!((4..=20).contains(&tries), "{tries}");
    let reasons = reasons(&rig);
    assert!(reasons.contains(&"ChangeRefused".to_owned()), "{reasons:?}");
    rig.sim.with(|world| world.account.without_hook.clear());
    let ended = |world: &mut fakes::World| !world.account.instances[&id].state.is_alive();
    let took = rig.until(secs(20 * 60), ended).await;
    assert!(took.is_some(), "{:#?}", rig.transcript);
}

#[tokio::test]
async fn refused_extension_of_a_hook_does_not_delay_its_completion() {
    let (mut rig, id) = with_group(Relay::Watching).await;
    opt_in(&rig, &id);
    let pod = PodKey::new("default", "group-web");
    rig.sim.with(|world| {
        let pod = world.api.pods.get_mut(&pod).unwrap();
        pod.annotations
            .insert("karpenter.sh/do-not-disrupt".into(), "true".into());
        world.calls.clear();
    });
    let body = ends(&rig, &id);
    deliver(&mut rig, &[body]).await;
    rig.sim.fail_next("extend_hook", Fault::Denied);
    rig.pass(secs(30)).await;
    assert!(reasons(&rig).contains(&"ChangeRefused".to_owned()));
    rig.sim
        .with(|world| world.api.pods.get_mut(&pod).unwrap().annotations.clear());
    let ended = |world: &mut fakes::World| !world.account.instances[&id].state.is_alive();
    let took = rig.until(secs(25), ended).await;
    assert!(took.is_some(), "{:#?}", rig.transcript);
}

#[tokio::test]
async fn hook_is_completed_only_after_a_read_confirms_that_the_node_is_gone() {
    let (mut rig, id) = with_group(Relay::Watching).await;
    opt_in(&rig, &id);
    rig.sim
        .with(|world| world.api.unlisted_nodes.insert(GROUP_NODE.into()));
    let body = ends(&rig, &id);
    deliver(&mut rig, &[body]).await;
    rig.sim.with(|world| world.calls.clear());
    rig.pass(secs(120)).await;
    assert_eq!(calls(&rig, "complete_hook"), 0, "its pods run");
    assert!(calls(&rig, "extend_hook") >= 8);
    rig.sim.with(|world| {
        world.api.nodes.remove(&NodeName::from(GROUP_NODE));
        world.account.instances.get_mut(&id).unwrap().private_dns = Some("gone".into());
    });
    let ended = |world: &mut fakes::World| !world.account.instances[&id].state.is_alive();
    assert!(
        rig.until(secs(60), ended).await.is_some(),
        "{:#?}",
        rig.transcript
    );
}
