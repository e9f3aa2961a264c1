//! NodeClaims that were created by hand (docs/design.md#managed-objects, docs/protocol.md#a1).

use api::names::annotation::COMMITTED;
use model::{
    InstanceId, NodeClaimName, launch::Instance, ledger::IntentState, node_claim::NodeClaim,
};
use stories::{Rig, add_node_claim, secs, transcript};

use crate::{claim, delete_claim, has_event, is_gone, serving};

pub(crate) fn apply(rig: &Rig, name: &str, change: impl Fn(&mut NodeClaim)) {
    rig.sim.with(|world| add_node_claim(world, name, change));
}

fn state_of(rig: &Rig, name: &str) -> Option<IntentState> {
    let name = NodeClaimName::from(name);
    rig.sim.with(|world| {
        let rows = world.ledger.of(&Rig::cluster());
        rows.intents.get(&name).map(|intent| intent.state.clone())
    })
}

#[tokio::test]
async fn manual_node_claim_gets_its_finalizer_before_the_launch() {
    let mut rig = serving(1).await;
    rig.sim.with(|world| {
        world.on_call = Some(("launch", |world| {
            let made = &world.api.node_claims[&"by-hand".into()];
            assert_eq!(made.finalizers, ["karpenter.sh/termination"]);
        }));
    });
    apply(&rig, "by-hand", |_| {});
    let launched = rig
        .until(secs(120), |world| world.api.nodes.len() == 2)
        .await;
    assert!(launched.is_some(), "{:#?}", rig.transcript);
    assert!(matches!(
        state_of(&rig, "by-hand"),
        Some(IntentState::Launched { .. })
    ));
    transcript!(rig);
}

/// An instance left by a Karpenter that crashed between CreateFleet and the NodeClaim's status.
fn left_by_karpenter(rig: &Rig) -> InstanceId {
    rig.sim.with(|world| {
        let like = world.account.instances.values().next().unwrap().clone();
        let mut tags = like.tags.clone();
        tags.remove("whittle.sh/launch");
        tags.remove("karpenter.sh/nodeclaim");
        tags.insert("karpenter.k8s.aws/ec2nodeclass".into(), "default".into());
        let instance = Instance {
            id: "i-left".into(),
            private_dns: Some("ip-left".into()),
            launched_at: Some(world.now),
            tags,
            ..like
        };
        let id = instance.id.clone();
        world.account.instances.insert(id.clone(), instance);
        id
    })
}

#[tokio::test]
async fn instance_left_by_karpenter_is_adopted_without_a_launch() {
    let mut rig = serving(1).await;
    let requests = rig.sim.with(|world| world.account.requests.len());
    apply(&rig, "half-launched", |_| {});
    let left = left_by_karpenter(&rig);
    rig.pass(secs(30)).await;
    assert_eq!(
        state_of(&rig, "half-launched"),
        Some(IntentState::Launched { instance: left }),
        "{:#?}",
        rig.transcript
    );
    assert_eq!(rig.sim.with(|world| world.account.requests.len()), requests);
    transcript!(rig);
}

#[tokio::test]
async fn instance_older_than_the_node_claim_is_not_adopted() {
    let mut rig = serving(1).await;
    let left = left_by_karpenter(&rig);
    rig.pass(secs(5)).await;
    apply(&rig, "by-hand", |_| {});
    rig.pass(secs(60)).await;
    match state_of(&rig, "by-hand") {
        Some(IntentState::Launched { instance }) => assert_ne!(instance, left),
        other => panic!("{other:?} {:#?}", rig.transcript),
    }
    transcript!(rig);
}

#[tokio::test]
async fn invalid_node_claim_is_reported_and_deleted_without_a_launch() {
    let mut rig = serving(1).await;
    let requests = rig.sim.with(|world| world.account.requests.len());
    apply(&rig, "nonsense", |claim| {
        claim.spec.requests.set("cpu", 10_000_000);
    });
    let name = NodeClaimName::from("nonsense");
    let gone = rig
        .until(secs(120), |world| {
            !world.api.node_claims.contains_key(&name)
        })
        .await;
    assert!(gone.is_some(), "{:#?}", rig.transcript);
    assert!(rig.sim.with(has_event("InsufficientCapacityError")));
    assert_eq!(rig.sim.with(|world| world.account.requests.len()), requests);
    transcript!(rig);
}

