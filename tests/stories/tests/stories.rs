//! End-to-end behavior over many turns in virtual time.

use fakes::Fault;
use model::{CapacityType, experience::ZonalShift, ledger::IntentState};
use ports::cluster::EventTarget;
use stories::{Relay, Rig, all_bound, all_gone, consistent, cpu, secs, settled};

#[tokio::test]
async fn nodes_follow_the_number_of_pods() {
    let mut rig = Rig::ready(Relay::Watching).await;
    rig.scale(10);
    let took = rig.until(secs(180), all_bound).await;
    assert!(
        took.is_some_and(|took| took < 120),
        "{took:?} {:#?} {:?}",
        rig.transcript,
        rig.errors
    );
    assert!(rig.sim.with(consistent), "{:#?}", rig.transcript);
    assert!(rig.sim.with(settled));
    let initialized = rig
        .until(secs(30), |world| {
            world
                .api
                .node_claims
                .values()
                .all(|claim| claim.is_true("Initialized"))
        })
        .await;
    assert!(
        initialized.is_some(),
        "{:#?}",
        rig.sim.with(|world| world.api.node_claims.clone())
    );
    rig.sim.with(|world| {
        for node in world.api.nodes.values() {
            assert_eq!(
                node.labels
                    .get("karpenter.sh/initialized")
                    .map(String::as_str),
                Some("true")
            );
            assert!(
                node.taints
                    .iter()
                    .all(|taint| taint.key != "karpenter.sh/unregistered")
            );
        }
    });

    rig.scale(0);
    let took = rig.until(secs(600), all_gone).await;
    assert!(
        took.is_some_and(|took| took >= 60),
        "consolidateAfter is a minute: {took:?} {:#?}",
        rig.transcript
    );
    rig.pass(secs(300)).await;
    rig.sim.with(|world| {
        let rows = world.ledger.of(&Rig::cluster());
        assert!(
            rows.intents.is_empty() && rows.claims.is_empty(),
            "rows go with their NodeClaims: {:?}",
            rows.intents
        );
        assert!(
            rows.commands
                .values()
                .all(|command| command.state == model::ledger::CommandState::Done)
        );
    });
    assert_eq!(rig.errors, Vec::<String>::new());
}

#[tokio::test]
async fn sweep_finds_pending_pods_without_the_relay() {
    let mut rig = Rig::ready(Relay::Dead).await;
    rig.scale(4);
    let took = rig.until(secs(300), all_bound).await;
    assert!(took.is_some(), "{:#?} {:?}", rig.transcript, rig.errors);
    rig.scale(0);
    let took = rig.until(secs(900), all_gone).await;
    assert!(took.is_some(), "{:#?} {:?}", rig.transcript, rig.errors);
}

#[tokio::test]
async fn missing_capacity_is_remembered_and_planned_around_in_the_same_turn() {
    let mut rig = Rig::ready(Relay::Watching).await;
    rig.sim.with(|world| {
        for zone in ["us-east-1a", "us-east-1b"] {
            world.account.no_capacity.insert((
                CapacityType::OnDemand,
                "m5.large".into(),
                zone.into(),
            ));
        }
        // The request offers every type that is large enough; only the failing one is kept.
        world.catalog.retain(|kind| kind.name != "m5.2xlarge");
    });
    rig.scale(1);
    let took = rig.until(secs(180), all_bound).await;
    assert!(
        took.is_some_and(|took| took < 90),
        "{took:?} {:#?}",
        rig.transcript
    );
    rig.sim.with(|world| {
        assert!(
            world
                .account
                .alive()
                .all(|instance| instance.instance_type == "m5.xlarge")
        );
    });
    assert!(rig.sim.with(settled) && rig.sim.with(consistent));
}

