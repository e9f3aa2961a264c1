use std::sync::Arc;

use api::manifests::Manifests;
use model::NanosPerHour;

use super::*;
use crate::{catalogs, cluster};

const CLUSTER: &str = "
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
kind: Node
metadata:
  name: a
  labels:
    karpenter.sh/nodepool: default
    karpenter.sh/capacity-type: on-demand
    node.kubernetes.io/instance-type: m5.large
    topology.kubernetes.io/zone: us-east-1a
---
apiVersion: v1
kind: Node
metadata: {name: b, labels: {karpenter.sh/nodepool: default, node.kubernetes.io/instance-type: zz.large}}
";

#[test]
fn node_price_is_the_sum_of_its_parts() {
    let mut snapshot = cluster::empty(Timestamp::UNIX_EPOCH, cluster::aws_settings());
    snapshot.settings.node_price = NanosPerHour(10_000_000);
    let mut manifests = Manifests::default();
    manifests.read("cluster.yaml", CLUSTER);
    let objects = manifests
        .objects
        .into_iter()
        .map(|manifest| manifest.object);
    let types = Arc::new(catalogs::us_east_1().unwrap());
    cluster::add_objects(&mut snapshot, objects, &types);
    for pool in &mut snapshot.node_pools {
        pool.volume_price = NanosPerHour(2_000_000);
    }
    let nodes = nodes(&snapshot);
    let [known, unknown] = nodes.as_slice() else {
        panic!("{nodes:?}");
    };
    let text = |dollars: f64| format!("{dollars:.4}");
    assert_eq!(known.hourly.map(text).as_deref(), Some("0.1080"));
    let parts = known.price_parts.map(|parts| parts.map(text).join(" + "));
    assert_eq!(parts.as_deref(), Some("0.0960 + 0.0020 + 0.0100"));
    assert!(unknown.hourly.is_none() && unknown.price_parts.is_none());
}
