//! Existing nodes: which of them are being removed, their hostnames, and taints that repel pods.

use model::{
    labels::{HOSTNAME, INITIALIZED, REGISTERED},
    pod::Owner,
    taint::{Taint, TaintEffect},
};

use super::{budgeted::*, *};

const LATE: Subject = Subject::Nomination(1);

pub(crate) const MUTATIONS: &[Mutation] = &[
    (
        "a node is about to be interrupted",
        |w| w.snapshot.notices = vec![notice("i-n-2", false)],
        LATE,
        "node/n-2 is being deleted",
    ),
    (
        "a node that no NodeClaim names is about to be interrupted",
        |w| {
            let claims = &mut w.snapshot.node_claims;
            claims.retain(|claim| claim.name.as_str() != "claim-n-2");
            w.snapshot.notices = vec![notice("i-n-2", false)];
        },
        LATE,
        "node/n-2 is being deleted",
    ),
    (
        "a node is under a command",
        |w| w.snapshot.commands = vec![command("claim-n-2", CommandState::Replacing)],
        LATE,
        "node/n-2 is being deleted",
    ),
    (
        "a node that was ready once is not any more",
        |w| w.node("n-2").taints = vec![taint("node.kubernetes.io/not-ready")],
        LATE,
        "does not tolerate taint node.kubernetes.io/not-ready",
    ),
    (
        "a permanent taint on a node that is joining",
        |w| {
            joining(w);
            w.node("n-2").taints = vec![taint("maintenance")];
        },
        LATE,
        "does not tolerate taint maintenance",
    ),
    (
        "a taint with a startup taint's key and another effect",
        |w| {
            joining(w);
            w.claim("claim-n-2").spec.startup_taints = vec![taint("cilium")];
            w.node("n-2").taints = vec![Taint {
                effect: TaintEffect::NoExecute,
                ..taint("cilium")
            }];
        },
        LATE,
        "does not tolerate taint cilium",
    ),
    (
        "a workload's pod runs on the deleted node",
        |w| {
            let mut busy = running("busy-0", 100, "n-4");
            busy.owner = Some(Owner {
                api_version: "apps/v1".into(),
                kind: "ReplicaSet".into(),
                name: "busy".into(),
                uid: "busy".into(),
            });
            w.snapshot.pods.push(busy);
        },
        at(DELETE),
        "pod default/busy-0 has no other place",
    ),
];

/// Makes node n-2 registered but not initialized.
fn joining(w: &mut World) {
    w.node("n-2").labels.remove(INITIALIZED);
    let allocatable = w.node("n-2").allocatable.clone();
    w.claim("claim-n-2").status.allocatable = allocatable;
}

#[test]
fn usable_existing_nodes_accept_pods() {
    type Change = (&'static str, fn(&mut World));
    let changes: [Change; 5] = [
        ("a finished interruption is ignored", |w| {
            w.snapshot.notices = vec![notice("i-n-2", true)]
        }),
        ("a node's hostname is the name of its Node", |w| {
            w.pod("late-0").node_selector = labels(&[(HOSTNAME, "n-2")])
        }),
        ("a node's hostname is the label of its Node", |w| {
            w.node("n-2").labels.insert(HOSTNAME.into(), "ip-10".into());
            w.pod("late-0").node_selector = labels(&[(HOSTNAME, "ip-10")]);
        }),
        ("startup taints are expected to be removed", |w| {
            joining(w);
            w.claim("claim-n-2").spec.startup_taints = vec![taint("cilium")];
            w.node("n-2").taints = vec![taint("cilium")];
        }),
        (
            "a Node that has not registered has its NodeClaim's taints",
            |w| {
                joining(w);
                w.node("n-2").labels.remove(REGISTERED);
                w.node("n-2").taints = vec![taint("maintenance")];
            },
        ),
    ];
    for (name, change) in changes {
        let mut world = World::valid();
        change(&mut world);
        assert_eq!(check(&world.snapshot, &world.plan), [], "{name}");
    }
}
