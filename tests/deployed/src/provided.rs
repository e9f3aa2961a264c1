//! Cluster provided by the user: accepted only if it is marked for tests, and cleared before each test.

use std::fs::File;

use super::cluster::Cluster;

/// Kinds that tests create, in the order of deletion.
const KINDS: [&str; 3] = ["nodepools", "nodeclaims", "ec2nodeclasses"];
/// Namespaces in which tests create pods.
const NAMESPACES: [&str; 2] = ["--namespace=default", "--namespace=kube-public"];
/// Label of nodes with a simulated kubelet.
pub(crate) const STAND_IN: &str = "whittle.sh/stand-in";

/// Waits until no other test uses the cluster, and locks it.
pub(crate) fn lock() -> File {
    let file = File::create(std::env::temp_dir().join("whittle-end-to-end.lock")).unwrap();
    file.lock().unwrap();
    file
}

/// Checks that the cluster is marked for tests: `KUBECONFIG` is set on many machines, and its cluster may be in use.
pub(crate) fn check_marked_for_tests(cluster: &Cluster) {
    let mark = [
        "get",
        "configmap",
        "whittle-tests",
        "--namespace=kube-system",
    ];
    if let Err(error) = cluster.try_kubectl(&mark, "") {
        panic!(
            "the cluster of KUBECONFIG is not marked for tests, which delete its NodePools and Deployments: {error}\
             to mark it: kubectl create configmap whittle-tests --namespace=kube-system"
        );
    }
}

/// Removes the objects of earlier tests.
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

/// Removes the finalizers of objects, whose controllers do not run at this time.
fn release(cluster: &Cluster, objects: &str) {
    for object in objects.lines() {
        let patch = r#"--patch={"metadata":{"finalizers":null}}"#;
        cluster.kubectl(&["patch", object, "--type=merge", patch]);
    }
}
