//! Requirements and attachments of volumes.

use model::{
    InstanceType, labels,
    pod::{NodeSelectorTerm, Pod, PodVolume},
    requirement::{Requirement, Requirements},
    selector::Operator,
    snapshot::Optimize,
    volume::{Storage, StorageClass, Volume, VolumeClaim},
};

use super::Volumes;
use crate::test_cluster::{TestCluster, instance_type, pod, wanting};

/// Pod with one claim per volume, each bound to its volume.
fn bound(volumes: Vec<Volume>) -> (Storage, Pod) {
    let mut web = pod("web", 100);
    let mut storage = Storage::default();
    for (at, mut volume) in volumes.into_iter().enumerate() {
        let claim = format!("claim-{at}");
        volume.name = format!("volume-{at}");
        web.volumes.push(PodVolume::Claim {
            claim: claim.clone(),
        });
        storage.claims.push(VolumeClaim {
            namespace: web.key.namespace.clone(),
            name: claim,
            volume: Some(volume.name.clone()),
            ..VolumeClaim::default()
        });
        storage.volumes.push(volume);
    }
    (storage, web)
}

/// Volume that nodes with any of these label values reach.
fn reachable(key: &str, values: &[&str]) -> Volume {
    let terms = values.iter().map(|value| NodeSelectorTerm {
        match_expressions: vec![wanting(key, Operator::In, &[value])],
        match_fields: Vec::new(),
    });
    Volume {
        node_affinity: terms.collect(),
        ..Volume::default()
    }
}

fn alternatives(volumes: Vec<Volume>) -> Vec<Requirements> {
    let (storage, web) = bound(volumes);
    Volumes::new(&storage).alternatives(&web).unwrap()
}

fn only(key: &str, values: &[&str]) -> Requirements {
    let values = values.iter().map(|value| (*value).to_owned());
    let mut requirements = Requirements::default();
    requirements.add(Requirement::new(key, Operator::In, values));
    requirements
}

#[test]
fn requirements_of_volumes_are_intersected() {
    let volume = || reachable(labels::ZONE, &["a", "b"]);
    assert_eq!(
        alternatives(vec![volume(), volume()]),
        [only(labels::ZONE, &["a"]), only(labels::ZONE, &["b"])]
    );
}

#[test]
fn conflicting_volumes_leave_no_value() {
    let apart = [["a"], ["b"]].map(|zones| reachable(labels::ZONE, &zones));
    assert_eq!(alternatives(apart.into()), [only(labels::ZONE, &[])]);
}

#[test]
fn hostname_of_a_local_volume_is_ignored() {
    let mut volume = reachable(labels::HOSTNAME, &["n"]);
    let affinity = &mut volume.node_affinity[0].match_expressions;
    affinity.push(wanting(labels::ZONE, Operator::In, &["a"]));
    let mut both = only(labels::ZONE, &["a"]);
    both.add(
        only(labels::HOSTNAME, &["n"])
            .0
            .remove(labels::HOSTNAME)
            .unwrap(),
    );
    assert_eq!(alternatives(vec![volume.clone()]), [both]);
    volume.local = true;
    assert_eq!(alternatives(vec![volume]), [only(labels::ZONE, &["a"])]);
}

#[test]
fn volume_is_attached_by_its_csi_driver_or_the_plugins_replacement() {
    let volume = |driver: Option<&str>, in_tree: Option<&str>| Volume {
        driver: driver.map(str::to_owned),
        in_tree: in_tree.map(str::to_owned),
        ..Volume::default()
    };
    let (storage, web) = bound(vec![
        volume(Some("csi.example.com"), None),
        volume(None, Some("kubernetes.io/aws-ebs")),
        volume(None, Some("awsElasticBlockStore")),
        volume(None, Some("kubernetes.io/nfs")),
        volume(None, None),
    ]);
    let volumes = Volumes::new(&storage);
    let attached = volumes.attachments(&web).into_iter();
    let attached = attached.map(|(driver, (_, claim))| (driver, claim));
    let expected = [
        ("csi.example.com", "claim-0"),
        ("ebs.csi.aws.com", "claim-1"),
        ("ebs.csi.aws.com", "claim-2"),
    ];
    let expected = expected.map(|(driver, claim)| (driver, claim.to_owned()));
    assert_eq!(attached.collect::<Vec<_>>(), expected);
}