#[tokio::test]
async fn node_pool_without_capacity_leaves_no_node_claims_and_an_event_on_the_pod() {
    let mut rig = Rig::ready(Relay::Watching).await;
    rig.sim.with(|world| {
        for kind in ["m5.large", "m5.xlarge", "m5.2xlarge"] {
            for zone in ["us-east-1a", "us-east-1b"] {
                world.account.no_capacity.insert((
                    CapacityType::OnDemand,
                    kind.into(),
                    zone.into(),
                ));
            }
        }
    });
    rig.scale(1);
    rig.pass(secs(60)).await;
    rig.sim.with(|world| {
        assert!(
            world.api.node_claims.is_empty(),
            "{:?}",
            world.api.node_claims
        );
        let reported: Vec<&str> = world
            .api
            .events
            .iter()
            .map(|event| event.reason.as_str())
            .collect();
        assert!(
            reported.contains(&"InsufficientCapacityError")
                && reported.contains(&"FailedScheduling"),
            "{reported:?}"
        );
        let to_pods = world.api.events.iter().filter(|event| {
            matches!(event.about, EventTarget::Pod(..))
                && event.reason == "InsufficientCapacityError"
        });
        let to_pods: Vec<&str> = to_pods.map(|event| event.message.as_str()).collect();
        assert!(
            to_pods.len() == 1 && to_pods[0].contains("nominated for this pod, failed to launch"),
            "the event explains why the pod stays pending: {to_pods:?}"
        );
        assert!(
            world.account.requests.len() <= 3,
            "failed offerings are not requested again: {}",
            world.account.requests.len()
        );
        world.account.no_capacity.clear();
    });
    let took = rig.until(secs(600), all_bound).await;
    assert!(took.is_some(), "{:#?}", rig.transcript);
}

#[tokio::test]
async fn pods_beyond_the_share_of_a_turn_are_reported_and_served_by_the_next() {
    let mut rig = Rig::ready(Relay::Watching).await;
    rig.world.share.launches = 2;
    // The pods need a node each.
    rig.sim.with(|world| world.api.scale("web", 5, cpu(5_000)));
    let all_launched = |world: &mut fakes::World| world.account.alive().count() == 5;
    let took = rig.until(secs(30), all_launched).await;
    assert!(
        took.is_some_and(|took| took < 10),
        "no pod waits for the sweep: {took:?} {:#?}",
        rig.transcript
    );
    assert_eq!(rig.postponed, [3, 1], "{:#?}", rig.transcript);
    assert!(rig.until(secs(120), all_bound).await.is_some());
    assert!(rig.sim.with(consistent) && rig.sim.with(settled));
}

#[tokio::test]
async fn small_pod_is_served_in_a_turn_in_which_large_pods_find_no_capacity() {
    let mut rig = Rig::ready(Relay::Watching).await;
    rig.world.share.pods = 10;
    rig.sim.with(|world| {
        let mut large = fakes::instance_type("p5.48xlarge", 192, 2_048, 98_000_000_000);
        large.capacity.set("nvidia.com/gpu", 8);
        world.catalog.push(large);
        for zone in ["us-east-1a", "us-east-1b"] {
            world.account.no_capacity.insert((
                CapacityType::OnDemand,
                "p5.48xlarge".into(),
                zone.into(),
            ));
        }
        let mut requests = cpu(100_000);
        requests.set("nvidia.com/gpu", 8);
        world.api.scale("training", 50, requests);
    });
    rig.scale(1);
    let launched = |world: &mut fakes::World| world.account.alive().count() == 1;
    let took = rig.until(secs(30), launched).await;
    assert!(
        took.is_some_and(|took| took <= 2),
        "{took:?} {:#?}",
        rig.transcript
    );
    assert_eq!(
        rig.postponed.first(),
        Some(&41),
        "ten of fifty large pods and a small one are considered"
    );
}

#[tokio::test]
async fn denied_launch_is_a_condition_of_the_node_claim_and_retried() {
    let mut rig = Rig::ready(Relay::Watching).await;
    rig.sim.fail_next("launch", Fault::Denied);
    rig.scale(1);
    let explained = rig
        .until(secs(30), |world| {
            world.api.node_claims.values().any(|claim| {
                claim
                    .condition("Launched")
                    .is_some_and(|condition| condition.reason == "Unauthorized")
            })
        })
        .await;
    assert!(explained.is_some(), "{:#?}", rig.transcript);
    let took = rig.until(secs(300), all_bound).await;
    assert!(took.is_some(), "{:#?}", rig.transcript);
    assert!(rig.sim.with(consistent) && rig.sim.with(settled));
    rig.sim.with(|world| {
        let tokens: Vec<_> = world
            .account
            .requests
            .iter()
            .map(|request| &request.token)
            .collect();
        assert!(
            tokens.windows(2).all(|pair| pair[0] != pair[1]),
            "a3: the next attempt has a new token"
        );
    });
}

