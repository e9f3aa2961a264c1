//! Condition `ValidationSucceeded`: whether launches through a NodeClass can work (docs/spec/aws.md#kubelet, docs/spec/aws.md#dry-runs).

use api::{
    ConditionStatus,
    conditions::{
        ConditionSet,
        types::{AMIS_READY, INSTANCE_PROFILE_READY, SECURITY_GROUPS_READY, SUBNETS_READY},
    },
    karpenter::{EC2NodeClass, KubeletSettings},
    names::annotation::NVIDIA_CONSUMABLE_CAPACITY,
    validation,
};

use super::{StatusInput, kubelet_fields};
use crate::{
    expressions::{ExpressionError, Expressions},
    families::{Family, FamilyError},
    instance_types::{Sharing, SharingError, default_pods},
    user_data,
};

const INVALID_SPEC: &str = "InvalidSpec";
const INVALID_KUBELET: &str = "InvalidKubeletConfiguration";
const INVALID_TAGS: &str = "TagValidationFailed";

#[derive(Clone, Debug)]
pub(super) struct Problem {
    pub(super) status: ConditionStatus,
    pub(super) reason: &'static str,
    pub(super) message: String,
}

impl Problem {
    fn new(reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            status: ConditionStatus::False,
            reason,
            message: message.into(),
        }
    }
}

/// Checks what Karpenter checks, in its order.
pub(super) fn check(
    class: &EC2NodeClass,
    known: StatusInput<'_>,
    set: &ConditionSet<'_>,
) -> Result<(), Problem> {
    let problems = validation::ec2_node_class(class);
    let refused = |reason| {
        let own = problems
            .iter()
            .filter(|problem| reason_of(&problem.field) == reason);
        let own: Vec<_> = own.map(ToString::to_string).collect();
        match own.as_slice() {
            [] => Ok(()),
            own => Err(Problem::new(reason, own.join("; "))),
        }
    };
    refused(INVALID_SPEC)?;
    let spec = &class.spec;
    let family = Family::of(spec)
        .map_err(|error: FamilyError| Problem::new("InvalidAMIFamily", error.to_string()))?;
    let no_cidr = known
        .cluster
        .service_cidr
        .as_deref()
        .unwrap_or("")
        .is_empty();
    if family == Family::Al2023 && no_cidr {
        return Err(Problem::new(
            "ClusterCIDRResolutionFailed",
            user_data::UserDataError::NoServiceCidr.to_string(),
        ));
    }
    refused(INVALID_KUBELET)?;
    let kubelet = spec.kubelet.as_ref();
    let settings = kubelet.and_then(|kubelet| kubelet.settings().ok());
    let settings = settings.unwrap_or_default();
    has_known_fields(&settings)?;
    let expressions = Expressions::of(settings.clone(), true);
    if !expressions.is_empty() && !known.settings.node_class_cel {
        return Err(Problem::new(
            "KubeletExpressionsDisabled",
            "expressions in spec.kubelet need the feature gate NodeClassCEL, which is off: use numbers and quantities",
        ));
    }
    expressions.compiled().map_err(expression_problem)?;
    supported(family, &settings)?;
    shares_devices(class, known)?;
    dependencies(set)?;
    if !expressions.is_empty() {
        evaluates(class, family, &expressions, known)?;
    }
    refused(INVALID_TAGS)
}

/// Checks that the GPU sharing mode is valid and that its feature gate is on (docs/spec/v1.15.md#gpu-sharing).
fn shares_devices(class: &EC2NodeClass, known: StatusInput<'_>) -> Result<(), Problem> {
    let sharing = Sharing::of(class).map_err(|error: SharingError| {
        Problem::new("NVIDIAConsumableCapacityInvalid", error.to_string())
    })?;
    match sharing {
        Sharing::None => Ok(()),
        _ if known.settings.devices.nvidia_gpu => Ok(()),
        Sharing::Memory | Sharing::Unlimited | Sharing::Shares(_) => Err(Problem::new(
            "DRADisabled",
            format!(
                "annotation {NVIDIA_CONSUMABLE_CAPACITY} needs the feature gate DRANVIDIAGPU, which is off: set settings.awsFeatureGates.draNVIDIAGPU, or remove it"
            ),
        )),
    }
}

