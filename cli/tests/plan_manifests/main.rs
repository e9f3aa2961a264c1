//! `whittle plan -f` plans for the state that the functions would observe once the manifests are applied.

#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod admission;
mod overlays;
mod previews;
mod workloads;

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

fn deployment(replicas: i32, pod: &str) -> String {
    let spec = format!("{{replicas: {replicas}, selector: {{matchLabels: {{app: web}}}},");
    let pod = format!("metadata: {{labels: {{app: web}}}}, spec: {pod}}}");
    format!(
        "---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: web}}\nspec: {spec} template: {{{pod}}}\n"
    )
}

const SMALL: &str = "{containers: [{name: main, image: app, resources: {requests: {cpu: 100m}}}]}";
const LARGE: &str = "{containers: [{name: main, image: app, resources: {requests: {cpu: 2}}}]}";

/// Standard output and standard error of `whittle plan`.
struct PlanOutput {
    process: Output,
    stdout: String,
    stderr: String,
}

fn plan_with(manifests: &str, arguments: &[&str]) -> PlanOutput {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("all.yaml"), manifests).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_whittle"))
        .args(["plan", "-f"])
        .arg(folder.path())
        .args(arguments)
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    PlanOutput {
        stdout: text(&output.stdout),
        stderr: text(&output.stderr),
        process: output,
    }
}

fn plan(manifests: &str) -> PlanOutput {
    plan_with(manifests, &[])
}

impl PlanOutput {
    #[track_caller]
    fn stdout_starts_with(&self, text: &str) {
        assert!(
            self.stdout.starts_with(text),
            "{}\n{}",
            self.stdout,
            self.stderr
        );
    }

