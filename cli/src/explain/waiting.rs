//! `whittle explain` without an object: pods that wait, nodes that are stuck and acts that are held back, each with the reason.

use std::{collections::BTreeMap, fmt::Write as _, io::Write as _};

use anyhow::{Result, bail};
use api::{
    conditions::types::{INITIALIZED, LAUNCHED, REGISTERED},
    names::annotation::DO_NOT_DISRUPT,
};
use jiff::{SignedDuration, Timestamp};
use model::{
    NodePoolName, Plan, Snapshot,
    node::{ConditionStatus, Node},
    node_claim::NodeClaim,
    plan::PodRef,
    pod::Pod,
};
use planner::{is_reschedulable, must_not_be_disrupted};

use super::Arguments;
use crate::{
    cluster, live, moment,
    output::Format,
    plan::{self, counted, listed, text},
    regions::Catalog,
};

/// Time that a launch, a registration or a drain usually needs at most: what takes longer is reported.
const USUAL: SignedDuration = SignedDuration::from_mins(5);

pub(super) fn run(arguments: &Arguments) -> Result<()> {
    if arguments.output.format() != Format::Text {
        bail!(
            "--output has an effect with an object only: what waits in a cluster is explained as text"
        );
    }
    if !arguments.from.of_stack() {
        bail!(
            "--from has an effect with an object only: what waits is read from the cluster of the kubeconfig context"
        );
    }
    let held = match &arguments.cluster {
        Some(cluster) => held_back(arguments, cluster)?,
        None => Vec::new(),
    };
    let selection = arguments.kubeconfig.select(arguments.context.as_deref());
    let mut snapshot = cluster::empty(moment::now(), cluster::aws_settings());
    let problems = live::observe(&selection, &mut snapshot, &Catalog::default())?;
    for problem in problems {
        eprintln!("whittle: {problem}");
    }
    let plan = planner::provision(&snapshot, planner::Share::WHOLE);
    let text = explanation(&snapshot, &plan, &held);
    let mut out = std::io::stdout().lock();
    match text.is_empty() {
        true => writeln!(out, "Nothing waits in the cluster.")?,
        false => out.write_all(text.as_bytes())?,
    }
    if arguments.cluster.is_none() {
        writeln!(
            out,
            "\nPauses and approvals of a registered cluster: whittle explain --cluster NAME"
        )?;
    }
    Ok(())
}

#[cfg(feature = "aws")]
fn held_back(arguments: &Arguments, cluster: &str) -> Result<Vec<String>> {
    crate::aws::status::held_back(arguments.from.stack(), cluster)
}

#[cfg(not(feature = "aws"))]
fn held_back(_: &Arguments, cluster: &str) -> Result<Vec<String>> {
    anyhow::bail!(
        "pauses and approvals of {cluster} are in AWS, which this build cannot call: build it with `--features aws`, or leave \
         --cluster out"
    )
}

/// Explains what waits; empty if nothing does.
fn explanation(snapshot: &Snapshot, plan: &Plan, held: &[String]) -> String {
    let parts = [
        pods(snapshot, plan),
        node_pools(snapshot),
        stuck(snapshot),
        lines("Held back", held),
    ];
    let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    parts.join("\n")
}

fn lines(title: &str, entries: &[String]) -> String {
    if entries.is_empty() {
        return String::new();
    }
    let mut text = format!("{title}:\n");
    for entry in entries {
        let _ = writeln!(text, "  {entry}");
    }
    text
}

