//! Formats plans for people: in logs, events and expectations of tests.

use std::fmt::{self, Display, Formatter};

use super::{Action, Expected, NodeClaimUpdate, NodeUpdate, Plan, Planned, Refusal, Unplaced};

/// Upper bound on listed names; the others are counted.
const NAMED_MAX: usize = 10;

impl Display for Plan {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self == &Self::default() {
            return f.write_str("nothing to do\n");
        }
        for planned in &self.actions {
            writeln!(f, "{planned}")?;
        }
        for nominations in self.nominations.chunk_by(|a, b| a.node == b.node) {
            if let [first, ..] = nominations {
                let pods = names(nominations.iter().map(|nomination| &nomination.pod.key));
                writeln!(f, "expect {pods} on {}", first.node)?;
            }
        }
        for alike in self.unplaced.chunk_by(|a, b| a.reasons == b.reasons) {
            let pods = names(alike.iter().map(|unplaced| &unplaced.pod.key));
            writeln!(f, "leave {pods} waiting")?;
            for refusal in alike.first().iter().flat_map(|unplaced| &unplaced.reasons) {
                writeln!(f, "  {refusal}")?;
            }
        }
        if !self.postponed.is_empty() {
            let pods = names(self.postponed.iter().map(|pod| &pod.key));
            writeln!(f, "leave {pods} to the next turn")?;
        }
        Ok(())
    }
}

impl Display for Planned {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.action {
            // The reason begins with the pods that the launch is for.
            Action::Launch(_) => write!(f, "{} {}", self.action, self.because),
            Action::DeleteNodeClaim(_)
            | Action::Reboot(_)
            | Action::UpdateNode(_)
            | Action::UpdateNodeClaim(_)
            | Action::Evict { .. }
            | Action::DeletePod { .. }
            | Action::Terminate { .. } => write!(f, "{}: {}", self.action, self.because),
        }
    }
}

impl Display for Action {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Launch(launch) => write!(f, "launch {}", launch.name),
            Self::DeleteNodeClaim(target) => write!(f, "delete nodeclaim/{}", target.name),
            Self::Reboot(target) => write!(f, "reboot nodeclaim/{}", target.name),
            Self::UpdateNode(update) if update.delete => write!(f, "delete node/{}", update.name),
            Self::UpdateNode(update) => {
                write!(
                    f,
                    "update node/{} ({})",
                    update.name,
                    changes_of_node(update)
                )
            }
            Self::UpdateNodeClaim(update) => {
                let changes = changes_of_node_claim(update);
                write!(f, "update nodeclaim/{} ({changes})", update.name)
            }
            Self::Evict { pod, .. } => write!(f, "evict pod {pod}"),
            Self::DeletePod {
                pod,
                grace_seconds: Some(seconds),
                ..
            } => write!(f, "delete pod {pod} within {seconds}s"),
            Self::DeletePod { pod, .. } => write!(f, "delete pod {pod}"),
            Self::Terminate { claim, instance } => {
                write!(f, "terminate {instance} of nodeclaim/{claim}")
            }
        }
    }
}

impl Display for Expected {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Node(name) => write!(f, "node/{name}"),
            Self::NodeClaim(name) => write!(f, "nodeclaim/{name}"),
        }
    }
}

/// Formats the reasons on one line, as a pod's event shows them.
impl Display for Unplaced {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let reasons: Vec<String> = self.reasons.iter().map(ToString::to_string).collect();
        f.write_str(&reasons.join("; "))
    }
}

impl Display for Refusal {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.node_pool {
            Some(pool) => write!(f, "NodePool {pool}: {}", self.text),
            None => f.write_str(&self.text),
        }
    }
}

fn changes_of_node(update: &NodeUpdate) -> String {
    let mut changes = Vec::new();
    push_entries(&mut changes, "label", &update.set_labels);
    push_entries(&mut changes, "annotation", &update.set_annotations);
    push_removed(&mut changes, "label", &update.remove_labels);
    push_removed(&mut changes, "annotation", &update.remove_annotations);
    if update.cordon {
        changes.push("cordoned".to_owned());
    }
    if update.uncordon {
        changes.push("not cordoned".to_owned());
    }
    if let Some(taints) = &update.taints {
        changes.push(if taints.is_empty() {
            "no taints".to_owned()
        } else {
            format!("taints {}", names(taints.iter()))
        });
    }
    push_finalizers(
        &mut changes,
        &update.add_finalizers,
        &update.remove_finalizers,
    );
    if let Some((claim, _)) = &update.owner {
        changes.push(format!("owner nodeclaim/{claim}"));
    }
    changes.join(", ")
}

fn push_removed(changes: &mut Vec<String>, what: &str, keys: &[String]) {
    changes.extend(keys.iter().map(|key| format!("no {what} {key}")));
}

