//! Conversion of node requirements, label selectors and taints. Keys stay as written, because the requirement algebra
//! normalizes them.

use model::{
    node_claim::NodeClassRef,
    pod::NodeSelectorTerm,
    selector::{LabelExpression, LabelOperator, LabelSelector, NodeSelectorRequirement, Operator},
    taint::{Taint, TaintEffect},
};

use crate::{karpenter, kubernetes};

impl From<karpenter::NodeClassReference> for NodeClassRef {
    fn from(reference: karpenter::NodeClassReference) -> Self {
        Self {
            group: reference.group,
            kind: reference.kind,
            name: reference.name.into(),
        }
    }
}

impl From<&NodeClassRef> for karpenter::NodeClassReference {
    fn from(reference: &NodeClassRef) -> Self {
        Self {
            group: reference.group.clone(),
            kind: reference.kind.clone(),
            name: reference.name.0.clone(),
        }
    }
}

/// `None` for an unknown operator, which validation reports.
pub(super) fn requirement(entry: karpenter::Requirement) -> Option<NodeSelectorRequirement> {
    Some(NodeSelectorRequirement {
        operator: operator(&entry.operator)?,
        key: entry.key,
        values: entry.values,
        min_values: entry.min_values.and_then(|least| u32::try_from(least).ok()),
    })
}

pub(super) fn operator(operator: &karpenter::Operator) -> Option<Operator> {
    Some(match operator {
        karpenter::Operator::In => Operator::In,
        karpenter::Operator::NotIn => Operator::NotIn,
        karpenter::Operator::Exists => Operator::Exists,
        karpenter::Operator::DoesNotExist => Operator::DoesNotExist,
        karpenter::Operator::Gt => Operator::Gt,
        karpenter::Operator::Lt => Operator::Lt,
        karpenter::Operator::Gte => Operator::Gte,
        karpenter::Operator::Lte => Operator::Lte,
        karpenter::Operator::Other(_) => return None,
    })
}

pub(super) fn requirement_entry(entry: &NodeSelectorRequirement) -> karpenter::Requirement {
    karpenter::Requirement {
        key: entry.key.clone(),
        operator: match entry.operator {
            Operator::In => karpenter::Operator::In,
            Operator::NotIn => karpenter::Operator::NotIn,
            Operator::Exists => karpenter::Operator::Exists,
            Operator::DoesNotExist => karpenter::Operator::DoesNotExist,
            Operator::Gt => karpenter::Operator::Gt,
            Operator::Lt => karpenter::Operator::Lt,
            Operator::Gte => karpenter::Operator::Gte,
            Operator::Lte => karpenter::Operator::Lte,
        },
        values: entry.values.clone(),
        min_values: entry.min_values.and_then(|least| i32::try_from(least).ok()),
    }
}

/// `None` for an unknown effect, which validation reports.
pub(super) fn taint(taint: karpenter::Taint) -> Option<Taint> {
    let effect = match taint.effect {
        karpenter::TaintEffect::NoSchedule => TaintEffect::NoSchedule,
        karpenter::TaintEffect::PreferNoSchedule => TaintEffect::PreferNoSchedule,
        karpenter::TaintEffect::NoExecute => TaintEffect::NoExecute,
        karpenter::TaintEffect::Other(_) => return None,
    };
    Some(Taint {
        key: taint.key,
        value: taint.value.unwrap_or_default(),
        effect,
    })
}

pub(super) fn taints(list: Option<Vec<karpenter::Taint>>) -> Vec<Taint> {
    list.into_iter().flatten().filter_map(taint).collect()
}

pub(super) fn taint_entry(taint: &Taint) -> karpenter::Taint {
    karpenter::Taint {
        key: taint.key.clone(),
        value: Some(taint.value.clone()).filter(|value| !value.is_empty()),
        effect: match taint.effect {
            TaintEffect::NoSchedule => karpenter::TaintEffect::NoSchedule,
            TaintEffect::PreferNoSchedule => karpenter::TaintEffect::PreferNoSchedule,
            TaintEffect::NoExecute => karpenter::TaintEffect::NoExecute,
        },
        time_added: None,
    }
}

/// Node selector term of a pod or volume. An unknown operator is reported to `problem`, and drops the whole term,
/// because the term without one expression could match too much.
pub(super) fn node_selector_term(
    term: kubernetes::NodeSelectorTerm,
    path: &str,
    problem: &mut dyn FnMut(String),
) -> Option<NodeSelectorTerm> {
    let mut requirements = |entries: Vec<kubernetes::NodeSelectorRequirement>| -> Option<Vec<_>> {
        entries
            .into_iter()
            .map(|entry| {
                let Some(operator) = operator(&entry.operator) else {
                    problem(format!(
                        "{path}: operator \"{}\" of {}: expected In, NotIn, Exists, DoesNotExist, Gt or Lt",
                        entry.operator, entry.key
                    ));
                    return None;
                };
                Some(NodeSelectorRequirement { key: entry.key, operator, values: entry.values, min_values: None })
            })
            .collect()
    };
    Some(NodeSelectorTerm {
        match_expressions: requirements(term.match_expressions)?,
        match_fields: requirements(term.match_fields)?,
    })
}

/// `None` if an operator is unknown: such a selector matches nothing (docs/spec/scheduling.md#spread-constraints).
pub(super) fn label_selector(selector: kubernetes::LabelSelector) -> Option<LabelSelector> {
    let match_expressions = selector
        .match_expressions
        .into_iter()
        .map(label_expression)
        .collect::<Option<_>>()?;
    Some(LabelSelector {
        match_labels: selector.match_labels,
        match_expressions,
    })
}

fn label_expression(expression: kubernetes::LabelSelectorRequirement) -> Option<LabelExpression> {
    Some(LabelExpression {
        operator: match expression.operator {
            kubernetes::SelectorOperator::In => LabelOperator::In,
            kubernetes::SelectorOperator::NotIn => LabelOperator::NotIn,
            kubernetes::SelectorOperator::Exists => LabelOperator::Exists,
            kubernetes::SelectorOperator::DoesNotExist => LabelOperator::DoesNotExist,
            kubernetes::SelectorOperator::Other(_) => return None,
        },
        key: expression.key,
        values: expression.values,
    })
}
