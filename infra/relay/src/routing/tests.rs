use std::fmt::Write as _;

use expect_test::expect;

use super::*;

/// For each change, the lanes in a quiet cluster, and every context in which they differ.
fn table() -> String {
    let all = [
        ChangeKind::PodUnschedulable,
        ChangeKind::PodMoved { daemon: false },
        ChangeKind::PodMoved { daemon: true },
        ChangeKind::NodeEmptied,
        ChangeKind::PodReady,
        ChangeKind::PodUnready,
        ChangeKind::PodProtectionChanged,
        ChangeKind::NodeAppeared,
        ChangeKind::NodeChanged,
        ChangeKind::NodeDisrupted,
        ChangeKind::NodeDraining,
        ChangeKind::NodeGone { managed: true },
        ChangeKind::NodeGone { managed: false },
        ChangeKind::NodeClaimAppeared,
        ChangeKind::NodeClaimChanged { deleting: false },
        ChangeKind::NodeClaimChanged { deleting: true },
        ChangeKind::NodeClaimInitialized,
        ChangeKind::NodeClaimEligibilityChanged,
        ChangeKind::NodeClaimRebooting,
        ChangeKind::NodeClaimDeleting,
        ChangeKind::NodeClaimGone,
        ChangeKind::NodePoolChanged,
        ChangeKind::NodePoolReadyChanged,
        ChangeKind::NodeClassChanged,
        ChangeKind::NodeClassResolved,
        ChangeKind::BudgetAllows,
        ChangeKind::BudgetChanged,
        ChangeKind::VolumeDetached,
        ChangeKind::DaemonSetChanged,
        ChangeKind::VolumeLimitsChanged,
        ChangeKind::BufferChanged,
        ChangeKind::OverlayChanged,
        ChangeKind::FirstListed,
    ];
    let quiet = ChangeContext {
        node: NodeState::Unknown,
        draining: false,
        waiting: false,
    };
    let situations = [
        ("", quiet),
        (
            "unmanaged node",
            ChangeContext {
                node: NodeState::Unmanaged,
                ..quiet
            },
        ),
        (
            "managed node",
            ChangeContext {
                node: NodeState::Managed,
                ..quiet
            },
        ),
        (
            "pods wait",
            ChangeContext {
                waiting: true,
                ..quiet
            },
        ),
        (
            "something drains",
            ChangeContext {
                draining: true,
                ..quiet
            },
        ),
        (
            "draining node",
            ChangeContext {
                node: NodeState::Draining,
                draining: true,
                ..quiet
            },
        ),
    ];
    let mut table = String::new();
    for what in all {
        writeln!(table, "{what:?}").unwrap();
        for (name, context) in situations {
            let concerns = route(what, context);
            if context != quiet && concerns == route(what, quiet) {
                continue;
            }
            let lanes: Vec<String> = concerns
                .iter()
                .map(|concern| {
                    format!(
                        "{} {}",
                        concern.lane,
                        format!("{:?}", concern.urgency).to_lowercase()
                    )
                })
                .collect();
            let lanes = if lanes.is_empty() {
                "nobody".to_owned()
            } else {
                lanes.join(", ")
            };
            let when = if name.is_empty() {
                String::new()
            } else {
                format!("{name}: ")
            };
            writeln!(table, "    {when}{lanes}").unwrap();
        }
    }
    table
}

#[test]
fn changes_are_routed_as_in_table() {
    expect![[r#"
        PodUnschedulable
            provisioner batched
        PodMoved { daemon: false }
            disruption counted
            managed node: lifecycle spaced, disruption counted
            draining node: terminator prompt
        PodMoved { daemon: true }
            nobody
            draining node: terminator prompt
        NodeEmptied
            nobody
            managed node: lifecycle prompt
        PodReady
            nobody
            something drains: terminator prompt
            draining node: terminator prompt
        PodUnready
            nobody
            draining node: terminator prompt
        PodProtectionChanged
            disruption counted
            draining node: terminator prompt
        NodeAppeared
            lifecycle prompt, disruption counted
        NodeChanged
            disruption counted
            managed node: lifecycle prompt, disruption counted
            draining node: lifecycle prompt, terminator prompt
        NodeDisrupted
            provisioner batched
        NodeDraining
            lifecycle prompt, terminator prompt, disruption counted
        NodeGone { managed: true }
            lifecycle prompt, terminator prompt, disruption counted, housekeeper counted
        NodeGone { managed: false }
            disruption counted
        NodeClaimAppeared
            lifecycle prompt, disruption counted
        NodeClaimChanged { deleting: false }
            lifecycle prompt
        NodeClaimChanged { deleting: true }
            lifecycle prompt, terminator prompt
        NodeClaimInitialized
            disruption prompt
        NodeClaimEligibilityChanged
            disruption counted
        NodeClaimRebooting
            terminator prompt
        NodeClaimDeleting
            provisioner batched, lifecycle prompt, terminator prompt, disruption counted, housekeeper counted
        NodeClaimGone
            lifecycle prompt, disruption counted, housekeeper counted
            pods wait: provisioner prompt, lifecycle prompt, disruption counted, housekeeper counted
        NodePoolChanged
            lifecycle prompt, disruption prompt, housekeeper counted
            pods wait: provisioner prompt, lifecycle prompt, disruption prompt, housekeeper counted
        NodePoolReadyChanged
            disruption counted, housekeeper counted
            pods wait: provisioner prompt, disruption counted, housekeeper counted
        NodeClassChanged
            lifecycle prompt
        NodeClassResolved
            disruption counted
            pods wait: provisioner prompt, disruption counted
        BudgetAllows
            disruption counted
            something drains: terminator prompt, disruption counted
            draining node: terminator prompt, disruption counted
        BudgetChanged
            disruption counted
            something drains: terminator prompt, disruption counted
            draining node: terminator prompt, disruption counted
        VolumeDetached
            nobody
            something drains: terminator prompt
            draining node: terminator prompt
        DaemonSetChanged
            disruption counted
            pods wait: provisioner prompt, disruption counted
        VolumeLimitsChanged
            disruption counted
            pods wait: provisioner prompt, disruption counted
        BufferChanged
            lifecycle prompt, disruption counted
        OverlayChanged
            lifecycle prompt, disruption counted
            pods wait: provisioner prompt, lifecycle prompt, disruption counted
        FirstListed
            lifecycle spaced
            pods wait: provisioner prompt, lifecycle spaced
            something drains: lifecycle spaced, terminator prompt
            draining node: lifecycle spaced, terminator prompt
    "#]].assert_eq(&table());
}

#[test]
fn lane_occurs_at_most_once_per_change() {
    for line in table().lines().filter(|line| line.starts_with("    ")) {
        let lanes: Vec<&str> = line
            .split([',', ':'])
            .filter_map(|concern| concern.split_whitespace().next())
            .filter(|word| model::Lane::WOKEN.iter().any(|lane| lane.as_str() == *word))
            .collect();
        let mut distinct = lanes.clone();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(lanes.len(), distinct.len(), "{line}");
    }
}
