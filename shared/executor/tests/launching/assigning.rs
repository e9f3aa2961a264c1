//! Assignment of the instances of a call without an answer to its launches (docs/protocol.md#a4).

use fakes::World;
use model::{
    InstanceId,
    launch::InstanceState,
    ledger::{ClaimPhase, ClaimRow, Holder, InstanceOwner, IntentState},
};

use crate::{TestCluster, failures};

impl TestCluster {
    /// Another turn has assigned the instance to this NodeClaim.
    fn give(&self, instance: &InstanceId, claim: &str) {
        let owner = InstanceOwner {
            cluster: self.cluster.clone(),
            holder: Holder::Claim(claim.into()),
        };
        let row = ClaimRow {
            instance: instance.clone(),
            phase: ClaimPhase::Open,
        };
        self.sim.with(|world| {
            world.ledger.owners.insert(instance.clone(), owner);
            let rows = world.ledger.of(&self.cluster);
            rows.claims.insert(claim.into(), row);
        });
    }

    /// Instances that NodeClaims get before the call may be repeated.
    async fn launched(&self) -> Vec<(String, InstanceId)> {
        let launched = self.resumed_after(40).await.launched;
        let named = launched.into_iter().map(|(claim, id)| (claim.0, id));
        let mut named: Vec<_> = named.collect();
        named.sort();
        named
    }
}

/// A launch under way that owns an instance which `change` changes.
async fn launch_owning_instance(change: fn(&mut World, &InstanceId)) -> (TestCluster, InstanceId) {
    let test_cluster = TestCluster::unanswered(&["a"]).await;
    let own = test_cluster.instances().remove(0);
    test_cluster.give(&own, "a");
    test_cluster.sim.with(|world| change(world, &own));
    (test_cluster, own)
}

fn remove_from_ec2(world: &mut World, own: &InstanceId) {
    world.account.instances.remove(own);
}

#[tokio::test]
async fn a4_owned_instance_is_assigned_to_no_other_node_claim() {
    let test_cluster = TestCluster::unanswered(&["a", "b"]).await;
    let ids = test_cluster.instances();
    test_cluster.give(&ids[0], "a");
    test_cluster.sim.with(|world| world.calls.clear());
    let expected = [("a".into(), ids[0].clone()), ("b".into(), ids[1].clone())];
    assert_eq!(test_cluster.launched().await, expected);
    let offers = test_cluster.sim.with(|world| {
        let calls = world.calls.iter();
        calls.filter(|call| **call == "own").count()
    });
    assert_eq!(offers, 1);
}

#[tokio::test]
async fn a4_node_claim_that_loses_an_instance_gets_another() {
    let test_cluster = TestCluster::unanswered(&["a", "b", "c"]).await;
    let ids = test_cluster.instances();
    test_cluster.give(&ids[0], "elsewhere");
    test_cluster.sim.with(|world| {
        let rows = world.ledger.of(&test_cluster.cluster);
        rows.intents.remove(&"c".into());
    });
    let expected = [("a".into(), ids[2].clone()), ("b".into(), ids[1].clone())];
    assert_eq!(test_cluster.launched().await, expected);
}

#[tokio::test]
async fn a4_node_claim_shows_only_a_living_instance() {
    let (test_cluster, _) = launch_owning_instance(|world, own| {
        let instance = world.account.instances.get_mut(own).unwrap();
        instance.state = InstanceState::Terminated;
    })
    .await;
    let outcome = test_cluster.resumed_after(60).await;
    let why = "its instance terminated while it was being launched";
    assert_eq!(failures(&outcome), [("a", why)]);

    // EC2 lists some instances by their ids before it finds them by their tags.
    let (test_cluster, own) = launch_owning_instance(|world, own| {
        let instance = world.account.instances.get_mut(own).unwrap();
        instance.tags.clear();
    })
    .await;
    assert_eq!(test_cluster.launched().await, [("a".into(), own.clone())]);
    let shown = test_cluster.node_claim("a").status.provider_id;
    assert!(shown.ends_with(own.as_str()), "{shown}");
}

#[tokio::test]
async fn a4_instance_named_only_by_its_node_claim_takes_none_from_others() {
    let test_cluster = TestCluster::unanswered(&["a", "b"]).await;
    let ids = test_cluster.instances();
    test_cluster.give(&ids[0], "a");
    test_cluster.sim.with(|world| {
        remove_from_ec2(world, &ids[0]);
        let claim = world.api.node_claims.get_mut(&"a".into()).unwrap();
        claim.status.provider_id = format!("aws:///us-east-1a/{}", ids[0]);
    });
    let expected = [("a".into(), ids[0].clone()), ("b".into(), ids[1].clone())];
    assert_eq!(test_cluster.launched().await, expected);
}

#[tokio::test]
async fn a3_unlisted_instance_is_awaited_until_launch_timeout() {
    let (test_cluster, _) = launch_owning_instance(remove_from_ec2).await;
    let outcome = test_cluster.resumed_after(299).await;
    assert_eq!(outcome.unfinished, ["a".into()], "{outcome:#?}");
    assert_eq!(failures(&outcome), []);
    assert!(matches!(
        test_cluster.state("a"),
        IntentState::Launching { .. }
    ));

    let (test_cluster, _) = launch_owning_instance(remove_from_ec2).await;
    let outcome = test_cluster.resumed_after(300).await;
    let why = "EC2 did not list its instance within the launch timeout";
    assert_eq!(failures(&outcome), [("a", why)]);
}
