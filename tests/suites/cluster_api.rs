//! The Kubernetes adapter over real HTTP: complete lists, preconditions, and errors by their remedy.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a missing value fails the test"
)]

use std::{path::Path, time::Duration};

use api::{convert::Scalable, names::annotation::PODS_DIGEST};
use base64::{Engine, prelude::BASE64_STANDARD};
use jiff::{SignedDuration, Timestamp};
use k8s::{Access, Credentials, KubeCluster};
use model::{
    PodKey, Resources, Uid,
    node_claim::{NodeClaimSpec, NodeClassRef},
    plan::{Launch, NodeClaimUpdate, NodeUpdate, Target},
};
use ports::{
    Cluster, ClusterError,
    cluster::{Event, EventKind, EventTarget, LeaderLease},
};
use sandbox::{
    Credential, NodeJoin, Sandbox, SandboxOptions, WorldOptions,
    faults::{Effect, Fault},
    server::WriteOptions,
    store::{ObjectKey, Start},
};
use serde_json::{Value, json};

const READER: &str = "reader";

/// An API server with Karpenter's CRDs.
async fn server() -> Sandbox {
    let server = bare_server().await;
    let crds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../infra/chart/charts/crds/templates");
    for file in std::fs::read_dir(crds).unwrap() {
        let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
        let crd: Value = serde_saphyr::from_str(&text).unwrap();
        create(&server, "", crd);
    }
    server
}

/// A newly installed API server, with an administrator and a user without permissions.
async fn bare_server() -> Sandbox {
    let reader = Credential {
        token: READER.to_owned(),
        user: "reader".to_owned(),
        groups: Vec::new(),
    };
    let options = SandboxOptions::default();
    let credentials = options.credentials.iter().cloned().chain([reader]);
    Sandbox::start(SandboxOptions {
        credentials: credentials.collect(),
        ..options
    })
    .await
    .unwrap()
}

fn create(server: &Sandbox, namespace: &str, object: Value) -> Value {
    server.with(|world, now| {
        let server = &mut world.server;
        let (version, kind) = (object["apiVersion"].as_str(), object["kind"].as_str());
        let kind = server
            .kinds
            .by_kind(version.unwrap(), kind.unwrap())
            .unwrap()
            .clone();
        let options = WriteOptions::default();
        let written = server.create(&kind, namespace, object, &options, now);
        written.unwrap().object.value().clone()
    })
}

fn pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "web", "image": "example.com/web:1"}]},
    })
}

fn cluster(server: &Sandbox, token: &str) -> KubeCluster {
    connect(&server.url(), None, token)
}

fn connect(endpoint: &str, certificate_authority: Option<String>, token: &str) -> KubeCluster {
    let access = Access {
        endpoint: endpoint.to_owned(),
        certificate_authority,
        credentials: Credentials::BearerToken(token.into()),
    };
    KubeCluster::new(access.client().unwrap(), "kube-system")
}

fn administrator(server: &Sandbox) -> KubeCluster {
    cluster(server, server.token())
}

/// Creates a NodePool and returns its uid: NodeClaims whose owner does not exist are garbage collected.
fn node_pool(server: &Sandbox) -> Uid {
    let existing = server.with(|world, _| {
        let pools = world.server.kinds.by_kind("karpenter.sh/v1", "NodePool");
        let pools = pools.unwrap().clone();
        let key = ObjectKey::new("", "default");
        world.server.store.get(&pools.table, &key).cloned()
    });
    if let Some(pool) = existing {
        return pool.uid().into();
    }
    let class = json!({"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"});
    let pool = create(
        server,
        "",
        json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "default"},
            "spec": {"template": {"spec": {"nodeClassRef": class, "requirements": []}}},
        }),
    );
    pool["metadata"]["uid"].as_str().unwrap().into()
}

fn launch(server: &Sandbox, name: &str) -> Launch {
    Launch {
        node_pool_uid: node_pool(server),
        labels: [("karpenter.sh/nodepool".to_owned(), "default".to_owned())].into(),
        spec: NodeClaimSpec {
            node_class: NodeClassRef {
                group: "karpenter.k8s.aws".into(),
                kind: "EC2NodeClass".into(),
                name: "default".into(),
            },
            ..NodeClaimSpec::default()
        },
        ..fakes::launch("default", name)
    }
}

