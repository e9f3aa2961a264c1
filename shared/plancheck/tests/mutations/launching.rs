//! Launches: NodePool, NodeClaim and instance types.

use model::{
    caps::{Caps, Spending},
    snapshot::CapacityBuffer,
};

use super::{
    allowed::{make_static, require},
    *,
};

pub(crate) const MUTATIONS: &[Mutation] = &[
    (
        "the NodePool does not exist",
        |w| w.launch(ZONAL).node_pool = "nowhere".into(),
        at(ZONAL),
        "NodePool nowhere does not exist",
    ),
    (
        "the NodePool is not ready",
        |w| w.pool("dedicated").not_ready = Some("EC2NodeClass x does not exist".into()),
        at(DEDICATED),
        "is not ready: EC2NodeClass x",
    ),
    (
        "the NodePool is being deleted",
        |w| w.pool("dedicated").deleted_at = Some(now()),
        at(DEDICATED),
        "is being deleted",
    ),
    (
        "the NodePool is static",
        |w| w.pool("dedicated").replicas = Some(3),
        at(DEDICATED),
        "is static",
    ),
    (
        "a static NodePool grows",
        make_static,
        at(DEDICATED),
        "is static",
    ),
    (
        "there are more requirements than are possible",
        |w| require(w, 102),
        at(ZONAL),
        "it has 102 requirements, and 100 are possible",
    ),
    (
        "a label contradicts the requirements",
        |w| {
            w.launch(ZONAL).labels.insert("rack".into(), "a".into());
            w.launch(ZONAL)
                .spec
                .requirements
                .push(one_of("rack", &["b"]))
        },
        at(ZONAL),
        "its label rack=a contradicts its requirements",
    ),
    (
        "an instance type is listed twice",
        |w| w.launch(ZONAL).instance_types.push("c.medium".into()),
        at(ZONAL),
        "is listed twice",
    ),
    (
        "more instance types are left than are possible",
        |w| {
            w.launch(ZONAL)
                .instance_types
                .resize(602, "c.medium".into())
        },
        at(ZONAL),
        "602 instance types are left, and 600 are possible",
    ),
    (
        "the NodeClaim lists excluded types",
        |w| {
            let mut requirements = w.launch(ZONAL).spec.requirements.iter_mut();
            let types = requirements
                .find(|requirement| requirement.key == INSTANCE_TYPE)
                .unwrap();
            types.operator = Operator::NotIn
        },
        at(ZONAL),
        "does not list its instance types",
    ),
    (
        "the NodePool was recreated",
        |w| w.pool("dedicated").uid = "other".into(),
        at(DEDICATED),
        "was recreated",
    ),
    (
        "the launch leaves the NodePool's requirements",
        |w| {
            w.pool("dedicated")
                .template
                .requirements
                .push(one_of(ZONE, &["a"]))
        },
        at(DEDICATED),
        "requirement on topology.kubernetes.io/zone forbids",
    ),
    (
        "the launch drops the NodePool's taint",
        |w| w.launch(DEDICATED).spec.taints.clear(),
        at(DEDICATED),
        "its taints are not those of the NodePool",
    ),
    (
        "the launch drops the NodePool's startup taint",
        |w| w.pool("dedicated").template.startup_taints = vec![taint("cilium")],
        at(DEDICATED),
        "its startup taints are not",
    ),
    (
        "the launch drops the NodePool's label",
        |w| {
            w.launch(DEDICATED).labels.remove("team");
        },
        at(DEDICATED),
        "lacks the NodePool's label team",
    ),
    (
        "the launch names another NodeClass",
        |w| w.launch(DEDICATED).spec.node_class.name = "other".into(),
        at(DEDICATED),
        "its NodeClass is other",
    ),
    (
        "minValues are not met",
        |w| w.only_type(DIVERSE, "c.medium"),
        at(DIVERSE),
        "minValues is 2",
    ),
    (
        "a limit is passed",
        |w| w.pool("default").limits = Resources::from([("cpu", 52_000)]),
        at(ZONE_C),
        "is limited to 52 cpu",
    ),
    (
        "one node too many is launched",
        |w| w.pool("default").limits = Resources::from([("nodes", 5)]),
        at(ZONE_B),
        "is limited to 5 nodes",
    ),
    (
        "nodes on their way fill the limit",
        |w| {
            w.pool("default").limits = Resources::from([("nodes", 8)]);
            w.snapshot.intents = vec![intent(w.launch(PLAIN).clone())]
        },
        at(RESERVED),
        "is limited to 8 nodes",
    ),
    (
        "no instance type is left",
        |w| w.launch(ZONAL).instance_types.clear(),
        at(ZONAL),
        "no instance type is left",
    ),
    (
        "an instance type is unknown",
        |w| w.launch(ZONAL).instance_types.push("x.huge".into()),
        at(ZONAL),
        "instance type x.huge is not among those",
    ),
    (
        "the NodeClaim does not list its types",
        |w| {
            w.launch(ZONAL)
                .spec
                .requirements
                .retain(|requirement| requirement.key != INSTANCE_TYPE)
        },
        at(ZONAL),
        "does not list its instance types",
    ),
    (
        "an offering ran out",
        |w| make_unavailable(w, "m.large", "b"),
        at(ZONAL),
        "instance type m.large has no available offering",
    ),
    (
        "a type does not satisfy the requirements",
        |w| {
            w.launch(ZONAL)
                .spec
                .requirements
                .push(one_of(FAMILY, &["c"]))
        },
        at(ZONAL),
        "instance type m.large does not satisfy",
    ),
    (
        "the cheapest offering is invented",
        |w| w.launch(ZONAL).cheapest.zone = "a".into(),
        at(ZONAL),
        "is none of its options",
    ),
    (
        "the expected price is too high",
        |w| {
            w.launch(ZONAL).cheapest.instance_type = "m.large".into();
            w.launch(ZONAL).cheapest.price = NanosPerHour(800_000_000)
        },
        at(ZONAL),
        "but one costs 0.4000",
    ),
    (
        "a reservation is counted on twice",
        |w| {
            let twice = launch_of(
                &w.snapshot,
                "again",
                "default",
                &[
                    one_of(CAPACITY_TYPE, &["reserved"]),
                    one_of(RESERVATION_LABEL, &["cr-1"]),
                ],
                &["late-0"],
            );
            w.plan.actions.push(twice);
            w.plan.nominations.pop();
        },
        at(14),
        "reservation cr-1, where no instance is left",
    ),
];