fn changes_of_node_claim(update: &NodeClaimUpdate) -> String {
    let mut changes = Vec::new();
    push_entries(&mut changes, "label", &update.set_labels);
    push_entries(&mut changes, "annotation", &update.set_annotations);
    push_removed(&mut changes, "annotation", &update.remove_annotations);
    push_finalizers(
        &mut changes,
        &update.add_finalizers,
        &update.remove_finalizers,
    );
    for condition in &update.conditions {
        changes.push(format!("{}={:?}", condition.kind, condition.status));
    }
    for kind in &update.clear_conditions {
        changes.push(format!("no {kind}"));
    }
    let fields = [
        ("node name", update.node_name.is_some()),
        ("provider id", update.provider_id.is_some()),
        ("image", update.image_id.is_some()),
        ("capacity", update.capacity.is_some()),
        ("allocatable", update.allocatable.is_some()),
        ("last pod event", update.last_pod_event.is_some()),
    ];
    let set = fields.iter().filter(|(_, is_set)| *is_set);
    changes.extend(set.map(|(name, _)| (*name).to_owned()));
    changes.join(", ")
}

fn push_entries(
    changes: &mut Vec<String>,
    kind: &str,
    entries: &std::collections::BTreeMap<String, String>,
) {
    changes.extend(
        entries
            .iter()
            .map(|(key, value)| format!("{kind} {key}={value}")),
    );
}

fn push_finalizers(changes: &mut Vec<String>, added: &[String], removed: &[String]) {
    changes.extend(
        added
            .iter()
            .map(|finalizer| format!("finalizer {finalizer}")),
    );
    changes.extend(
        removed
            .iter()
            .map(|finalizer| format!("no finalizer {finalizer}")),
    );
}

/// Joins the first [`NAMED_MAX`] names, and counts the others.
pub fn names<T: Display>(all: impl ExactSizeIterator<Item = T>) -> String {
    let more = all.len().saturating_sub(NAMED_MAX);
    let named: Vec<String> = all.take(NAMED_MAX).map(|name| name.to_string()).collect();
    let named = named.join(", ");
    if more == 0 {
        named
    } else {
        format!("{named} and {more} more")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        PodKey,
        ids::Uid,
        plan::{Nomination, PodRef, Target},
    };

    fn pod(name: &str) -> PodRef {
        PodRef {
            key: PodKey::new("shop", name),
            uid: Uid::default(),
        }
    }

    fn planned(action: Action) -> Planned {
        Planned {
            action,
            because: "its NodePool is gone".to_owned(),
        }
    }

    #[test]
    fn plan_formats_as_sentences() {
        let unplaced = |name: &str| Unplaced {
            pod: pod(name),
            reasons: vec![
                Refusal {
                    node_pool: Some("default".into()),
                    text: "taint a:NoSchedule is not tolerated".to_owned(),
                    limited: false,
                },
                Refusal {
                    node_pool: None,
                    text: "it is too large".to_owned(),
                    limited: false,
                },
            ],
        };
        let on_node = |name: &str| Nomination {
            pod: pod(name),
            node: Expected::Node("n-1".into()),
        };
        let plan = Plan {
            actions: vec![
                planned(Action::DeleteNodeClaim(Target {
                    name: "default-1".into(),
                    uid: Uid::default(),
                    resource_version: String::new(),
                })),
                planned(Action::UpdateNode(NodeUpdate {
                    name: "n-1".into(),
                    set_labels: [("a".to_owned(), "b".to_owned())].into(),
                    taints: Some(Vec::new()),
                    remove_finalizers: vec!["f".into()],
                    ..NodeUpdate::default()
                })),
                planned(Action::UpdateNodeClaim(NodeClaimUpdate {
                    name: "default-1".into(),
                    clear_conditions: vec!["Drifted".into()],
                    provider_id: Some("x".into()),
                    ..NodeClaimUpdate::default()
                })),
                planned(Action::DeletePod {
                    pod: pod("web-0").key,
                    uid: Uid::default(),
                    grace_seconds: Some(30),
                }),
            ],
            nominations: vec![on_node("web-1"), on_node("web-2")],
            unplaced: vec![unplaced("web-3"), unplaced("web-4")],
            postponed: vec![pod("web-5")],
            ..Plan::default()
        };
        let expected = "\
delete nodeclaim/default-1: its NodePool is gone
update node/n-1 (label a=b, no taints, no finalizer f): its NodePool is gone
update nodeclaim/default-1 (no Drifted, provider id): its NodePool is gone
delete pod shop/web-0 within 30s: its NodePool is gone
expect shop/web-1, shop/web-2 on node/n-1
leave shop/web-3, shop/web-4 waiting
  NodePool default: taint a:NoSchedule is not tolerated
  it is too large
leave shop/web-5 to the next turn
";
        assert_eq!(plan.to_string(), expected);
        assert_eq!(Plan::default().to_string(), "nothing to do\n");
    }

    #[test]
    fn long_name_lists_are_truncated() {
        assert_eq!(
            names((0..12).map(|n| n.to_string())),
            "0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 2 more"
        );
    }
}