#[tokio::test]
async fn lists_are_complete_over_any_number_of_pages() {
    let server = server().await;
    for number in 0..1_100 {
        create(&server, "default", pod(&format!("web-{number}")));
    }
    let mut bound = pod("bound");
    bound["spec"]["nodeName"] = json!("node-1");
    create(&server, "default", bound);
    let cluster = administrator(&server);
    assert_eq!(cluster.pods().await.unwrap().len(), 1_101);
    let unassigned = cluster.unassigned_pods().await.unwrap();
    assert_eq!(unassigned.len(), 1_100);
    assert!(unassigned.iter().all(|pod| pod.node_name.is_none()));

    let expired = Fault::new(Effect::expired(), 1)
        .on_verb("list")
        .on_resource("pods");
    server.inject(expired.clone());
    // A client that has listed the pods before would not list them again.
    let pods = administrator(&server).pods().await.unwrap();
    assert_eq!(pods.len(), 1_101, "a list that expires starts over");

    server.inject(Fault {
        times: 2,
        ..expired
    });
    let error = administrator(&server).pods().await.unwrap_err();
    assert!(matches!(error, ClusterError::Unavailable { .. }), "{error}");
}

#[tokio::test]
async fn missing_crd_is_not_an_empty_list() {
    let server = bare_server().await;
    let cluster = administrator(&server);
    for error in [
        cluster.node_pools().await.map(drop).unwrap_err(),
        cluster.node_claims().await.map(drop).unwrap_err(),
        cluster.node_classes().await.map(drop).unwrap_err(),
    ] {
        assert!(matches!(error, ClusterError::KindMissing { .. }), "{error}");
    }
    let error = cluster.node_pools().await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "NodePool is not known to the API server: its CRD is not installed"
    );
}

/// A CRD without validation: objects of earlier versions stay as they were stored when their CRD is replaced.
const PERMISSIVE_CRD: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: nodepools.karpenter.sh}
spec:
  group: karpenter.sh
  scope: Cluster
  names: {kind: NodePool, listKind: NodePoolList, plural: nodepools, singular: nodepool}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
";

