//! Objects whose meaning changes while a feature gate of the entry is on (docs/disruption.md).

use std::collections::BTreeMap;

use api::names::annotation::{DELETION_COST_WRITTEN, POD_DELETION_COST};
use serde_json::Value;

use crate::{
    finding::Finding,
    objects::{Objects, short_name, text},
    plan::counted,
};

pub(super) fn checks(entry: &Value, objects: &Objects) -> Vec<Finding> {
    let settings = entry.get("settings").unwrap_or(&Value::Null);
    let gates = api::feature_gates(settings).unwrap_or_default();
    let is_on = |gate: &str| gates.get(gate) == Some(&true);
    let is_by_force = settings
        .get("legacyNodeRepair")
        .is_some_and(|legacy| legacy.as_bool() == Some(true) || legacy.as_str() == Some("true"));
    let mut findings = vec![without_effect(is_on, is_by_force)];
    if is_on("NodeRepair") && !is_by_force {
        findings.push(budgets_without_repair(objects));
    }
    if is_on("PodDeletionCostManagement") {
        findings.push(deletion_costs_of_owners(objects));
    }
    findings
}

/// Settings of node repair that need its gate, or that repair by force ignores. Repair by force reboots no node, but waits longer for
/// failures that a reboot would repair.
fn without_effect(is_on: impl Fn(&str) -> bool, is_by_force: bool) -> Finding {
    let is_repaired = is_on("NodeRepair");
    let why = match is_repaired {
        true => "is ignored with legacyNodeRepair",
        false => "needs featureGates.nodeRepair",
    };
    let gates = [
        ("RebootForRepair", "awsFeatureGates.rebootForRepair"),
        ("TerminateFirstRepair", "featureGates.terminateFirstRepair"),
    ];
    let gates = gates
        .into_iter()
        .filter(|(gate, _)| is_on(gate))
        .filter(|(gate, _)| !is_repaired || is_by_force && *gate == "TerminateFirstRepair");
    let legacy = (is_by_force && !is_repaired).then_some("legacyNodeRepair");
    let settings = gates.map(|(_, setting)| setting).chain(legacy);
    Finding::new(
        "settings of node repair have no effect",
        settings
            .map(|setting| format!("settings.{setting}: {why}"))
            .collect(),
        "change the other setting, or remove these: docs/disruption.md#nodes-that-stay-unhealthy",
    )
}

fn budgets_without_repair(objects: &Objects) -> Finding {
    let is_closed_for_all = |budget: &&Value| {
        ["0", "0%"].contains(&text(budget, "/nodes")) && budget.get("reasons").is_none()
    };
    let found = objects.of_kind("NodePool").filter(|pool| {
        let budgets = pool.pointer("/spec/disruption/budgets");
        let mut budgets = budgets.and_then(Value::as_array).into_iter().flatten();
        budgets.any(|budget| is_closed_for_all(&budget))
    });
    Finding::new(
        "NodePools with a budget of 0 for every reason: unhealthy nodes are not repaired either while it is open",
        found.map(short_name).collect(),
        "if repair is to go on, give the budget reasons: [Underutilized, Empty, Drifted]",
    )
}

