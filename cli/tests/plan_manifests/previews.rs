//! Instance types that AWS lists without a price.

use std::{fs, io::Read, path::Path};

use flate2::read::GzDecoder;
use serde_json::{Value, json};

use crate::{SMALL, deployment, plan_with, pool};

const OVERLAY: &str = "---
apiVersion: karpenter.sh/v1alpha1
kind: NodeOverlay
metadata: {name: preview}
spec:
  price: \"0.5\"
  requirements: [{key: node.kubernetes.io/instance-type, operator: In, values: [m5.xlarge]}]
";

/// Writes a catalog of us-east-1 in which m5.xlarge has no price.
fn write_catalog(path: &Path) {
    let packed = fs::read(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/data/us-east-1.json.gz"
    ));
    let packed = packed.unwrap();
    let mut text = String::new();
    let mut unpacked = GzDecoder::new(&*packed);
    unpacked.read_to_string(&mut text).unwrap();
    let mut types: Vec<Value> = serde_json::from_str(&text).unwrap();
    types.retain(|instance_type| instance_type["name"] == "m5.xlarge");
    let offerings = types
        .iter_mut()
        .map(|instance_type| instance_type["offerings"].as_array_mut());
    for offering in offerings.flat_map(Option::unwrap) {
        offering["price"] = json!(0);
        offering["available"] = json!(false);
        offering["unpriced"] = json!(true);
    }
    fs::write(path, serde_json::to_vec(&types).unwrap()).unwrap();
}

#[test]
fn type_without_a_price_is_used_if_a_node_overlay_sets_one() {
    let folder = tempfile::tempdir().unwrap();
    let catalog = folder.path().join("catalog.json");
    write_catalog(&catalog);
    let manifests = format!("{}{}{OVERLAY}", pool("web", ""), deployment(1, SMALL));
    let plan = |gate: &str| {
        let gates = format!("NodeOverlay={gate}");
        let catalog = catalog.to_str().unwrap();
        let arguments = ["--catalog", catalog, "--feature-gates", &gates];
        plan_with(&manifests, &arguments)
    };
    let priced = plan("true");
    priced.stdout_starts_with("1 node to launch for 1 pod");
    assert!(priced.stdout.contains("$0.5"), "{}", priced.stdout);
    let silent = plan("false");
    assert!(
        !silent.stdout.contains("to launch for 1 pod"),
        "{}",
        silent.stdout
    );
}
