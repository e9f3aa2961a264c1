//! `whittle plan --disruption`: which nodes of a cluster would be disrupted, and why the others would not.

#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::{
    fmt::Write as _,
    io::Write,
    process::{Command, Stdio},
};

/// An on-demand NodePool with one node per name; each node has capacity for four of the pods.
fn cluster(nodes: &[(&str, &str)]) -> String {
    let mut text = "
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: default}
spec:
  disruption: {consolidateAfter: 0s, budgets: [{nodes: 100%}]}
  template:
    spec:
      requirements:
        - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
        - {key: node.kubernetes.io/instance-type, operator: In, values: [m5.large, m5.xlarge, m5.2xlarge]}
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
"
    .to_owned();
    for (name, pods) in nodes {
        let labels = "{karpenter.sh/nodepool: default, karpenter.sh/capacity-type: on-demand, \
            karpenter.sh/registered: \"true\", karpenter.sh/initialized: \"true\", \
            node.kubernetes.io/instance-type: m5.2xlarge, topology.kubernetes.io/zone: us-east-1a, \
            kubernetes.io/arch: amd64, kubernetes.io/os: linux}";
        let capacity = "{cpu: \"8\", memory: 30Gi, pods: \"58\"}";
        let condition = |kind: &str| {
            format!(
                "{{type: {kind}, status: \"True\", reason: {kind}, lastTransitionTime: \"2026-01-01T00:00:00Z\"}}"
            )
        };
        let conditions = ["Launched", "Registered", "Initialized", "Consolidatable"].map(condition);
        write!(
            text,
            "---
apiVersion: karpenter.sh/v1
kind: NodeClaim
metadata: {{name: {name}-claim, uid: {name}-claim, labels: {labels}, creationTimestamp: \"2026-01-01T00:00:00Z\"}}
spec:
  expireAfter: Never
  requirements: []
  nodeClassRef: {{group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}}
status:
  providerID: aws:///us-east-1a/i-{name}
  nodeName: {name}
  capacity: {capacity}
  allocatable: {capacity}
  conditions: [{}]
---
apiVersion: v1
kind: Node
metadata: {{name: {name}, uid: {name}, labels: {labels}}}
spec: {{providerID: aws:///us-east-1a/i-{name}}}
status:
  capacity: {capacity}
  allocatable: {capacity}
  conditions: [{{type: Ready, status: \"True\"}}]
{pods}
",
            conditions.join(", ")
        )
        .unwrap();
    }
    text
}

fn pod(name: &str, node: &str, cpu: &str, annotations: &str) -> String {
    format!(
        "---
apiVersion: v1
kind: Pod
metadata: {{name: {name}, namespace: default, uid: {name}, annotations: {{{annotations}}}, ownerReferences: [{{apiVersion: apps/v1, kind: ReplicaSet, name: web, uid: web}}]}}
spec:
  nodeName: {node}
  containers: [{{name: main, image: app, resources: {{requests: {{cpu: {cpu}}}}}}}]
status: {{phase: Running, conditions: [{{type: Ready, status: \"True\"}}]}}
"
    )
}

fn plan(manifests: &str, output: &str) -> String {
    plan_with(manifests, &["-o", output])
}

fn plan_with(manifests: &str, options: &[&str]) -> String {
    let mut whittle = Command::new(env!("CARGO_BIN_EXE_whittle"))
        .args(["plan", "--disruption", "-f", "-"])
        .args(options)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = whittle.stdin.take().unwrap();
    stdin.write_all(manifests.as_bytes()).unwrap();
    drop(stdin);
    let output = whittle.wait_with_output().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && errors.is_empty(), "{errors}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn pod_disruption_budget_without_status_is_computed_as_by_its_controller() {
    let plan = |spec: &str| {
        let pods = pod("web", "big", "1", "");
        let budget = format!(
            "---\napiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {{name: web}}\nspec: {{selector: {{}}, {spec}}}\n"
        );
        plan(&format!("{}{budget}", cluster(&[("big", &pods)])), "text")
    };
    for goes in [
        "maxUnavailable: 1",
        "maxUnavailable: 50%",
        "minAvailable: 0",
    ] {
        let text = plan(goes);
        assert!(text.starts_with("1 node would go first"), "{goes}: {text}");
    }
    for stays in ["maxUnavailable: 0", "minAvailable: 1", "minAvailable: 10%"] {
        let text = plan(stays);
        assert!(text.starts_with("No node would go now"), "{stays}: {text}");
    }
}

#[test]
fn node_of_unknown_type_has_no_price() {
    let known = cluster(&[("n1", "")]);
    let unknown = known.replace("instance-type: m5.2xlarge", "instance-type: zz.large");
    let text = plan(&unknown, "text");
    assert!(text.contains("  n1  price unknown  goes"), "{text}");
    let text = plan(&unknown, "json");
    assert!(text.contains("\"price\": null"), "{text}");
}

#[test]
fn unhealthy_node_is_replaced_or_rebooted_depending_on_gates() {
    #[expect(
        clippy::disallowed_methods,
        reason = "the command reads the clock, and the error is to be young"
    )]
    let since = jiff::Timestamp::now() - jiff::SignedDuration::from_mins(15);
    let ready = "{type: Ready, status: \"True\"}";
    let error = format!(
        "{ready}, {{type: AcceleratedHardwareReady, status: \"False\", reason: NvidiaXID46Error, lastTransitionTime: \"{since}\"}}"
    );
    let pod = pod("web", "sick", "7", "");
    let sick = cluster(&[("sick", &pod)]).replace(ready, &error);
    let first = |gates: &[&str]| {
        let text = plan_with(&sick, gates);
        text.lines().take(2).collect::<Vec<_>>().join("\n")
    };
    let repair = "--feature-gates=NodeRepair=true";
    let reboot = "--aws-feature-gates=RebootForRepair=true";
    assert!(
        first(&[reboot]).starts_with("No node would go now."),
        "{}",
        first(&[reboot])
    );
    let by_force = first(&[repair, "--legacy-node-repair"]);
    assert!(by_force.starts_with("No node would go now."), "{by_force}");
    let replaced = first(&[repair]);
    assert!(
        replaced.contains("AcceleratedHardwareReady") && !replaced.contains("reboot"),
        "{replaced}"
    );
    let rebooted = first(&[repair, reboot]);
    assert!(rebooted.contains("reboot"), "{rebooted}");
}

#[test]
fn underutilized_node_is_replaced_by_a_smaller_one() {
    let text = plan(&cluster(&[("big", &pod("web", "big", "1", ""))]), "text");
    assert_eq!(
        text.trim_end(),
        "1 node would go first, saving $0.2880/h:
  Underutilized: big of $0.3862/h, replaced by 1 of $0.0982/h

Each by itself:
  big  $0.3862/h  goes (Underutilized): its pods fit on m5.large on-demand us-east-1a at $0.0982/h, saving $0.2880/h"
    );
}

#[test]
fn node_that_cannot_be_disrupted_names_the_reason() {
    let guard = "karpenter.sh/do-not-disrupt: \"true\"";
    let guarded = pod("held", "guarded", "2", guard);
    let text = plan(
        &cluster(&[
            ("full", &pod("web", "full", "7", "")),
            ("guarded", &guarded),
        ]),
        "text",
    );
    assert!(text.starts_with("No node would go now.\n"), "{text}");
    assert!(
        text.contains(
            "guarded  $0.3862/h  stays: Pod has \"karpenter.sh/do-not-disrupt\" annotation (Pod=default/held)"
        ),
        "{text}"
    );
    assert!(
        text.contains("full  $0.3862/h  stays: Can't replace with a cheaper node; best otherwise:"),
        "{text}"
    );
}

#[test]
fn json_output_names_the_saving_per_node() {
    let json = plan(&cluster(&[("big", &pod("web", "big", "1", ""))]), "json");
    let plan: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(plan["command"]["delete"], serde_json::json!(["big"]));
    let node = &plan["nodes"][0];
    assert_eq!(node["node"], "big");
    assert_eq!(node["alternative"]["saving"], 0.288);
    assert_eq!(node["kept"], serde_json::Value::Null);
}

#[test]
fn verbose_output_splits_node_prices_into_parts() {
    let manifests = cluster(&[("big", &pod("small", "big", "1", ""))]);
    let arguments = ["--verbose", "--node-price", "0.01"];
    let text = plan_with(&manifests, &arguments);
    let parts = "$0.3962/h is $0.3840 for the instance, $0.0022 for its volumes and $0.0100 for the node itself";
    assert!(text.contains(&format!("\n    {parts}\n")), "{text}");
    let of_the_new = "$0.1082/h is $0.0960 for the instance";
    assert!(text.contains(of_the_new), "{text}");
    let shown: serde_json::Value = serde_json::from_str(&plan(&manifests, "json")).unwrap();
    for place in ["/nodes/0", "/command/replace/0"] {
        let volumes = shown.pointer(&format!("{place}/priceParts/volumes"));
        assert!(
            volumes.is_some_and(|price| price.as_f64() > Some(0.0)),
            "{place} {shown}"
        );
    }
}

#[test]
fn price_differences_are_shown_without_a_sign() {
    let full = cluster(&[("full", &pod("web", "full", "7", ""))]);
    let text = plan(&full, "text");
    assert!(!text.contains("$-"), "{text}");
    assert!(
        text.contains("at the same cost") || text.contains("/h more"),
        "{text}"
    );
}

#[test]
fn nodes_without_node_claims_are_reported() {
    let all = cluster(&[("left", &pod("web", "left", "7", ""))]);
    let claim = all.find("kind: NodeClaim").unwrap();
    let node = all.find("kind: Node\n").unwrap();
    let (start, end) = (
        all[..claim].rfind("---").unwrap(),
        all[..node].rfind("---").unwrap(),
    );
    let text = plan(&format!("{}{}", &all[..start], &all[end..]), "text");
    assert!(
        text.contains("left  stays: no NodeClaim of it is given"),
        "{text}"
    );
    let other = all[end..].replace("karpenter.sh/nodepool: default, ", "");
    let text = plan(&format!("{}{other}", &all[..start]), "text");
    assert!(text.contains("left  stays: no NodePool made it"), "{text}");
}

#[test]
fn expired_node_is_disrupted_despite_do_not_disrupt() {
    let guard = "karpenter.sh/do-not-disrupt: \"true\"";
    let all = cluster(&[("old", &pod("held", "old", "2", guard))]);
    let text = plan(
        &all.replace("expireAfter: Never", "expireAfter: 1h"),
        "text",
    );
    assert!(
        text.contains("old  $0.3862/h  goes, because it is older than its expireAfter of 1h; otherwise: stays: Pod has"),
        "{text}"
    );
    assert!(
        text.starts_with(
            "1 node would go because of expireAfter: old\nNo other node would go now.\n"
        ),
        "{text}"
    );
}

#[test]
fn node_without_the_consolidatable_condition_names_the_missing_condition() {
    let all = cluster(&[("big", &pod("web", "big", "1", ""))]);
    let all = all
        .replace("consolidateAfter: 0s", "consolidateAfter: 1h")
        .replace("type: Consolidatable", "type: Other");
    let text = plan(&all, "text");
    assert!(
        text.contains("its NodeClaim does not have the condition"),
        "{text}"
    );
    let changed = all.replace(
        "status:\n  providerID",
        "status:\n  lastPodEventTime: \"2100-01-01T00:00:00Z\"\n  providerID",
    );
    let text = plan(&changed, "text");
    assert!(
        text.contains("its pods changed within consolidateAfter"),
        "{text}"
    );
}

/// Two small nodes cost $0.0022/h more than one of twice the size, because of the second root volume.
#[test]
fn preferred_zone_spread_is_not_given_up_for_less_than_its_worth() {
    let pods = |node: &str| {
        let pods = ["1", "2"].map(|number| pod(&format!("{node}-{number}"), node, "900m", ""));
        pods.concat().replace(
            "spec:\n",
            "spec:\n  topologySpreadConstraints: [{maxSkew: 1, topologyKey: topology.kubernetes.io/zone, \
             whenUnsatisfiable: ScheduleAnyway, labelSelector: {}}]\n",
        )
    };
    let all = cluster(&[("first", &pods("first")), ("second", &pods("second"))]);
    let (first, second) = all.split_at(all.find("{name: second-claim").unwrap());
    let manifests = format!("{first}{}", second.replace("us-east-1a", "us-east-1b"));
    let plan = |worth| plan_with(&manifests, &["--preference-worth", worth]);
    let sold = "first, second of $0.7724/h, replaced by 1 of $0.1942/h";
    let text = plan("0.005");
    assert!(
        !text.contains(sold) && text.contains("replaced by"),
        "{text}"
    );
    let text = plan("0");
    assert!(text.contains(sold), "{text}");
}
