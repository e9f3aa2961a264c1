//! Warnings about EC2NodeClasses and NodePools that remain usable.

use fakes::Fault;
use model::{Lane, Warning};
use serde_json::json;
use stories::{Relay, Rig, all_bound, secs, transcript};

use crate::serving;

/// Message of the first event with this reason on an EC2NodeClass.
fn event_message(rig: &Rig, reason: &str) -> Option<String> {
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
async fn exhausted_selector_results_are_one_event_and_block_nothing() {
    let mut rig = Rig::ready(Relay::Watching).await;
    rig.sim.with(|world| {
        world.account.warnings.push(Warning {
            reason: "InsufficientFreeAddressesInSubnet",
            message: "subnetSelectorTerms: subnet-1 is full".to_owned(),
        });
    });
    rig.scale(1);
    assert!(rig.until(secs(300), all_bound).await.is_some());
    let message = event_message(&rig, "InsufficientFreeAddressesInSubnet");
    assert_eq!(
        message.as_deref(),
        Some("subnetSelectorTerms: subnet-1 is full")
    );
    transcript!(rig);
}

#[tokio::test]
async fn objects_applied_in_an_old_api_version_are_events_on_them() {
    let mut rig = Rig::ready(Relay::Watching).await;
    let applied = |version: &str| {
        let key = "kubectl.kubernetes.io/last-applied-configuration".to_owned();
        (key, format!(r#"{{"apiVersion":"{version}"}}"#))
    };
    rig.sim.with(|world| {
        let pool = world.api.node_pools.get_mut("default").unwrap();
        // Events are deduplicated by uid.
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
    let of_class = event_message(&rig, "OldVersion").unwrap();
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
        panic!("expected one event: {of_pool:?}");
    };
    assert!(
        of_pool.starts_with("it was applied as karpenter.sh/v1beta1"),
        "{of_pool}"
    );
    transcript!(rig);
}

#[tokio::test]
async fn unreadable_node_pool_is_an_event_and_blocks_no_other() {
    let mut rig = Rig::ready(Relay::Watching).await;
    rig.sim.with(|world| {
        let old = ports::cluster::Unreadable {
            name: "old".to_owned(),
            uid: "old-uid".into(),
            message: "missing field `group`".to_owned(),
        };
        world.api.unreadable_node_pools.push(old);
    });
    rig.scale(1);
    assert!(rig.until(secs(300), all_bound).await.is_some());
    let reported = rig.sim.with(|world| {
        let mut events = world.api.events.iter();
        let found = events.find(|event| event.reason == "Unreadable").unwrap();
        let about = ports::cluster::EventTarget::NodePool("old".into(), "old-uid".into());
        assert_eq!(found.about, about);
        found.message.clone()
    });
    assert!(
        reported.contains("missing field `group`") && reported.contains("`whittle convert -f"),
        "{reported}"
    );
    transcript!(rig);
}

#[tokio::test]
async fn unreadable_prices_are_an_event_and_block_no_launch() {
    let mut rig = Rig::ready(Relay::Watching).await;
    rig.sim.with(|world| {
        world
            .account
            .price_warnings
            .push("prices are a week old".to_owned())
    });
    rig.scale(1);
    assert!(rig.until(secs(300), all_bound).await.is_some());
    let message = event_message(&rig, "PricesNotCurrent");
    assert_eq!(message.as_deref(), Some("prices are a week old"));
    transcript!(rig);
}

#[tokio::test]
async fn unknown_instance_types_are_an_event_and_delete_no_node() {
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
    let message = event_message(&rig, "InstanceTypesUnknown").unwrap();
    assert!(
        message.starts_with("nothing is launched until instance types are known: "),
        "{message}"
    );
    rig.pass(secs(300)).await;
    assert!(rig.sim.with(all_bound));
    assert_eq!(rig.sim.with(|world| world.account.requests.len()), 1);
    transcript!(rig);
}

#[tokio::test]
async fn node_pool_without_matching_instance_types_is_an_event() {
    let mut rig = Rig::ready(Relay::Watching).await;
    let of_types = |values: &[&str], least: Option<u8>| {
        json!([{
            "key": "node.kubernetes.io/instance-type", "operator": "In",
            "values": values, "minValues": least,
        }])
    };
    for (requirements, why) in [
        (of_types(&["m9.mega"], None), "leave no instance type"),
        (
            of_types(&["m5.large", "m9.mega"], Some(2)),
            "leave fewer instance types than their minValues require",
        ),
    ] {
        rig.sim.with(|world| {
            let pool = world.api.node_pools.get_mut("default").unwrap();
            pool.spec.template.spec.requirements = serde_json::from_value(requirements).unwrap();
        });
        rig.scale(0);
        rig.pass(secs(90)).await;
        rig.sim.with(|world| world.api.events.clear());
        rig.scale(1);
        rig.pass(secs(60)).await;
        let reported = rig.sim.with(|world| {
            let mut events = world.api.events.iter();
            let reported = events.find(|event| event.reason == "NoCompatibleInstanceTypes");
            reported.map(|event| event.message.clone())
        });
        let reported = reported.unwrap_or_default();
        assert!(reported.contains(why), "{reported:?} {:#?}", rig.transcript);
    }
    transcript!(rig);
}
