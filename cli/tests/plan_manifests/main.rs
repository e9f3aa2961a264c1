//! `whittle plan -f` sees what the functions would see once the manifests are applied.

#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod admission;
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
    // There is no Windows for arm64.
    let arm = web(&format!("{windows}{}", deployment(1, SMALL)));
    plan(&arm.replace("[m5.xlarge]", "[m6g.xlarge]")).starts("Nothing to launch");
}

#[test]
fn price_of_a_node_is_told_by_its_parts() {
    let priced = |class: &str| {
        let told = plan_with(&web(&format!("{class}{}", deployment(1, SMALL))), &["-v"]);
        told.starts("1 node to launch for 1 pod, from $0.1942/h");
        let parts = "$0.1942/h is $0.1920 for the instance, $0.0022 for its volumes and $0.0000 for the node itself";
        assert!(told.out.contains(parts), "{}", told.out);
    };
    priced(&class("web", ""));
    // One that is not given counts as one that says nothing.
    priced("");
    let quiet = plan(&web(&deployment(1, SMALL)));
    assert!(!quiet.out.contains("for the instance"), "{}", quiet.out);
    let told = plan_with(&web(&deployment(1, SMALL)), &["-o", "json"]);
    let shown: serde_json::Value = serde_json::from_str(&told.out).unwrap();
    let parts = shown.pointer("/newNodes/0/priceParts").unwrap();
    assert_eq!(parts.get("instance"), Some(&serde_json::json!(0.192)));
    assert_eq!(parts.get("node"), Some(&serde_json::json!(0.0)));
}

#[test]
fn settings_of_a_running_cluster_count_in_its_plan() {
    let priced = |arguments: &[&str]| {
        let arguments = [&["-v"][..], arguments].concat();
        plan_with(&web(&deployment(1, SMALL)), &arguments)
    };
    let entry = r#"{"type": "eks", "reach": "public", "settings": {"nodePrice": "0.05"}}"#;
    for arguments in [["--node-price", "0.05"], ["--settings", entry]] {
        let told = priced(&arguments);
        told.starts("1 node to launch for 1 pod, from $0.2442/h");
        assert!(
            told.out.contains("and $0.0500 for the node itself"),
            "{}",
            told.out
        );
    }
    let told = priced(&["--node-price", "much"]);
    told.tells("expected dollars per hour, such as 0.02");
    // Pods that would rather not share a node get nodes of their own where that is worth it.
    let pod = "{affinity: {podAntiAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 100, podAffinityTerm: \
        {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: web}}}}]}}, containers: [{name: main}]}";
    for (worth, nodes) in [("0.000001", "1 node "), ("1", "2 nodes ")] {
        let told = plan_with(&web(&deployment(2, pod)), &["--preference-worth", worth]);
        told.starts(&format!("{nodes}to launch for 2 pods"));
    }
}

