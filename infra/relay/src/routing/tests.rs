use std::fmt::Write as _;

use expect_test::expect;

use super::*;

/// Per change the lanes in a quiet cluster, then every situation in which they are others.
fn table() -> String {
    let all = [
        What::PodUnschedulable,
        What::PodMoved { daemon: false },
        What::PodMoved { daemon: true },
        What::NodeEmptied,
        What::PodReady,
        What::PodUnready,
        What::PodProtectionChanged,
        What::NodeAppeared,
        What::NodeChanged,
        What::NodeDisrupted,
        What::NodeDraining,
        What::NodeGone { managed: true },
        What::NodeGone { managed: false },
        What::NodeClaimAppeared,
        What::NodeClaimChanged { deleting: false },
        What::NodeClaimChanged { deleting: true },
        What::NodeClaimInitialized,
        What::NodeClaimEligibilityChanged,
        What::NodeClaimRebooting,
        What::NodeClaimDeleting,
        What::NodeClaimGone,
        What::NodePoolChanged,
        What::NodePoolReadyChanged,
        What::NodeClassChanged,
        What::NodeClassResolved,
        What::BudgetAllows,
        What::BudgetChanged,
        What::VolumeDetached,
        What::DaemonSetChanged,
        What::VolumeLimitsChanged,
        What::BufferChanged,
        What::OverlayChanged,
        What::FirstListed,
    ];
    let quiet = Situation {
        place: Place::Unknown,
        draining: false,
        waiting: false,
    };
    let situations = [
        ("", quiet),
        (
            "unmanaged node",
            Situation {
                place: Place::Unmanaged,
                ..quiet
            },
        ),
        (
            "managed node",
            Situation {
                place: Place::Managed,
                ..quiet
            },
        ),
        (
            "pods wait",
            Situation {
                waiting: true,
                ..quiet
            },
        ),
        (
            "something drains",
            Situation {
                draining: true,
                ..quiet
            },
        ),
        (
            "draining node",
            Situation {
                place: Place::Draining,
                draining: true,
                ..quiet
            },
        ),
    ];
    let mut table = String::new();
    for what in all {
        writeln!(table, "{what:?}").unwrap();
        for (name, situation) in situations {
            let concerns = route(what, situation);
            if situation != quiet && concerns == route(what, quiet) {
                continue;
            }
            let lanes: Vec<String> = concerns
                .iter()
                .map(|concern| {
                    format!(
                        "{} {}",
                        concern.lane,
                        format!("{:?}", concern.pace).to_lowercase()
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
fn the_table_of_changes_and_lanes() {
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
fn a_lane_is_named_at_most_once_per_change() {
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