/// Checks that every expression gives a number for every instance type.
fn evaluates(
    class: &EC2NodeClass,
    family: Family,
    expressions: &Expressions,
    known: StatusInput<'_>,
) -> Result<(), Problem> {
    if known.instance_types.is_empty() {
        return Err(Problem {
            status: ConditionStatus::Unknown,
            reason: "AwaitingReconciliation",
            message: "the instance types for the expressions in spec.kubelet are not known yet"
                .to_owned(),
        });
    }
    for info in known.instance_types {
        let pods = default_pods(info, family, &class.spec, known.settings);
        let checked = expressions.check(info, pods);
        checked.map_err(expression_problem)?;
    }
    Ok(())
}

fn expression_problem(error: ExpressionError) -> Problem {
    let reason = match error {
        ExpressionError::Invalid { .. } => "KubeletExpressionInvalid",
        ExpressionError::Failed { .. } => "KubeletExpressionEvaluationFailed",
    };
    Problem::new(reason, error.to_string())
}

fn reason_of(field: &str) -> &'static str {
    if field.starts_with("spec.kubelet") {
        INVALID_KUBELET
    } else if field.starts_with("spec.tags") {
        INVALID_TAGS
    } else {
        INVALID_SPEC
    }
}

fn has_known_fields(settings: &KubeletSettings) -> Result<(), Problem> {
    let fields = settings.unmanaged.iter().map(String::as_str);
    let unknown: Vec<_> = fields
        .filter(|field| !kubelet_fields::is_known(field))
        .collect();
    if unknown.is_empty() {
        return Ok(());
    }
    let message = format!(
        "spec.kubelet has fields that the kubelet does not know: {}",
        unknown.join(", ")
    );
    Err(Problem::new(INVALID_KUBELET, message))
}

/// Checks that the family supports the settings. Only nodeadm accepts every kubelet setting; a Custom image receives none of them.
fn supported(family: Family, settings: &KubeletSettings) -> Result<(), Problem> {
    if matches!(family, Family::Al2023 | Family::Custom) {
        return Ok(());
    }
    let mut problems = Vec::new();
    if !settings.unmanaged.is_empty() {
        let names = settings.unmanaged.join(", ");
        problems.push(format!(
            "spec.kubelet fields {names} work only with AL2023 images"
        ));
    }
    if family == Family::Bottlerocket && settings.pods_per_core.is_some() {
        problems.push("spec.kubelet.podsPerCore does not work with Bottlerocket".to_owned());
    }
    if settings.cluster_dns.len() > 1 {
        problems.push(
            "spec.kubelet.clusterDNS may have several entries only with AL2023 images".to_owned(),
        );
    }
    if problems.is_empty() {
        Ok(())
    } else {
        let message = problems.join("; ");
        Err(Problem::new("UnsupportedKubeletConfiguration", message))
    }
}

fn dependencies(set: &ConditionSet<'_>) -> Result<(), Problem> {
    let needed = [
        AMIS_READY,
        INSTANCE_PROFILE_READY,
        SECURITY_GROUPS_READY,
        SUBNETS_READY,
    ];
    for status in [ConditionStatus::False, ConditionStatus::Unknown] {
        let waiting: Vec<_> = needed
            .into_iter()
            .filter(|kind| set.status(kind) == status)
            .collect();
        if !waiting.is_empty() {
            return Err(Problem {
                status,
                reason: "DependenciesNotReady",
                message: format!("Awaiting {}", waiting.join(", ")),
            });
        }
    }
    Ok(())
}
