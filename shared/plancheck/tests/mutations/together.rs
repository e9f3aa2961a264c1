//! Rules between pods, and between pods and volumes.

use model::volume::StorageClass;

use super::*;

pub(crate) const MUTATIONS: &[Mutation] = &[
    (
        "anti-affinity is ignored on one node",
        |w| {
            let pod = w.launch(ZONE_B).pods.remove(1);
            w.launch(ZONE_A).pods.push(pod)
        },
        at(ZONE_A),
        "against anti-affinity",
    ),
    (
        "anti-affinity by zone may be violated",
        |w| {
            for pod in ["apart-0", "apart-1"] {
                w.pod(pod).pod_anti_affinity.required = vec![near("apart", ZONE)]
            }
            let both = launch_of(
                &w.snapshot,
                "zone-a",
                "default",
                &[
                    one_of(ZONE, &["a", "b"]),
                    one_of(CAPACITY_TYPE, &["on-demand"]),
                ],
                &["apart-0"],
            );
            w.plan.actions[ZONE_A] = both;
        },
        at(ZONE_B),
        "may share topology.kubernetes.io/zone=b",
    ),
    (
        "a running pod's anti-affinity is ignored",
        |w| {
            w.pod("web-1").pod_anti_affinity.required = vec![near("late", "kubernetes.io/hostname")]
        },
        Subject::Nomination(1),
        "against anti-affinity",
    ),
    (
        "a pod is in another zone than the pods of its affinity",
        |w| {
            let pod = w.launch(ZONE_A).pods.pop().unwrap();
            w.launch(ZONE_C).pods.push(pod)
        },
        at(ZONE_C),
        "pod default/follower-0 has no pod that matches its affinity",
    ),
    (
        "the running pod has only one of the selected labels",
        |w| {
            let mut both = near("web", ZONE);
            let selector = both.selector.as_mut().unwrap();
            selector.match_labels.insert("tier".into(), "front".into());
            w.pod("follower-0").pod_affinity.required = vec![both];
            // The rarest label no longer identifies the matching pods.
            w.pod("late-0").labels = labels(&[("tier", "front")]);
            w.pod("web-0").labels = labels(&[("app", "web")]);
        },
        at(ZONE_A),
        "follower-0 has no pod",
    ),
    (
        "the running pods match the revision of the previous pod only",
        |w| of_revisions(w, "1", "2"),
        at(ZONE_A),
        "apart-0 has no pod",
    ),
    (
        "the running pods match the revision of the next pod only",
        |w| of_revisions(w, "2", "1"),
        at(ZONE_A),
        "follower-0 has no pod",
    ),
    (
        "no pod matches a required affinity term",
        |w| w.pod("follower-0").pod_affinity.required = vec![near("nobody", ZONE)],
        at(ZONE_A),
        "pod default/follower-0 has no pod that matches its affinity",
    ),
    (
        "pods with mutual affinity are split",
        |w| {
            let pod = w.launch(ZONE_C).pods.pop().unwrap();
            w.launch(ZONE_A).pods.push(pod)
        },
        at(ZONE_C),
        "pod default/peer-0 has no pod",
    ),
    (
        "two pods wait for each other",
        |w| {
            w.pod("peer-0").pod_affinity.required = vec![near("follower", ZONE)];
            w.pod("follower-0").pod_affinity.required = vec![near("peer", ZONE)];
            w.pod("peer-1").pod_affinity.required = vec![near("follower", ZONE)]
        },
        at(ZONE_A),
        "follower-0 has no pod",
    ),
    (
        "a topology spread exceeds its maxSkew",
        |w| {
            let pod = w.launch(ZONE_C).pods.remove(0);
            w.launch(ZONE_A).pods.push(pod)
        },
        at(ZONE_A),
        "pod default/spread-2 would be number 2 in topology.kubernetes.io/zone=a, where 1 may be",
    ),
    (
        "a spread counts running pods",
        |w| {
            let mut pod = running("spread-9", 100, "n-1");
            pod.labels = labels(&[("app", "spread")]);
            w.snapshot.pods.push(pod.clone());
            pod.key = key("spread-8");
            w.snapshot.pods.push(pod)
        },
        at(ZONE_A),
        "would be number 3",
    ),
    (
        "minDomains is ignored",
        |w| {
            for pod in ["spread-0", "spread-1", "spread-2"] {
                w.pod(pod).topology_spread[0].min_domains = Some(4)
            }
            let mut pod = running("spread-9", 100, "n-1");
            pod.labels = labels(&[("app", "spread")]);
            w.snapshot.pods.push(pod)
        },
        at(ZONE_A),
        "where 1 may be",
    ),
    (
        "a spread by a label the node lacks",
        |w| w.pod("spread-0").topology_spread = vec![spread("spread", "rack")],
        at(ZONE_A),
        "is spread by rack, which its node lacks",
    ),
    (
        "a volume is out of reach",
        |w| {
            let pod = w.launch(ZONE_B).pods.pop().unwrap();
            w.launch(ZONE_C).pods.push(pod)
        },
        at(ZONE_C),
        "cannot have its volume on node zone-c: claim data-db requires another topology.kubernetes.io/zone",
    ),
    (
        "a volume is out of an existing node's reach",
        |w| w.plan.nominations[0].node = Expected::Node("n-2".into()),
        Subject::Nomination(0),
        "cannot have its volume on node n-2",
    ),
    (
        "a volume is on another machine",
        super::allowed::tie_to_machine,
        Subject::Nomination(0),
        "cannot have its volume on node n-1",
    ),
    (
        "a volume cannot be made there",
        |w| {
            let class = made_by(w, 1, EBS);
            class.allowed_topologies = vec![[(ZONE.to_owned(), vec!["c".to_owned()])].into()];
        },
        at(ZONE_B),
        "cannot have its volume on node zone-b",
    ),
    (
        "a term asks for another namespace's pods",
        |w| w.pod("follower-0").pod_affinity.required[0].namespaces = vec!["other".into()],
        at(ZONE_A),
        "follower-0 has no pod",
    ),
    (
        "a node can attach no more volumes",
        |w| {
            w.snapshot
                .storage
                .attach_limits
                .insert("n-1".into(), [(EBS.to_owned(), 1)].into());
        },
        Subject::Nomination(0),
        "more than 1 volumes of ebs.csi.aws.com",
    ),
    (
        "a pod has anti-affinity to a daemon of its new node",
        |w| {
            w.daemon(|pod| pod.labels = labels(&[("app", "logs")]));
            let apart = near("logs", model::labels::HOSTNAME);
            w.pod("apart-0").pod_anti_affinity.required = vec![apart];
        },
        at(ZONE_A),
        "against anti-affinity",
    ),
    (
        "a daemon of a new node has anti-affinity to a pod",
        |w| {
            let apart = near("apart", model::labels::HOSTNAME);
            w.daemon(|pod| pod.pod_anti_affinity.required = vec![apart.clone()]);
        },
        at(ZONE_A),
        "against anti-affinity",
    ),
    (
        "a pod has affinity to a daemon that not all types of its new node run",
        |w| {
            w.daemon(|pod| pod.labels = labels(&[("app", "logs")]));
            let first = w.launch(ZONE_A).instance_types[0].clone();
            let node_affinity = &mut w.snapshot.daemon_sets[0].pod.node_affinity;
            node_affinity.required = vec![term(&[one_of(INSTANCE_TYPE, &[first.as_str()])])];
            let near = near("logs", model::labels::HOSTNAME);
            w.pod("apart-0").pod_affinity.required = vec![near];
        },
        at(ZONE_A),
        "has no pod that matches its affinity",
    ),
    (
        "a type that a new node may become can attach no volume",
        |w| {
            let last = w.launch(ZONE_B).instance_types.last().unwrap().clone();
            for types in w.snapshot.instance_types.values_mut() {
                let types = std::sync::Arc::make_mut(types).iter_mut();
                for of_type in types.filter(|instance_type| instance_type.name == last.as_str()) {
                    of_type.ebs_attach_limit = Some(0);
                }
            }
        },
        at(ZONE_B),
        "more than 0 volumes of ebs.csi.aws.com to node",
    ),
    (
        "a node can attach none of the volumes that a class makes",
        |w| {
            made_by(w, 2, "csi.example.com");
            let limits = [("csi.example.com".to_owned(), 0)].into();
            let storage = &mut w.snapshot.storage;
            storage.attach_limits.insert("n-1".into(), limits);
        },
        Subject::Nomination(0),
        "more than 0 volumes of csi.example.com",
    ),
];