#[test]
fn unbound_volume_is_attached_by_the_driver_of_its_class() {
    let driver = |provisioner: &str| {
        let mut web = pod("web", 100);
        web.volumes.push(PodVolume::Ephemeral {
            volume: "scratch".to_owned(),
            storage_class: Some("fast".to_owned()),
        });
        let storage = Storage {
            claims: vec![VolumeClaim {
                namespace: web.key.namespace.clone(),
                name: format!("{}-scratch", web.key.name),
                storage_class: Some("fast".to_owned()),
                ..VolumeClaim::default()
            }],
            classes: vec![StorageClass {
                name: "fast".to_owned(),
                provisioner: provisioner.to_owned(),
                ..StorageClass::default()
            }],
            ..Storage::default()
        };
        let volumes = Volumes::new(&storage);
        let attached = volumes.attachments(&web);
        assert_eq!(attached.len(), 1);
        attached[0].0.to_owned()
    };
    assert_eq!(driver("kubernetes.io/aws-ebs"), "ebs.csi.aws.com");
    assert_eq!(driver("csi.example.com"), "csi.example.com");
}

/// Pods with one EBS claim each; the first two share theirs.
fn cluster(count: usize, limits: &[Option<u32>]) -> TestCluster {
    let types = limits.iter().zip(1..).map(|(limit, cents)| InstanceType {
        ebs_attach_limit: *limit,
        ..instance_type(&format!("type-{cents}"), 64, 64, cents * 10)
    });
    let pods = (0..count).map(|at| {
        let mut pod = pod(&format!("web-{at}"), 100);
        let claim = format!("claim-{}", at.max(1));
        pod.volumes.push(PodVolume::Claim { claim });
        pod
    });
    let mut cluster = TestCluster::new(types.collect(), pods.collect());
    cluster.options.optimize = Optimize::Cost;
    cluster.storage.classes.push(StorageClass {
        name: "gp3".to_owned(),
        provisioner: "ebs.csi.aws.com".to_owned(),
        ..StorageClass::default()
    });
    let claims = (1..count).map(|at| VolumeClaim {
        namespace: cluster.pods[0].key.namespace.clone(),
        name: format!("claim-{at}"),
        storage_class: Some("gp3".to_owned()),
        ..VolumeClaim::default()
    });
    cluster.storage.claims = claims.collect();
    cluster
}

fn pods_of_nodes(cluster: &TestCluster) -> Vec<usize> {
    let result = cluster.solve();
    let nodes = result.new_nodes.iter().map(|node| node.pods.len());
    let mut pods: Vec<usize> = nodes.collect();
    pods.sort_unstable();
    pods
}

#[test]
fn new_node_stays_within_the_attach_limit() {
    // Seven pods have six volumes, because two share one.
    assert_eq!(pods_of_nodes(&cluster(7, &[Some(3)])), [3, 4]);
    assert_eq!(pods_of_nodes(&cluster(7, &[None])), [7]);
    let mut upstream = cluster(7, &[Some(3)]);
    upstream.options.optimize = Optimize::Upstream;
    assert_eq!(pods_of_nodes(&upstream), [7]);
}

#[test]
fn volumes_of_a_hundred_pods_need_ten_nodes() {
    // One pod more, because two share a volume.
    let pods = pods_of_nodes(&cluster(101, &[Some(10)]));
    assert_eq!(pods, [[10; 9].as_slice(), &[11]].concat());
}

#[test]
fn type_with_a_sufficient_attach_limit_is_chosen() {
    let mut cluster = cluster(4, &[Some(2), Some(3)]);
    let claims = (1..4).map(|at| PodVolume::Claim {
        claim: format!("claim-{at}"),
    });
    cluster.pods[0].volumes = claims.collect();
    cluster.pods.truncate(1);
    let node = &cluster.solve().new_nodes[0];
    assert_eq!(node.choices.len(), 1);
    assert_eq!(node.choices[0].instance_type(), 1);
    cluster.types.pop();
    let result = cluster.solve();
    let reason = result.unplaced[0].reasons[0].1.to_string();
    assert_eq!(
        reason,
        "brings 3 volumes of EBS, and its nodes attach 2 at most"
    );
}

#[test]
fn types_with_too_low_attach_limits_are_dropped_as_pods_join() {
    // Eight volumes; two nodes of the small type would cost more.
    let mut cluster = cluster(9, &[Some(5)]);
    cluster.types.push(InstanceType {
        ebs_attach_limit: Some(20),
        ..instance_type("large", 64, 64, 15)
    });
    let nodes = cluster.solve().new_nodes;
    assert_eq!(nodes.len(), 1);
    let choices = nodes[0].choices.iter();
    let choices: Vec<usize> = choices.map(|choice| choice.instance_type()).collect();
    assert_eq!(choices, [1]);
}
