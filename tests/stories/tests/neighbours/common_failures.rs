//! Failures common to many clusters, or to all nodes of one: repair is suspended, because replacements would fail as well. A single
//! failing node is repaired (docs/disruption.md#failures-that-several-clusters-share).

use std::collections::BTreeSet;

use model::{
    ClusterName, NodeName, labels,
    node_claim::NodeClaim,
    taint::{Toleration, TolerationOperator},
};
use serde_json::json;
use stories::cpu;

use super::*;

const CLUSTERS: [&str; 5] = ["demo", "east", "north", "south", "west"];

/// Five clusters of six nodes each, with voluntary repair.
struct Account {
    rig: Rig,
}

impl Account {
    async fn new(optimize: &str) -> Self {
        let mut rig = Rig::new(Relay::Dead);
        for name in &CLUSTERS[1..] {
            rig.sim.add_cluster(name);
        }
        let account = |rig: &Rig, set_up: &dyn Fn(&mut World)| {
            for name in CLUSTERS {
                rig.sim.in_cluster(&name.into()).with(set_up);
            }
        };
        rig.sim.with(|world| {
            let settings = json!({"featureGates": {"NodeRepair": true}, "optimize": optimize});
            for entry in &mut world.registry {
                entry.body.as_mut().unwrap()["settings"] = settings.clone();
            }
            world.catalog.retain(|kind| kind.name == "m5.large");
        });
        account(&rig, &|world| {
            let api = &mut world.api;
            api.node_classes
                .insert("default".into(), fakes::node_class("default"));
            api.node_pools
                .insert("default".into(), fakes::node_pool("default", "Never"));
            select_ami(world, "ami-1");
        });
        rig.pass(secs(150)).await;
        account(&rig, &|world| world.api.scale("web", 6, cpu(1_500)));
        rig.pass(secs(300)).await;
        let account = Self { rig };
        for name in CLUSTERS {
            assert_eq!(account.nodes(name, |_| true), 6, "{name}");
        }
        account
    }

    fn with<T>(&self, cluster: &str, act: impl FnOnce(&mut World) -> T) -> T {
        let cluster = ClusterName::from(cluster);
        self.rig.sim.in_cluster(&cluster).with(act)
    }

    /// Number of a cluster's NodeClaims that match.
    fn nodes(&self, cluster: &str, matches_claim: impl Fn(&NodeClaim) -> bool) -> usize {
        self.with(cluster, |world| {
            let claims = world.api.node_claims.values();
            claims.filter(|claim| matches_claim(claim)).count()
        })
    }

    fn all(&self, matches_claim: impl Fn(&NodeClaim) -> bool) -> usize {
        let counts = CLUSTERS.iter().map(|name| self.nodes(name, &matches_claim));
        counts.sum()
    }

    /// Advances the clock by minutes, after each of which the kubelets of matching nodes become silent.
    async fn pass(&mut self, minutes: i64, fails: impl Fn(&World, &NodeClaim) -> bool) {
        for _ in 0..minutes {
            self.rig.pass(secs(60)).await;
            for name in CLUSTERS {
                self.with(name, |world| {
                    let claims = world.api.node_claims.values();
                    let failing = claims.filter(|claim| fails(world, claim));
                    let nodes: BTreeSet<NodeName> = failing
                        .filter_map(|claim| claim.status.node_name.clone())
                        .collect();
                    world.api.silent.extend(nodes);
                });
            }
        }
    }
}

/// Makes the NodeClass select this AMI.
fn select_ami(world: &mut World, image: &str) {
    for class in world.api.node_classes.values_mut() {
        class.spec.user_data = Some(format!("for {image}"));
        let generation = class.metadata.generation.unwrap_or_default();
        class.metadata.generation = Some(generation + 1);
        let status = class.status.get_or_insert_default();
        status.amis = Some(vec![api::karpenter::Ami {
            id: image.to_owned(),
            ..api::karpenter::Ami::default()
        }]);
    }
}

fn has_image(claim: &NodeClaim, image: &str) -> bool {
    claim.status.image_id == image
}

/// Whether a node with the bad AMI has run for some minutes.
fn runs_bad_ami(world: &World, claim: &NodeClaim) -> bool {
    let age = claim.created_at.map(|at| world.now.duration_since(at));
    has_image(claim, "ami-bad") && age.is_some_and(|age| age >= secs(180))
}

/// Rolls the AMI out to three clusters first and to the others half an hour later; returns how many nodes of the latter run it in
/// the end.
async fn roll_out_a_bad_ami(account: &mut Account) -> usize {
    let (first, later) = CLUSTERS.split_at(3);
    for name in first {
        account.with(name, |world| select_ami(world, "ami-bad"));
    }
    account.pass(30, runs_bad_ami).await;
    for name in later {
        account.with(name, |world| select_ami(world, "ami-bad"));
    }
    account.pass(180, runs_bad_ami).await;
    let bad = |name: &&str| account.nodes(name, |claim| has_image(claim, "ami-bad"));
    later.iter().map(bad).sum()
}