fn pods(snapshot: &Snapshot, plan: &Plan) -> String {
    let known = plan::hints::KnownLabels::of(snapshot);
    let mut text = String::new();
    if !plan.unplaced.is_empty() {
        text.push_str(&text::unplaced(
            plan,
            &plan::hints_of(snapshot, plan, &known),
        ));
    }
    let mut launched: BTreeMap<&NodePoolName, (usize, Vec<&PodRef>)> = BTreeMap::new();
    let launches = plan.actions.iter();
    for launch in launches.filter_map(|planned| planned.action.launch()) {
        let (nodes, pods) = launched.entry(&launch.node_pool).or_default();
        *nodes += 1;
        pods.extend(&launch.pods);
    }
    for (pool, (nodes, pods)) in launched {
        let (number, nodes) = (counted(pods.len(), "pod"), counted(nodes, "new node"));
        let names = text::names(&pods);
        let _ = writeln!(
            text,
            "{number} waiting for {nodes} of NodePool {pool}, which the next turn launches: {names}"
        );
    }
    for (node, pods) in text::by_node(&plan.nominations) {
        let (number, names) = (counted(pods.len(), "pod"), text::names(&pods));
        let _ = writeln!(text, "{number} expected on {node}: {names}");
    }
    if let Some(gated) = plan::gated(snapshot) {
        let _ = writeln!(text, "{gated}");
    }
    text
}

fn node_pools(snapshot: &Snapshot) -> String {
    let pools = snapshot.node_pools.iter().filter_map(|pool| {
        let reason = pool.not_ready.as_ref()?;
        Some(format!("{}: {reason}", pool.name))
    });
    lines("NodePools that are not used", &pools.collect::<Vec<_>>())
}

/// NodeClaims and nodes whose present step takes longer than usual.
fn stuck(snapshot: &Snapshot) -> String {
    let is_overdue = |since: Option<Timestamp>| {
        since.is_some_and(|since| snapshot.now.duration_since(since) > USUAL)
    };
    let claims = snapshot.node_claims.iter();
    let coming = claims
        .filter(|claim| claim.deleted_at.is_none() && is_overdue(claim.created_at))
        .filter_map(unready);
    let nodes = snapshot.nodes.iter();
    let going = nodes
        .filter(|node| is_overdue(node.deleted_at))
        .map(|node| drain(snapshot, node));
    lines(
        "Nodes that are stuck",
        &coming.chain(going).collect::<Vec<_>>(),
    )
}

/// The first step that a NodeClaim has not completed; `None` if it is initialized.
fn unready(claim: &NodeClaim) -> Option<String> {
    let step = [LAUNCHED, REGISTERED, INITIALIZED]
        .into_iter()
        .find(|step| {
            let condition = claim.condition(step);
            condition.is_none_or(|condition| condition.status != ConditionStatus::True)
        })?;
    let why = claim.condition(step).map_or_else(
        || "no condition yet".to_owned(),
        |condition| match condition.message.is_empty() {
            true => condition.reason.clone(),
            false => format!("{}: {}", condition.reason, condition.message),
        },
    );
    Some(format!("NodeClaim {} is not {step}: {why}", claim.name))
}

/// Pods that keep a node from being drained.
fn drain(snapshot: &Snapshot, node: &Node) -> String {
    let on_it = snapshot.pods.iter().filter(|pod| {
        pod.node_name.as_ref() == Some(&node.name)
            && is_reschedulable(pod)
            && pod.deletion.is_none()
    });
    let pods: Vec<String> = on_it
        .map(|pod| match holder(snapshot, pod) {
            Some(holder) => format!("{} ({holder})", pod.key),
            None => pod.key.to_string(),
        })
        .collect();
    let name = &node.name;
    match pods.is_empty() {
        true => format!(
            "node {name} is being deleted, without pods to evict: its instance or volumes are not gone yet"
        ),
        false => format!(
            "node {name} is being deleted, and {} left on it: {}",
            counted(pods.len(), "pod"),
            listed(&pods)
        ),
    }
}

