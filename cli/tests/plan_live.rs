//! `whittle plan --context`: plans launches for the pending pods of a running cluster.

#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::{
    path::Path,
    process::{Command, Output},
    time::Duration,
};

use harness::{stderr_of, stdout_of};
use k8s::{Access, Credentials, KubeCluster};
use ports::Cluster;
use sandbox::{
    Sandbox, SandboxOptions,
    error::ApiError,
    faults::{Effect, Fault},
    server::WriteOptions,
};
use serde_json::{Value, json};

fn create(server: &Sandbox, namespace: &str, object: Value) {
    server.with(|world, now| {
        let server = &mut world.server;
        let version = object.get("apiVersion").and_then(Value::as_str).unwrap();
        let kind = object.get("kind").and_then(Value::as_str).unwrap();
        let kind = server.kinds.by_kind(version, kind).unwrap().clone();
        let options = WriteOptions::default();
        server
            .create(&kind, namespace, object, &options, now)
            .unwrap();
    });
}

/// An API server with Karpenter's CRDs, a NodePool, and three pending pods.
async fn cluster() -> Sandbox {
    let server = Sandbox::start(SandboxOptions::default()).await.unwrap();
    let crds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../infra/chart/charts/crds/templates");
    for file in std::fs::read_dir(crds).unwrap() {
        let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
        create(&server, "", serde_saphyr::from_str(&text).unwrap());
    }
    create(
        &server,
        "",
        json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "default"},
            "spec": {"template": {"spec": {
                "requirements": [
                    {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.large"]},
                    {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
                ],
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
            }}},
        }),
    );
    for number in 0..3 {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": format!("web-{number}")},
            "spec": {"containers": [{
                "name": "web", "image": "example.com/web:1",
                "resources": {"requests": {"cpu": "1500m"}},
            }]},
        });
        create(&server, "default", pod);
    }
    server
}

/// Creates a ready EC2NodeClass with a subnet in this zone.
async fn node_class(server: &Sandbox, zone: &str) {
    create(
        server,
        "",
        json!({
            "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass",
            "metadata": {"name": "default"},
            "spec": {
                "role": "node", "amiSelectorTerms": [{"alias": "al2023@latest"}],
                "subnetSelectorTerms": [{"tags": {"a": "b"}}],
                "securityGroupSelectorTerms": [{"tags": {"a": "b"}}],
            },
        }),
    );
    let status = json!({
        "subnets": [{"id": "subnet-1", "zone": zone}],
        "conditions": [{
            "type": "Ready", "status": "True", "reason": "Ready", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }],
    });
    let status = serde_json::from_value(status).unwrap();
    api(server)
        .update_node_class_status("default", &status)
        .await
        .unwrap();
}

fn api(server: &Sandbox) -> KubeCluster {
    let access = Access {
        endpoint: server.url(),
        certificate_authority: None,
        credentials: Credentials::BearerToken(server.token().into()),
    };
    KubeCluster::new(access.client().unwrap(), "kube-system")
}

