use k8s_openapi::{
    ClusterResourceScope, NamespaceResourceScope, Resource,
    api::{
        admissionregistration::v1 as admission, apps::v1 as apps, autoscaling::v2 as autoscaling,
        batch::v1 as batch, coordination::v1 as coordination, core::v1 as core,
        discovery::v1 as discovery, events::v1 as events, flowcontrol::v1 as flowcontrol,
        networking::v1 as networking, node::v1 as node, policy::v1 as policy, rbac::v1 as rbac,
        resource::v1 as resource, scheduling::v1 as scheduling, storage::v1 as storage,
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1 as apiextensions,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use super::{Form, ResourceType, custom::ScalePaths};
use crate::store::TableId;

/// Decodes a value as a kind's type and encodes it again.
pub type Codec = fn(Value) -> Result<Value, serde_json::Error>;

/// Subresources of a built-in kind.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Subresources {
    Nothing,
    Status,
    StatusAndScale,
}

#[rustfmt::skip]
pub(super) fn all() -> Vec<ResourceType> {
    use Subresources::{Nothing, Status, StatusAndScale};
    vec![
        kind::<core::ConfigMap>("configmap", &["cm"], &[], Nothing),
        kind::<core::Endpoints>("endpoints", &["ep"], &[], Nothing),
        kind::<core::Event>("event", &["ev"], &[], Nothing),
        kind::<core::LimitRange>("limitrange", &["limits"], &[], Nothing),
        kind::<core::Namespace>("namespace", &["ns"], &[], Status),
        kind::<core::Node>("node", &["no"], &[], Status),
        kind::<core::PersistentVolume>("persistentvolume", &["pv"], &[], Status),
        kind::<core::PersistentVolumeClaim>("persistentvolumeclaim", &["pvc"], &[], Status),
        kind::<core::Pod>("pod", &["po"], &["all"], Status),
        kind::<core::PodTemplate>("podtemplate", &[], &[], Nothing),
        kind::<core::ReplicationController>("replicationcontroller", &["rc"], &["all"], StatusAndScale),
        kind::<core::ResourceQuota>("resourcequota", &["quota"], &[], Status),
        kind::<core::Secret>("secret", &[], &[], Nothing),
        kind::<core::Service>("service", &["svc"], &["all"], Status),
        kind::<core::ServiceAccount>("serviceaccount", &["sa"], &[], Nothing),
        kind::<admission::MutatingWebhookConfiguration>("mutatingwebhookconfiguration", &[], &["api-extensions"], Nothing),
        kind::<admission::ValidatingWebhookConfiguration>("validatingwebhookconfiguration", &[], &["api-extensions"], Nothing),
        kind::<apiextensions::CustomResourceDefinition>("customresourcedefinition", &["crd", "crds"], &["api-extensions"], Status),
        kind::<apps::ControllerRevision>("controllerrevision", &[], &[], Nothing),
        kind::<apps::DaemonSet>("daemonset", &["ds"], &["all"], Status),
        kind::<apps::Deployment>("deployment", &["deploy"], &["all"], StatusAndScale),
        kind::<apps::ReplicaSet>("replicaset", &["rs"], &["all"], StatusAndScale),
        kind::<apps::StatefulSet>("statefulset", &["sts"], &["all"], StatusAndScale),
        kind::<autoscaling::HorizontalPodAutoscaler>("horizontalpodautoscaler", &["hpa"], &["all"], Status),
        kind::<batch::CronJob>("cronjob", &["cj"], &["all"], Status),
        kind::<batch::Job>("job", &[], &["all"], Status),
        kind::<coordination::Lease>("lease", &[], &[], Nothing),
        kind::<discovery::EndpointSlice>("endpointslice", &[], &[], Nothing),
        kind::<flowcontrol::FlowSchema>("flowschema", &[], &[], Status),
        kind::<flowcontrol::PriorityLevelConfiguration>("prioritylevelconfiguration", &[], &[], Status),
        event_kind(),
        kind::<networking::Ingress>("ingress", &["ing"], &[], Status),
        kind::<networking::NetworkPolicy>("networkpolicy", &["netpol"], &[], Nothing),
        kind::<node::RuntimeClass>("runtimeclass", &[], &[], Nothing),
        kind::<policy::PodDisruptionBudget>("poddisruptionbudget", &["pdb"], &[], Status),
        kind::<rbac::ClusterRole>("clusterrole", &[], &[], Nothing),
        kind::<rbac::ClusterRoleBinding>("clusterrolebinding", &[], &[], Nothing),
        kind::<rbac::Role>("role", &[], &[], Nothing),
        kind::<rbac::RoleBinding>("rolebinding", &[], &[], Nothing),
        kind::<resource::DeviceClass>("deviceclass", &[], &[], Nothing),
        kind::<resource::ResourceClaim>("resourceclaim", &[], &[], Status),
        kind::<resource::ResourceClaimTemplate>("resourceclaimtemplate", &[], &[], Nothing),
        kind::<resource::ResourceSlice>("resourceslice", &[], &[], Nothing),
        kind::<scheduling::PriorityClass>("priorityclass", &["pc"], &[], Nothing),
        kind::<storage::CSIDriver>("csidriver", &[], &[], Nothing),
        kind::<storage::CSINode>("csinode", &[], &[], Nothing),
        kind::<storage::CSIStorageCapacity>("csistoragecapacity", &[], &[], Nothing),
        kind::<storage::StorageClass>("storageclass", &["sc"], &[], Nothing),
        kind::<storage::VolumeAttachment>("volumeattachment", &[], &[], Status),
    ]
}

/// Kind `events.k8s.io`: the core events with renamed fields.
fn event_kind() -> ResourceType {
    let kind = kind::<events::Event>("event", &["ev"], &[], Subresources::Nothing);
    ResourceType {
        table: TableId::named("events"),
        form: Form::Events(recode::<events::Event>),
        ..kind
    }
}

fn kind<K>(
    singular: &str,
    short_names: &[&str],
    categories: &[&str],
    has: Subresources,
) -> ResourceType
where
    K: Resource + Serialize + DeserializeOwned,
    K::Scope: Scope,
{
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    ResourceType {
        group: K::GROUP.to_owned(),
        version: K::VERSION.to_owned(),
        kind: K::KIND.to_owned(),
        plural: K::URL_PATH_SEGMENT.to_owned(),
        singular: singular.to_owned(),
        short_names: owned(short_names),
        categories: owned(categories),
        namespaced: K::Scope::NAMESPACED,
        has_status: has != Subresources::Nothing,
        scale: (has == Subresources::StatusAndScale).then(ScalePaths::of_workloads),
        table: TableId::of(K::GROUP, K::URL_PATH_SEGMENT),
        form: Form::BuiltIn(recode::<K>),
    }
}

fn recode<K: Serialize + DeserializeOwned>(value: Value) -> Result<Value, serde_json::Error> {
    serde_json::to_value(serde_json::from_value::<K>(value)?)
}

trait Scope {
    const NAMESPACED: bool;
}

impl Scope for NamespaceResourceScope {
    const NAMESPACED: bool = true;
}

impl Scope for ClusterResourceScope {
    const NAMESPACED: bool = false;
}
