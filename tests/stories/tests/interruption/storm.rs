//! Mass reclaims: ten thousand notices in one minute, and a third of a large cluster within two minutes.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use model::{
    CapacityType, ClusterName, InstanceId, PodKey,
    launch::Instance,
    ledger::{Holder, InstanceOwner},
    node::Node,
    node_claim::NodeClaim,
    pod::Pod,
};
use stories::{Relay, Rig, all_bound, secs};

use crate::{counts, deliver, instances, on_spot, spot};

/// Number of concurrent invocations of the queue, and of messages in each.
const WORKERS: usize = 10;
const BATCH: usize = 10;

#[tokio::test]
async fn ten_thousand_notices_over_fifty_clusters_are_handled_within_a_minute() {
    const NOTICES: usize = 10_000;
    let mut rig = on_spot(Relay::Dead, 1).await;
    let first = instances(&rig)[0].clone();
    let clusters: Vec<ClusterName> = (0..50).map(|n| ClusterName(format!("team-{n}"))).collect();
    let (original, pools) = rig
        .sim
        .with(|world| (Original::of(world, &first), world.api.node_pools.clone()));
    let mut ids = BTreeSet::new();
    for (first, cluster) in clusters.iter().enumerate() {
        rig.sim.add_cluster(&cluster.0);
        let numbers = (first..NOTICES).step_by(clusters.len());
        rig.sim.in_cluster(cluster).with(|world| {
            world.api.node_pools.clone_from(&pools);
            ids.extend(numbers.map(|number| original.copy(world, number, cluster)));
        });
    }
    // Ids are sorted by number, so that each batch concerns several clusters.
    let ids: Vec<InstanceId> = ids.into_iter().collect();
    // Whittle leads all clusters after the next sweep.
    rig.pass(secs(60)).await;
    rig.sim.with(|world| {
        world.calls.clear();
        world.budgeted = true;
        world.latency = SignedDuration::from_millis(10);
        world.overlapping = true;
    });
    let mut busy = [SignedDuration::ZERO; WORKERS];
    for some in ids.chunks(BATCH) {
        let bodies: Vec<String> = some.iter().map(|id| spot(&rig, id)).collect();
        let before = rig.sim.with(|world| world.now);
        let delivery = deliver(&mut rig, &bodies).await;
        assert!(delivery.kept.is_empty(), "{:?}", delivery.kept);
        let took = rig.sim.with(|world| world.now).duration_since(before);
        let next = busy.iter_mut().min().unwrap();
        *next += took;
        rig.sim.take_wakes();
    }
    let took = busy.iter().max().unwrap();
    assert!(*took < secs(60), "{took:?}");
    let deleted = |world: &mut fakes::World| {
        let claims = world.api.node_claims.values();
        claims.filter(|claim| claim.deleted_at.is_some()).count()
    };
    let deleted = clusters
        .iter()
        .map(|cluster| rig.sim.in_cluster(cluster).with(deleted));
    assert_eq!(deleted.sum::<usize>(), NOTICES);
    rig.sim.with(|world| {
        let recorded = clusters
            .iter()
            .map(|cluster| world.ledger.of(cluster).notices.len());
        assert_eq!(recorded.sum::<usize>(), NOTICES, "none is lost");
        let asked = |call: &str| world.calls.iter().filter(|other| **other == call).count();
        assert_eq!(
            asked("describe_instances"),
            0,
            "labels are used instead of EC2 calls"
        );
        assert!(
            asked("leader_lease") <= NOTICES,
            "once per cluster and delivery"
        );
        let api = [
            "node_claim",
            "node",
            "update_node",
            "delete_node_claim",
            "post_event",
        ];
        let calls: usize = api.iter().map(|call| asked(call)).sum();
        assert!(calls <= 8 * NOTICES, "{calls} calls of API servers");
    });
}

/// The first node with all its objects and rows.
#[derive(Clone)]
struct Original {
    claim: NodeClaim,
    node: Node,
    instance: Instance,
    pods: Vec<Pod>,
}

impl Original {
    fn of(world: &fakes::World, id: &InstanceId) -> Self {
        let ends = |provider_id: &str| provider_id.ends_with(id.as_str());
        let mut claims = world.api.node_claims.values();
        let claim = claims.find(|claim| ends(&claim.status.provider_id));
        let mut nodes = world.api.nodes.values();
        let node = nodes.find(|node| ends(&node.provider_id)).unwrap().clone();
        let pods = world.api.pods.values();
        let pods = pods.filter(|pod| pod.node_name.as_ref() == Some(&node.name));
        Self {
            claim: claim.unwrap().clone(),
            instance: world.account.instances[id].clone(),
            pods: pods.cloned().collect(),
            node,
        }
    }

