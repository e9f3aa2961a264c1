use jiff::Timestamp;
use serde_json::Value;

use super::cells::{self, created};
use crate::kinds::ResourceType;

/// Column of a built-in kind, after the name.
pub(super) struct BuiltInColumn {
    pub(super) name: &'static str,
    /// Above 0 the column appears with `-o wide` only.
    pub(super) priority: i64,
    pub(super) cell: fn(&Value, Timestamp) -> Value,
}

/// Returns whether the first column is the name: true for all kinds but events, whose names are generated.
pub(super) fn begin_with_name(kind: &ResourceType) -> bool {
    kind.plural != "events"
}

const fn column(name: &'static str, cell: fn(&Value, Timestamp) -> Value) -> BuiltInColumn {
    BuiltInColumn {
        name,
        priority: 0,
        cell,
    }
}

const fn wide(name: &'static str, cell: fn(&Value, Timestamp) -> Value) -> BuiltInColumn {
    BuiltInColumn {
        name,
        priority: 1,
        cell,
    }
}

pub(super) fn of(kind: &ResourceType) -> &'static [BuiltInColumn] {
    match kind.plural.as_str() {
        "pods" => {
            const {
                &[
                    column("Ready", cells::pod_ready),
                    column("Status", cells::pod_status),
                    column("Restarts", |_, _| Value::from(0)),
                    column("Age", created),
                    wide("IP", |o, _| cells::or_none(o, &["status", "podIP"])),
                    wide("Node", |o, _| cells::or_none(o, &["spec", "nodeName"])),
                    wide("Nominated Node", |o, _| {
                        cells::or_none(o, &["status", "nominatedNodeName"])
                    }),
                    wide("Readiness Gates", |_, _| Value::from("<none>")),
                ]
            }
        }
        "nodes" => {
            const {
                &[
                    column("Status", cells::node_status),
                    column("Roles", cells::node_roles),
                    column("Age", created),
                    column("Version", |o, _| {
                        cells::or_none(o, &["status", "nodeInfo", "kubeletVersion"])
                    }),
                    wide("Internal-IP", cells::node_address),
                    wide("External-IP", |_, _| Value::from("<none>")),
                    wide("OS-Image", |o, _| {
                        cells::or_none(o, &["status", "nodeInfo", "osImage"])
                    }),
                    wide("Kernel-Version", |o, _| {
                        cells::or_none(o, &["status", "nodeInfo", "kernelVersion"])
                    }),
                    wide("Container-Runtime", |o, _| {
                        cells::or_none(o, &["status", "nodeInfo", "containerRuntimeVersion"])
                    }),
                ]
            }
        }
        "deployments" => {
            const {
                &[
                    column("Ready", cells::deployment_ready),
                    column("Up-to-date", |o, _| {
                        cells::count(o, &["status", "updatedReplicas"])
                    }),
                    column("Available", |o, _| {
                        cells::count(o, &["status", "availableReplicas"])
                    }),
                    column("Age", created),
                    wide("Containers", cells::template_containers),
                    wide("Images", cells::template_images),
                    wide("Selector", cells::selector),
                ]
            }
        }
        "replicasets" => {
            const {
                &[
                    column("Desired", |o, _| cells::count(o, &["spec", "replicas"])),
                    column("Current", |o, _| cells::count(o, &["status", "replicas"])),
                    column("Ready", |o, _| {
                        cells::count(o, &["status", "readyReplicas"])
                    }),
                    column("Age", created),
                    wide("Containers", cells::template_containers),
                    wide("Images", cells::template_images),
                    wide("Selector", cells::selector),
                ]
            }
        }
        "statefulsets" => {
            const {
                &[
                    column("Ready", cells::deployment_ready),
                    column("Age", created),
                ]
            }
        }
        "daemonsets" => {
            const {
                &[
                    column("Desired", |o, _| {
                        cells::count(o, &["status", "desiredNumberScheduled"])
                    }),
                    column("Current", |o, _| {
                        cells::count(o, &["status", "currentNumberScheduled"])
                    }),
                    column("Ready", |o, _| cells::count(o, &["status", "numberReady"])),
                    column("Up-to-date", |o, _| {
                        cells::count(o, &["status", "updatedNumberScheduled"])
                    }),
                    column("Available", |o, _| {
                        cells::count(o, &["status", "numberAvailable"])
                    }),
                    column("Node Selector", cells::node_selector),
                    column("Age", created),
                ]
            }
        }
        "jobs" => {
            const {
                &[
                    column("Status", cells::job_status),
                    column("Completions", cells::job_completions),
                    column("Age", created),
                ]
            }
        }
        "poddisruptionbudgets" => {
            const {
                &[
                    column("Min Available", |o, _| {
                        cells::or_na(o, &["spec", "minAvailable"])
                    }),
                    column("Max Unavailable", |o, _| {
                        cells::or_na(o, &["spec", "maxUnavailable"])
                    }),
                    column("Allowed Disruptions", |o, _| {
                        cells::count(o, &["status", "disruptionsAllowed"])
                    }),
                    column("Age", created),
                ]
            }
        }
        "events" => {
            const {
                &[
                    column("Last Seen", cells::event_last_seen),
                    column("Type", |o, _| cells::or_none(o, &["type"])),
                    column("Reason", |o, _| cells::or_none(o, &["reason"])),
                    column("Object", cells::event_object),
                    column("Message", |o, _| cells::or_none(o, &["message"])),
                ]
            }
        }
        "services" => {
            const {
                &[
                    column("Type", |o, _| cells::or_none(o, &["spec", "type"])),
                    column("Cluster-IP", |o, _| {
                        cells::or_none(o, &["spec", "clusterIP"])
                    }),
                    column("External-IP", |_, _| Value::from("<none>")),
                    column("Port(s)", cells::service_ports),
                    column("Age", created),
                    wide("Selector", cells::selector),
                ]
            }
        }
        "namespaces" => {
            const {
                &[
                    column("Status", |o, _| cells::or_none(o, &["status", "phase"])),
                    column("Age", created),
                ]
            }
        }
        "persistentvolumeclaims" => {
            const {
                &[
                    column("Status", |o, _| cells::or_none(o, &["status", "phase"])),
                    column("Volume", |o, _| cells::or_empty(o, &["spec", "volumeName"])),
                    column("Capacity", |o, _| {
                        cells::or_empty(o, &["status", "capacity", "storage"])
                    }),
                    column("StorageClass", |o, _| {
                        cells::or_empty(o, &["spec", "storageClassName"])
                    }),
                    column("Age", created),
                ]
            }
        }
        "persistentvolumes" => {
            const {
                &[
                    column("Capacity", |o, _| {
                        cells::or_empty(o, &["spec", "capacity", "storage"])
                    }),
                    column("Reclaim Policy", |o, _| {
                        cells::or_empty(o, &["spec", "persistentVolumeReclaimPolicy"])
                    }),
                    column("Status", |o, _| cells::or_none(o, &["status", "phase"])),
                    column("Claim", |o, _| {
                        cells::or_empty(o, &["spec", "claimRef", "name"])
                    }),
                    column("StorageClass", |o, _| {
                        cells::or_empty(o, &["spec", "storageClassName"])
                    }),
                    column("Age", created),
                ]
            }
        }
        "storageclasses" => {
            const {
                &[
                    column("Provisioner", |o, _| cells::or_none(o, &["provisioner"])),
                    column("ReclaimPolicy", |o, _| {
                        cells::or_none(o, &["reclaimPolicy"])
                    }),
                    column("VolumeBindingMode", |o, _| {
                        cells::or_none(o, &["volumeBindingMode"])
                    }),
                    column("Age", created),
                ]
            }
        }
        "leases" => {
            const {
                &[
                    column("Holder", |o, _| {
                        cells::or_empty(o, &["spec", "holderIdentity"])
                    }),
                    column("Age", created),
                ]
            }
        }
        "configmaps" => {
            const {
                &[
                    column("Data", |o, _| cells::size(o, &["data"])),
                    column("Age", created),
                ]
            }
        }
        "secrets" => {
            const {
                &[
                    column("Type", |o, _| cells::or_none(o, &["type"])),
                    column("Data", |o, _| cells::size(o, &["data"])),
                    column("Age", created),
                ]
            }
        }
        "priorityclasses" => {
            const {
                &[
                    column("Value", |o, _| cells::count(o, &["value"])),
                    column("Global-Default", |o, _| {
                        Value::from(crate::json::flag(o, &["globalDefault"]))
                    }),
                    column("Age", created),
                ]
            }
        }
        "customresourcedefinitions" => {
            const {
                &[column("Created At", |o, _| {
                    cells::or_empty(o, &["metadata", "creationTimestamp"])
                })]
            }
        }
        _ => const { &[column("Age", created)] },
    }
}