#[tokio::test]
async fn unreadable_node_pool_is_listed_beside_the_others() {
    let server = bare_server().await;
    create(&server, "", serde_saphyr::from_str(PERMISSIVE_CRD).unwrap());
    let pool = |name: &str, class: Value| {
        json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name},
            "spec": {"template": {"spec": {"nodeClassRef": class, "requirements": []}}},
        })
    };
    // v1beta1 did not have the field `group`.
    let old = create(
        &server,
        "",
        pool("old", json!({"kind": "EC2NodeClass", "name": "default"})),
    );
    create(
        &server,
        "",
        pool(
            "good",
            json!({"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}),
        ),
    );
    let listed = administrator(&server).node_pools().await.unwrap();
    let names: Vec<&str> = listed
        .items
        .iter()
        .map(|pool| pool.metadata.name.as_str())
        .collect();
    assert_eq!(names, ["good"]);
    let [unreadable] = listed.unreadable.as_slice() else {
        panic!("{listed:?}")
    };
    assert_eq!(unreadable.name, "old");
    assert_eq!(unreadable.uid.as_str(), old["metadata"]["uid"]);
    assert!(
        unreadable.message.contains("missing field `group`"),
        "{unreadable:?}"
    );
}

#[tokio::test]
async fn node_claim_is_created_once_and_then_found() {
    let server = server().await;
    let cluster = administrator(&server);
    let first = cluster
        .create_node_claim(&launch(&server, "default-abc"))
        .await;
    let first = first.unwrap();
    let second = cluster
        .create_node_claim(&launch(&server, "default-abc"))
        .await;
    assert_eq!(second.unwrap().uid, first.uid);
    assert!(
        first
            .finalizers
            .iter()
            .any(|finalizer| finalizer == "karpenter.sh/termination"),
        "{:?}",
        first.finalizers
    );

    server.inject(Fault::new(Effect::LoseAnswer, 1).on_verb("create"));
    let lost = cluster
        .create_node_claim(&launch(&server, "default-lost"))
        .await;
    assert!(matches!(lost, Err(ClusterError::Unavailable { .. })));
    let found = cluster
        .create_node_claim(&launch(&server, "default-lost"))
        .await;
    found.unwrap();
    assert_eq!(cluster.node_claims().await.unwrap().len(), 2);

    let mut bad = launch(&server, "default-bad");
    bad.spec.node_class.kind = String::new();
    let refused = cluster.create_node_claim(&bad).await.unwrap_err();
    let ClusterError::Invalid { what, message } = &refused else {
        panic!("{refused:?}")
    };
    assert_eq!(what, "NodeClaim default-bad");
    assert!(message.contains("nodeClassRef"), "{message}");
}

#[tokio::test]
async fn labels_are_written_before_the_status_and_finalizers_are_removed_last() {
    let server = server().await;
    let cluster = administrator(&server);
    let claim = cluster
        .create_node_claim(&launch(&server, "default-abc"))
        .await
        .unwrap();
    let launched = NodeClaimUpdate {
        name: claim.name.clone(),
        uid: claim.uid.clone(),
        set_labels: [("topology.kubernetes.io/zone".into(), "a".into())].into(),
        provider_id: Some("aws:///a/i-1".into()),
        ..NodeClaimUpdate::default()
    };
    let ends_before = |resource: &str| {
        let fault = Fault::new(Effect::internal_error(), 1).on_verb("patch");
        server.inject(fault.on_resource(resource));
    };
    let seen = async || cluster.node_claim(&claim.name).await.unwrap().unwrap();

    ends_before("nodeclaims/status");
    cluster.update_node_claim(&launched).await.unwrap_err();
    assert!(
        seen()
            .await
            .labels
            .contains_key("topology.kubernetes.io/zone")
    );
    assert_eq!(seen().await.status.provider_id, "");

    let over = NodeClaimUpdate {
        remove_finalizers: claim.finalizers.clone(),
        ..launched
    };
    ends_before("nodeclaims");
    cluster.update_node_claim(&over).await.unwrap_err();
    assert_eq!(seen().await.status.provider_id, "aws:///a/i-1");
    assert_eq!(seen().await.finalizers, claim.finalizers);
    let written = cluster.update_node_claim(&over).await.unwrap();
    assert_eq!(written.finalizers, Vec::<String>::new());
}

#[tokio::test]
async fn time_of_a_pod_event_is_written_before_the_digest_of_the_pods() {
    let server = server().await;
    let cluster = administrator(&server);
    let launch = launch(&server, "default-abc");
    let claim = cluster.create_node_claim(&launch).await.unwrap();
    let event: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    let changed = NodeClaimUpdate {
        name: claim.name.clone(),
        uid: claim.uid.clone(),
        set_annotations: [(PODS_DIGEST.to_owned(), "digest".to_owned())].into(),
        last_pod_event: Some(event),
        ..NodeClaimUpdate::default()
    };
    let stored = async || cluster.node_claim(&claim.name).await.unwrap().unwrap();
    for (failing, recorded) in [("nodeclaims/status", None), ("nodeclaims", Some(event))] {
        let fault = Fault::new(Effect::internal_error(), 1).on_verb("patch");
        server.inject(fault.on_resource(failing));
        cluster.update_node_claim(&changed).await.unwrap_err();
        let stored = stored().await;
        assert_eq!(stored.status.last_pod_event, recorded, "{failing}");
        assert!(!stored.annotations.contains_key(PODS_DIGEST), "{failing}");
    }
    let written = cluster.update_node_claim(&changed).await.unwrap();
    assert_eq!(written.annotations[PODS_DIGEST], "digest");
}

#[tokio::test]
async fn writes_are_conditional_on_the_resource_version() {
    let server = server().await;
    let cluster = administrator(&server);
    let claim = cluster
        .create_node_claim(&launch(&server, "default-abc"))
        .await;
    let claim = claim.unwrap();
    let update = |version: &str, key: &str| NodeClaimUpdate {
        name: claim.name.clone(),
        uid: claim.uid.clone(),
        resource_version: version.to_owned(),
        set_annotations: [(key.to_owned(), "yes".to_owned())].into(),
        ..NodeClaimUpdate::default()
    };
    let written = cluster
        .update_node_claim(&update(&claim.resource_version, "first"))
        .await
        .unwrap();
    let stale = cluster
        .update_node_claim(&update(&claim.resource_version, "second"))
        .await
        .unwrap_err();
    assert!(matches!(stale, ClusterError::Conflict { .. }), "{stale}");

    let target = |uid: &Uid, version: &str| Target {
        name: claim.name.clone(),
        uid: uid.clone(),
        resource_version: version.to_owned(),
    };
    for stale in [
        target(&claim.uid, &claim.resource_version),
        target(&"another".into(), &written.resource_version),
    ] {
        let refused = cluster.delete_node_claim(&stale).await.unwrap_err();
        assert!(
            matches!(refused, ClusterError::Conflict { .. }),
            "{refused}"
        );
    }
    let current = target(&claim.uid, &written.resource_version);
    cluster.delete_node_claim(&current).await.unwrap();
    let deleting = cluster.node_claim(&claim.name).await.unwrap().unwrap();
    assert!(
        deleting.deleted_at.is_some(),
        "the finalizer blocks the deletion"
    );

    let gone = Target {
        name: "nobody".into(),
        ..current
    };
    let missing = cluster.delete_node_claim(&gone).await.unwrap_err();
    assert!(
        matches!(missing, ClusterError::NotFound { .. }),
        "{missing}"
    );
}

#[tokio::test]
async fn node_is_patched_and_deleted_only_with_its_uid() {
    let server = server().await;
    let cluster = administrator(&server);
    create(
        &server,
        "",
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}),
    );
    let node = cluster.nodes().await.unwrap().remove(0);
    let update = NodeUpdate {
        name: node.name.clone(),
        uid: node.uid.clone(),
        resource_version: node.resource_version.clone(),
        set_labels: [("tier".to_owned(), "web".to_owned())].into(),
        add_finalizers: vec!["karpenter.sh/termination".into()],
        ..NodeUpdate::default()
    };
    cluster.update_node(&update).await.unwrap();
    let labelled = cluster.nodes().await.unwrap().remove(0);
    assert_eq!(labelled.labels["tier"], "web");

    let other = NodeUpdate {
        uid: "another".into(),
        delete: true,
        add_finalizers: Vec::new(),
        ..update.clone()
    };
    let refused = cluster.update_node(&other).await.unwrap_err();
    assert!(
        matches!(refused, ClusterError::Conflict { .. }),
        "{refused}"
    );
    assert!(cluster.nodes().await.unwrap()[0].deleted_at.is_none());
}

