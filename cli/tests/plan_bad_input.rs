//! Invalid input to `whittle plan`: the invalid pod or NodePool is reported with a reason, and everything else is planned.

#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::{
    io::Write,
    process::{Command, Output, Stdio},
};

/// A NodePool without requirements, and a valid pod.
const VALID: &str = "
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: default}
spec:
  template:
    spec:
      requirements: []
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
---
apiVersion: v1
kind: Pod
metadata: {name: good, namespace: default}
spec:
  containers: [{name: main, image: app, resources: {requests: {cpu: 1}}}]
";

fn invalid_pod(cpu: &str, rest: &str) -> String {
    format!(
        "---
apiVersion: v1
kind: Pod
metadata: {{name: bad, namespace: default}}
spec:
  containers: [{{name: main, image: app, resources: {{requests: {{cpu: {cpu}}}}}}}]
{rest}
"
    )
}

fn invalid_pod_with_affinity(expressions: &str) -> String {
    let terms = format!("[{{matchExpressions: {expressions}}}]");
    invalid_pod(
        "1",
        &format!(
            "  affinity: {{nodeAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: \
             {{nodeSelectorTerms: {terms}}}}}}}"
        ),
    )
}

fn node_pool(name: &str, requirements: &str) -> String {
    format!(
        "---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {{name: {name}}}
spec:
  weight: 10
  template:
    spec:
      requirements: {requirements}
      nodeClassRef: {{group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}}
"
    )
}

fn plan(manifests: &str, output: &str) -> Output {
    let mut whittle = Command::new(env!("CARGO_BIN_EXE_whittle"))
        .args(["plan", "-f", "-", "-o", output])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = whittle.stdin.take().unwrap();
    stdin.write_all(manifests.as_bytes()).unwrap();
    drop(stdin);
    whittle.wait_with_output().unwrap()
}

/// Messages about the invalid objects. Asserts that the valid pod gets a node.
#[track_caller]
fn messages_beside_a_valid_pod(invalid: &str) -> String {
    let output = plan(&format!("{VALID}{invalid}"), "text");
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{stderr}");
    let text = String::from_utf8(output.stdout).unwrap();
    let (launches, waiting) = text.split_once("waiting:\n").unwrap_or((&text, ""));
    assert!(
        launches.starts_with("1 node to launch for 1 pod, "),
        "{text}"
    );
    assert!(launches.contains("\n  for default/good; "), "{text}");
    stderr + waiting
}

#[track_caller]
fn assert_reported(invalid: &str, reason: &str) {
    let stderr = messages_beside_a_valid_pod(invalid);
    assert!(stderr.contains(reason), "{stderr}");
}

#[test]
fn invalid_quantity_is_reported() {
    assert_reported(
        &invalid_pod("1Q", ""),
        "default/bad\n    container main: requests.cpu: \"1Q\" is not a quantity",
    );
}

#[test]
fn unreadable_manifests_are_reported() {
    let unread = "---
apiVersion: v1
kind: Pod
metadata: {name: bad, namespace: default}
spec: {containers: main}
---
apiVersion: v1
kind: Pod
metadata: {name: worse
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: worst}
spec: {replicas: many}
";
    let output = plan(&format!("{VALID}{unread}"), "text");
    let stderr = String::from_utf8(output.stderr).unwrap();
    for reason in [
        "whittle: -:20 (document 3): spec.containers: ",
        "whittle: -:24 (document 4): unclosed bracket",
        "whittle: -:29 (document 5): spec.replicas: ",
        "3 manifests left out of the plan",
    ] {
        assert!(stderr.contains(reason), "{stderr}");
    }
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("1 node to launch for 1 pod, "), "{text}");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn reason_is_part_of_the_json_output() {
    let output = plan(&format!("{VALID}{}", invalid_pod("1Q", "")), "json");
    let decision: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let at = |pointer| decision.pointer(pointer).and_then(|value| value.as_str());
    assert_eq!(at("/newNodes/0/pods/0"), Some("default/good"));
    assert_eq!(at("/errors/0/pod"), Some("default/bad"));
    let message = at("/errors/0/message").unwrap();
    assert!(
        message.contains("requests.cpu: \"1Q\" is not a quantity"),
        "{message}"
    );
}

#[test]
fn negative_request_is_reported() {
    assert_reported(
        &invalid_pod("-1", ""),
        "default/bad\n    container main: requests.cpu: \"-1\" is negative",
    );
}

#[test]
fn pod_with_a_million_cpus_is_reported() {
    assert_reported(
        &invalid_pod("1000000", ""),
        "default/bad\n    NodePool default: needs 1000000 cpu, the largest suitable type has ",
    );
}

#[test]
fn unknown_operator_of_a_pod_is_reported() {
    assert_reported(
        &invalid_pod_with_affinity("[{key: team, operator: Near, values: [a]}]"),
        "default/bad\n    spec.affinity.nodeAffinity: operator \"Near\" of team: expected In, ",
    );
}

