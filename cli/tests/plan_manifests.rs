//! `whittle plan -f` sees what the functions would see once the manifests are applied.

#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::{
    fs,
    process::{Command, Output},
};

fn pool(name: &str, spec: &str) -> String {
    format!(
        "---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {{name: {name}}}
spec:
{spec}
  template:
    spec:
      nodeClassRef: {{group: karpenter.k8s.aws, kind: EC2NodeClass, name: {name}}}
      requirements:
      - {{key: node.kubernetes.io/instance-type, operator: In, values: [m5.xlarge]}}
      - {{key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}}
"
    )
}

/// A workload of a kind whose pods ask for this.
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

fn deployment(replicas: i32, pod: &str) -> String {
    let spec = format!("{{replicas: {replicas}, selector: {{matchLabels: {{app: web}}}},");
    let pod = format!("metadata: {{labels: {{app: web}}}}, spec: {pod}}}");
    format!(
        "---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: web}}\nspec: {spec} template: {{{pod}}}\n"
    )
}

const SMALL: &str = "{containers: [{name: main, image: app, resources: {requests: {cpu: 100m}}}]}";
const LARGE: &str = "{containers: [{name: main, image: app, resources: {requests: {cpu: 2}}}]}";

/// What is told, and what is planned.
struct Told {
    output: Output,
    out: String,
    err: String,
}

fn plan_with(manifests: &str, arguments: &[&str]) -> Told {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("all.yaml"), manifests).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_whittle"))
        .args(["plan", "-f"])
        .arg(folder.path())
        .args(arguments)
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    Told {
        out: text(&output.stdout),
        err: text(&output.stderr),
        output,
    }
}

fn plan(manifests: &str) -> Told {
    plan_with(manifests, &[])
}

impl Told {
    #[track_caller]
    fn starts(&self, text: &str) {
        assert!(self.out.starts_with(text), "{}\n{}", self.out, self.err);
    }

    #[track_caller]
    fn tells(&self, text: &str) {
        assert!(self.err.contains(text), "{}\n{}", self.out, self.err);
    }
}

fn class(name: &str, spec: &str) -> String {
    format!(
        "---
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {{name: {name}}}
spec:
  amiSelectorTerms: [{{alias: al2023@latest}}]
  role: nodes
  subnetSelectorTerms: [{{id: subnet-12345678}}]
  securityGroupSelectorTerms: [{{id: sg-12345678}}]
{spec}
"
    )
}

fn web(kind: &str) -> String {
    format!("{}{kind}", pool("web", ""))
}

#[test]
fn max_pods_of_the_node_class_bound_nodes() {
    let of = |kubelet: &str| {
        let class = class("web", kubelet);
        plan(&web(&format!("{class}{}", deployment(20, SMALL))))
    };
    of("").starts("1 node to launch for 20 pods");
    of("  kubelet: {maxPods: 5}").starts("4 nodes to launch for 20 pods");
    of("  kubelet: {podsPerCore: 2}").starts("3 nodes to launch for 20 pods");
    of("  kubelet: {kubeReserved: {cpu: \"3\"}}").starts("2 nodes to launch for 20 pods");
}

#[test]
fn volumes_and_instance_stores_of_the_node_class_are_ephemeral_storage() {
    let pod = "{containers: [{name: main, resources: {requests: {ephemeral-storage: 60Gi}}}]}";
    let of = |kind: &str, spec: &str| {
        let manifests = web(&format!("{}{}", class("web", spec), deployment(1, pod)));
        plan(&manifests.replace("m5.xlarge", kind))
    };
    of("m5.xlarge", "").starts("Nothing to launch");
    let volume = "  blockDeviceMappings: [{deviceName: /dev/xvda, ebs: {volumeSize: 100Gi}}]";
    of("m5.xlarge", volume).starts("1 node to launch for 1 pod");
    of("m5d.xlarge", "  instanceStorePolicy: RAID0").starts("1 node to launch for 1 pod");
}