/// Why a pod is not evicted, if it is protected.
fn holder(snapshot: &Snapshot, pod: &Pod) -> Option<String> {
    if must_not_be_disrupted(pod, snapshot.now) {
        return Some(format!("annotation {DO_NOT_DISRUPT}"));
    }
    let mut budgets = snapshot.disruption_budgets.iter();
    let budget = budgets.find(|budget| {
        let selects = |selector: &model::selector::LabelSelector| selector.matches(&pod.labels);
        budget.key.namespace == pod.key.namespace
            && budget.disruptions_allowed <= 0
            && budget.selector.as_ref().is_some_and(selects)
    })?;
    Some(format!("PodDisruptionBudget {}", budget.key.name))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn snapshot() -> Snapshot {
        let now: Timestamp = "2026-01-01T12:00:00Z".parse().unwrap();
        let mut snapshot = cluster::empty(now, cluster::aws_settings());
        let early = "2026-01-01T11:00:00Z";
        let objects = [
            json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "old", "uid": "n1", "creationTimestamp": early,
                "deletionTimestamp": early, "finalizers": ["karpenter.sh/termination"]}}),
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": "shop", "uid": "p1", "labels": {"app": "web"}},
                "spec": {"nodeName": "old", "containers": [{"name": "c"}]}, "status": {"phase": "Running"}}),
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "job", "namespace": "shop", "uid": "p2",
                "annotations": {"karpenter.sh/do-not-disrupt": "true"}},
                "spec": {"nodeName": "old", "containers": [{"name": "c"}]}, "status": {"phase": "Running"}}),
            json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web", "namespace": "shop"},
                "spec": {"selector": {"matchLabels": {"app": "web"}}, "maxUnavailable": 0}, "status": {"disruptionsAllowed": 0}}),
        ];
        let mut manifests = api::manifests::Manifests::default();
        for object in objects {
            manifests.read("test", &object.to_string());
        }
        assert!(manifests.errors.is_empty());
        let objects = manifests
            .objects
            .into_iter()
            .map(|manifest| manifest.object);
        let notes = cluster::add_objects(&mut snapshot, objects, &std::sync::Arc::default());
        assert!(notes.is_empty(), "{notes:?}");
        snapshot.node_claims.push(NodeClaim {
            name: "new".into(),
            created_at: Some(early.parse().unwrap()),
            ..fresh_claim()
        });
        snapshot
    }

    fn fresh_claim() -> NodeClaim {
        serde_json::from_value(json!({
            "name": "fresh", "uid": "c1", "resource_version": "1", "generation": 1, "labels": {}, "annotations": {}, "finalizers": [],
            "created_at": "2026-01-01T11:59:00Z", "deleted_at": null,
            "spec": model::node_claim::NodeClaimSpec::default(), "status": {"provider_id": "", "node_name": null, "image_id": "", "capacity": {},
            "allocatable": {}, "last_pod_event": null, "conditions": [{"type": "Launched", "status": "False", "reason": "LaunchFailed",
            "message": "no capacity", "last_transition": "2026-01-01T11:00:00Z", "observed_generation": null}]},
        }))
        .unwrap()
    }

    #[test]
    fn stuck_nodes_are_explained_by_conditions_and_protected_pods() {
        let text = stuck(&snapshot());
        for part in [
            "NodeClaim new is not Launched: LaunchFailed: no capacity\n",
            "node old is being deleted, and 2 pods left on it:",
            "shop/web (PodDisruptionBudget web)",
            "shop/job (annotation karpenter.sh/do-not-disrupt)",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let mut fresh = snapshot();
        fresh.node_claims = vec![fresh_claim()];
        fresh.nodes.clear();
        assert_eq!(stuck(&fresh), "");
    }

    #[test]
    fn invalid_do_not_disrupt_protects_nothing() {
        let mut snapshot = snapshot();
        for pod in &mut snapshot.pods {
            if let Some(value) = pod.annotations.get_mut(DO_NOT_DISRUPT) {
                "false".clone_into(value);
            }
        }
        let text = stuck(&snapshot);
        assert!(text.contains("shop/job"), "{text}");
        assert!(!text.contains(DO_NOT_DISRUPT), "{text}");
    }

    #[test]
    fn idle_cluster_has_an_empty_explanation() {
        let empty = cluster::empty(Timestamp::UNIX_EPOCH, cluster::aws_settings());
        let plan = planner::provision(&empty, planner::Share::WHOLE);
        assert_eq!(explanation(&empty, &plan, &[]), "");
        let held = ["the cluster is paused (all) by ann".to_owned()];
        let expected = "Held back:\n  the cluster is paused (all) by ann\n";
        assert_eq!(explanation(&empty, &plan, &held), expected);
    }
}