#[tokio::test]
async fn manual_node_claim_is_launched() {
    let mut rig = Rig::ready(Relay::Watching).await;
    rig.scale(1);
    rig.until(secs(180), all_bound).await;
    rig.sim.with(|world| {
        let mut claim = world.api.node_claims.values().next().unwrap().clone();
        claim.name = "by-hand".into();
        claim.uid = "by-hand-uid".into();
        claim.status = model::node_claim::NodeClaimStatus::default();
        claim.finalizers.clear();
        claim.created_at = Some(world.now);
        world.api.node_claims.insert(claim.name.clone(), claim);
    });
    let launched = rig
        .until(secs(120), |world| world.api.nodes.len() == 2)
        .await;
    assert!(launched.is_some(), "a1: {:#?}", rig.transcript);
    rig.sim.with(|world| {
        let rows = world.ledger.of(&Rig::cluster());
        assert!(matches!(
            rows.intents[&"by-hand".into()].state,
            IntentState::Launched { .. }
        ));
    });
}

#[tokio::test]
async fn interrupted_node_is_drained_and_its_pods_are_rescheduled() {
    let mut rig = Rig::ready(Relay::Watching).await;
    rig.scale(2);
    rig.until(secs(180), all_bound).await;
    rig.pass(secs(20)).await;
    let victim = rig
        .sim
        .with(|world| world.account.alive().next().unwrap().id.clone());
    let kind = model::InterruptionKind::SpotInterrupted;
    let report = rig.announce(&victim, kind, Some(secs(120))).await;
    assert_eq!(
        report.unwrap(),
        turns::InterruptionReport::Recorded {
            cluster: Rig::cluster()
        }
    );
    let moved = rig
        .until(secs(300), |world| {
            all_bound(world) && world.account.alive().all(|instance| instance.id != victim)
        })
        .await;
    assert!(moved.is_some(), "{:#?}", rig.transcript);
    rig.pass(secs(30)).await;
    rig.sim.with(|world| {
        let rows = world.ledger.of(&Rig::cluster());
        assert!(rows.notices.values().all(|notice| notice.done));
    });
}

#[tokio::test]
async fn shadow_mode_plans_without_acting() {
    let mut rig = Rig::ready(Relay::Watching).await;
    rig.sim.with(|world| {
        world.registry[0].body = Ok(serde_json::json!({"type": "endpoint", "mode": "shadow"}));
    });
    rig.pass(secs(120)).await;
    rig.transcript.clear();
    rig.scale(2);
    rig.pass(secs(120)).await;
    assert!(
        rig.transcript
            .iter()
            .any(|line| line.contains("provisioner")),
        "the journal records the suppressed actions: {:#?}",
        rig.transcript
    );
    rig.sim.with(|world| {
        assert!(world.account.requests.is_empty() && world.api.node_claims.is_empty());
        let holder = world.api.leader.as_ref().map(|lease| lease.holder.as_str());
        assert_eq!(holder, Some(""), "b2: the Lease is handed back");
    });
}

/// Values of this annotation on all NodeClaims.
fn annotations(rig: &Rig, key: &str) -> Vec<Option<String>> {
    rig.sim.with(|world| {
        let claims = world.api.node_claims.values();
        claims
            .map(|claim| claim.annotations.get(key).cloned())
            .collect()
    })
}

/// Reason of the only NodeClaim's drift, if it has drifted.
fn drift(world: &mut fakes::World) -> Option<String> {
    let claim = world.api.node_claims.values().next()?;
    let drifted = claim.condition("Drifted")?;
    Some(drifted.reason.clone())
}

