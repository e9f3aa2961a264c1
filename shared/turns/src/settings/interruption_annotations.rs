//! Annotations by which a NodePool chooses the reaction to interruptions.

use std::collections::BTreeMap;

use api::{
    NodePool,
    names::annotation::{INTERRUPTION, REBALANCE},
};
use model::{InterruptionKind, interruption::InterruptionAction};

/// Warnings about a NodePool's annotations on interruptions with unknown values. The defaults hold in their place.
pub(crate) fn annotation_warnings(pool: &NodePool) -> Vec<String> {
    [(REBALANCE, REBALANCES), (INTERRUPTION, INTERRUPTIONS)]
        .into_iter()
        .filter_map(|(key, allowed)| {
            let value = pool.metadata.annotations.get(key)?;
            let known = allowed.iter().any(|(name, _)| name == value);
            let names: Vec<&str> = allowed.iter().map(|(name, _)| *name).collect();
            let default = names.first().copied().unwrap_or_default();
            (!known).then(|| {
                let shown: String = value.chars().take(SHOWN_CHARACTERS).collect();
                let names = names.join(", ");
                format!(
                    "annotation {key} is \"{shown}\": expected one of {names}; {default} is used instead"
                )
            })
        })
        .collect()
}

/// Characters of a value that an event shows.
const SHOWN_CHARACTERS: usize = 40;

/// Allowed values of the annotations, the default first.
const REBALANCES: &[(&str, Option<InterruptionAction>)] = &[
    ("ignore", None),
    ("replace", Some(InterruptionAction::Replace)),
    ("drain", Some(InterruptionAction::Drain)),
    ("cordon", Some(InterruptionAction::Cordon)),
];
const INTERRUPTIONS: &[(&str, Option<InterruptionAction>)] = &[
    ("drain", Some(InterruptionAction::Drain)),
    ("cordon", Some(InterruptionAction::Cordon)),
];

/// The annotations of a NodePool. If the NodePool is gone or a value cannot be read, the defaults apply.
pub(crate) struct InterruptionAnnotations<'a>(pub(crate) Option<&'a BTreeMap<String, String>>);

impl InterruptionAnnotations<'_> {
    pub(crate) fn rebalance(&self) -> Option<InterruptionAction> {
        self.value_of(REBALANCE, REBALANCES)
    }

    /// Action for an announced interruption. Events that have happened already, and machines that cannot be waited for, leave
    /// no choice.
    pub(crate) fn announced_action(
        &self,
        kind: InterruptionKind,
        action: InterruptionAction,
    ) -> InterruptionAction {
        if action != InterruptionAction::Drain || kind.is_state_change() || kind.action().is_none()
        {
            return action;
        }
        self.value_of(INTERRUPTION, INTERRUPTIONS).unwrap_or(action)
    }

    fn value_of(
        &self,
        key: &str,
        allowed: &[(&str, Option<InterruptionAction>)],
    ) -> Option<InterruptionAction> {
        let value = self.0?.get(key)?;
        let (_, action) = allowed.iter().find(|(name, _)| name == value)?;
        *action
    }
}