#[tokio::test]
async fn eviction_refused_by_a_budget_differs_from_throttling() {
    let server = server().await;
    let cluster = administrator(&server);
    create(
        &server,
        "default",
        json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web"},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}},
        }),
    );
    let resources = Resources::from([("cpu", 4_000), ("memory", 8 << 30), ("pods", 110)]);
    let node = NodeJoin {
        name: "n1".into(),
        capacity: resources.clone(),
        allocatable: resources,
        ..NodeJoin::default()
    };
    server.join_node(node, SignedDuration::ZERO);
    create(&server, "default", pod("web-0"));
    let key = PodKey::new("default", "web-0");
    while !cluster.pod(&key).await.unwrap().unwrap().ready {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let uid = cluster.pod(&key).await.unwrap().unwrap().uid;
    // The budget allows no eviction, because there is only one pod.
    let refused = cluster.evict(&key, &uid, None).await.unwrap_err();
    assert!(matches!(refused, ClusterError::Refused { .. }), "{refused}");
    assert!(refused.to_string().contains("default/web-0"), "{refused}");

    server.inject(Fault::new(Effect::throttle(7), u32::MAX).on_resource("pods/eviction"));
    let throttled = cluster.evict(&key, &uid, None).await.unwrap_err();
    let ClusterError::Throttled { after_seconds, .. } = throttled else {
        panic!("{throttled:?}")
    };
    assert_eq!(after_seconds, Some(7));
    server.clear_faults();

    let other = cluster.delete_pod(&key, &"another".into(), None).await;
    let other = other.unwrap_err();
    assert!(matches!(other, ClusterError::Conflict { .. }), "{other}");
    cluster.delete_pod(&key, &uid, Some(0)).await.unwrap();
    assert_eq!(cluster.pod(&key).await.unwrap(), None);
    let gone = cluster.evict(&key, &uid, None).await.unwrap_err();
    assert!(matches!(gone, ClusterError::NotFound { .. }), "{gone}");
}

