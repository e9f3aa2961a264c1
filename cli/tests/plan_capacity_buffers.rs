//! CapacityBuffers in `whittle plan`: room that no pod takes yet is planned for.

#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::{
    io::Write,
    process::{Command, Stdio},
};

/// A NodePool that takes everything, a Deployment of two pods, and a template.
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

/// What is told, and how many nodes of the plan are for no pod that exists.
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
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{told}");
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(text.matches("\n  for shop/web-").count(), 2, "{text}");
    (told, text.matches("\n  for capacity buffers; ").count())
}

const ON: &[&str] = &["--feature-gates", "CapacityBuffer=true"];

#[test]
fn so_many_pods_of_a_template() {
    let buffer = buffer("{podTemplateRef: {name: core}, replicas: 3}");
    assert_eq!(plan(&buffer, ON), (String::new(), 3));
}

#[test]
fn a_share_of_a_deployment() {
    let buffer = buffer("{scalableRef: {kind: Deployment, name: web}, percentage: 50}");
    assert_eq!(plan(&buffer, ON), (String::new(), 1));
}

#[test]
fn as_many_as_the_limits_allow() {
    let buffer = buffer("{podTemplateRef: {name: core}, limits: {cpu: 3}}");
    assert_eq!(plan(&buffer, ON), (String::new(), 2));
}

#[test]
fn a_template_that_is_not_there_is_named() {
    let buffer = buffer("{podTemplateRef: {name: other}, replicas: 3}");
    let told = "whittle: CapacityBuffer shop/spare keeps no room: there is no PodTemplate other in its namespace\n";
    assert_eq!(plan(&buffer, ON), (told.to_owned(), 0));
}

#[test]
fn behind_a_gate_as_in_karpenter() {
    let buffer = buffer("{podTemplateRef: {name: core}, replicas: 3}");
    let (told, nodes) = plan(&buffer, &[]);
    assert!(
        told.contains("its feature gate is off (--feature-gates CapacityBuffer=true)"),
        "{told}"
    );
    assert_eq!(nodes, 0);
}
