use crate::support::{Fixture, eventually};

const INFLATE: &str = "
apiVersion: apps/v1
kind: Deployment
metadata:
  name: inflate
spec:
  replicas: 2
  selector: {matchLabels: {app: inflate}}
  template:
    metadata: {labels: {app: inflate}}
    spec:
      containers:
      - name: inflate
        image: public.ecr.aws/eks-distro/kubernetes/pause:3.7
        resources: {requests: {cpu: '1'}}
";

const BUDGET: &str = "
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: inflate}
spec: {minAvailable: 2, selector: {matchLabels: {app: inflate}}}
";

const READERS: &str = "
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: reader}
rules:
- {apiGroups: [''], resources: [pods], verbs: [get, list]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: reader}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: reader}
subjects:
- {apiGroup: rbac.authorization.k8s.io, kind: Group, name: readers}
";

const NEWS: &str = "
apiVersion: v1
kind: ConfigMap
metadata: {name: news}
";

async fn running(fixture: &Fixture, count: usize) {
    eventually("pods run", async || {
        let phases = fixture
            .kubectl(&["get", "pods", "-o", "jsonpath={.items[*].status.phase}"])
            .await;
        let phases: Vec<&str> = phases.split_whitespace().collect();
        phases.len() == count && phases.iter().all(|phase| *phase == "Running")
    })
    .await;
}

#[tokio::test]
async fn applies_scales_and_deletes() {
    let fixture = Fixture::start().await;
    fixture.join_node("node-a");
    let apply = ["apply", "-f", "-"];
    assert_eq!(
        fixture.kubectl_with(&apply, INFLATE).await,
        "deployment.apps/inflate created\n"
    );
    assert_eq!(
        fixture.kubectl_with(&apply, INFLATE).await,
        "deployment.apps/inflate unchanged\n"
    );
    fixture
        .kubectl(&["rollout", "status", "deployment/inflate", "--timeout=60s"])
        .await;
    running(&fixture, 2).await;

    fixture
        .kubectl(&["scale", "deployment/inflate", "--replicas=3"])
        .await;
    running(&fixture, 3).await;
    let table = fixture
        .kubectl(&["get", "deployment", "inflate", "--no-headers"])
        .await;
    eventually("the deployment counts its pods", async || {
        let table = fixture
            .kubectl(&["get", "deployment", "inflate", "--no-headers"])
            .await;
        table.split_whitespace().nth(1) == Some("3/3")
    })
    .await;
    assert!(table.starts_with("inflate"), "{table}");

    let changed = INFLATE
        .replace("pause:3.7", "pause:3.8")
        .replace("replicas: 2", "replicas: 1");
    assert_eq!(
        fixture.kubectl_with(&apply, &changed).await,
        "deployment.apps/inflate configured\n"
    );
    fixture
        .kubectl(&["rollout", "status", "deployment/inflate", "--timeout=60s"])
        .await;
    running(&fixture, 1).await;

    fixture.kubectl(&["delete", "deployment", "inflate"]).await;
    eventually("pods are gone", async || {
        fixture
            .kubectl(&["get", "pods", "-o", "name"])
            .await
            .is_empty()
    })
    .await;
    fixture.sandbox.stop().await;
}

#[tokio::test]
async fn describe_shows_the_events_of_a_pod() {
    let fixture = Fixture::start().await;
    fixture.kubectl_with(&["apply", "-f", "-"], INFLATE).await;
    eventually("the event is emitted", async || {
        let pods = fixture.kubectl(&["get", "pods", "-o", "name"]).await;
        let Some(pod) = pods.lines().next() else {
            return false;
        };
        let text = fixture.kubectl(&["describe", pod]).await;
        text.contains("FailedScheduling") && text.contains("no nodes available to schedule pods")
    })
    .await;
    let events = fixture.kubectl(&["get", "events"]).await;
    assert!(
        events.lines().next().unwrap().starts_with("LAST SEEN"),
        "{events}"
    );
    assert!(events.contains("deployment/inflate"), "{events}");
    fixture.join_node("node-a");
    running(&fixture, 2).await;
    let node = fixture.kubectl(&["describe", "node", "node-a"]).await;
    assert!(node.contains("cpu                2 (50%)"), "{node}");
    let pods = fixture
        .kubectl(&["get", "pods", "-o", "wide", "--no-headers"])
        .await;
    assert!(
        pods.lines()
            .all(|line| line.contains("1/1") && line.contains("node-a")),
        "{pods}"
    );
}

