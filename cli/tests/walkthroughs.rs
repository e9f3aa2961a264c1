//! Well-known Karpenter walkthroughs, run with `whittle`: manifests of old API versions are converted, and the plan has the nodes that
//! the walkthrough describes.

#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::{
    fs,
    io::{Read, Write},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use serde_json::Value;

fn page(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/walkthroughs");
    fs::read_to_string(folder.join(name)).unwrap()
}

/// Standard output and standard error of a command for this input.
fn whittle(arguments: &[&str], input: &str) -> (String, String) {
    let mut whittle = Command::new(env!("CARGO_BIN_EXE_whittle"))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    whittle
        .stdin
        .take()
        .unwrap()
        .write_all(input.as_bytes())
        .unwrap();
    let output = whittle.wait_with_output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{stderr}");
    (String::from_utf8(output.stdout).unwrap(), stderr)
}

/// Path of a copy of the built-in catalog with us-east-1 replaced by us-west-2.
fn us_west_2() -> PathBuf {
    let packed = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/us-east-1.json.gz");
    let mut text = String::new();
    flate2::read::GzDecoder::new(fs::File::open(packed).unwrap())
        .read_to_string(&mut text)
        .unwrap();
    let path = std::env::temp_dir().join(format!("whittle-us-west-2-{}.json", std::process::id()));
    fs::write(&path, text.replace("us-east-1", "us-west-2")).unwrap();
    path
}

fn planned(manifests: &str, catalog: Option<&Path>) -> Vec<Value> {
    let mut arguments = vec!["plan", "-f", "-", "-o", "json"];
    if let Some(catalog) = catalog {
        arguments.extend(["--catalog", catalog.to_str().unwrap()]);
    }
    let (decision, stderr) = whittle(&arguments, manifests);
    assert_eq!(stderr, "", "no warnings");
    let decision: Value = serde_json::from_str(&decision).unwrap();
    assert_eq!(
        decision
            .pointer("/unplaced")
            .and_then(Value::as_array)
            .map_or(0, Vec::len),
        0,
        "{decision}"
    );
    decision
        .get("newNodes")
        .and_then(Value::as_array)
        .unwrap()
        .clone()
}

fn pods(nodes: &[Value]) -> usize {
    nodes
        .iter()
        .map(|node| node.get("pods").and_then(Value::as_array).unwrap().len())
        .sum()
}

fn pools(nodes: &[Value]) -> Vec<&str> {
    nodes
        .iter()
        .map(|node| node.get("nodePool").and_then(Value::as_str).unwrap())
        .collect()
}

#[test]
fn inflate_needs_no_conversion_and_gets_its_nodes() {
    let manifests = page("inflate.yaml");
    let (converted, stderr) = whittle(&["convert", "-f", "-"], &manifests);
    assert_eq!(
        (converted.as_str(), stderr.as_str()),
        (manifests.as_str(), "")
    );
    let nodes = planned(&converted, None);
    assert_eq!(pods(&nodes), 10);
}

#[test]
fn each_team_gets_nodes_of_its_node_pool() {
    let nodes = planned(&page("two-node-pools.yaml"), None);
    let mut pools = pools(&nodes);
    pools.dedup();
    pools.sort_unstable();
    assert_eq!(pools, ["development", "production"]);
}

#[test]
fn on_demand_node_pool_takes_pods_beyond_the_spot_limit() {
    let nodes = planned(&page("spot-first.yaml"), None);
    assert_eq!(pods(&nodes), 12);
    let pools = pools(&nodes);
    assert!(
        pools.contains(&"spot") && pools.contains(&"on-demand"),
        "{pools:?}"
    );
}

#[test]
fn layered_constraints_of_v1beta1_give_one_r6gd() {
    one_r6gd("layered-constraints-v1beta1.yaml");
}

#[test]
fn layered_constraints_of_v1alpha5_give_one_r6gd() {
    one_r6gd("layered-constraints-v1alpha5.yaml");
}

fn one_r6gd(name: &str) {
    let (converted, _) = whittle(&["convert", "-f", "-"], &page(name));
    let catalog = us_west_2();
    let nodes = planned(&converted, Some(&catalog));
    let [node] = nodes.as_slice() else {
        panic!("{nodes:?}");
    };
    assert_eq!(pods(&nodes), 3);
    let text = node.to_string();
    for part in ["r6gd.xlarge", "us-west-2a", "on-demand"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    fs::remove_file(catalog).unwrap();
}

#[test]
fn converted_kops_groups_get_the_requested_nodes() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kops");
    let out = fs::read_to_string(folder.join("groups.out")).unwrap();
    let (converted, _) = out.split_once("\n=== stderr\n").unwrap();
    // Static NodePools launch no nodes for pods.
    let converted = converted.replace("  replicas: 4\n", "");
    let pods = "---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: default}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      nodeSelector: {node.kubernetes.io/instance-type: m5.large, karpenter.sh/nodepool: by-account}
      containers: [{name: web, image: web, resources: {requests: {cpu: 1500m}}}]
";
    let nodes = planned(&format!("{converted}{pods}"), None);
    assert_eq!(pools(&nodes), ["by-account", "by-account"]);
}

#[test]
fn spot_to_spot_consolidation_needs_the_gate_and_fifteen_types() {
    let gate = ["--feature-gates", "SpotToSpotConsolidation=true"];
    let evaluate = |arguments: &[&str], manifests: &str| {
        let plan = ["plan", "--disruption", "-f", "-"];
        let (decision, stderr) = whittle(&[&plan, arguments].concat(), manifests);
        assert_eq!(stderr, "");
        decision
    };
    let many = page("spot-to-spot.yaml");
    let text = evaluate(&[], &many);
    assert!(
        text.starts_with("No node would go now.")
            && text.contains("SpotToSpotConsolidation is disabled"),
        "{text}"
    );
    let json = evaluate(&[&gate[..], &["-o", "json"]].concat(), &many);
    let decision: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(
        decision.pointer("/command/delete/0"),
        Some(&Value::from("big"))
    );
    let types = decision.pointer("/command/replace/0/instanceTypes");
    assert_eq!(types.and_then(Value::as_array).map(Vec::len), Some(15));
    let category = "- {key: karpenter.k8s.aws/instance-category, operator: In, values: [c, m, r]}";
    let three = "- {key: node.kubernetes.io/instance-type, operator: In, values: [m5.large, m5.xlarge, m5.2xlarge]}";
    assert!(many.contains(category));
    let text = evaluate(&gate, &many.replace(category, three));
    assert!(
        text.contains("SpotToSpotConsolidation requires 15 cheaper instance type options"),
        "{text}"
    );
}