/// Owners whose deletion costs are not the ones that Whittle wrote.
fn deletion_costs_of_owners(objects: &Objects) -> Finding {
    let is_of_owner = |pod: &&Value| {
        let annotations = pod.pointer("/metadata/annotations");
        let value = |name| annotations.and_then(|all| all.get(name));
        let cost = value(POD_DELETION_COST);
        cost.is_some() && cost != value(DELETION_COST_WRITTEN)
    };
    let mut owners: BTreeMap<String, usize> = BTreeMap::new();
    for pod in objects.of_kind("Pod").filter(is_of_owner) {
        let of_owner =
            |field| text(pod, &format!("/metadata/ownerReferences/0/{field}")).to_owned();
        if of_owner("kind") == "ReplicaSet" {
            let (namespace, name) = (text(pod, "/metadata/namespace"), of_owner("name"));
            *owners.entry(format!("{namespace}/{name}")).or_default() += 1;
        }
    }
    let rows = owners.into_iter();
    Finding::new(
        "ReplicaSets whose pods have a deletion cost of their own, by which they are scaled in instead of by the gate's",
        rows.map(|(owner, pods)| format!("ReplicaSet {owner}: {}", counted(pods, "pod")))
            .collect(),
        "take controller.kubernetes.io/pod-deletion-cost out, and say by karpenter.sh/disruption-cost what evicting a pod costs",
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::finding::found;

    fn objects() -> Objects {
        let pool = |name: &str, budgets: Value| json!({"kind": "NodePool", "metadata": {"name": name}, "spec": {"disruption": {"budgets": budgets}}});
        let pod = |owner: Value, annotations: Value| {
            let owners = [owner];
            json!({"kind": "Pod", "metadata": {"name": "p", "namespace": "shop", "ownerReferences": owners, "annotations": annotations}})
        };
        let closed = json!({"nodes": "0", "schedule": "0 9 * * *", "duration": "8h"});
        let named = json!({"nodes": "0%", "reasons": ["Underutilized", "Empty", "Drifted"]});
        let (web, job) = (
            json!({"kind": "ReplicaSet", "name": "web"}),
            json!({"kind": "Job", "name": "job"}),
        );
        let of_owner = json!({POD_DELETION_COST: "7"});
        let written = json!({POD_DELETION_COST: "-7", DELETION_COST_WRITTEN: "-7"});
        Objects::of_values(vec![
            pool("frozen", json!([{"nodes": "10%"}, closed])),
            pool("repaired", json!([named])),
            pod(web.clone(), of_owner.clone()),
            pod(web, written),
            pod(job, of_owner),
        ])
    }

    fn findings_of(settings: Value) -> Vec<String> {
        let findings = found(checks(&json!({ "settings": settings }), &objects()));
        findings
            .into_iter()
            .flat_map(|finding| finding.objects)
            .collect()
    }

    #[test]
    fn budgets_that_stop_repair_are_reported_with_node_repair() {
        assert_eq!(findings_of(json!({})), [""; 0]);
        let gates = json!({"nodeRepair": true});
        assert_eq!(
            findings_of(json!({ "featureGates": gates })),
            ["NodePool frozen"]
        );
        let by_force = json!({"featureGates": gates, "legacyNodeRepair": "true"});
        assert_eq!(findings_of(by_force), [""; 0]);
    }

    #[test]
    fn settings_that_need_node_repair_are_reported_without_it() {
        let settings = |is_repaired: bool, legacy: &str| {
            json!({
                "featureGates": {"nodeRepair": is_repaired, "terminateFirstRepair": true},
                "awsFeatureGates": {"rebootForRepair": true},
                "legacyNodeRepair": legacy,
            })
        };
        let reboot = "settings.awsFeatureGates.rebootForRepair";
        let first = "settings.featureGates.terminateFirstRepair";
        let legacy = "settings.legacyNodeRepair";
        let needs = |setting| format!("{setting}: needs featureGates.nodeRepair");
        let ignored = |setting| format!("{setting}: is ignored with legacyNodeRepair");
        assert_eq!(
            findings_of(settings(false, "false")),
            [reboot, first].map(needs)
        );
        assert_eq!(
            findings_of(settings(false, "true")),
            [reboot, first, legacy].map(needs)
        );
        assert_eq!(findings_of(settings(true, "true")), [ignored(first)]);
        assert_eq!(findings_of(settings(true, "false")), ["NodePool frozen"]);
    }

    #[test]
    fn owners_deletion_costs_are_reported_where_whittle_writes_some() {
        let gates = json!({"podDeletionCostManagement": true});
        let expected = ["ReplicaSet shop/web: 1 pod"];
        assert_eq!(findings_of(json!({ "featureGates": gates })), expected);
    }
}
