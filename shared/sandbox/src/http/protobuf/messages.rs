use std::{collections::BTreeMap, sync::LazyLock};

/// Field number → name and type.
pub(super) type Message = BTreeMap<u64, (&'static str, Type)>;

/// Type of a field, with the name of its content: a message, or `string`, `bytes`, `bool` or `int`.
#[derive(Clone, Debug)]
pub(super) enum Type {
    One(&'static str),
    Many(&'static str),
    Map(&'static str),
}

pub(super) fn find(name: &str) -> Option<&'static Message> {
    MESSAGES.get(name)
}

static MESSAGES: LazyLock<BTreeMap<&'static str, Message>> =
    LazyLock::new(|| TABLE.lines().filter_map(read).collect());

/// Parses `Message: 1 field type, 2 field [type], 3 field {type}`: a single value, a list, a map by string.
fn read(line: &'static str) -> Option<(&'static str, Message)> {
    let (name, fields) = line.split_once(':')?;
    let fields = fields.split(',').filter_map(|field| {
        let mut words = field.split_whitespace();
        let number = words.next()?.parse().ok()?;
        let (field, kind) = (words.next()?, words.next()?);
        let kind = if let Some(kind) = kind.strip_prefix('[') {
            Type::Many(kind.trim_end_matches(']'))
        } else if let Some(kind) = kind.strip_prefix('{') {
            Type::Map(kind.trim_end_matches('}'))
        } else {
            Type::One(kind)
        };
        Some((number, (field, kind)))
    });
    Some((name.trim(), fields.collect()))
}

/// Field numbers of the Kubernetes messages that clients send in protobuf only.
const TABLE: &str = "
Unknown: 1 typeMeta TypeMeta, 2 raw bytes, 3 contentEncoding string, 4 contentType string
TypeMeta: 1 apiVersion string, 2 kind string
QuantityText: 1 string string
IntOrStringParts: 1 type int, 2 intVal int, 3 strVal string
ObjectMeta: 1 name string, 2 generateName string, 3 namespace string, 4 selfLink string, 5 uid string, 6 resourceVersion string, 7 generation int, 8 creationTimestamp Time, 9 deletionTimestamp Time, 10 deletionGracePeriodSeconds int, 11 labels {string}, 12 annotations {string}, 13 ownerReferences [OwnerReference], 14 finalizers [string]
OwnerReference: 1 kind string, 3 name string, 4 uid string, 5 apiVersion string, 6 controller bool, 7 blockOwnerDeletion bool
LabelSelector: 1 matchLabels {string}, 2 matchExpressions [LabelSelectorRequirement]
LabelSelectorRequirement: 1 key string, 2 operator string, 3 values [string]
DeleteOptions: 1 gracePeriodSeconds int, 2 preconditions Preconditions, 3 orphanDependents bool, 4 propagationPolicy string, 5 dryRun [string]
Preconditions: 1 uid string, 2 resourceVersion string
Namespace: 1 metadata ObjectMeta, 2 spec NamespaceSpec, 3 status NamespaceStatus
NamespaceSpec: 1 finalizers [string]
NamespaceStatus: 1 phase string
ConfigMap: 1 metadata ObjectMeta, 2 data {string}, 3 binaryData {bytes}, 4 immutable bool
Secret: 1 metadata ObjectMeta, 2 data {bytes}, 3 type string, 4 stringData {string}, 5 immutable bool
ServiceAccount: 1 metadata ObjectMeta, 2 secrets [ObjectReference], 3 imagePullSecrets [LocalObjectReference], 4 automountServiceAccountToken bool
ObjectReference: 1 kind string, 2 namespace string, 3 name string, 4 uid string, 5 apiVersion string, 6 resourceVersion string, 7 fieldPath string
LocalObjectReference: 1 name string
Service: 1 metadata ObjectMeta, 2 spec ServiceSpec, 3 status ServiceStatus
ServiceSpec: 1 ports [ServicePort], 2 selector {string}, 3 clusterIP string, 4 type string, 5 externalIPs [string], 7 sessionAffinity string, 8 loadBalancerIP string, 9 loadBalancerSourceRanges [string], 10 externalName string, 11 externalTrafficPolicy string, 12 healthCheckNodePort int, 13 publishNotReadyAddresses bool
ServicePort: 1 name string, 2 protocol string, 3 port int, 4 targetPort IntOrString, 5 nodePort int, 6 appProtocol string
ServiceStatus: 1 loadBalancer LoadBalancerStatus
LoadBalancerStatus: 
ResourceQuota: 1 metadata ObjectMeta, 2 spec ResourceQuotaSpec, 3 status ResourceQuotaStatus
ResourceQuotaSpec: 1 hard {Quantity}, 2 scopes [string]
ResourceQuotaStatus: 1 hard {Quantity}, 2 used {Quantity}
PriorityClass: 1 metadata ObjectMeta, 2 value int, 3 globalDefault bool, 4 description string, 5 preemptionPolicy string
PodDisruptionBudget: 1 metadata ObjectMeta, 2 spec PodDisruptionBudgetSpec, 3 status PodDisruptionBudgetStatus
PodDisruptionBudgetSpec: 1 minAvailable IntOrString, 2 selector LabelSelector, 3 maxUnavailable IntOrString, 4 unhealthyPodEvictionPolicy string
PodDisruptionBudgetStatus: 1 observedGeneration int, 3 disruptionsAllowed int, 4 currentHealthy int, 5 desiredHealthy int, 6 expectedPods int
Eviction: 1 metadata ObjectMeta, 2 deleteOptions DeleteOptions
ClusterRole: 1 metadata ObjectMeta, 2 rules [PolicyRule], 3 aggregationRule AggregationRule
Role: 1 metadata ObjectMeta, 2 rules [PolicyRule]
AggregationRule: 1 clusterRoleSelectors [LabelSelector]
PolicyRule: 1 verbs [string], 2 apiGroups [string], 3 resources [string], 4 resourceNames [string], 5 nonResourceURLs [string]
ClusterRoleBinding: 1 metadata ObjectMeta, 2 subjects [Subject], 3 roleRef RoleRef
RoleBinding: 1 metadata ObjectMeta, 2 subjects [Subject], 3 roleRef RoleRef
Subject: 1 kind string, 2 apiGroup string, 3 name string, 4 namespace string
RoleRef: 1 apiGroup string, 2 kind string, 3 name string
SelfSubjectReview: 1 metadata ObjectMeta, 2 status SelfSubjectReviewStatus
SelfSubjectReviewStatus: 1 userInfo UserInfo
UserInfo: 1 username string, 2 uid string, 3 groups [string]
SelfSubjectAccessReview: 1 metadata ObjectMeta, 2 spec SelfSubjectAccessReviewSpec, 3 status SubjectAccessReviewStatus
SelfSubjectAccessReviewSpec: 1 resourceAttributes ResourceAttributes, 2 nonResourceAttributes NonResourceAttributes
ResourceAttributes: 1 namespace string, 2 verb string, 3 group string, 4 version string, 5 resource string, 6 subresource string, 7 name string
NonResourceAttributes: 1 path string, 2 verb string
SubjectAccessReviewStatus: 1 allowed bool, 2 reason string, 3 evaluationError string, 4 denied bool
Deployment: 1 metadata ObjectMeta, 2 spec DeploymentSpec, 3 status DeploymentStatus
DeploymentSpec: 1 replicas int, 2 selector LabelSelector, 3 template PodTemplateSpec, 4 strategy DeploymentStrategy, 5 minReadySeconds int, 6 revisionHistoryLimit int, 7 paused bool, 9 progressDeadlineSeconds int
DeploymentStrategy: 1 type string, 2 rollingUpdate RollingUpdateDeployment
RollingUpdateDeployment: 1 maxUnavailable IntOrString, 2 maxSurge IntOrString
DeploymentStatus: 1 observedGeneration int, 2 replicas int, 3 updatedReplicas int, 4 availableReplicas int, 5 unavailableReplicas int, 7 readyReplicas int
Job: 1 metadata ObjectMeta, 2 spec JobSpec, 3 status JobStatus
JobSpec: 1 parallelism int, 2 completions int, 3 activeDeadlineSeconds int, 4 selector LabelSelector, 5 manualSelector bool, 6 template PodTemplateSpec, 7 backoffLimit int, 8 ttlSecondsAfterFinished int, 9 completionMode string, 10 suspend bool
JobStatus: 4 active int, 5 succeeded int, 6 failed int, 7 completedIndexes string
PodTemplateSpec: 1 metadata ObjectMeta, 2 spec PodSpec
PodSpec: 2 containers [Container], 3 restartPolicy string, 4 terminationGracePeriodSeconds int, 5 activeDeadlineSeconds int, 6 dnsPolicy string, 7 nodeSelector {string}, 8 serviceAccountName string, 9 serviceAccount string, 10 nodeName string, 11 hostNetwork bool, 12 hostPID bool, 13 hostIPC bool, 15 imagePullSecrets [LocalObjectReference], 16 hostname string, 17 subdomain string, 19 schedulerName string, 24 priorityClassName string
Container: 1 name string, 2 image string, 3 command [string], 4 args [string], 5 workingDir string, 6 ports [ContainerPort], 8 resources ResourceRequirements, 13 terminationMessagePath string, 14 imagePullPolicy string, 16 stdin bool, 17 stdinOnce bool, 18 tty bool, 20 terminationMessagePolicy string
ContainerPort: 1 name string, 2 hostPort int, 3 containerPort int, 4 protocol string, 5 hostIP string
ResourceRequirements: 1 limits {Quantity}, 2 requests {Quantity}
Lease: 1 metadata ObjectMeta, 2 spec LeaseSpec
LeaseSpec: 1 holderIdentity string, 2 leaseDurationSeconds int, 3 acquireTime MicroTime, 4 renewTime MicroTime, 5 leaseTransitions int
";
