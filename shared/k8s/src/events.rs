use model::Uid;
use ports::{
    ClusterError,
    cluster::{Event, EventKind, EventTarget},
};
use serde::Serialize;
use serde_json::{Value, json};

use crate::transport::{Path, Transport};

/// Namespace of events about cluster-scoped objects, as kubectl expects.
const CLUSTER_EVENTS: &str = "default";
const COMPONENT: &str = "whittle";

pub(crate) async fn post(transport: &Transport, event: &Event) -> Result<(), ClusterError> {
    let object = Involved::from(&event.about);
    let path = Path::raw(format!("/api/v1/namespaces/{}/events", object.namespace()));
    transport
        .post(path, &body(event, &object), "an event")
        .await
}

fn body(event: &Event, object: &Involved<'_>) -> Value {
    let at = event.at.to_string();
    json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"generateName": format!("{}.", object.name), "namespace": object.namespace()},
        "involvedObject": object,
        "type": match event.kind { EventKind::Normal => "Normal", EventKind::Warning => "Warning" },
        "reason": event.reason,
        "message": event.message,
        "source": {"component": COMPONENT},
        "reportingComponent": COMPONENT,
        "reportingInstance": COMPONENT,
        "firstTimestamp": at,
        "lastTimestamp": at,
        "count": 1,
    })
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Involved<'a> {
    api_version: &'static str,
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<&'a str>,
    name: &'a str,
    uid: &'a str,
}

impl Involved<'_> {
    fn namespace(&self) -> &str {
        self.namespace.unwrap_or(CLUSTER_EVENTS)
    }
}

impl<'a> From<&'a EventTarget> for Involved<'a> {
    fn from(target: &'a EventTarget) -> Self {
        let object = |api_version, kind, name, uid: &'a Uid| Self {
            api_version,
            kind,
            namespace: None,
            name,
            uid: uid.as_str(),
        };
        match target {
            EventTarget::Pod(key, uid) => Self {
                namespace: Some(&key.namespace),
                ..object("v1", "Pod", key.name.as_str(), uid)
            },
            EventTarget::Node(name, uid) => object("v1", "Node", name.as_str(), uid),
            EventTarget::NodeClaim(name, uid) => {
                object("karpenter.sh/v1", "NodeClaim", name.as_str(), uid)
            }
            EventTarget::NodePool(name, uid) => {
                object("karpenter.sh/v1", "NodePool", name.as_str(), uid)
            }
            EventTarget::NodeClass(name, uid) => {
                object("karpenter.k8s.aws/v1", "EC2NodeClass", name, uid)
            }
            EventTarget::CapacityBuffer(key, uid) => {
                let api_version = "autoscaling.x-k8s.io/v1beta1";
                Self {
                    namespace: Some(&key.namespace),
                    ..object(api_version, "CapacityBuffer", key.name.as_str(), uid)
                }
            }
        }
    }
}