#[tokio::test]
async fn cordons_and_drains_under_a_budget() {
    let fixture = Fixture::start().await;
    fixture.join_node("node-a");
    fixture.kubectl_with(&["apply", "-f", "-"], INFLATE).await;
    running(&fixture, 2).await;
    fixture.kubectl_with(&["apply", "-f", "-"], BUDGET).await;
    fixture.kubectl(&["cordon", "node-a"]).await;
    assert!(
        fixture
            .kubectl(&["get", "node", "node-a"])
            .await
            .contains("SchedulingDisabled")
    );
    let drain = ["drain", "node-a", "--ignore-daemonsets", "--timeout=6s"];
    let refused = fixture.try_kubectl(&drain, "").await.unwrap_err();
    assert!(
        refused.contains("Cannot evict pod as it would violate the pod's disruption budget"),
        "{refused}"
    );
    fixture.kubectl(&["delete", "pdb", "inflate"]).await;
    let drained = fixture.kubectl(&drain).await;
    assert!(drained.contains("node/node-a drained"), "{drained}");
    fixture.kubectl(&["uncordon", "node-a"]).await;
    running(&fixture, 2).await;
}

#[tokio::test]
async fn logs_and_exec_report_that_containers_are_simulated() {
    let fixture = Fixture::start().await;
    fixture.join_node("node-a");
    fixture.kubectl_with(&["apply", "-f", "-"], INFLATE).await;
    running(&fixture, 2).await;
    let pod = fixture.kubectl(&["get", "pods", "-o", "name"]).await;
    let pod = pod.lines().next().unwrap();
    assert_eq!(
        fixture.kubectl(&["logs", pod]).await,
        "simulated containers write no logs\n"
    );
    let missing = fixture
        .try_kubectl(&["logs", "gone"], "")
        .await
        .unwrap_err();
    assert!(
        missing.contains("(NotFound): pods \"gone\" not found"),
        "{missing}"
    );
    for reach in [
        &["exec", pod, "--", "ls"][..],
        &["port-forward", pod, ":80"],
    ] {
        let refused = fixture.try_kubectl(reach, "").await.unwrap_err();
        assert!(
            refused.contains("simulated containers run nothing that could be reached"),
            "{refused}"
        );
    }
}

#[tokio::test]
async fn labels_taints_patches_and_waits() {
    let fixture = Fixture::start().await;
    fixture.join_node("node-a");
    fixture
        .kubectl(&["wait", "--for=create", "node/node-a", "--timeout=60s"])
        .await;
    fixture
        .kubectl(&[
            "wait",
            "--for=condition=Ready",
            "node/node-a",
            "--timeout=60s",
        ])
        .await;
    fixture
        .kubectl(&["label", "node", "node-a", "team=a"])
        .await;
    fixture
        .kubectl(&["annotate", "node", "node-a", "note=b"])
        .await;
    fixture
        .kubectl(&["taint", "node", "node-a", "dedicated=a:NoSchedule"])
        .await;
    assert_eq!(
        fixture
            .kubectl(&["get", "nodes", "-l", "team in (a)", "-o", "name"])
            .await,
        "node/node-a\n"
    );
    assert_eq!(
        fixture
            .kubectl(&["get", "nodes", "-l", "team!=a", "-o", "name"])
            .await,
        ""
    );
    let patch = r#"[{"op": "remove", "path": "/metadata/labels/team"}]"#;
    fixture
        .kubectl(&["patch", "node", "node-a", "--type=json", "-p", patch])
        .await;
    fixture
        .kubectl(&[
            "patch",
            "node",
            "node-a",
            "--type=merge",
            "-p",
            r#"{"metadata":{"annotations":{"note":null}}}"#,
        ])
        .await;
    let path = "jsonpath={.metadata.labels.team}{.metadata.annotations.note}{.spec.taints[0].key}";
    assert_eq!(
        fixture
            .kubectl(&["get", "node", "node-a", "-o", path])
            .await,
        "dedicated"
    );
    fixture
        .kubectl(&["taint", "node", "node-a", "dedicated-"])
        .await;
    fixture.kubectl(&["delete", "node", "node-a"]).await;
}