/// Waits until the scheduler has marked all pods as unschedulable.
async fn until_unschedulable(server: &Sandbox) {
    let api = api(server);
    for _ in 0..200 {
        if api
            .pods()
            .await
            .unwrap()
            .iter()
            .all(|pod| pod.unschedulable)
        {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("the pods are not marked as unschedulable");
}

async fn plan(server: &Sandbox, arguments: &[&str]) -> Output {
    plan_with(server, arguments, &[]).await
}

/// Path of a catalog with the instance types of us-east-1. Without one, a build with the feature `aws` calls EC2.
fn catalog() -> String {
    format!("{}/data/us-east-1.json.gz", env!("CARGO_MANIFEST_DIR"))
}

async fn plan_with(server: &Sandbox, arguments: &[&str], environment: &[(&str, &str)]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    std::fs::write(&kubeconfig, server.kubeconfig_yaml()).unwrap();
    let mut whittle = Command::new(env!("CARGO_BIN_EXE_whittle"));
    whittle
        .arg("plan")
        .args(arguments)
        .env("KUBECONFIG", kubeconfig)
        .envs(environment.iter().copied());
    tokio::task::spawn_blocking(move || whittle.output().unwrap())
        .await
        .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn pending_pods_are_planned_for_without_changes_to_the_cluster() {
    let server = cluster().await;
    node_class(&server, "us-east-1b").await;
    until_unschedulable(&server).await;
    let planned = plan(
        &server,
        &[
            "--context",
            "sandbox",
            "--catalog",
            &catalog(),
            "-o",
            "json",
        ],
    )
    .await;
    assert!(planned.status.success(), "{}", stderr_of(&planned));
    let decision: Value = serde_json::from_slice(&planned.stdout).unwrap();
    let nodes = decision.get("newNodes").and_then(Value::as_array).unwrap();
    let mut pods: Vec<&Value> = nodes
        .iter()
        .filter_map(|node| node.pointer("/pods/0"))
        .collect();
    pods.sort_by_key(ToString::to_string);
    assert_eq!(pods, ["default/web-0", "default/web-1", "default/web-2"]);
    for node in nodes {
        assert_eq!(node.get("instanceTypes"), Some(&json!(["m5.large"])));
    }
    let planned = plan(&server, &["--context", "sandbox", "--catalog", &catalog()]).await;
    let stdout = stdout_of(&planned);
    assert!(stdout.contains("m5.large on-demand us-east-1b"), "{stdout}");
    server.stop().await;
}

fn new_nodes(planned: &Output) -> usize {
    let plan: Value = serde_json::from_slice(&planned.stdout).unwrap();
    plan.get("newNodes")
        .and_then(Value::as_array)
        .unwrap()
        .len()
}

#[tokio::test(flavor = "multi_thread")]
async fn default_spread_uses_the_owners_of_pods() {
    const BY_HOST: &str = "{podTopologySpread: {defaultConstraints: [{maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: DoNotSchedule}]}}";
    let server = cluster().await;
    node_class(&server, "us-east-1b").await;
    let labels = json!({"app": "shop"});
    let shop = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "shop"},
        "spec": {"replicas": 4, "selector": {"matchLabels": labels}, "template": {
            "metadata": {"labels": labels},
            "spec": {"containers": [{
                "name": "shop", "image": "example.com/shop:1",
                "resources": {"requests": {"cpu": "100m"}},
            }]},
        }},
    });
    create(&server, "default", shop);
    while api(&server).pods().await.unwrap().len() < 7 {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    until_unschedulable(&server).await;
    let catalog = catalog();
    let mut arguments = vec!["--context", "sandbox", "--catalog", &catalog, "-o", "json"];
    let planned = plan(&server, &arguments).await;
    assert_eq!(new_nodes(&planned), 3, "{}", stderr_of(&planned));
    arguments.extend(["--scheduler-config", BY_HOST]);
    let planned = plan(&server, &arguments).await;
    assert_eq!(new_nodes(&planned), 4, "{}", stderr_of(&planned));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn node_overlays_apply_behind_their_gate_and_are_reported_otherwise() {
    let server = cluster().await;
    node_class(&server, "us-east-1b").await;
    until_unschedulable(&server).await;
    for (name, amount) in [("dear", "2"), ("wrong", "-2")] {
        create(
            &server,
            "",
            json!({
                "apiVersion": "karpenter.sh/v1alpha1", "kind": "NodeOverlay", "metadata": {"name": name},
                "spec": {
                    "price": "7.00", "capacity": {"example.com/fpga": amount},
                    "requirements": [{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.large"]}],
                },
            }),
        );
    }
    let catalog = catalog();
    let mut arguments = vec!["--context", "sandbox", "--catalog", &catalog];
    let planned = plan(&server, &arguments).await;
    let (plan_without, stderr) = (stdout_of(&planned), stderr_of(&planned));
    assert!(plan_without.contains("from $0.2947/h"), "{plan_without}");
    assert!(
        stderr.contains("NodeOverlay dear has no effect: its feature gate is off"),
        "{stderr}"
    );
    arguments.extend(["--feature-gates", "NodeOverlay=true"]);
    let planned = plan(&server, &arguments).await;
    let (plan_with, stderr) = (stdout_of(&planned), stderr_of(&planned));
    assert!(
        plan_with.contains("from $21.0067/h"),
        "{plan_with} {stderr}"
    );
    assert!(
        stderr.contains("NodeOverlay wrong applies nowhere"),
        "{stderr}"
    );
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn capacity_buffers_of_a_running_cluster_are_planned() {
    let server = cluster().await;
    node_class(&server, "us-east-1b").await;
    until_unschedulable(&server).await;
    create(
        &server,
        "default",
        json!({
            "apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "core"},
            "template": {"spec": {"containers": [{
                "name": "main", "image": "app", "resources": {"requests": {"cpu": "1500m"}},
            }]}},
        }),
    );
    for (name, template) in [("spare", "core"), ("lost", "nothing")] {
        create(
            &server,
            "default",
            json!({
                "apiVersion": "autoscaling.x-k8s.io/v1beta1", "kind": "CapacityBuffer",
                "metadata": {"name": name},
                "spec": {"podTemplateRef": {"name": template}, "replicas": 2},
            }),
        );
    }
    let catalog = catalog();
    let arguments = [
        "--context",
        "sandbox",
        "--catalog",
        &catalog,
        "--feature-gates",
        "CapacityBuffer=true",
    ];
    let planned = plan(&server, &arguments).await;
    let (plan, stderr) = (stdout_of(&planned), stderr_of(&planned));
    assert!(plan.contains("5 nodes to launch"), "{plan} {stderr}");
    assert!(
        stderr.contains("CapacityBuffer default/lost keeps no room"),
        "{stderr}"
    );
    server.stop().await;
}

/// Users may lack permission to read resources whose feature gate is off.
#[tokio::test(flavor = "multi_thread")]
async fn forbidden_resources_behind_disabled_gates_are_skipped() {
    let server = cluster().await;
    node_class(&server, "us-east-1b").await;
    until_unschedulable(&server).await;
    let why = "nodeoverlays.karpenter.sh is forbidden";
    let refused = Effect::Refuse(ApiError::new(403, "Forbidden", why));
    server.inject(Fault::new(refused, u32::MAX).on_resource("nodeoverlays"));
    let catalog = catalog();
    let arguments = ["--context", "sandbox", "--catalog", &catalog];
    let planned = plan(&server, &arguments).await;
    let (plan, stderr) = (stdout_of(&planned), stderr_of(&planned));
    assert!(
        planned.status.success() && plan.contains("3 nodes to launch"),
        "{plan} {stderr}"
    );
    assert!(
        stderr.contains("what is behind feature gates that are off is left out")
            && stderr.contains(why),
        "{stderr}"
    );
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn reason_for_an_unusable_node_pool_is_reported() {
    let server = cluster().await;
    until_unschedulable(&server).await;
    let planned = plan(&server, &["--context", "sandbox", "--catalog", &catalog()]).await;
    let stderr = stderr_of(&planned);
    assert!(
        stderr.contains("NodePool default is not used: EC2NodeClass default does not exist"),
        "{stderr}"
    );
    node_class(&server, "eu-west-1a").await;
    let planned = plan(&server, &["--context", "sandbox", "--catalog", &catalog()]).await;
    let stderr = stderr_of(&planned);
    assert!(
        stderr.contains("NodePool default: no instance type is known in a zone of EC2NodeClass default; --catalog names"),
        "{stderr}"
    );
    assert!(
        stdout_of(&planned).contains("3 pods waiting"),
        "{}",
        stdout_of(&planned)
    );
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn current_context_is_used_unless_another_one_is_named() {
    let server = cluster().await;
    node_class(&server, "us-east-1b").await;
    until_unschedulable(&server).await;
    let catalog = catalog();
    let planned = plan(&server, &["--catalog", &catalog]).await;
    let stdout = stdout_of(&planned);
    assert!(stdout.contains("3 nodes to launch"), "{stdout}{planned:?}");

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("other");
    std::fs::write(&file, server.kubeconfig_yaml()).unwrap();
    let named = [
        "--kubeconfig",
        file.to_str().unwrap(),
        "--catalog",
        &catalog,
    ];
    let missing = [("KUBECONFIG", "/nonexistent")];
    let planned = plan_with(&server, &named, &missing).await;
    let stdout = stdout_of(&planned);
    assert!(stdout.contains("3 nodes to launch"), "{stdout}{planned:?}");

    let refused = plan_with(&server, &["--catalog", &catalog], &missing).await;
    let stderr = stderr_of(&refused);
    for part in ["no manifests are named with -f", "set --kubeconfig"] {
        assert!(stderr.contains(part), "{part}: {stderr}");
    }
    let yaml = server.kubeconfig_yaml();
    let lines = yaml
        .lines()
        .filter(|line| !line.starts_with("current-context"));
    std::fs::write(&file, lines.collect::<Vec<_>>().join("\n")).unwrap();
    let refused = plan(&server, &named).await;
    let stderr = stderr_of(&refused);
    assert!(stderr.contains("has no current context"), "{stderr}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_context_is_named() {
    let server = cluster().await;
    let planned = plan(&server, &["--context", "prod"]).await;
    assert!(!planned.status.success());
    let stderr = stderr_of(&planned);
    assert!(
        stderr.contains(
            "context \"prod\" cannot be used: `kubectl config get-contexts` lists the contexts"
        ),
        "{stderr}"
    );
    server.stop().await;
}

#[cfg(feature = "aws")]
#[tokio::test(flavor = "multi_thread")]
async fn catalog_is_read_from_ec2_by_default() {
    let server = cluster().await;
    node_class(&server, "us-east-1b").await;
    until_unschedulable(&server).await;
    let moto = harness::Moto::start("demo");
    let environment = [
        ("AWS_ENDPOINT_URL", moto.endpoint()),
        ("AWS_REGION", "us-east-1"),
        ("AWS_ACCESS_KEY_ID", "test"),
        ("AWS_SECRET_ACCESS_KEY", "test"),
    ];
    let planned = plan_with(&server, &["--context", "sandbox"], &environment).await;
    let (plan, stderr) = (stdout_of(&planned), stderr_of(&planned));
    assert!(
        plan.contains("m5.large on-demand us-east-1b"),
        "{plan} {stderr}"
    );
    assert!(
        stderr.contains("prices shipped with Whittle are used instead"),
        "{stderr}"
    );
    server.stop().await;
}

#[cfg(not(feature = "aws"))]
#[tokio::test(flavor = "multi_thread")]
async fn build_without_aws_feature_names_the_source_of_its_catalog() {
    let server = cluster().await;
    node_class(&server, "us-east-1b").await;
    let planned = plan(&server, &["--context", "sandbox"]).await;
    let stderr = stderr_of(&planned);
    assert!(stderr.contains("are those of us-east-1"), "{stderr}");
    server.stop().await;
}

#[cfg(not(feature = "aws"))]
#[tokio::test(flavor = "multi_thread")]
async fn region_is_taken_from_the_subnets_of_the_node_class() {
    let server = cluster().await;
    node_class(&server, "eu-west-1b").await;
    until_unschedulable(&server).await;
    let planned = plan(&server, &["--context", "sandbox"]).await;
    let (plan, stderr) = (stdout_of(&planned), stderr_of(&planned));
    assert!(
        plan.contains("m5.large on-demand eu-west-1b"),
        "{plan} {stderr}"
    );
    assert!(
        stderr.contains("those of us-east-1, as if eu-west-1 had them"),
        "{stderr}"
    );
    server.stop().await;
}