#[test]
fn no_launch_exceeds_a_cap() {
    type Cap = (fn(&mut World), usize, &'static str);
    let caps: [Cap; 4] = [
        (
            |w| w.snapshot.caps.nodes = Some(0),
            DIVERSE,
            "the cluster would pass its cap of 0 nodes",
        ),
        (
            |w| {
                let account = &mut w.snapshot.account;
                account.caps.nodes = Some(1_000);
                let others = Spending {
                    nodes: 1_000,
                    ..Spending::default()
                };
                account.clusters.insert("another".into(), others);
            },
            DIVERSE,
            "the account would pass its cap of 1000 nodes",
        ),
        (
            |w| w.snapshot.caps.price = Some(NanosPerHour(1)),
            DIVERSE,
            "the cluster would pass its cap of $0.0000 an hour",
        ),
        (
            |w| {
                let annotations = &mut w.pool("default").annotations;
                annotations.insert(Caps::ANNOTATION.to_owned(), "0".to_owned());
            },
            PLAIN,
            "NodePool default would pass its cap of $0.0000 an hour",
        ),
    ];
    for (cap, launch, text) in caps {
        let mut world = World::valid();
        cap(&mut world);
        let violations = check(&world.snapshot, &world.plan);
        let is_it = |violation: &Violation| {
            violation.subject == at(launch) && violation.text.contains(text)
        };
        assert!(violations.iter().any(is_it), "{text}: {violations:#?}");
        let checked = filter(&world.snapshot, world.plan);
        assert_eq!(check(&world.snapshot, &checked.plan), [], "{text}");
    }
}

#[test]
fn launch_without_pods_requires_capacity_buffers() {
    let is_refused = |gate, buffers: &[CapacityBuffer]| {
        let mut world = World::valid();
        world.launch(DIVERSE).pods.clear();
        let gates = &mut world.snapshot.settings.feature_gates;
        gates.insert("CapacityBuffer".to_owned(), gate);
        world.snapshot.capacity_buffers = buffers.to_vec();
        let violations = check(&world.snapshot, &world.plan);
        violations
            .iter()
            .any(|violation| violation.text.contains("is for no pod"))
    };
    let buffer = [CapacityBuffer::default()];
    assert!(!is_refused(true, &buffer));
    assert!(is_refused(true, &[]));
    assert!(is_refused(false, &buffer));
}

#[test]
fn six_hundred_instance_types_are_possible() {
    let is_refused = |count| {
        let mut world = World::valid();
        let types = &mut world.launch(ZONAL).instance_types;
        types.resize(count, "c.medium".into());
        let violations = check(&world.snapshot, &world.plan);
        violations
            .iter()
            .any(|violation| violation.text.contains("600 are possible"))
    };
    assert_eq!([600, 601].map(is_refused), [false, true]);
}
