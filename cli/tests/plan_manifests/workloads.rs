//! Pods of workloads and their volume claims.

use super::{LARGE, SMALL, deployment, plan, web};

/// A workload of this kind with the pod template `pod`.
fn workload(kind: &str, version: &str, spec: &str, pod: &str) -> String {
    format!(
        "---
apiVersion: {version}
kind: {kind}
metadata: {{name: web}}
spec:
  {spec}
  template:
    metadata: {{labels: {{app: web}}}}
    spec: {pod}
"
    )
}

#[test]
fn every_kind_of_workload_creates_its_pods() {
    let selector = "selector: {matchLabels: {app: web}}\n  replicas: 2";
    for (kind, version, spec, pods) in [
        ("ReplicaSet", "apps/v1", selector, "2 pods"),
        ("StatefulSet", "apps/v1", selector, "2 pods"),
        ("ReplicationController", "v1", "replicas: 2", "2 pods"),
        (
            "Job",
            "batch/v1",
            "parallelism: 3\n  completions: 2",
            "2 pods",
        ),
        ("Job", "batch/v1", "parallelism: 3", "3 pods"),
        ("Rollout", "argoproj.io/v1alpha1", selector, "2 pods"),
    ] {
        plan(&web(&workload(kind, version, spec, LARGE))).stdout_starts_with(&format!(
            "{} to launch for {pods}",
            if pods == "3 pods" {
                "3 nodes"
            } else {
                "2 nodes"
            }
        ));
    }
    let job = format!("{{spec: {{template: {{spec: {LARGE}}}}}}}");
    let cron = |more: &str| {
        web(&format!(
            "---\napiVersion: batch/v1\nkind: CronJob\nmetadata: {{name: web}}\nspec: {{schedule: '@daily', jobTemplate: {job}{more}}}\n"
        ))
    };
    plan(&cron("")).stdout_starts_with("1 node to launch for 1 pod");
    plan(&cron(", suspend: true")).stdout_starts_with("Nothing to launch");
}

#[test]
fn rollout_uses_the_referenced_pod_template() {
    let rollout = "---\napiVersion: argoproj.io/v1alpha1\nkind: Rollout\nmetadata: {name: roll}\nspec: {replicas: 2, workloadRef: {kind: Deployment, name: web}}\n";
    plan(&web(&format!("{}{rollout}", deployment(5, LARGE))))
        .stdout_starts_with("2 nodes to launch for 2 pods");
    plan(&web(rollout))
        .stderr_contains("Rollout default/roll: Deployment web is not among the manifests");
}

#[test]
fn pods_owned_by_another_workload_are_counted_once() {
    let owned = |kind: &str, name: &str| {
        format!(
            "ownerReferences: [{{apiVersion: apps/v1, kind: {kind}, name: {name}, uid: u, controller: true}}]"
        )
    };
    let set = format!(
        "---\napiVersion: apps/v1\nkind: ReplicaSet\nmetadata: {{name: web-abc, {}}}\nspec: {{replicas: 2, selector: {{matchLabels: {{app: web}}}}, template: {{metadata: {{labels: {{app: web}}}}, spec: {LARGE}}}}}\n",
        owned("Deployment", "web")
    );
    let pod = |name: &str, more: &str, status: &str| {
        format!(
            "---\napiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, labels: {{app: web}}, {}{more}}}\nspec: {LARGE}\nstatus: {{{status}}}\n",
            owned("ReplicaSet", "web-abc")
        )
    };
    let all = |pods: &str| plan(&web(&format!("{}{set}{pods}", deployment(2, LARGE))));
    all("").stdout_starts_with("2 nodes to launch for 2 pods");
    all(&pod("one", "", "phase: Pending")).stdout_starts_with("2 nodes to launch for 2 pods");
    all(&pod("one", "", "phase: Failed")).stdout_starts_with("2 nodes to launch for 2 pods");
    let gone = ", deletionTimestamp: \"2026-01-01T00:00:00Z\"";
    all(&pod("web-0", gone, "phase: Running")).stdout_starts_with("2 nodes to launch for 2 pods");
    let job = format!(
        "---\napiVersion: batch/v1\nkind: Job\nmetadata: {{name: web-1, {}}}\nspec: {{template: {{spec: {LARGE}}}}}\n",
        owned("CronJob", "web")
    );
    let cron = format!(
        "---\napiVersion: batch/v1\nkind: CronJob\nmetadata: {{name: web}}\nspec: {{jobTemplate: {{spec: {{template: {{spec: {LARGE}}}}}}}}}\n"
    );
    plan(&web(&format!("{job}{cron}"))).stdout_starts_with("1 node to launch for 1 pod");
}

#[test]
fn claims_of_stateful_sets_and_ephemeral_volumes_are_created() {
    let class = |mode: &str| {
        format!(
            "---\napiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: {{name: fast, annotations: {{storageclass.kubernetes.io/is-default-class: \"true\"}}}}\nprovisioner: ebs.csi.aws.com\nvolumeBindingMode: {mode}\n"
        )
    };
    let set = workload(
        "StatefulSet",
        "apps/v1",
        "selector: {matchLabels: {app: web}}\n  volumeClaimTemplates: [{metadata: {name: data}, spec: {}}]",
        SMALL,
    );
    let ephemeral = "{containers: [{name: main}], volumes: [{name: scratch, ephemeral: {volumeClaimTemplate: {spec: {}}}}]}";
    for object in [set, deployment(1, ephemeral)] {
        let waits = class("WaitForFirstConsumer");
        plan(&web(&format!("{waits}{object}"))).stdout_starts_with("1 node to launch for 1 pod");
        let output = plan(&web(&format!("{}{object}", class("Immediate"))));
        assert!(
            output.stdout.contains("is waiting to be bound (Immediate)"),
            "{}",
            output.stdout
        );
        let output = plan(&web(&object));
        output.stdout_starts_with("1 node to launch for 1 pod");
        output.stderr_contains("StorageClass default is not among the manifests");
    }
}

#[test]
fn pods_of_stateful_sets_are_numbered_from_their_first_ordinal() {
    let set = workload(
        "StatefulSet",
        "apps/v1",
        "ordinals: {start: 5}\n  selector: {matchLabels: {app: web}}\n  volumeClaimTemplates: [{metadata: {name: data}, spec: {}}]",
        SMALL,
    );
    let volume = "---\napiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: data-web-5, annotations: {pv.kubernetes.io/bind-completed: \"yes\"}}\nspec: {volumeName: old}
---\napiVersion: v1\nkind: PersistentVolume\nmetadata: {name: old}\nspec: {csi: {driver: ebs.csi.aws.com, volumeHandle: vol-1}, claimRef: {namespace: default, name: data-web-5}, nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: topology.kubernetes.io/zone, operator: In, values: [us-east-1c]}]}]}}}\n";
    let output = plan(&web(&format!("{set}{volume}")));
    assert!(output.stdout.contains(" us-east-1c "), "{}", output.stdout);
    assert!(output.stdout.contains("default/web-5"), "{}", output.stdout);
}

#[test]
fn objects_with_generated_names_are_all_planned() {
    let job = workload("Job", "batch/v1", "parallelism: 2", LARGE)
        .replace("metadata: {name: web}", "metadata: {generateName: run-}");
    let output = plan(&web(&format!("{job}{job}")));
    output.stdout_starts_with("4 nodes to launch for 4 pods");
    assert!(
        output.stdout.contains("default/run-2-0"),
        "{}",
        output.stdout
    );
    assert!(output.stderr.is_empty(), "{}", output.stderr);
}