/// Makes the volume of this claim unprovisioned, with a new StorageClass.
fn made_by<'w>(w: &'w mut World, claim: usize, provisioner: &str) -> &'w mut StorageClass {
    let storage = &mut w.snapshot.storage;
    let claim = &mut storage.claims[claim];
    claim.volume = None;
    claim.bind_completed = false;
    claim.storage_class = Some("own".into());
    storage.classes = vec![StorageClass {
        name: "own".into(),
        provisioner: provisioner.into(),
        wait_for_first_consumer: true,
        ..StorageClass::default()
    }];
    &mut storage.classes[0]
}

/// Gives two pods affinity to pods of their own revision; the running pods have revision 1.
fn of_revisions(w: &mut World, follower: &str, apart: &str) {
    let mut term = near("web", ZONE);
    term.match_label_keys = vec!["revision".to_owned()];
    for (pod, revision) in [("follower-0", follower), ("apart-0", apart)] {
        w.pod(pod).pod_affinity.required = vec![term.clone()];
        let labels = &mut w.pod(pod).labels;
        labels.insert("revision".to_owned(), revision.to_owned());
    }
    for pod in ["web-0", "web-1"] {
        let labels = &mut w.pod(pod).labels;
        labels.insert("revision".to_owned(), "1".to_owned());
    }
}
