use std::collections::BTreeSet;

use model::{
    NanosPerHour,
    node_pool::{
        Budget, ConsolidateAfter, ConsolidationPolicy, Disruption, NodeClaimTemplate, NodePool,
    },
    snapshot::NodeOverlay,
};

use super::amounts::amounts;
use super::node_claim::requirements;
use super::selector::taints;
use crate::conditions::{Condition, ConditionStatus, types};
use crate::{karpenter, validation};

impl From<karpenter::NodePool> for NodePool {
    /// Problems of the spec, or of the status conditions, are in `not_ready`.
    fn from(pool: karpenter::NodePool) -> Self {
        let mut problems: Vec<String> = validation::node_pool(&pool)
            .iter()
            .map(ToString::to_string)
            .collect();
        let karpenter::NodePool {
            metadata,
            spec,
            status,
        } = pool;
        let limits = amounts(
            &spec.limits.unwrap_or_default(),
            "spec.limits",
            &mut |problem| problems.push(problem),
        );
        let conditions = status
            .and_then(|status| status.conditions)
            .unwrap_or_default();
        let not_ready = if problems.is_empty() {
            unready(&conditions)
        } else {
            Some(problems.join("; "))
        };
        Self {
            name: metadata.name.into(),
            uid: metadata.uid.into(),
            generation: metadata.generation.unwrap_or(0),
            weight: spec.weight.unwrap_or(0),
            replicas: spec.replicas,
            limits,
            template: spec.template.into(),
            disruption: spec.disruption.into(),
            annotations: metadata.annotations,
            volume_price: NanosPerHour(0),
            refused_resources: BTreeSet::new(),
            images: Vec::new(),
            deleted_at: metadata.deletion_timestamp,
            not_ready,
        }
    }
}

/// The status condition that makes the NodePool unusable. A NodePool without conditions is new, and usable.
fn unready(conditions: &[Condition]) -> Option<String> {
    let unready = |kind: &str| {
        conditions
            .iter()
            .find(|condition| condition.r#type == kind && condition.status != ConditionStatus::True)
    };
    let cause = [
        types::VALIDATION_SUCCEEDED,
        types::NODE_CLASS_READY,
        types::READY,
    ]
    .into_iter()
    .find_map(unready)?;
    let Condition {
        r#type: kind,
        reason,
        message,
        ..
    } = cause;
    Some(if message.is_empty() {
        format!("condition {kind} is {}: {reason}", cause.status)
    } else {
        format!("condition {kind} is {}: {reason}: {message}", cause.status)
    })
}

impl From<karpenter::NodeClaimTemplate> for NodeClaimTemplate {
    fn from(template: karpenter::NodeClaimTemplate) -> Self {
        let karpenter::NodeClaimTemplate { metadata, spec } = template;
        let metadata = metadata.unwrap_or_default();
        Self {
            labels: metadata.labels.unwrap_or_default(),
            annotations: metadata.annotations.unwrap_or_default(),
            node_class: spec.node_class_ref.into(),
            requirements: requirements(spec.requirements),
            taints: taints(spec.taints),
            startup_taints: taints(spec.startup_taints),
            expire_after: Some(spec.expire_after.as_str().to_owned()),
            termination_grace_period: spec
                .termination_grace_period
                .map(|period| period.as_str().to_owned()),
        }
    }
}

impl From<karpenter::Disruption> for Disruption {
    fn from(disruption: karpenter::Disruption) -> Self {
        Self {
            policy: match disruption.consolidation_policy {
                karpenter::ConsolidationPolicy::WhenEmpty => ConsolidationPolicy::WhenEmpty,
                karpenter::ConsolidationPolicy::Balanced => ConsolidationPolicy::Balanced,
                karpenter::ConsolidationPolicy::WhenEmptyOrUnderutilized => {
                    ConsolidationPolicy::WhenEmptyOrUnderutilized
                }
                // The schema rejects unknown policies; the least disruptive one is the safe interpretation.
                karpenter::ConsolidationPolicy::Other(_) => ConsolidationPolicy::WhenEmpty,
            },
            consolidate_after: disruption
                .consolidate_after
                .value()
                .map_or(ConsolidateAfter::Never, |duration| {
                    ConsolidateAfter::Seconds(duration.as_secs())
                }),
            budgets: disruption.budgets.into_iter().filter_map(budget).collect(),
        }
    }
}

/// `None` for an empty list of reasons, which applies to no disruption. In the model, an empty list means every reason.
fn budget(budget: karpenter::Budget) -> Option<Budget> {
    if budget.reasons.as_ref().is_some_and(Vec::is_empty) {
        return None;
    }
    Some(Budget {
        nodes: budget.nodes,
        schedule: budget.schedule,
        duration: budget.duration.map(|duration| duration.as_str().to_owned()),
        reasons: budget
            .reasons
            .into_iter()
            .flatten()
            .map(|reason| reason.as_str().to_owned())
            .collect(),
    })
}

impl From<karpenter::NodeOverlay> for NodeOverlay {
    fn from(overlay: karpenter::NodeOverlay) -> Self {
        let karpenter::NodeOverlay { metadata, spec, .. } = overlay;
        Self {
            name: metadata.name,
            weight: spec.weight.unwrap_or(0),
            requirements: requirements(spec.requirements),
            price: spec.price,
            price_adjustment: spec.price_adjustment,
            capacity: amounts(
                &spec.capacity.unwrap_or_default(),
                "spec.capacity",
                &mut |_| {},
            ),
        }
    }
}