#[tokio::test]
async fn nodes_drift_when_their_node_pool_or_node_class_changes() {
    let mut rig = Rig::ready(Relay::Watching).await;
    // A budget keeps the drifted nodes from being replaced.
    rig.sim.with(|world| {
        let pool = world.api.node_pools.get_mut("default").unwrap();
        pool.spec.disruption.budgets[0].nodes = "0".into();
    });
    rig.scale(1);
    rig.until(secs(180), all_bound).await.unwrap();
    rig.pass(secs(60)).await;
    let of_pool = rig.sim.with(|world| {
        let pool = &world.api.node_pools["default"];
        pool.metadata.annotations["karpenter.sh/nodepool-hash"].clone()
    });
    assert_eq!(
        annotations(&rig, "karpenter.sh/nodepool-hash"),
        [Some(of_pool)]
    );
    let of_class = rig.sim.with(|world| {
        let class = &world.api.node_classes["default"];
        class.metadata.annotations["karpenter.k8s.aws/ec2nodeclass-hash"].clone()
    });
    assert_eq!(
        annotations(&rig, "karpenter.k8s.aws/ec2nodeclass-hash"),
        [Some(of_class)]
    );
    assert_eq!(rig.sim.with(drift), None);

    rig.sim.with(|world| {
        let class = world.api.node_classes.get_mut("default").unwrap();
        class.spec.user_data = Some("echo new".into());
    });
    let drifted = |world: &mut fakes::World| drift(world).as_deref() == Some("NodeClassDrift");
    assert!(
        rig.until(secs(660), drifted).await.is_some(),
        "{:#?}",
        rig.transcript
    );
    rig.sim.with(|world| {
        world
            .api
            .node_classes
            .get_mut("default")
            .unwrap()
            .spec
            .user_data = None;
    });
    let settled = |world: &mut fakes::World| drift(world).is_none();
    assert!(
        rig.until(secs(660), settled).await.is_some(),
        "the drift is reverted"
    );

    rig.sim.with(|world| {
        for instance in world.account.instances.values_mut() {
            instance.security_groups = ["sg-forgotten".to_owned()].into();
        }
    });
    let drifted = |world: &mut fakes::World| drift(world).as_deref() == Some("SecurityGroupDrift");
    assert!(
        rig.until(secs(660), drifted).await.is_some(),
        "{:#?}",
        rig.transcript
    );
    rig.sim.with(|world| {
        let pool = world.api.node_pools.get_mut("default").unwrap();
        let template = &mut pool.spec.template;
        let metadata = template.metadata.get_or_insert_default();
        let labels = metadata.labels.get_or_insert_default();
        labels.insert("team".into(), "blue".into());
    });
    let drifted = |world: &mut fakes::World| drift(world).as_deref() == Some("NodePoolDrifted");
    assert!(
        rig.until(secs(660), drifted).await.is_some(),
        "the NodePool's hash comes first"
    );
    assert_eq!(rig.errors, Vec::<String>::new());
}

#[tokio::test]
async fn unresolved_node_class_sets_no_drift_condition() {
    let mut rig = Rig::ready(Relay::Watching).await;
    rig.scale(1);
    rig.until(secs(180), all_bound).await.unwrap();
    rig.sim.advance(secs(300));
    rig.sim.with(|world| {
        let class = world.api.node_classes.get_mut("default").unwrap();
        class.status = None;
    });
    rig.pass(secs(30)).await;
    assert_eq!(rig.sim.with(drift), None);
    let reported: Vec<&String> = rig
        .transcript
        .iter()
        .filter(|line| line.contains("drift of NodeClaim"))
        .collect();
    assert!(reported.is_empty(), "{reported:#?}");
}

#[tokio::test]
async fn hash_version_change_drifts_nothing() {
    let mut rig = Rig::ready(Relay::Watching).await;
    rig.scale(2);
    rig.until(secs(180), all_bound).await.unwrap();
    let keys = [
        (
            "karpenter.sh/nodepool-hash",
            "karpenter.sh/nodepool-hash-version",
        ),
        (
            "karpenter.k8s.aws/ec2nodeclass-hash",
            "karpenter.k8s.aws/ec2nodeclass-hash-version",
        ),
    ];
    rig.sim.with(|world| {
        let pool = world.api.node_pools.get_mut("default").unwrap();
        let class = world.api.node_classes.get_mut("default").unwrap();
        let claims = world.api.node_claims.values_mut();
        let objects = [
            &mut pool.metadata.annotations,
            &mut class.metadata.annotations,
        ];
        let claims = claims.map(|claim| &mut claim.annotations);
        for annotations in objects.into_iter().chain(claims) {
            for (hash, version) in keys {
                annotations.insert(hash.into(), "another's".into());
                annotations.insert(version.into(), "v3".into());
            }
        }
    });
    rig.pass(secs(660)).await;
    for (hash, version) in keys {
        let migrated = annotations(&rig, version);
        assert!(
            migrated
                .iter()
                .all(|version| version.as_deref() != Some("v3"))
        );
        let migrated = annotations(&rig, hash);
        assert!(
            migrated
                .iter()
                .all(|hash| hash.as_deref() != Some("another's"))
        );
    }
    assert_eq!(rig.sim.with(drift), None);
}