    #[track_caller]
    fn stderr_contains(&self, text: &str) {
        assert!(
            self.stderr.contains(text),
            "{}\n{}",
            self.stdout,
            self.stderr
        );
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

fn web(manifests: &str) -> String {
    format!("{}{manifests}", pool("web", ""))
}

#[test]
fn max_pods_of_the_node_class_limits_pods_per_node() {
    let of = |kubelet: &str| {
        let class = class("web", kubelet);
        plan(&web(&format!("{class}{}", deployment(20, SMALL))))
    };
    of("").stdout_starts_with("1 node to launch for 20 pods");
    of("  kubelet: {maxPods: 5}").stdout_starts_with("4 nodes to launch for 20 pods");
    of("  kubelet: {podsPerCore: 2}").stdout_starts_with("3 nodes to launch for 20 pods");
    of("  kubelet: {kubeReserved: {cpu: \"3\"}}")
        .stdout_starts_with("2 nodes to launch for 20 pods");
}

#[test]
fn volumes_and_instance_stores_of_the_node_class_become_ephemeral_storage() {
    let pod = "{containers: [{name: main, resources: {requests: {ephemeral-storage: 60Gi}}}]}";
    let of = |kind: &str, spec: &str| {
        let manifests = web(&format!("{}{}", class("web", spec), deployment(1, pod)));
        plan(&manifests.replace("m5.xlarge", kind))
    };
    of("m5.xlarge", "").stdout_starts_with("Nothing to launch");
    let volume = "  blockDeviceMappings: [{deviceName: /dev/xvda, ebs: {volumeSize: 100Gi}}]";
    of("m5.xlarge", volume).stdout_starts_with("1 node to launch for 1 pod");
    of("m5d.xlarge", "  instanceStorePolicy: RAID0")
        .stdout_starts_with("1 node to launch for 1 pod");
}

#[test]
fn ami_family_determines_the_operating_system() {
    let windows = class("web", "").replace("al2023@", "windows2022@");
    let pod = "{nodeSelector: {kubernetes.io/os: windows}, containers: [{name: main}]}";
    plan(&web(&format!("{windows}{}", deployment(1, pod))))
        .stdout_starts_with("1 node to launch for 1 pod");
    plan(&web(&format!("{}{}", class("web", ""), deployment(1, pod))))
        .stdout_starts_with("Nothing to launch");
    // Windows does not run on arm64.
    let arm = web(&format!("{windows}{}", deployment(1, SMALL)));
    plan(&arm.replace("[m5.xlarge]", "[m6g.xlarge]")).stdout_starts_with("Nothing to launch");
}

#[test]
fn node_price_is_split_into_its_parts() {
    let priced = |class: &str| {
        let output = plan_with(&web(&format!("{class}{}", deployment(1, SMALL))), &["-v"]);
        output.stdout_starts_with("1 node to launch for 1 pod, from $0.1942/h");
        let parts = "$0.1942/h is $0.1920 for the instance, $0.0022 for its volumes and $0.0000 for the node itself";
        assert!(output.stdout.contains(parts), "{}", output.stdout);
    };
    priced(&class("web", ""));
    // A missing EC2NodeClass counts as one without settings.
    priced("");
    let quiet = plan(&web(&deployment(1, SMALL)));
    assert!(
        !quiet.stdout.contains("for the instance"),
        "{}",
        quiet.stdout
    );
    let output = plan_with(&web(&deployment(1, SMALL)), &["-o", "json"]);
    let shown: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
    let parts = shown.pointer("/newNodes/0/priceParts").unwrap();
    assert_eq!(parts.get("instance"), Some(&serde_json::json!(0.192)));
    assert_eq!(parts.get("node"), Some(&serde_json::json!(0.0)));
}

#[test]
fn cluster_settings_apply_to_the_plan() {
    let priced = |arguments: &[&str]| {
        let arguments = [&["-v"][..], arguments].concat();
        plan_with(&web(&deployment(1, SMALL)), &arguments)
    };
    let entry = r#"{"type": "eks", "reach": "public", "settings": {"nodePrice": "0.05"}}"#;
    for arguments in [["--node-price", "0.05"], ["--settings", entry]] {
        let output = priced(&arguments);
        output.stdout_starts_with("1 node to launch for 1 pod, from $0.2442/h");
        assert!(
            output.stdout.contains("and $0.0500 for the node itself"),
            "{}",
            output.stdout
        );
    }
    let output = priced(&["--node-price", "much"]);
    output.stderr_contains("expected dollars per hour, such as 0.02");
    // Preferred anti-affinity gives pods separate nodes if the preference is worth the price.
    let pod = "{affinity: {podAntiAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 100, podAffinityTerm: \
        {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: web}}}}]}}, containers: [{name: main}]}";
    for (worth, nodes) in [("0.000001", "1 node "), ("1", "2 nodes ")] {
        let output = plan_with(&web(&deployment(2, pod)), &["--preference-worth", worth]);
        output.stdout_starts_with(&format!("{nodes}to launch for 2 pods"));
    }
}

#[test]
fn unknown_region_is_rejected_with_a_suggestion() {
    let output = plan_with(&web(&deployment(1, SMALL)), &["--region", "eu-cental-1"]);
    assert!(!output.process.status.success(), "{}", output.stdout);
    output.stderr_contains("there is no Region eu-cental-1 (did you mean eu-central-1?)");
}

#[test]
fn node_class_that_is_not_ready_launches_no_nodes() {
    let status = "status: {conditions: [{type: Ready, status: \"False\", reason: SubnetsReady, message: no subnets, lastTransitionTime: \"2026-01-01T00:00:00Z\"}]}";
    let output = plan(&web(&format!(
        "{}{status}\n{}",
        class("web", ""),
        deployment(1, SMALL)
    )));
    output.stdout_starts_with("Nothing to launch");
    output.stderr_contains("NodePool web is not used: EC2NodeClass web is not ready: no subnets");
    let other = class("other", "");
    plan(&web(&format!("{other}{}", deployment(1, SMALL)))).stderr_contains(
        "NodePool web: EC2NodeClass web is not among the manifests: defaults stand in for it",
    );
}

#[test]
fn node_pools_of_other_providers_are_ignored() {
    let auto = pool("auto", "  weight: 100").replace(
        "{group: karpenter.k8s.aws, kind: EC2NodeClass, name: auto}",
        "{group: eks.amazonaws.com, kind: NodeClass, name: default}",
    );
    let output = plan(&web(&format!("{auto}{}", deployment(1, SMALL))));
    output.stdout_starts_with("1 node to launch for 1 pod");
    assert!(output.stdout.contains("\nweb-"), "{}", output.stdout);
    output.stderr_contains("NodePool auto is left alone: its nodeClassRef is to NodeClass of group eks.amazonaws.com, and EKS Auto Mode looks after it");
    let azure = auto.replace(
        "{group: eks.amazonaws.com, kind: NodeClass,",
        "{group: karpenter.azure.com, kind: AKSNodeClass,",
    );
    let output = plan(&web(&format!("{azure}{}", deployment(1, SMALL))));
    output.stdout_starts_with("1 node to launch for 1 pod");
    assert!(output.stdout.contains("\nweb-"), "{}", output.stdout);
    output.stderr_contains("NodePool auto is left alone: its nodeClassRef is to AKSNodeClass of group karpenter.azure.com, and Azure looks after it");
}

#[test]
fn node_pools_of_unknown_node_class_kinds_are_ignored() {
    let with = |group: &str, kind: &str| {
        let pool = pool("web", "").replace(
            "group: karpenter.k8s.aws, kind: EC2NodeClass",
            &format!("group: {group}, kind: {kind}"),
        );
        let output = plan(&format!("{pool}{}", deployment(1, SMALL)));
        output.stdout_starts_with("Nothing to launch");
        output
    };
    let start = "NodePool web is left alone: its nodeClassRef is to";
    let meant = "(did you mean EC2NodeClass of group karpenter.k8s.aws?)";
    with("karpenter.k8s.aws", "EC2NodeClas").stderr_contains(&format!(
        "{start} EC2NodeClas of group karpenter.k8s.aws {meant}"
    ));
    with("karpenter.k8s.was", "EC2NodeClass").stderr_contains(&format!(
        "{start} EC2NodeClass of group karpenter.k8s.was {meant}"
    ));
    with("karpenter.k8s.aws", "Provider").stderr_contains(&format!(
        "{start} Provider of group karpenter.k8s.aws, and the only kind of this group is EC2NodeClass"
    ));
    with("karpenter.k8s.gcp", "GCENodeClass").stderr_contains(&format!(
        "{start} GCENodeClass of group karpenter.k8s.gcp, and another provider looks after it"
    ));
}

#[test]
fn pods_held_back_by_scheduling_gates_are_named() {
    let gated = SMALL.replace(
        "{containers",
        "{schedulingGates: [{name: quota}], containers",
    );
    let output = plan(&web(&deployment(1, &gated)));
    output.stdout_starts_with("Nothing to launch");
    output.stderr_contains("1 pod is held back by its scheduling gates: default/web-0\n");
    plan(&web(&deployment(7, &gated))).stderr_contains(
        "7 pods are held back by their scheduling gates: default/web-0, default/web-1, default/web-2, default/web-3, default/web-4, and 2 more\n",
    );
}

#[test]
fn operating_systems_of_other_node_classes_are_known_values() {
    let class = class("web", "").replace("al2023@latest", "windows2022@latest");
    let linux = SMALL.replace(
        "{containers",
        "{nodeSelector: {kubernetes.io/os: linux}, containers",
    );
    let output = plan(&web(&format!("{class}{}", deployment(1, &linux))));
    output.stdout_starts_with("Nothing to launch");
    assert!(
        output
            .stdout
            .contains("requires kubernetes.io/os In [linux]")
            && !output.stdout.contains("no instance type has this value"),
        "{}",
        output.stdout
    );
}

#[test]
fn pods_that_wait_for_sidecars_with_the_same_host_port_get_a_node_each() {
    let pod = "{containers: [{name: main, image: app}], initContainers: [{name: proxy, image: app, restartPolicy: Always, ports: [{containerPort: 80, hostPort: 8080}]}]}";
    plan(&web(&deployment(2, pod))).stdout_starts_with("2 nodes to launch for 2 pods");
    let once = pod.replace("restartPolicy: Always, ", "");
    plan(&web(&deployment(2, &once))).stdout_starts_with("1 node to launch for 2 pods");
}

#[test]
fn anti_affinity_to_other_values_of_a_label_lets_equal_pods_share_a_node() {
    let tenant = |name: &str| {
        let term = "{topologyKey: kubernetes.io/hostname, mismatchLabelKeys: [tenant], labelSelector: {matchExpressions: [{key: tenant, operator: Exists}]}}";
        let affinity = format!(
            "affinity: {{podAntiAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: [{term}]}}}}"
        );
        let pod = SMALL.replace("{containers", &format!("{{{affinity}, containers"));
        let labels = format!("app: web, tenant: {name}");
        deployment(2, &pod).replace("app: web", &labels).replace(
            "metadata: {name: web}",
            &format!("metadata: {{name: {name}}}"),
        )
    };
    let manifests = web(&format!("{}{}", tenant("a"), tenant("b")));
    plan(&manifests).stdout_starts_with("2 nodes to launch for 4 pods");
}

#[test]
fn directories_are_read_recursively() {
    let folder = tempfile::tempdir().unwrap();
    let apps = folder.path().join("apps/web");
    let hidden = folder.path().join(".git");
    for folder in [&apps, &hidden] {
        fs::create_dir_all(folder).unwrap();
    }
    fs::write(folder.path().join("pool.yaml"), pool("web", "")).unwrap();
    fs::write(apps.join("web.yml"), deployment(1, SMALL)).unwrap();
    fs::write(hidden.join("other.yaml"), deployment(2, SMALL)).unwrap();
    let whittle = |command: &str| {
        let output = Command::new(env!("CARGO_BIN_EXE_whittle"))
            .args([command, "-f"])
            .arg(folder.path())
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let planned = whittle("plan");
    assert!(
        planned.starts_with("1 node to launch for 1 pod"),
        "{planned}"
    );
    let converted = whittle("convert");
    assert!(converted.contains("kind: Deployment"), "{converted}");
    assert!(!converted.contains("replicas: 2"), "{converted}");
}

#[test]
fn static_node_pools_get_their_replicas_if_the_gate_is_enabled() {
    let fixed = pool("fixed", "  replicas: 3");
    plan(&fixed).stderr_contains("NodePool fixed has no effect: its feature gate is off (--feature-gates StaticCapacity=true)");
    plan_with(&fixed, &["--feature-gates", "StaticCapacity=true"])
        .stdout_starts_with("3 nodes to launch for the replicas of static NodePool fixed");
}

#[test]
fn all_errors_of_a_manifest_are_reported_at_once() {
    let wrong = pool("web", "  weight: heavy\n  limits: [1]");
    let output = plan(&wrong);
    output.stderr_contains("spec.weight:");
    output.stderr_contains("spec.limits:");
    assert!(!output.process.status.success());
    // The first NodePool has an error that prevents parsing, the second one does not.
    let wrong = |after: &str| {
        let disruption = format!(
            "  weight: 200\n  disruption: {{consolidationPolicy: WhenEmptyy, consolidateAfter: {after}, budgets: [{{nodes: 200%}}]}}"
        );
        plan(
            &pool("web", &disruption).replace("operator: In, values: [on-demand]", "operator: Inn"),
        )
    };
    for after in ["1x", "1m"] {
        let output = wrong(after);
        for field in [
            "spec.weight: ",
            "spec.disruption.consolidationPolicy: ",
            "spec.disruption.budgets[0].nodes: ",
            "spec.template.spec.requirements[1].operator: ",
        ] {
            assert_eq!(
                output.stderr.matches(field).count(),
                1,
                "{field}\n{}",
                output.stderr
            );
        }
        let is_reported = output.stderr.contains("spec.disruption.consolidateAfter: ");
        assert_eq!(is_reported, after == "1x", "{}", output.stderr);
    }
    let kinds = "---\napiVersion: v1\nkind: Secret\nmetadata: {name: a}\n---\napiVersion: v1\nkind: Secret\nmetadata: {name: b}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n";
    plan(kinds).stderr_contains("planning does not look at ConfigMap, Secret (2)");
    for old in [
        "karpenter.sh/v1beta1\nkind: NodePool",
        "karpenter.sh/v1alpha5\nkind: Provisioner",
    ] {
        plan(&format!("apiVersion: {old}\nmetadata: {{name: a}}\n"))
            .stderr_contains("`whittle convert -f <file>` makes v1 of it");
    }
    plan("apiVersion: v1\nkind: Pod\nmetadata:\n  name: {{ .Values.name }}\n")
        .stderr_contains("it is a Helm template: render it");
}

#[test]
fn region_is_taken_from_the_zones_in_the_manifests() {
    let zone =
        "{nodeSelector: {topology.kubernetes.io/zone: eu-west-1b}, containers: [{name: main}]}";
    let output = plan(&web(&deployment(1, zone)));
    output.stdout_starts_with("1 node to launch for 1 pod");
    assert!(output.stdout.contains(" eu-west-1b "), "{}", output.stdout);
    output.stderr_contains(
        "instance types and prices are those of us-east-1, as if eu-west-1 had them",
    );
    let output = plan_with(&web(&deployment(1, SMALL)), &["--region", "ap-south-1"]);
    assert!(output.stdout.contains(" ap-south-1a "), "{}", output.stdout);
    let output = plan(&web(&deployment(1, SMALL)));
    assert!(output.stdout.contains(" us-east-1a "), "{}", output.stdout);
    assert_eq!(output.stderr, "");
    // Zones of nodes and of an EC2NodeClass' resolved subnets count too.
    let node = "---\napiVersion: v1\nkind: Node\nmetadata: {name: old}\nspec: {providerID: aws:///eu-north-1b/i-1}\n";
    let output = plan(&web(&format!("{node}{}", deployment(1, SMALL))));
    assert!(output.stdout.contains(" eu-north-1a "), "{}", output.stdout);
    let status = "status: {subnets: [{id: subnet-12345678, zone: sa-east-1c}], conditions: [{type: Ready, status: \"True\", reason: Ready, message: '', lastTransitionTime: \"2026-01-01T00:00:00Z\"}]}";
    let class = format!("{}{status}\n", class("web", ""));
    let output = plan(&web(&format!("{class}{}", deployment(1, SMALL))));
    assert!(output.stdout.contains(" sa-east-1c "), "{}", output.stdout);
}

/// A catalog with one instance type in one zone.
fn catalog(zone: &str) -> String {
    let label = |key: &str, value: &str| serde_json::json!({"key": key, "operator": "In", "values": [value]});
    let offering = serde_json::json!({
        "price": 0.5, "available": true, "capacityType": "on-demand", "zone": zone,
    });
    let catalog = serde_json::json!([{
        "name": "m5.xlarge",
        "requirements": [
            label("node.kubernetes.io/instance-type", "m5.xlarge"), label("kubernetes.io/arch", "amd64"),
            label("kubernetes.io/os", "linux"), label("topology.kubernetes.io/zone", zone),
            label("karpenter.sh/capacity-type", "on-demand"),
        ],
        "capacity": {"cpu": "4", "memory": "16Gi", "pods": "58", "ephemeral-storage": "20Gi"},
        "offerings": [offering],
    }]);
    catalog.to_string()
}

#[test]
fn catalog_of_the_region_is_taken_from_a_directory() {
    let folder = tempfile::tempdir().unwrap();
    let put = |region: &str| {
        let file = folder.path().join(format!("{region}.json"));
        fs::write(file, catalog(&format!("{region}a"))).unwrap();
    };
    let planned = |arguments: &[&str]| {
        let catalog = ["--catalog", folder.path().to_str().unwrap()];
        plan_with(
            &web(&deployment(1, SMALL)),
            &[&catalog[..], arguments].concat(),
        )
    };
    put("eu-west-1");
    let output = planned(&[]);
    assert!(output.stdout.contains(" eu-west-1a "), "{}", output.stdout);
    output.stderr_contains("/eu-west-1.json");
    put("eu-west-3");
    planned(&[]).stderr_contains("--region chooses among the catalogs in");
    let output = planned(&["--region", "eu-west-3"]);
    assert!(output.stdout.contains(" eu-west-3a "), "{}", output.stdout);
    planned(&["--region", "eu-north-1"])
        .stderr_contains("`AWS_REGION=eu-north-1 whittle catalog > ");
    let file = folder.path().join("eu-west-1.json");
    let arguments = ["--region", "eu-west-3", "--catalog", file.to_str().unwrap()];
    plan_with(&web(&deployment(1, SMALL)), &arguments).stderr_contains(
        "no instance type is offered in a zone of eu-west-3, which --region names",
    );
}

#[test]
fn misspelt_names_get_a_suggestion() {
    let wrong = |selector: &str| {
        plan(&web(&deployment(
            1,
            &format!("{{nodeSelector: {{{selector}}}, containers: [{{name: main}}]}}"),
        )))
    };
    for (selector, meant) in [
        (
            "node.kubernetes.io/instancetype: m5.xlarge",
            "requires label node.kubernetes.io/instancetype, which its nodes do not have (did you mean node.kubernetes.io/instance-type?)",
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
        let output = wrong(selector);
        assert!(
            output.stdout.contains(meant),
            "{selector}\n{}",
            output.stdout
        );
        // Exactly one reason has the suggestion.
        let times = output.stdout.matches("did you mean").count();
        assert_eq!(times, 1, "{selector}\n{}", output.stdout);
    }
    let pages = "{containers: [{name: main, resources: {limits: {hugepages-2Mi: 64Mi}}}]}";
    let output = plan(&web(&deployment(1, pages)));
    assert!(
        output
            .stdout
            .contains("no instance type has the resource hugepages-2Mi"),
        "{}",
        output.stdout
    );
    let output = wrong("karpenter.k8s.aws/instance-generation: \"99\"");
    let named = output.stdout.matches("no instance type has").count();
    assert_eq!(named, 1, "{}", output.stdout);
    for own in ["example.com/tier: gold", "example.com/zone: a", "type: a"] {
        let output = wrong(own);
        assert!(!output.stdout.contains("did you mean"), "{}", output.stdout);
    }
    let typo = pool("web", "").replace("[on-demand]", "[on_demand, spot]");
    plan(&format!("{typo}{}", deployment(1, SMALL)))
        .stderr_contains("NodePool web: karpenter.sh/capacity-type=on_demand: no instance type has this value (did you mean on-demand?)");
}

#[test]
fn do_not_disrupt_annotations_without_effect_are_reported() {
    let pod = |text: &str| {
        format!(
            "---\napiVersion: v1\nkind: Pod\nmetadata: {{name: a, annotations: {{karpenter.sh/do-not-disrupt: {text}}}}}\nspec: {SMALL}\n"
        )
    };
    for text in ["\"1d\"", "\"True\"", "\"-5m\""] {
        plan(&web(&pod(text)))
            .stderr_contains("pod default/a: annotation karpenter.sh/do-not-disrupt is");
    }
    for text in ["\"true\"", "\"1h30m\"", "\"false\""] {
        let output = plan(&web(&pod(text)));
        assert!(
            !output.stderr.contains("protects nothing"),
            "{}",
            output.stderr
        );
    }
    for old in ["do-not-evict", "do-not-consolidate"] {
        let of_old = pod("\"true\"").replace("do-not-disrupt", old);
        let note = format!(
            "pod default/a: annotation karpenter.sh/{old} protects nothing: Karpenter v1 expects karpenter.sh/do-not-disrupt: \"true\""
        );
        plan(&web(&of_old)).stderr_contains(&note);
        let beside = of_old.replace(
            "annotations: {",
            "annotations: {karpenter.sh/do-not-disrupt: \"true\", ",
        );
        let output = plan(&web(&beside));
        assert!(
            !output.stderr.contains("protects nothing"),
            "{}",
            output.stderr
        );
    }
}

#[test]
fn pods_without_spread_constraints_get_those_of_the_scheduler_config() {
    let manifests = [
        pool("default", "  disruption: {}"),
        class("default", ""),
        deployment(3, SMALL),
    ];
    let manifests = manifests.concat();
    plan(&manifests).stdout_starts_with("1 node to launch");
    let config = "{podTopologySpread: {defaultConstraints: [
        {maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule}]}}";
    let spread = plan_with(&manifests, &["--scheduler-config", config]);
    spread.stdout_starts_with("3 nodes to launch");
}

#[test]
fn scheduler_config_that_kube_scheduler_rejects_is_rejected() {
    let config = "{podTopologySpread: {defaultConstraints: [
        {maxSkew: 0, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule}]}}";
    let refused = plan_with(&deployment(1, SMALL), &["--scheduler-config", config]);
    assert!(!refused.process.status.success());
    refused.stderr_contains("defaultConstraints[0].maxSkew is 0: expected a number from 1");
}