#[tokio::test]
async fn node_claim_without_a_node_class_is_deleted_at_the_launch_timeout() {
    let mut rig = serving(1).await;
    apply(&rig, "classless", |claim| {
        claim.spec.node_class.name = "forgotten".into();
    });
    let name = NodeClaimName::from("classless");
    let gone = rig
        .until(secs(500), |world| {
            !world.api.node_claims.contains_key(&name)
        })
        .await;
    assert!(
        gone.is_some_and(|took| took >= 290),
        "{gone:?} {:#?}",
        rig.transcript
    );
    transcript!(rig);
}

#[tokio::test]
async fn node_claim_naming_an_unmanaged_instance_is_deleted_and_the_instance_is_kept() {
    let mut rig = serving(1).await;
    rig.sim.with(|world| {
        let like = world.account.instances.values().next().unwrap().clone();
        let unmanaged = Instance {
            id: "i-stranger".into(),
            private_dns: None,
            tags: [("Name".to_owned(), "their database".to_owned())].into(),
            ..like
        };
        world
            .account
            .instances
            .insert(unmanaged.id.clone(), unmanaged);
    });
    apply(&rig, "grabbing", |claim| {
        claim.status.provider_id = "aws:///us-east-1a/i-stranger".into();
    });
    let name = NodeClaimName::from("grabbing");
    rig.pass(secs(60)).await;
    delete_claim(&rig, &name);
    let gone = rig
        .until(secs(300), |world| {
            !world.api.node_claims.contains_key(&name)
        })
        .await;
    assert!(gone.is_some(), "{:#?}", rig.transcript);
    rig.sim.with(|world| {
        assert!(
            world.account.instances[&"i-stranger".into()]
                .state
                .is_alive()
        );
    });
    transcript!(rig);
}

#[tokio::test]
async fn node_claim_naming_the_instance_of_another_is_deleted_and_the_other_is_kept() {
    let mut rig = serving(1).await;
    let owner = claim(&rig);
    apply(&rig, "zz-grabbing", |claim| {
        claim
            .status
            .provider_id
            .clone_from(&owner.status.provider_id);
        claim.labels.insert("team".into(), "theirs".into());
    });
    let name = NodeClaimName::from("zz-grabbing");
    let gone = rig
        .until(secs(600), |world| {
            !world.api.node_claims.contains_key(&name)
        })
        .await;
    assert!(gone.is_some(), "{:#?}", rig.transcript);
    rig.pass(secs(120)).await;
    assert!(!rig.sim.with(is_gone(&owner)), "{:#?}", rig.transcript);
    rig.sim.with(|world| {
        assert_eq!(world.account.alive().count(), 1);
        let node = world.api.nodes.values().next().unwrap();
        assert!(node.deleted_at.is_none() && !node.labels.contains_key("team"));
    });
    transcript!(rig);
}

#[tokio::test]
async fn node_claim_created_after_its_launch_failed_is_deleted_without_a_launch() {
    let mut rig = serving(1).await;
    let requests = rig.sim.with(|world| world.account.requests.len());
    let committed = |claim: &mut NodeClaim| {
        let name = claim.name.to_string();
        claim.annotations.insert(COMMITTED.to_owned(), name);
    };
    apply(&rig, "late", committed);
    let gone = rig
        .until(secs(120), |world| {
            !world.api.node_claims.contains_key(&"late".into())
        })
        .await;
    assert!(gone.is_some(), "{:#?}", rig.transcript);
    assert_eq!(rig.sim.with(|world| world.account.requests.len()), requests);
    transcript!(rig);
}

#[tokio::test]
async fn copy_of_a_node_claim_under_another_name_is_launched() {
    let mut rig = serving(1).await;
    apply(&rig, "copy", |claim| {
        let original = "default-0123456789".to_owned();
        claim.annotations.insert(COMMITTED.to_owned(), original);
    });
    rig.pass(secs(60)).await;
    assert!(matches!(
        state_of(&rig, "copy"),
        Some(IntentState::Launched { .. })
    ));
    transcript!(rig);
}