#[tokio::test]
async fn rejected_credentials_differ_from_an_unreachable_server() {
    let server = server().await;
    let expired = cluster(&server, "a-token-of-yesterday");
    let denied = expired.nodes().await.unwrap_err();
    let ClusterError::Denied { action, message } = &denied else {
        panic!("{denied:?}")
    };
    assert_eq!(
        (action.as_str(), message.as_str()),
        ("list nodes", "Unauthorized")
    );

    let denied = cluster(&server, READER).nodes().await.unwrap_err();
    let ClusterError::Denied { message, .. } = &denied else {
        panic!("{denied:?}")
    };
    for part in ["reader", "list", "nodes"] {
        assert!(message.contains(part), "{message}");
    }

    let (url, token) = (server.url(), server.token().to_owned());
    server.stop().await;
    let away = connect(&url, None, &token).nodes().await.unwrap_err();
    let ClusterError::Unavailable { action, message } = &away else {
        panic!("{away:?}")
    };
    assert_eq!(action, "list nodes");
    assert!(message.contains("refused"), "{message}");
}

#[tokio::test]
async fn failing_server_proves_no_absence() {
    let server = server().await;
    let cluster = administrator(&server);
    for effect in [Effect::internal_error(), Effect::unavailable()] {
        server.inject(Fault::new(effect, u32::MAX).on_verb("list"));
        let error = cluster.node_claims().await.unwrap_err();
        assert!(matches!(error, ClusterError::Unavailable { .. }), "{error}");
        server.clear_faults();
    }
    server.inject(Fault::new(Effect::throttle(1), u32::MAX).on_verb("list"));
    let error = cluster.node_claims().await.unwrap_err();
    assert!(matches!(error, ClusterError::Throttled { .. }), "{error}");
    server.clear_faults();
    server.inject(Fault::new(Effect::Delay(Duration::from_millis(300)), 1));
    cluster.node_claims().await.unwrap();
}

#[tokio::test]
async fn server_is_trusted_only_with_its_certificate_authority() {
    let server = server().await;
    let authority = BASE64_STANDARD.encode(server.authority_pem());
    let trusting = connect(&server.tls_url(), Some(authority), server.token());
    trusting.nodes().await.unwrap();
    let client = connect(&server.tls_url(), None, server.token());
    let error = client.nodes().await.unwrap_err();
    assert!(matches!(error, ClusterError::Unavailable { .. }), "{error}");
    assert!(error.to_string().contains("certificate"), "{error}");
}

#[tokio::test]
async fn cluster_is_identified_by_the_uid_of_kube_system() {
    let server = server().await;
    // Identifiers of a simulated cluster are derived from its seed.
    let world = WorldOptions {
        seed: 2,
        ..WorldOptions::default()
    };
    let options = SandboxOptions {
        world,
        ..SandboxOptions::default()
    };
    let other = Sandbox::start(options).await.unwrap();
    let uid = administrator(&server).identity().await.unwrap();
    assert!(!uid.as_str().is_empty());
    assert_eq!(administrator(&server).identity().await.unwrap(), uid);
    assert_ne!(administrator(&other).identity().await.unwrap(), uid);
}

#[tokio::test]
async fn karpenters_lease_has_one_holder() {
    let server = server().await;
    let cluster = administrator(&server);
    assert_eq!(cluster.leader_lease().await.unwrap(), None);
    let lease = |holder: &str, version: Option<String>| LeaderLease {
        holder: holder.to_owned(),
        renewed_at: Some(Timestamp::from_second(1_800_000_000).unwrap()),
        duration_seconds: 3600,
        resource_version: version,
    };
    let ours = cluster.hold_leader_lease(&lease("ours", None)).await;
    let ours = ours.unwrap();
    assert_eq!(cluster.leader_lease().await.unwrap().as_ref(), Some(&ours));

    let version = ours.resource_version;
    let late = cluster.hold_leader_lease(&lease("theirs", None)).await;
    assert!(
        matches!(late, Err(ClusterError::Conflict { .. })),
        "{late:?}"
    );
    let renewed = LeaderLease {
        renewed_at: Some(Timestamp::from_second(1_800_000_600).unwrap()),
        ..lease("ours", version.clone())
    };
    cluster.hold_leader_lease(&renewed).await.unwrap();
    let stale = cluster.hold_leader_lease(&lease("theirs", version)).await;
    assert!(
        matches!(stale, Err(ClusterError::Conflict { .. })),
        "{stale:?}"
    );
    assert_eq!(
        cluster.leader_lease().await.unwrap().unwrap().holder,
        "ours"
    );
}