#[test]
fn region_that_is_none_is_refused_with_the_nearest_one() {
    let told = plan_with(&web(&deployment(1, SMALL)), &["--region", "eu-cental-1"]);
    assert!(!told.output.status.success(), "{}", told.out);
    told.tells("there is no Region eu-cental-1 (did you mean eu-central-1?)");
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
fn node_pools_of_others_are_left_alone() {
    let auto = pool("auto", "  weight: 100").replace(
        "{group: karpenter.k8s.aws, kind: EC2NodeClass, name: auto}",
        "{group: eks.amazonaws.com, kind: NodeClass, name: default}",
    );
    let told = plan(&web(&format!("{auto}{}", deployment(1, SMALL))));
    told.starts("1 node to launch for 1 pod");
    assert!(told.out.contains("\nweb-"), "{}", told.out);
    told.tells("NodePool auto is left alone: its nodeClassRef is to NodeClass of group eks.amazonaws.com, and EKS Auto Mode looks after it");
    let azure = auto.replace(
        "{group: eks.amazonaws.com, kind: NodeClass,",
        "{group: karpenter.azure.com, kind: AKSNodeClass,",
    );
    let told = plan(&web(&format!("{azure}{}", deployment(1, SMALL))));
    told.starts("1 node to launch for 1 pod");
    assert!(told.out.contains("\nweb-"), "{}", told.out);
    told.tells("NodePool auto is left alone: its nodeClassRef is to AKSNodeClass of group karpenter.azure.com, and Azure looks after it");
}

#[test]
fn folders_are_read_with_the_folders_in_them() {
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
    // Of a NodePool that cannot be read for one of them, and of one that can.
    let wrong = |after: &str| {
        let disruption = format!(
            "  weight: 200\n  disruption: {{consolidationPolicy: WhenEmptyy, consolidateAfter: {after}, budgets: [{{nodes: 200%}}]}}"
        );
        plan(
            &pool("web", &disruption).replace("operator: In, values: [on-demand]", "operator: Inn"),
        )
    };
    for after in ["1x", "1m"] {
        let told = wrong(after);
        for field in [
            "spec.weight: ",
            "spec.disruption.consolidationPolicy: ",
            "spec.disruption.budgets[0].nodes: ",
            "spec.template.spec.requirements[1].operator: ",
        ] {
            assert_eq!(told.err.matches(field).count(), 1, "{field}\n{}", told.err);
        }
        let is_told = told.err.contains("spec.disruption.consolidateAfter: ");
        assert_eq!(is_told, after == "1x", "{}", told.err);
    }
    let kinds = "---\napiVersion: v1\nkind: Secret\nmetadata: {name: a}\n---\napiVersion: v1\nkind: Secret\nmetadata: {name: b}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n";
    plan(kinds).tells("planning does not look at ConfigMap, Secret (2)");
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
    let told = plan(&web(&deployment(1, SMALL)));
    assert!(told.out.contains(" us-east-1a "), "{}", told.out);
    assert_eq!(told.err, "");
    // Zones of nodes and of subnets that an EC2NodeClass has found count, too.
    let node = "---\napiVersion: v1\nkind: Node\nmetadata: {name: old}\nspec: {providerID: aws:///eu-north-1b/i-1}\n";
    let told = plan(&web(&format!("{node}{}", deployment(1, SMALL))));
    assert!(told.out.contains(" eu-north-1a "), "{}", told.out);
    let status = "status: {subnets: [{id: subnet-12345678, zone: sa-east-1c}], conditions: [{type: Ready, status: \"True\", reason: Ready, message: '', lastTransitionTime: \"2026-01-01T00:00:00Z\"}]}";
    let class = format!("{}{status}\n", class("web", ""));
    let told = plan(&web(&format!("{class}{}", deployment(1, SMALL))));
    assert!(told.out.contains(" sa-east-1c "), "{}", told.out);
}

/// A catalog with one type, in one zone.
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
fn catalog_of_the_region_is_taken_from_a_folder() {
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
    let told = planned(&[]);
    assert!(told.out.contains(" eu-west-1a "), "{}", told.out);
    told.tells("/eu-west-1.json");
    put("eu-west-3");
    planned(&[]).tells("--region chooses among the catalogs in");
    let told = planned(&["--region", "eu-west-3"]);
    assert!(told.out.contains(" eu-west-3a "), "{}", told.out);
    planned(&["--region", "eu-north-1"]).tells("`AWS_REGION=eu-north-1 whittle catalog > ");
    let file = folder.path().join("eu-west-1.json");
    let arguments = ["--region", "eu-west-3", "--catalog", file.to_str().unwrap()];
    plan_with(&web(&deployment(1, SMALL)), &arguments)
        .tells("no instance type is offered in a zone of eu-west-3, which --region names");
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
    let told = wrong("karpenter.k8s.aws/instance-generation: \"99\"");
    let named = told.out.matches("no instance type has").count();
    assert_eq!(named, 1, "{}", told.out);
    for own in ["example.com/tier: gold", "example.com/zone: a", "type: a"] {
        let told = wrong(own);
        assert!(!told.out.contains("did you mean"), "{}", told.out);
    }
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

#[test]
fn pods_without_spread_constraints_get_those_of_the_scheduler_config() {
    let manifests = [
        pool("default", "  disruption: {}"),
        class("default", ""),
        deployment(3, SMALL),
    ];
    let manifests = manifests.concat();
    plan(&manifests).starts("1 node to launch");
    let config = "{podTopologySpread: {defaultConstraints: [
        {maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule}]}}";
    let spread = plan_with(&manifests, &["--scheduler-config", config]);
    spread.starts("3 nodes to launch");
}

#[test]
fn scheduler_config_that_kube_scheduler_would_refuse_is_refused() {
    let config = "{podTopologySpread: {defaultConstraints: [
        {maxSkew: 0, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule}]}}";
    let refused = plan_with(&deployment(1, SMALL), &["--scheduler-config", config]);
    assert!(!refused.output.status.success());
    refused.tells("defaultConstraints[0].maxSkew is 0: expected a number from 1");
}
