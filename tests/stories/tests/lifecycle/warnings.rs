//! What users are warned of on their EC2NodeClasses, although these go on working.

use fakes::Fault;
use model::{Lane, Warning};
use serde_json::json;
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
async fn a_node_pool_that_cannot_be_read_is_told_and_the_others_go_on() {
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
    let said = rig.sim.with(|world| {
        let mut events = world.api.events.iter();
        let found = events.find(|event| event.reason == "Unreadable").unwrap();
        let about = ports::cluster::EventTarget::NodePool("old".into(), "old-uid".into());
        assert_eq!(found.about, about);
        found.message.clone()
    });
    assert!(
        said.contains("missing field `group`") && said.contains("`whittle convert -f"),
        "{said}"
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

#[tokio::test]
async fn a_node_pool_whose_requirements_leave_no_type_is_told_of() {
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
            "leave fewer instance types than their minValues ask for",
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
        let told = rig.sim.with(|world| {
            let mut events = world.api.events.iter();
            let told = events.find(|event| event.reason == "NoCompatibleInstanceTypes");
            told.map(|event| event.message.clone())
        });
        let told = told.unwrap_or_default();
        assert!(told.contains(why), "{told:?} {:#?}", rig.transcript);
    }
    transcript!(rig);
}