#[tokio::test]
async fn ami_failing_in_three_clusters_is_rolled_out_to_no_other_and_repairs_nothing() {
    let mut account = Account::new("cost").await;
    assert_eq!(roll_out_a_bad_ami(&mut account).await, 0);
    let launched = account.rig.sim.with(|world| {
        let all = world.account.instances.values();
        all.filter(|instance| instance.image == "ami-bad").count()
    });
    let bad = account.all(|claim| has_image(claim, "ami-bad"));
    assert!(bad > 0);
    assert_eq!(launched, bad, "each exactly once");
    account.with("south", |world| select_ami(world, "ami-3"));
    account.pass(60, runs_bad_ami).await;
    assert_eq!(account.nodes("south", |claim| has_image(claim, "ami-3")), 6);
}

#[tokio::test]
async fn failing_ami_reaches_every_cluster_in_karpenter_mode() {
    let mut account = Account::new("upstream").await;
    assert_eq!(roll_out_a_bad_ami(&mut account).await, 12);
}

#[tokio::test]
async fn zone_failure_in_every_cluster_repairs_nothing() {
    let mut account = Account::new("cost").await;
    let mut lost = BTreeSet::new();
    for name in CLUSTERS {
        account.with(name, |world| {
            // One node of six, so that no NodePool exceeds its unhealthy share.
            let node = world.api.nodes.values_mut().next().unwrap();
            node.labels.insert(labels::ZONE.into(), "us-east-1f".into());
            lost.insert((name, node.name.clone()));
            world.api.silent.insert(node.name.clone());
        });
    }
    account.pass(120, |_, _| false).await;
    for (name, node) in &lost {
        let stays = account.with(name, |world| world.api.nodes.contains_key(node));
        assert!(stays, "{node} of {name}");
    }
    assert_eq!(account.all(|_| true), 30);
    for name in CLUSTERS {
        account.with(name, |world| world.api.silent.clear());
    }
    account.pass(10, |_, _| false).await;
    assert_eq!(account.rig.errors, Vec::<String>::new());
}

#[tokio::test]
async fn single_failing_node_is_repaired_in_time() {
    let mut account = Account::new("cost").await;
    let silence = |world: &mut World| {
        let node = world.api.nodes.keys().next().cloned().unwrap();
        world.api.silent.insert(node.clone());
        node
    };
    let lost = ["east", "west"].map(|name| (name, account.with(name, silence)));
    account.pass(40, |_, _| false).await;
    for (name, node) in lost {
        let stays = account.with(name, |world| world.api.nodes.contains_key(&node));
        assert!(!stays, "{node} of {name}");
    }
    assert_eq!(account.all(|_| true), 30);
}

#[tokio::test]
async fn cluster_without_any_ready_kubelet_repairs_nothing() {
    let mut rig = Rig::new(Relay::Watching);
    rig.configure(&json!({"featureGates": {"NodeRepair": true}}));
    rig.sim.with(|world| {
        world.catalog.retain(|kind| kind.name == "m5.large");
        let pool = world.api.node_pools["default"].clone();
        for team in ["a", "b", "c"] {
            let mut own = pool.clone();
            own.metadata.name = team.to_owned();
            let template = &mut own.spec.template.spec;
            template.taints = Some(vec![
                serde_json::from_value(
                    json!({"key": "team", "value": team, "effect": "NoSchedule"}),
                )
                .unwrap(),
            ]);
            world.api.node_pools.insert(team.into(), own);
        }
    });
    rig.pass(secs(150)).await;
    rig.sim.with(|world| {
        world.api.scale("web", 1, cpu(1_500));
        for team in ["a", "b", "c"] {
            world.api.scale(team, 1, cpu(1_500));
            let deployment = world.api.deployments.get_mut(team).unwrap();
            deployment.tolerations = vec![Toleration {
                key: "team".into(),
                operator: TolerationOperator::Equal,
                value: team.into(),
                effect: None,
                toleration_seconds: None,
            }];
        }
    });
    let bound = rig.until(secs(300), all_bound).await;
    assert!(bound.is_some(), "{:#?}", rig.transcript);
    let before = rig.sim.with(alive);
    rig.sim.with(|world| {
        let nodes: Vec<_> = world.api.nodes.keys().cloned().collect();
        world.api.silent.extend(nodes);
    });
    rig.pass(secs(2 * 3_600)).await;
    assert_eq!(rig.sim.with(alive), before);
}
