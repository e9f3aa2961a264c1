//! Output of `whittle plan` as text.

use std::{collections::BTreeMap, fmt::Write as _};

use model::{
    NanosPerHour, NodePoolName, Plan, PodKey, Snapshot,
    plan::{Action, BufferCapacity, Expected, Launch, Nomination, PodRef, Unplaced},
    resources::{PODS, amount_text},
};

use super::{counted, listed, parts::Parts};

/// Renders a plan, after the `fixed` nodes of static NodePools; with price parts if the snapshot is given.
pub(super) fn of(
    plan: &Plan,
    fixed: &Plan,
    hints: &BTreeMap<PodKey, Vec<String>>,
    parts: Option<&Snapshot>,
) -> String {
    let mut launches: Vec<(&Launch, &str)> = Vec::new();
    for planned in &plan.actions {
        if let Action::Launch(launch) = &planned.action {
            launches.push((launch, &planned.because));
        }
    }
    let cost: i64 = launches
        .iter()
        .map(|(launch, _)| launch.cheapest.price.0)
        .sum();
    let placed: usize = launches.iter().map(|(launch, _)| launch.pods.len()).sum();
    let mut text = static_nodes(fixed);
    if launches.is_empty() && text.is_empty() {
        text.push_str("Nothing to launch.\n");
    } else if launches.is_empty() {
        text.push_str("Nothing else to launch.\n");
    } else {
        let _ = writeln!(
            text,
            "{} to launch for {}, from ${}/h:",
            counted(launches.len(), "node"),
            if placed == 0 {
                "capacity buffers".to_owned()
            } else {
                counted(placed, "pod")
            },
            NanosPerHour(cost)
        );
    }
    for (launch, because) in launches {
        let _ = write!(text, "\n{}", launch_text(launch, because));
        let parts = parts
            .and_then(|snapshot| Parts::of(launch.cheapest.price, &launch.node_pool, snapshot));
        text.extend(parts.map(|parts| format!("  {}\n", parts.text())));
    }
    if !plan.nominations.is_empty() {
        let _ = writeln!(
            text,
            "\n{} on nodes there are:",
            counted(plan.nominations.len(), "pod")
        );
        for (node, pods) in by_node(&plan.nominations) {
            let _ = writeln!(text, "  {} on {node}", names(&pods));
        }
    }
    for (buffer, room) in &plan.buffers {
        let room = match room {
            BufferCapacity::Available => "is on nodes there are",
            BufferCapacity::Insufficient => {
                "is not there yet: the nodes above include what is launched for it"
            }
        };
        let _ = writeln!(
            text,
            "\nRoom for the pods of CapacityBuffer {buffer} {room}."
        );
    }
    if !plan.unplaced.is_empty() {
        text.push('\n');
        text.push_str(&unplaced(plan, hints));
    }
    text.truncate(text.trim_end().len());
    text
}

/// Pods that the plan places nowhere, with the reasons.
pub(crate) fn unplaced(plan: &Plan, hints: &BTreeMap<PodKey, Vec<String>>) -> String {
    let mut text = format!("{} waiting:\n", counted(plan.unplaced.len(), "pod"));
    for (pods, reasons) in alike(&plan.unplaced, hints) {
        let _ = writeln!(text, "  {}", names(&pods));
        for reason in reasons {
            let _ = writeln!(text, "    {reason}");
        }
    }
    text
}

/// Nodes that static NodePools lack, independently of pending pods.
fn static_nodes(plan: &Plan) -> String {
    let mut numbers: BTreeMap<&NodePoolName, usize> = BTreeMap::new();
    for planned in &plan.actions {
        if let Action::Launch(launch) = &planned.action {
            *numbers.entry(&launch.node_pool).or_default() += 1;
        }
    }
    let mut text = String::new();
    for (pool, number) in numbers {
        let _ = writeln!(
            text,
            "{} to launch for the replicas of static NodePool {pool}; pods that wait may go there when they are ready.\n",
            counted(number, "node")
        );
    }
    text
}

fn launch_text(launch: &Launch, because: &str) -> String {
    let cheapest = &launch.cheapest;
    let others = launch.instance_types.len().saturating_sub(1);
    let requests: Vec<String> = launch
        .spec
        .requests
        .iter()
        .map(|(name, amount)| match (name, amount) {
            (PODS, 1) => "1 pod".to_owned(),
            (name, amount) => format!("{} {name}", amount_text(name, amount)),
        })
        .collect();
    format!(
        "{}  {} {} {}  ${}/h{}\n  requests {}\n  {because}\n",
        launch.name,
        cheapest.instance_type,
        cheapest.capacity_type,
        cheapest.zone,
        cheapest.price,
        if others > 0 {
            format!(", or {}", counted(others, "other type"))
        } else {
            String::new()
        },
        requests.join(", "),
    )
}

/// The pods that are expected on each node.
pub(crate) fn by_node(nominations: &[Nomination]) -> BTreeMap<&Expected, Vec<&PodRef>> {
    let mut nodes: BTreeMap<&Expected, Vec<&PodRef>> = BTreeMap::new();
    for nomination in nominations {
        let pods = nodes.entry(&nomination.node).or_default();
        pods.push(&nomination.pod);
    }
    nodes
}

/// Groups pending pods with the same reasons.
fn alike<'p>(
    unplaced: &'p [Unplaced],
    hints: &BTreeMap<PodKey, Vec<String>>,
) -> Vec<(Vec<&'p PodRef>, Vec<String>)> {
    let mut groups: Vec<(Vec<&PodRef>, Vec<String>)> = Vec::new();
    for left in unplaced {
        let mut reasons: Vec<String> = left
            .reasons
            .iter()
            .map(|refusal| match &refusal.node_pool {
                Some(pool) => format!("NodePool {pool}: {}", refusal.text),
                None => refusal.text.clone(),
            })
            .collect();
        reasons.extend(hints.get(&left.pod.key).into_iter().flatten().cloned());
        match groups.iter_mut().find(|(_, known)| *known == reasons) {
            Some((pods, _)) => pods.push(&left.pod),
            None => groups.push((vec![&left.pod], reasons)),
        }
    }
    groups
}

pub(crate) fn names(pods: &[&PodRef]) -> String {
    let names: Vec<String> = pods.iter().map(|pod| pod.key.to_string()).collect();
    listed(&names)
}