#[test]
fn the_image_family_is_the_operating_system_of_nodes() {
    let windows = class("web", "").replace("al2023@", "windows2022@");
    let pod = "{nodeSelector: {kubernetes.io/os: windows}, containers: [{name: main}]}";
    plan(&web(&format!("{windows}{}", deployment(1, pod)))).starts("1 node to launch for 1 pod");
    plan(&web(&format!("{}{}", class("web", ""), deployment(1, pod)))).starts("Nothing to launch");
}

#[test]
fn a_node_class_that_is_not_ready_launches_nothing() {
    let status = "status: {conditions: [{type: Ready, status: \"False\", reason: SubnetsReady, message: no subnets, lastTransitionTime: \"2026-01-01T00:00:00Z\"}]}";
    let told = plan(&web(&format!(
        "{}{status}\n{}",
        class("web", ""),
        deployment(1, SMALL)
    )));
    told.starts("Nothing to launch");
    told.tells("NodePool web is not used: EC2NodeClass web is not ready: no subnets");
    let other = class("other", "");
    plan(&web(&format!("{other}{}", deployment(1, SMALL)))).tells(
        "NodePool web: EC2NodeClass web is not among the manifests: defaults stand in for it",
    );
}

#[test]
fn every_kind_of_workload_makes_its_pods() {
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
        plan(&web(&workload(kind, version, spec, LARGE))).starts(&format!(
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
    plan(&cron("")).starts("1 node to launch for 1 pod");
    plan(&cron(", suspend: true")).starts("Nothing to launch");
}

#[test]
fn a_rollout_takes_the_template_that_it_refers_to() {
    let rollout = "---\napiVersion: argoproj.io/v1alpha1\nkind: Rollout\nmetadata: {name: roll}\nspec: {replicas: 2, workloadRef: {kind: Deployment, name: web}}\n";
    plan(&web(&format!("{}{rollout}", deployment(5, LARGE))))
        .starts("2 nodes to launch for 2 pods");
    plan(&web(rollout)).tells("Rollout default/roll: Deployment web is not among the manifests");
}

#[test]
fn what_another_workload_makes_is_counted_once() {
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
    all("").starts("2 nodes to launch for 2 pods");
    all(&pod("one", "", "phase: Pending")).starts("2 nodes to launch for 2 pods");
    all(&pod("one", "", "phase: Failed")).starts("2 nodes to launch for 2 pods");
    let gone = ", deletionTimestamp: \"2026-01-01T00:00:00Z\"";
    all(&pod("web-0", gone, "phase: Running")).starts("2 nodes to launch for 2 pods");
    let job = format!(
        "---\napiVersion: batch/v1\nkind: Job\nmetadata: {{name: web-1, {}}}\nspec: {{template: {{spec: {LARGE}}}}}\n",
        owned("CronJob", "web")
    );
    let cron = format!(
        "---\napiVersion: batch/v1\nkind: CronJob\nmetadata: {{name: web}}\nspec: {{jobTemplate: {{spec: {{template: {{spec: {LARGE}}}}}}}}}\n"
    );
    plan(&web(&format!("{job}{cron}"))).starts("1 node to launch for 1 pod");
}

#[test]
fn claims_of_stateful_sets_and_ephemeral_volumes_are_made() {
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
    for made in [set, deployment(1, ephemeral)] {
        let waits = class("WaitForFirstConsumer");
        plan(&web(&format!("{waits}{made}"))).starts("1 node to launch for 1 pod");
        let told = plan(&web(&format!("{}{made}", class("Immediate"))));
        assert!(
            told.out.contains("is waiting to be bound (Immediate)"),
            "{}",
            told.out
        );
        let told = plan(&web(&made));
        told.starts("1 node to launch for 1 pod");
        told.tells("StorageClass default is not among the manifests");
    }
}

#[test]
fn pods_get_the_api_servers_defaults() {
    let pod = |name: &str, spec: &str| {
        format!("---\napiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec: {spec}\n")
    };
    let limits = "{containers: [{name: main, resources: {limits: {cpu: 2}}}]}";
    plan(&web(&format!("{}{}", pod("a", limits), pod("b", limits))))
        .starts("2 nodes to launch for 2 pods");
    let ports = "{hostNetwork: true, containers: [{name: main, ports: [{containerPort: 80}]}]}";
    plan(&web(&format!("{}{}", pod("a", ports), pod("b", ports))))
        .starts("2 nodes to launch for 2 pods");
    plan(&web(&deployment(3, ports))).starts("3 nodes to launch for 3 pods");
}

#[test]
fn limit_ranges_and_runtime_classes_add_to_pods() {
    let range = "---\napiVersion: v1\nkind: LimitRange\nmetadata: {name: defaults}\nspec: {limits: [{type: Container, defaultRequest: {cpu: 2}, max: {cpu: 3}}]}\n";
    let silent = "{containers: [{name: main}]}";
    plan(&web(&deployment(2, silent))).starts("1 node to launch for 2 pods");
    plan(&web(&format!("{range}{}", deployment(2, silent)))).starts("2 nodes to launch for 2 pods");
    let greedy = "{containers: [{name: main, resources: {limits: {cpu: 4}}}]}";
    plan(&web(&format!("{range}{}", deployment(1, greedy))))
        .tells("Deployment default/web: it would be refused: container main is limited to 4 cpu, and a LimitRange allows 3 at most");
    let runtime = "---\napiVersion: node.k8s.io/v1\nkind: RuntimeClass\nmetadata: {name: kata}\nhandler: kata\noverhead: {podFixed: {cpu: 2}}\nscheduling: {nodeSelector: {runtime: kata}}\n";
    let kata = "{runtimeClassName: kata, containers: [{name: main}]}";
    let labelled = web("").replace(
        "  template:\n",
        "  template:\n    metadata: {labels: {runtime: kata}}\n",
    );
    plan(&format!("{labelled}{runtime}{}", deployment(2, kata)))
        .starts("2 nodes to launch for 2 pods");
    plan(&web(&format!("{runtime}{}", deployment(2, kata)))).starts("Nothing to launch");
    plan(&web(&deployment(1, kata))).tells("RuntimeClass kata is not among the manifests");
}

#[test]
fn node_pools_of_others_are_left_alone() {
    let auto = pool("auto", "  weight: 100").replace(
        "{group: karpenter.k8s.aws, kind: EC2NodeClass, name: auto}",
        "{group: eks.amazonaws.com, kind: NodeClass, name: default}",
    );
    let told = plan(&web(&format!("{auto}{}", deployment(1, SMALL))));
    told.starts("1 node to launch for 1 pod");
    assert!(told.out.contains("\nweb-"), "{}", told.out);
    told.tells("NodePool auto is left alone: its nodeClassRef is to NodeClass of group eks.amazonaws.com, and EKS Auto Mode looks after it");
}

#[test]
fn static_node_pools_get_their_replicas_behind_the_gate() {
    let fixed = pool("fixed", "  replicas: 3");
    plan(&fixed).tells("NodePool fixed has no effect: its feature gate is off (--feature-gates StaticCapacity=true)");
    plan_with(&fixed, &["--feature-gates", "StaticCapacity=true"])
        .starts("3 nodes to launch for the replicas of static NodePool fixed");
}

#[test]
fn every_mistake_of_a_manifest_is_told_at_once() {
    let wrong = pool("web", "  weight: heavy\n  limits: [1]");
    let told = plan(&wrong);
    told.tells("spec.weight:");
    told.tells("spec.limits:");
    assert!(!told.output.status.success());
    let kinds = "---\napiVersion: v1\nkind: Service\nmetadata: {name: a}\n---\napiVersion: v1\nkind: Service\nmetadata: {name: b}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n";
    plan(kinds).tells("planning does not look at ConfigMap, Service (2)");
    for old in [
        "karpenter.sh/v1beta1\nkind: NodePool",
        "karpenter.sh/v1alpha5\nkind: Provisioner",
    ] {
        plan(&format!("apiVersion: {old}\nmetadata: {{name: a}}\n"))
            .tells("`whittle convert -f <file>` makes v1 of it");
    }
    plan("apiVersion: v1\nkind: Pod\nmetadata:\n  name: {{ .Values.name }}\n")
        .tells("it is a template of Helm: render it first");
}

#[test]
fn the_region_is_that_of_the_zones_in_the_manifests() {
    let zone =
        "{nodeSelector: {topology.kubernetes.io/zone: eu-west-1b}, containers: [{name: main}]}";
    let told = plan(&web(&deployment(1, zone)));
    told.starts("1 node to launch for 1 pod");
    assert!(told.out.contains(" eu-west-1b "), "{}", told.out);
    told.tells("instance types and prices are those of us-east-1, as if eu-west-1 had them");
    let told = plan_with(&web(&deployment(1, SMALL)), &["--region", "ap-south-1"]);
    assert!(told.out.contains(" ap-south-1a "), "{}", told.out);
}

#[test]
fn what_is_misspelt_is_told_with_what_was_meant() {
    let wrong = |selector: &str| {
        plan(&web(&deployment(
            1,
            &format!("{{nodeSelector: {{{selector}}}, containers: [{{name: main}}]}}"),
        )))
    };
    for (selector, meant) in [
        (
            "node.kubernetes.io/instancetype: m5.xlarge",
            "asks for label node.kubernetes.io/instancetype, which its nodes do not have (did you mean node.kubernetes.io/instance-type?)",
        ),
        (
            "karpenter.sh/provisioner-name: web",
            "did you mean karpenter.sh/nodepool?",
        ),
        (
            "karpenter.k8s.aws/instance-type: m5.xlarge",
            "did you mean node.kubernetes.io/instance-type?",
        ),
        (
            "kubernetes.io/arch: x86_64",
            "no instance type has kubernetes.io/arch=x86_64 (did you mean amd64?)",
        ),
        (
            "node.kubernetes.io/instance-type: m55.xlarge",
            "did you mean m5.xlarge?",
        ),
        (
            "karpenter.sh/nodepool: wev",
            "there is no NodePool of this name (did you mean web?)",
        ),
    ] {
        let told = wrong(selector);
        assert!(told.out.contains(meant), "{selector}\n{}", told.out);
        // One reason says it, and no other.
        let times = told.out.matches("did you mean").count();
        assert_eq!(times, 1, "{selector}\n{}", told.out);
    }
    let pages = "{containers: [{name: main, resources: {limits: {hugepages-2Mi: 64Mi}}}]}";
    let told = plan(&web(&deployment(1, pages)));
    assert!(
        told.out
            .contains("no instance type has the resource hugepages-2Mi"),
        "{}",
        told.out
    );
    let told = wrong("example.com/tier: gold");
    assert!(!told.out.contains("did you mean"), "{}", told.out);
    let typo = pool("web", "").replace("[on-demand]", "[on_demand, spot]");
    plan(&format!("{typo}{}", deployment(1, SMALL)))
        .tells("NodePool web: karpenter.sh/capacity-type=on_demand: no instance type has this value (did you mean on-demand?)");
}

#[test]
fn annotations_that_protect_nothing_are_told() {
    let pod = |text: &str| {
        format!(
            "---\napiVersion: v1\nkind: Pod\nmetadata: {{name: a, annotations: {{karpenter.sh/do-not-disrupt: {text}}}}}\nspec: {SMALL}\n"
        )
    };
    for text in ["\"1d\"", "\"True\"", "\"-5m\""] {
        plan(&web(&pod(text))).tells("pod default/a: annotation karpenter.sh/do-not-disrupt is");
    }
    for text in ["\"true\"", "\"1h30m\"", "\"false\""] {
        let told = plan(&web(&pod(text)));
        assert!(!told.err.contains("protects nothing"), "{}", told.err);
    }
}
