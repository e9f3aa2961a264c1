//! A cluster that people give to these tests: taken only if it says so itself, and cleared before each test.

use std::fs::File;

use super::cluster::Cluster;

/// What tests make, in the order in which it goes.
const KINDS: [&str; 3] = ["nodepools", "nodeclaims", "ec2nodeclasses"];
/// Where they make pods.
const NAMESPACES: [&str; 2] = ["--namespace=default", "--namespace=kube-public"];
/// The label of nodes whose kubelet is a stand-in.
pub(crate) const STAND_IN: &str = "whittle.sh/stand-in";

/// Waits until no other test works with it.
pub(crate) fn a_turn() -> File {
    let file = File::create(std::env::temp_dir().join("whittle-end-to-end.lock")).unwrap();
    file.lock().unwrap();
    file
}

/// `KUBECONFIG` is set on many a machine, and its cluster may be in use.
pub(crate) fn is_meant(cluster: &Cluster) {
    let mark = [
        "get",
        "configmap",
        "whittle-tests",
        "--namespace=kube-system",
    ];
    if let Err(error) = cluster.try_kubectl(&mark, "") {
        panic!(
            "the cluster of KUBECONFIG is not given to these tests, which remove the NodePools and Deployments that they find: {error}\
             if that is meant: kubectl create configmap whittle-tests --namespace=kube-system"
        );
    }
}

/// Removes what an earlier test has left.
pub(crate) fn clear(cluster: &Cluster) {
    cluster.kubectl(&["delete", "deployments", "--all", NAMESPACES[0]]);
    for kind in KINDS {
        release(cluster, &cluster.kubectl(&["get", kind, "-o", "name"]));
        cluster.kubectl(&["delete", kind, "--all"]);
    }
    let nodes = cluster.kubectl(&["get", "nodes", "-l", STAND_IN, "-o", "name"]);
    release(cluster, &nodes);
    cluster.kubectl(&["delete", "nodes", "-l", STAND_IN]);
    for namespace in NAMESPACES {
        let at_once = ["--force", "--grace-period=0"];
        cluster.kubectl(&[&["delete", "pods", "--all", namespace], &at_once[..]].concat());
    }
    let lease = "lease/karpenter-leader-election";
    cluster.kubectl(&[
        "delete",
        lease,
        "--namespace=kube-system",
        "--ignore-not-found",
    ]);
}

/// Nobody is there who would see to their finalizers.
fn release(cluster: &Cluster, objects: &str) {
    for object in objects.lines() {
        let patch = r#"--patch={"metadata":{"finalizers":null}}"#;
        cluster.kubectl(&["patch", object, "--type=merge", patch]);
    }
}