    /// Adds a copy that belongs to a cluster.
    fn copy(&self, world: &mut fakes::World, number: usize, cluster: &ClusterName) -> InstanceId {
        let id = InstanceId(format!("i-{number:09}"));
        let Self {
            mut claim,
            mut node,
            mut instance,
            pods,
        } = self.clone();
        let name = format!("copy-{number:06}");
        instance.id = id.clone();
        instance.private_dns = Some(name.clone());
        instance
            .tags
            .insert("karpenter.sh/nodeclaim".into(), name.clone());
        claim.name = name.as_str().into();
        claim.uid = format!("{name}-uid").as_str().into();
        claim
            .labels
            .insert("topology.k8s.aws/zone-id".into(), instance.zone_id.clone());
        claim.status.provider_id = format!("aws:///{}/{id}", instance.zone);
        claim.status.node_name = Some(name.as_str().into());
        node.name = name.as_str().into();
        node.uid = format!("node-{name}-uid").as_str().into();
        node.labels
            .insert("kubernetes.io/hostname".into(), name.clone());
        node.provider_id.clone_from(&claim.status.provider_id);
        for (at, mut pod) in pods.into_iter().enumerate() {
            pod.key = PodKey::new("default", format!("{name}-{at}"));
            pod.uid = format!("{name}-{at}-uid").as_str().into();
            pod.node_name = Some(node.name.clone());
            world.api.pods.insert(pod.key.clone(), pod);
        }
        let owner = InstanceOwner {
            cluster: cluster.clone(),
            holder: Holder::Claim(claim.name.clone()),
        };
        world.ledger.owners.insert(id.clone(), owner);
        world.account.instances.insert(id.clone(), instance);
        world.api.node_claims.insert(claim.name.clone(), claim);
        world.api.nodes.insert(node.name.clone(), node);
        id
    }
}

/// Number of pods of [`stories::POD`] that fit on an instance type.
fn pods_per_node(instance_type: &str) -> usize {
    match instance_type {
        "m5.large" => 1,
        "m5.xlarge" => 2,
        _ => 5,
    }
}

#[tokio::test]
async fn reclaiming_a_third_of_a_thousand_nodes_reschedules_every_pod_in_time() {
    Box::pin(storm(1_000)).await;
}

/// Seconds between two batches of warnings.
const ROUND: i64 = 6;

/// Warns 30 % of the nodes within two minutes; each is terminated two minutes after its warning.
async fn storm(nodes: usize) {
    let victims = nodes * 3 / 10;
    let at_once = victims * usize::try_from(ROUND).unwrap() / 120;
    let mut rig = on_spot(Relay::Dead, 1).await;
    let first = instances(&rig)[0].clone();
    let per_node = rig.sim.with(|world| world.api.pods.len());
    rig.sim
        .with(|world| world.api.deployments.get_mut("web").unwrap().replicas = nodes * per_node);
    let ids: Vec<InstanceId> = rig.sim.with(|world| {
        let original = Original::of(world, &first);
        let others = 1..nodes;
        others
            .map(|number| original.copy(world, number, &Rig::cluster()))
            .collect()
    });
    let pool = rig.sim.with(|world| {
        let instance = &world.account.instances[&first];
        assert_eq!(instance.capacity_type, CapacityType::Spot);
        (instance.instance_type.clone(), instance.zone.clone())
    });
    let start = rig.sim.with(|world| {
        world.account.requests.clear();
        world.now
    });
    let warned = &ids[..victims];
    let known: BTreeSet<InstanceId> = rig
        .sim
        .with(|world| world.account.instances.keys().cloned().collect());
    let mut dies: BTreeMap<InstanceId, Timestamp> = BTreeMap::new();
    let mut announced = warned.chunks(at_once);
    let mut late = Vec::new();
    for second in 0..=250 {
        if second % ROUND == 0
            && let Some(some) = announced.next()
        {
            let bodies: Vec<String> = some.iter().map(|id| spot(&rig, id)).collect();
            let delivery = deliver(&mut rig, &bodies).await;
            assert_eq!(
                counts(&delivery),
                [("spot_interrupted/recorded", some.len())]
            );
            let at = rig.sim.with(|world| world.now) + secs(120);
            dies.extend(some.iter().map(|id| (id.clone(), at)));
        }
        rig.pass(secs(1)).await;
        rig.sim.with(|world| {
            let now = world.now;
            let dead: Vec<InstanceId> = dies
                .iter()
                .filter(|(_, at)| **at <= now)
                .map(|(id, _)| id.clone())
                .collect();
            for id in dead {
                dies.remove(&id);
                let left = world
                    .api
                    .nodes
                    .values()
                    .find(|node| node.provider_id.ends_with(id.as_str()));
                let left = left.map(|node| node.name.clone());
                let on = |pod: &&model::pod::Pod| left.is_some() && pod.node_name == left;
                late.extend(
                    world
                        .api
                        .pods
                        .values()
                        .filter(on)
                        .map(|pod| pod.key.clone()),
                );
                world.account.terminate(&id, now);
            }
            // The capacity launched so far holds the pods of all warned nodes, with a few seconds granted for planning.
            let launched = world
                .account
                .instances
                .values()
                .filter(|instance| !known.contains(&instance.id));
            let launched: usize = launched
                .map(|instance| pods_per_node(&instance.instance_type))
                .sum();
            let rounds = (now.duration_since(start).as_secs() - 10).max(0) / ROUND;
            let warned = usize::try_from(rounds).unwrap() * at_once;
            assert!(
                launched >= warned.min(victims) * per_node,
                "second {second}: capacity for {launched} pods"
            );
        });
    }
    assert_eq!(late, [], "no pod died with its node");
    assert!(rig.until(secs(120), all_bound).await.is_some());
    assert_eq!(rig.errors, Vec::<String>::new());
    rig.sim.with(|world| {
        let again = world
            .account
            .requests
            .iter()
            .filter(|request| request.capacity_type == CapacityType::Spot);
        let mut again = again
            .flat_map(|request| &request.templates)
            .flat_map(|template| &template.overrides);
        assert!(
            again.all(|choice| (&choice.instance_type, &choice.zone) != (&pool.0, &pool.1)),
            "nothing is launched into reclaimed offerings"
        );
    });
}
