//! Two stacks of one account serve clusters of the same name: neither terminates instances of the other.

use api::names::tag;
use model::{InstanceId, launch::Instance};
use stories::{all_gone, secs};

use super::*;

/// Adds copies of the first instance with other tags.
fn add(rig: &Rig, names: &[&str], retag: impl Fn(&mut Instance)) -> Vec<InstanceId> {
    rig.sim.with(|world| {
        let like = world.account.instances.values().next().unwrap().clone();
        let added = names.iter().map(|name| {
            let mut added = Instance {
                id: InstanceId::from(*name),
                private_dns: None,
                ..like.clone()
            };
            retag(&mut added);
            (added.id.clone(), added)
        });
        let added: Vec<_> = added.collect();
        let ids = added.iter().map(|(id, _)| id.clone()).collect();
        world.account.instances.extend(added);
        ids
    })
}

fn are_alive(rig: &Rig, ids: &[InstanceId]) -> bool {
    let alive = rig.sim.with(alive);
    ids.iter().all(|id| alive.contains(id))
}

const THEIRS: [&str; 6] = ["i-t1", "i-t2", "i-t3", "i-t4", "i-t5", "i-t6"];

#[tokio::test]
async fn instances_of_a_cluster_of_the_same_name_are_neither_terminated_nor_counted() {
    let mut rig = serving(4).await;
    let theirs = add(&rig, &THEIRS, |instance| {
        let tags = &mut instance.tags;
        tags.insert(tag::CLUSTER_UID.to_owned(), "another".to_owned());
        tags.insert(tag::LAUNCH.to_owned(), "their launch".to_owned());
    });
    let own = add(&rig, &["i-own"], |instance| {
        instance.tags.remove(tag::LAUNCH);
    });
    let collected = rig
        .until(secs(900), |world| !alive(world).contains(&own[0]))
        .await;
    assert!(collected.is_some(), "{:#?}", rig.transcript);
    rig.pass(secs(3_600)).await;
    assert!(are_alive(&rig, &theirs), "{:#?}", rig.transcript);
    let braked = |line: &String| line.contains("would be collected");
    assert!(!rig.transcript.iter().any(braked), "{:#?}", rig.transcript);
}

/// The instances are Karpenter's, or of a stack whose version did not tag instances with the cluster's uid.
#[tokio::test]
async fn instances_without_proof_of_ownership_are_left_alone_and_reported() {
    for launch in [None, Some("their launch")] {
        let mut rig = serving(4).await;
        let theirs = add(&rig, &THEIRS[..1], |instance| {
            let tags = &mut instance.tags;
            tags.remove(tag::CLUSTER_UID);
            tags.remove(tag::LAUNCH);
            tags.extend(launch.map(|token| (tag::LAUNCH.to_owned(), token.to_owned())));
        });
        let mut warnings = Vec::new();
        for _ in 0..20 {
            warnings.extend(sweep(&mut rig).await.warnings);
        }
        assert!(are_alive(&rig, &theirs));
        let named = |warning: &String| warning.contains("i-t1");
        assert!(warnings.iter().any(named), "{warnings:?}");
    }
}

#[tokio::test]
async fn nodes_without_a_cluster_uid_tag_are_managed_as_all_others() {
    let mut rig = serving(4).await;
    rig.sim.with(|world| {
        for instance in world.account.instances.values_mut() {
            instance.tags.remove(tag::CLUSTER_UID);
        }
    });
    let before = rig.sim.with(alive);
    rig.pass(secs(1_800)).await;
    assert_eq!(rig.sim.with(alive), before, "{:#?}", rig.transcript);
    rig.scale(0);
    let gone = rig.until(secs(900), all_gone).await;
    assert!(gone.is_some(), "{:#?}", rig.transcript);
}

#[tokio::test]
async fn instances_are_launched_with_the_uid_of_their_cluster() {
    let rig = serving(1).await;
    rig.sim.with(|world| {
        let uid = &world.api.uid.0;
        let tagged = |instance: &Instance| instance.tags.get(tag::CLUSTER_UID) == Some(uid);
        assert!(world.account.alive().all(tagged));
    });
}

#[tokio::test]
async fn deleting_a_cluster_terminates_no_instances_of_one_of_the_same_name() {
    let mut rig = serving(4).await;
    let theirs = add(&rig, &THEIRS, |instance| {
        let tags = &mut instance.tags;
        tags.insert(tag::CLUSTER_UID.to_owned(), "another".to_owned());
    });
    rig.sim
        .with(|world| world.deleted = [Rig::cluster()].into());
    rig.pass(secs(25 * 3_600)).await;
    let left = rig.sim.with(alive);
    assert_eq!(left, theirs, "{:#?}", rig.transcript.last());
}

/// Nodes run with these resources, and only the cluster's name identifies the owner.
#[tokio::test]
async fn launch_templates_and_instance_profiles_of_a_cluster_of_the_same_name_stay() {
    for has_namesake in [true, false] {
        let mut rig = serving(2).await;
        if has_namesake {
            add(&rig, &THEIRS[..1], |instance| {
                let tags = &mut instance.tags;
                tags.insert(tag::CLUSTER_UID.to_owned(), "another".to_owned());
            });
        }
        rig.sim.with(|world| {
            world.account.templates = [("theirs".to_owned(), "their class".to_owned())].into();
        });
        rig.pass(secs(2 * 3_600)).await;
        let left = rig.sim.with(|world| world.account.templates.len());
        assert_eq!(left, usize::from(has_namesake));
    }
}
