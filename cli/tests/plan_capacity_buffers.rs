//! CapacityBuffers in `whittle plan`: capacity is planned for pods that do not exist yet.

#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::{
    io::Write,
    process::{Command, Stdio},
};

/// A NodePool that allows one instance type, a Deployment with two pods, and a PodTemplate.
const CLUSTER: &str = "
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: default}
spec:
  template:
    spec:
      requirements: [{key: node.kubernetes.io/instance-type, operator: In, values: [m5.large]}]
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: main, image: app, resources: {requests: {cpu: 1500m}}}]}
---
apiVersion: v1
kind: PodTemplate
metadata: {name: core, namespace: shop}
template:
  spec: {containers: [{name: main, image: app, resources: {requests: {cpu: 1500m}}}]}
";

fn buffer(spec: &str) -> String {
    format!(
        "---
apiVersion: autoscaling.x-k8s.io/v1beta1
kind: CapacityBuffer
metadata: {{name: spare, namespace: shop, uid: spare-uid}}
spec: {spec}
"
    )
}

/// Messages of the plan, and the number of nodes planned for capacity buffers only.
fn plan(buffer: &str, gates: &[&str]) -> (String, usize) {
    let mut whittle = Command::new(env!("CARGO_BIN_EXE_whittle"))
        .args(["plan", "-f", "-"])
        .args(gates)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = whittle.stdin.take().unwrap();
    stdin
        .write_all(format!("{CLUSTER}{buffer}").as_bytes())
        .unwrap();
    drop(stdin);
    let output = whittle.wait_with_output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{stderr}");
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(text.matches("\n  for shop/web-").count(), 2, "{text}");
    (stderr, text.matches("\n  for capacity buffers; ").count())
}

const GATE_ENABLED: &[&str] = &["--feature-gates", "CapacityBuffer=true"];

#[test]
fn buffer_with_replicas_of_a_pod_template_is_planned() {
    let buffer = buffer("{podTemplateRef: {name: core}, replicas: 3}");
    assert_eq!(plan(&buffer, GATE_ENABLED), (String::new(), 3));
}

#[test]
fn buffer_with_a_percentage_of_a_deployment_is_planned() {
    let buffer = buffer("{scalableRef: {kind: Deployment, name: web}, percentage: 50}");
    assert_eq!(plan(&buffer, GATE_ENABLED), (String::new(), 1));
}

#[test]
fn buffer_with_limits_is_planned_up_to_them() {
    let buffer = buffer("{podTemplateRef: {name: core}, limits: {cpu: 3}}");
    assert_eq!(plan(&buffer, GATE_ENABLED), (String::new(), 2));
}

#[test]
fn missing_pod_template_is_named() {
    let buffer = buffer("{podTemplateRef: {name: other}, replicas: 3}");
    let stderr = "whittle: CapacityBuffer shop/spare keeps no room: there is no PodTemplate other in its namespace\n";
    assert_eq!(plan(&buffer, GATE_ENABLED), (stderr.to_owned(), 0));
}

#[test]
fn buffers_without_the_feature_gate_have_no_effect() {
    let buffer = buffer("{podTemplateRef: {name: core}, replicas: 3}");
    let (stderr, nodes) = plan(&buffer, &[]);
    assert!(
        stderr.contains("its feature gate is off (--feature-gates CapacityBuffer=true)"),
        "{stderr}"
    );
    assert_eq!(nodes, 0);
}