#[tokio::test]
async fn events_are_posted_where_kubectl_describe_finds_them() {
    let server = server().await;
    let cluster = administrator(&server);
    let uid = create(&server, "default", pod("web-0"))["metadata"]["uid"].clone();
    let message = "no instance type is big enough";
    let event = Event {
        about: EventTarget::Pod(
            PodKey::new("default", "web-0"),
            uid.as_str().unwrap().into(),
        ),
        kind: EventKind::Warning,
        reason: "FailedScheduling".to_owned(),
        message: message.to_owned(),
        at: Timestamp::from_second(1_800_000_000).unwrap(),
    };
    cluster.post_event(&event).await.unwrap();
    let events = server.with(|world, _| {
        let kind = world.server.kinds.by_kind("v1", "Event").unwrap().clone();
        let in_namespace = Some("default");
        let listing = world
            .server
            .store
            .list(&kind.table, in_namespace, &Start::Beginning);
        listing.objects
    });
    let event = events
        .iter()
        .map(|event| event.value())
        .find(|event| event["message"] == message)
        .unwrap();
    assert_eq!(event["involvedObject"]["uid"], uid);
    assert_eq!(event["type"], "Warning");
    assert_eq!(event["reason"], "FailedScheduling");
    assert_eq!(event["reportingComponent"], "whittle");
}

#[tokio::test]
async fn overlays_and_buffers_are_read_with_referenced_objects_and_their_status_is_written() {
    let server = server().await;
    let cluster = administrator(&server);
    create(
        &server,
        "",
        json!({
            "apiVersion": "karpenter.sh/v1alpha1", "kind": "NodeOverlay", "metadata": {"name": "cheap"},
            "spec": {"requirements": [], "price": "0.1"},
        }),
    );
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {
            "replicas": 3, "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web", "image": "example.com/web:1"}]}},
        },
    });
    create(&server, "default", deployment);
    create(
        &server,
        "default",
        json!({
            "apiVersion": "autoscaling.x-k8s.io/v1beta1", "kind": "CapacityBuffer", "metadata": {"name": "spare"},
            "spec": {"scalableRef": {"apiGroup": "apps", "kind": "Deployment", "name": "web"}, "percentage": 50},
        }),
    );
    let overlays = cluster.node_overlays().await.unwrap();
    assert_eq!(overlays[0].metadata.name, "cheap");
    let status = api::karpenter::NodeOverlayStatus {
        conditions: Some(vec![condition("ValidationSucceeded")]),
    };
    let written = cluster.update_node_overlay_status("cheap", &status).await;
    written.unwrap();
    let overlays = cluster.node_overlays().await.unwrap();
    assert_eq!(overlays[0].status.as_ref(), Some(&status));

    let buffers = cluster.capacity_buffers().await.unwrap();
    let key = PodKey::new("default", "spare");
    let version = buffers[0].metadata.resource_version.clone().unwrap();
    let web = PodKey::new("default", "web");
    let workload = cluster.workload(Scalable::Deployment, &web);
    assert!(workload.await.unwrap().is_some());
    let absent = PodKey::new("default", "no-such");
    let workload = cluster.workload(Scalable::StatefulSet, &absent);
    assert!(workload.await.unwrap().is_none());
    assert!(cluster.pod_template(&absent).await.unwrap().is_none());
    let status = api::karpenter::CapacityBufferStatus {
        conditions: Some(vec![condition("ReadyForProvisioning")]),
        replicas: Some(2),
        ..Default::default()
    };
    let written = cluster.update_capacity_buffer_status(&key, &version, &status);
    written.await.unwrap();
    let buffers = cluster.capacity_buffers().await.unwrap();
    assert_eq!(buffers[0].status.as_ref().unwrap().replicas, Some(2));
    let again = cluster.update_capacity_buffer_status(&key, &version, &status);
    let error = again.await.unwrap_err();
    assert!(
        matches!(error, ClusterError::Conflict { .. }),
        "expected a conflict: {error}"
    );
    let event = Event {
        about: EventTarget::CapacityBuffer(key, buffers[0].metadata.uid.clone().into()),
        kind: EventKind::Normal,
        reason: "ReadyForProvisioning".to_owned(),
        message: "resolved".to_owned(),
        at: Timestamp::UNIX_EPOCH,
    };
    cluster.post_event(&event).await.unwrap();
}

fn condition(kind: &str) -> api::Condition {
    api::Condition {
        r#type: kind.to_owned(),
        status: api::ConditionStatus::True,
        reason: kind.to_owned(),
        message: String::new(),
        last_transition_time: Timestamp::UNIX_EPOCH,
        observed_generation: Some(1),
    }
}