#[tokio::test]
async fn unsupported_protobuf_messages_are_rejected_by_name() {
    let fixture = Fixture::start().await;
    let typo = INFLATE.replace("replicas:", "replica:");
    let error = fixture
        .try_kubectl(&["apply", "-f", "-"], &typo)
        .await
        .unwrap_err();
    assert!(error.contains("unknown field \"spec.replica\""), "{error}");
    let error = fixture
        .try_kubectl(&["get", "pod", "nobody"], "")
        .await
        .unwrap_err();
    assert_eq!(
        error,
        "Error from server (NotFound): pods \"nobody\" not found\n"
    );
    let error = fixture
        .try_kubectl(&["get", "gizmos"], "")
        .await
        .unwrap_err();
    assert!(
        error.contains("the server doesn't have a resource type \"gizmos\""),
        "{error}"
    );
    let text = INFLATE.replace("cpu: '1'", "cpu: lots");
    let error = fixture
        .try_kubectl(&["apply", "-f", "-"], &text)
        .await
        .unwrap_err();
    assert!(
        error.contains("spec.template.spec.containers[0].resources.requests[cpu]"),
        "{error}"
    );
}

#[tokio::test]
async fn applies_on_the_server_with_owners() {
    let fixture = Fixture::start().await;
    let apply = ["apply", "--server-side", "-f", "-"];
    fixture.kubectl_with(&apply, INFLATE).await;
    let scaler = [
        "apply",
        "--server-side",
        "--field-manager=scaler",
        "-f",
        "-",
    ];
    let scaled = INFLATE.replace("replicas: 2", "replicas: 5");
    let conflict = fixture.try_kubectl(&scaler, &scaled).await.unwrap_err();
    assert!(
        conflict.contains("conflict with \"kubectl\" using apps/v1: .spec.replicas"),
        "{conflict}"
    );
    let force = [&scaler[..], &["--force-conflicts"]].concat();
    fixture.kubectl_with(&force, &scaled).await;
    let replicas = [
        "get",
        "deployment",
        "inflate",
        "-o",
        "jsonpath={.spec.replicas}",
    ];
    assert_eq!(fixture.kubectl(&replicas).await, "5");
}

#[tokio::test]
async fn watches_print_changes_as_they_happen() {
    let fixture = Fixture::start().await;
    let watch = [
        "get",
        "configmaps",
        "-w",
        "--output-watch-events",
        "--request-timeout=3s",
    ];
    let (watched, ()) = tokio::join!(fixture.try_kubectl(&watch, ""), async {
        tokio::time::sleep(std::time::Duration::from_millis(700)).await;
        fixture.kubectl_with(&["apply", "-f", "-"], NEWS).await;
        fixture.kubectl(&["delete", "configmap", "news"]).await;
    });
    let watched = watched.unwrap_or_else(|error| error);
    assert!(
        watched.contains("ADDED") && watched.contains("DELETED"),
        "{watched}"
    );
}