#[test]
fn unknown_operator_of_a_node_pool_is_reported() {
    let pool = node_pool("odd", "[{key: team, operator: Near, values: [a]}]");
    let stderr = messages_beside_a_valid_pod(&pool);
    assert!(stderr.contains("NodePool odd is not used: "), "{stderr}");
    assert!(stderr.contains("\"Near\""), "{stderr}");
}

#[test]
fn contradicting_requirements_are_reported() {
    assert_reported(
        &invalid_pod_with_affinity(
            "[{key: kubernetes.io/arch, operator: In, values: [arm64]}, \
              {key: kubernetes.io/arch, operator: NotIn, values: [arm64]}]",
        ),
        "default/bad\n    requires both kubernetes.io/arch In [arm64] (required node affinity) and \
         kubernetes.io/arch NotIn [arm64] (required node affinity): no node has both",
    );
}

#[test]
fn node_selector_that_contradicts_the_affinity_is_reported() {
    let bad = invalid_pod_with_affinity(
        "[{key: kubernetes.io/arch, operator: In, values: [arm64, riscv64]}]",
    ) + "  nodeSelector: {kubernetes.io/arch: amd64}\n";
    assert_reported(
        &bad,
        "default/bad\n    requires both kubernetes.io/arch In [amd64] (node selector) and \
         kubernetes.io/arch In [arm64 riscv64] (required node affinity): no node has both",
    );
}

#[test]
fn invalid_label_value_of_a_pod_is_reported() {
    assert_reported(
        &invalid_pod("1", "  nodeSelector: {team: not a label!}"),
        "default/bad\n    label team: \"not a label!\" is not a label value",
    );
}

#[test]
fn invalid_label_value_of_a_node_pool_is_reported() {
    let pool = node_pool("odd", "[{key: team, operator: In, values: [not a label!]}]");
    let stderr = messages_beside_a_valid_pod(&pool);
    assert!(stderr.contains("NodePool odd is not used: "), "{stderr}");
    assert!(stderr.contains("\"not a label!\""), "{stderr}");
}

#[test]
fn node_pool_without_matching_instance_types_is_reported() {
    let requirements =
        "[{key: node.kubernetes.io/instance-type, operator: In, values: [m99.huge]}]";
    let bad = node_pool("picky", requirements)
        + &invalid_pod("1", "  nodeSelector: {karpenter.sh/nodepool: picky}");
    assert_reported(
        &bad,
        "NodePool picky: requires node.kubernetes.io/instance-type In [m99.huge], which no instance type has",
    );
}

#[test]
fn contradicting_bounds_of_a_node_pool_are_both_named() {
    let bound = |operator: &str, value: &str| {
        format!(
            "{{key: karpenter.k8s.aws/instance-generation, operator: {operator}, values: [\"{value}\"]}}"
        )
    };
    let requirements = format!("[{}, {}]", bound("Gt", "7"), bound("Lt", "6"));
    let pod = invalid_pod("1", "  nodeSelector: {karpenter.sh/nodepool: never}");
    let invalid = format!("{}{pod}", node_pool("never", &requirements));
    assert_reported(
        &invalid,
        "requires karpenter.k8s.aws/instance-generation >=8, karpenter.k8s.aws/instance-generation <=5, which no instance type has together",
    );
}

#[test]
fn every_reason_of_a_thousand_node_pools_is_reported() {
    let pools: String = (0..1_000)
        .map(|n| node_pool(&format!("pool-{n:03}"), "[]"))
        .collect();
    let stderr = messages_beside_a_valid_pod(&(pools + &invalid_pod("1000000", "")));
    assert_eq!(stderr.matches(": needs 1000000 cpu, ").count(), 1_001);
}

#[test]
fn pod_with_a_hundred_affinity_terms_is_reported() {
    let terms: Vec<String> = (0..100)
        .map(|n| {
            format!(
                "{{topologyKey: topology.kubernetes.io/zone, \
                 labelSelector: {{matchLabels: {{app: app-{n}}}}}}}"
            )
        })
        .collect();
    let affinity = format!(
        "  affinity: {{podAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: [{}]}}}}",
        terms.join(", ")
    );
    assert_reported(
        &invalid_pod("1", &affinity),
        "default/bad\n    NodePool default: pod affinity on topology.kubernetes.io/zone \
         cannot be satisfied",
    );
}

#[test]
fn workload_with_zero_replicas_is_accepted() {
    let stderr = messages_beside_a_valid_pod(
        "---
apiVersion: apps/v1
kind: Deployment
metadata: {name: none, namespace: default}
spec:
  replicas: 0
  selector: {matchLabels: {app: none}}
  template: {metadata: {labels: {app: none}}, spec: {containers: [{name: main, image: app}]}}
",
    );
    assert_eq!(stderr, "");
}

#[test]
fn input_without_pods_is_accepted() {
    let (pool, _) = VALID.split_once("---").unwrap();
    let output = plan(pool, "text");
    assert!(output.status.success());
    assert_eq!(
        String::from_utf8(output.stdout).unwrap(),
        "Nothing to launch.\n"
    );
}
