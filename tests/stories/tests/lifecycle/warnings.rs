//! What users are warned of on their EC2NodeClasses, although these go on working.

use fakes::Fault;
use model::{Lane, Warning};
use stories::{Relay, Rig, all_bound, secs, transcript};

use crate::serving;

/// The message of the first event of this reason about an EC2NodeClass.
fn said(rig: &Rig, reason: &str) -> Option<String> {
    rig.sim.with(|world| {
        let mut events = world.api.events.iter();
        let found = events.find(|event| {
            event.reason == reason
                && matches!(event.about, ports::cluster::EventTarget::NodeClass(..))
        });
        found.map(|event| event.message.clone())
    })
}

#[tokio::test]
async fn what_a_selector_finds_exhausted_is_told_once_and_stops_nothing() {
    let mut rig = Rig::ready(Relay::Watching).await;
    rig.sim.with(|world| {
        world.account.warnings.push(Warning {
            reason: "InsufficientFreeAddressesInSubnet",
            message: "subnetSelectorTerms: subnet-1 is full".to_owned(),
        });
    });
    rig.scale(1);
    assert!(rig.until(secs(300), all_bound).await.is_some());
    let message = said(&rig, "InsufficientFreeAddressesInSubnet");
    assert_eq!(
        message.as_deref(),
        Some("subnetSelectorTerms: subnet-1 is full")
    );
    transcript!(rig);
}

#[tokio::test]
async fn what_was_applied_in_an_old_version_is_told_where_it_stands() {
    let mut rig = Rig::ready(Relay::Watching).await;
    let applied = |version: &str| {
        let key = "kubectl.kubernetes.io/last-applied-configuration".to_owned();
        (key, format!(r#"{{"apiVersion":"{version}"}}"#))
    };
    rig.sim.with(|world| {
        let pool = world.api.node_pools.get_mut("default").unwrap();
        // Events are told apart by uid.
        pool.metadata.uid = "pool".to_owned();
        pool.metadata
            .annotations
            .extend([applied("karpenter.sh/v1beta1")]);
        let class = world.api.node_classes.get_mut("default").unwrap();
        class
            .metadata
            .annotations
            .extend([applied("karpenter.k8s.aws/v1beta1")]);
    });
    rig.scale(1);
    assert!(rig.until(secs(300), all_bound).await.is_some());
    let of_class = said(&rig, "OldVersion").unwrap();
    assert!(
        of_class.starts_with("it was applied as karpenter.k8s.aws/v1beta1")
            && of_class.contains("`whittle convert -f"),
        "{of_class}"
    );
    let of_pool = rig.sim.with(|world| {
        let events = world
            .api
            .events
            .iter()
            .filter(|event| event.reason == "OldVersion");
        let pools =
            events.filter(|event| matches!(event.about, ports::cluster::EventTarget::NodePool(..)));
        pools.map(|event| event.message.clone()).collect::<Vec<_>>()
    });
    let [of_pool] = of_pool.as_slice() else {
        panic!("said once: {of_pool:?}");
    };
    assert!(
        of_pool.starts_with("it was applied as karpenter.sh/v1beta1"),
        "{of_pool}"
    );
    transcript!(rig);
}

#[tokio::test]
async fn prices_that_cannot_be_read_are_told_of_and_stop_no_launch() {
    let mut rig = Rig::ready(Relay::Watching).await;
    rig.sim.with(|world| {
        world
            .account
            .complaints
            .push("prices are of last week".to_owned())
    });
    rig.scale(1);
    assert!(rig.until(secs(300), all_bound).await.is_some());
    let message = said(&rig, "PricesNotCurrent");
    assert_eq!(message.as_deref(), Some("prices are of last week"));
    transcript!(rig);
}

#[tokio::test]
async fn instance_types_that_are_not_known_are_told_of_and_no_node_is_given_up_for_it() {
    let mut rig = serving(1).await;
    rig.sim.fail_next("instance_types", Fault::Unavailable);
    let turn = rig.next_turn();
    let deadline = rig.deadline(Lane::Lifecycle);
    let report = turns::run(
        &rig.world,
        &Rig::cluster(),
        Lane::Lifecycle,
        &turn,
        deadline,
    )
    .await;
    assert!(matches!(report.unwrap().outcome, turns::Outcome::Failed(_)));
    let message = said(&rig, "InstanceTypesUnknown").unwrap();
    assert!(
        message.starts_with("nothing is launched until instance types are known: "),
        "{message}"
    );
    rig.pass(secs(300)).await;
    assert!(rig.sim.with(all_bound));
    assert_eq!(rig.sim.with(|world| world.account.requests.len()), 1);
    transcript!(rig);
}