#[tokio::test]
async fn access_follows_roles() {
    use sandbox::{Credential, SandboxOptions};
    let options = SandboxOptions {
        credentials: vec![
            Credential {
                token: "reader-token".to_owned(),
                user: "reader".to_owned(),
                groups: vec!["readers".to_owned()],
            },
            Credential::administrator("administrator-token"),
        ],
        ..SandboxOptions::default()
    };
    let fixture = Fixture::start_with(options).await;
    let error = fixture.try_kubectl(&["get", "pods"], "").await.unwrap_err();
    assert!(
        error.contains("User \"reader\" cannot list resource \"pods\" in API group \"\" in the namespace \"default\""),
        "{error}"
    );
    let apply = ["apply", "-f", "-", "--token=administrator-token"];
    fixture.kubectl_with(&apply, READERS).await;
    fixture.kubectl(&["get", "pods"]).await;
    for (verb, allowed) in [("list", true), ("delete", false)] {
        let attributes = format!(r#"{{"verb":"{verb}","resource":"pods","namespace":"default"}}"#);
        let review = format!(r#"{{"spec":{{"resourceAttributes":{attributes}}}}}"#);
        let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
        let answer = fixture
            .answer_as("reader-token", "POST", path, &review)
            .await;
        assert!(
            answer.contains(&format!(r#""allowed":{allowed}"#)),
            "{answer}"
        );
    }
    let unknown = fixture
        .try_kubectl(&["get", "pods", "--token=stolen"], "")
        .await
        .unwrap_err();
    assert!(
        unknown.contains("You must be logged in to the server"),
        "{unknown}"
    );
}

#[tokio::test]
async fn creates_objects_that_kubectl_sends_in_protobuf() {
    let fixture = Fixture::start().await;
    fixture.join_node("node-a");
    for command in [
        "create namespace team",
        "create serviceaccount robot",
        "create configmap settings --from-literal=color=red",
        "create secret generic key --from-literal=token=abc",
        "create quota small --hard=cpu=2,pods=3",
        "create priorityclass high --value=10",
        "create role reader --verb=get,list --resource=pods",
        "create rolebinding reader --role=reader --serviceaccount=default:robot",
        "create clusterrole scaler --verb=patch --resource=deployments.apps",
        "create clusterrolebinding scaler --clusterrole=scaler --user=ann",
        "create deployment web --image=web:1 --replicas=2 --port=80",
        "create service clusterip web --tcp=80:8080",
        "create job once --image=once:1 -- echo done",
        "create pdb web --selector=app=web --min-available=50%",
    ] {
        let arguments: Vec<&str> = command.split(' ').collect();
        fixture.kubectl(&arguments).await;
    }
    for (path, object, expected) in [
        ("{.data.color}", "configmap/settings", "red"),
        ("{.data.token}", "secret/key", "YWJj"),
        ("{.spec.hard.cpu}", "quota/small", "2"),
        ("{.value}", "priorityclass/high", "10"),
        ("{.rules[0].verbs}", "role/reader", r#"["get","list"]"#),
        ("{.subjects[0].name}", "rolebinding/reader", "robot"),
        ("{.rules[0].apiGroups[0]}", "clusterrole/scaler", "apps"),
        ("{.roleRef.name}", "clusterrolebinding/scaler", "scaler"),
        ("{.spec.replicas}", "deployment/web", "2"),
        (
            "{.spec.template.spec.containers[0].ports[0].containerPort}",
            "deployment/web",
            "80",
        ),
        ("{.spec.ports[0].targetPort}", "service/web", "8080"),
        (
            "{.spec.template.spec.containers[0].command}",
            "job/once",
            r#"["echo","done"]"#,
        ),
        ("{.spec.minAvailable}", "pdb/web", "50%"),
    ] {
        let output = format!("jsonpath={path}");
        let shown = fixture.kubectl(&["get", object, "-o", &output]).await;
        assert_eq!(shown, expected, "{object} {path}");
    }
    fixture
        .kubectl(&["rollout", "status", "deployment/web", "--timeout=60s"])
        .await;
    assert_eq!(
        fixture.kubectl(&["auth", "can-i", "delete", "pods"]).await,
        "yes\n"
    );
    assert!(
        fixture
            .kubectl(&["auth", "whoami"])
            .await
            .contains("kubernetes-admin")
    );
}