#[tokio::test]
async fn observed_node_memory_is_recorded_by_image() {
    let mut rig = Rig::ready(Relay::Watching).await;
    rig.scale(1);
    rig.until(secs(180), all_bound).await.unwrap();
    rig.pass(secs(60)).await;
    let learned = rig.sim.with(|world| {
        let learned = world.ledger.memory.values();
        let learned = learned.map(|m| (m.image.clone(), m.bytes >> 20));
        learned.collect::<Vec<_>>()
    });
    assert_eq!(learned, [("ami-1".to_owned(), 8 << 10)]);
}

#[tokio::test]
async fn zonal_shift_prevents_launches_in_its_zone() {
    let mut rig = Rig::new(Relay::Watching);
    rig.sim.with(|world| {
        let entry = &mut world.registry[0].body;
        entry.as_mut().unwrap()["settings"] = serde_json::json!({"enableZonalShift": true});
        // The zone id of us-east-1a.
        world.account.shifts = vec![ZonalShift {
            zone_id: "use1-az1".into(),
            until: world.now + secs(3600),
        }];
    });
    rig.pass(secs(150)).await;
    rig.scale(2);
    rig.until(secs(180), all_bound).await.unwrap();
    let zones = |world: &mut fakes::World| {
        let zones = world.account.alive().map(|instance| instance.zone.clone());
        zones.collect::<Vec<_>>()
    };
    assert!(rig.sim.with(zones).iter().all(|zone| zone == "us-east-1b"));
    let reported = |reason: &'static str| {
        move |world: &mut fakes::World| world.api.events.iter().any(|e| e.reason == reason)
    };
    assert!(rig.sim.with(reported("ZonalShiftActive")));
    assert!(!rig.sim.with(reported("ZonalShiftCleared")));
    rig.sim.with(|world| world.account.shifts.clear());
    assert!(
        rig.until(secs(130), reported("ZonalShiftCleared"))
            .await
            .is_some()
    );
    rig.sim
        .with(|world| assert!(world.ledger.of(&Rig::cluster()).shifts.is_empty()));
    assert_eq!(rig.errors, Vec::<String>::new());
}

#[tokio::test]
async fn known_zonal_shift_applies_until_its_end_while_arc_fails() {
    let mut rig = Rig::ready(Relay::Watching).await;
    rig.sim.with(|world| {
        let entry = &mut world.registry[0].body;
        entry.as_mut().unwrap()["settings"] = serde_json::json!({"enableZonalShift": true});
        world.account.shifts = vec![ZonalShift {
            zone_id: "use1-az1".into(),
            until: world.now + secs(600),
        }];
    });
    rig.pass(secs(70)).await;
    rig.sim.with(|world| world.account.shifts.clear());
    rig.sim.fail_next("zonal_shifts_of", Fault::Throttled);
    rig.pass(secs(60)).await;
    let shifts = |world: &mut fakes::World| world.ledger.of(&Rig::cluster()).shifts.len();
    assert_eq!(rig.sim.with(shifts), 1, "a missing answer changes nothing");
    rig.pass(secs(60)).await;
    assert_eq!(rig.sim.with(shifts), 0);
}

#[tokio::test]
async fn start_failure_of_an_instance_is_a_condition_of_its_node_claim() {
    let mut rig = Rig::ready(Relay::Watching).await;
    rig.scale(1);
    let launched = |world: &mut fakes::World| world.account.alive().next().is_some();
    rig.until(secs(60), launched).await.unwrap();
    let victim = rig.sim.with(|world| {
        let victim = world.account.instances.values_mut().next().unwrap();
        victim.state = model::launch::InstanceState::Terminated;
        victim.state_reason = Some("Client.InternalError: Client error on launch".into());
        victim.id.clone()
    });
    let kind = model::InterruptionKind::InstanceTerminated;
    rig.announce(&victim, kind, None).await.unwrap();
    let reported = rig.sim.with(|world| {
        let mut events = world.api.events.iter();
        let ended = "EC2 terminated";
        let event = events.find(|event| event.message.starts_with(ended));
        event.unwrap().message.clone()
    });
    assert_eq!(
        reported,
        format!(
            "EC2 terminated instance {victim}: Client.InternalError: Client error on launch; if spec.blockDeviceMappings of its EC2NodeClass encrypts volumes, check that EC2 may use the key in ebs.kmsKeyID"
        )
    );
}
