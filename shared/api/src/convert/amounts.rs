//! Resource lists ↔ integer amounts.

use model::{Resources, resources::amount_text};

use crate::quantity::{Quantity, ResourceList};

/// The amounts that a user asks for. An entry that is no quantity, or negative, is left out and reported to `problem`.
pub(super) fn amounts(
    list: &ResourceList,
    path: &str,
    problem: &mut dyn FnMut(String),
) -> Resources {
    let mut amounts = Resources::default();
    for (name, quantity) in list {
        match amounts.set_quantity(name, quantity.as_str()) {
            Ok(()) if amounts.get(name) < 0 => {
                amounts.0.remove(name);
                problem(format!(
                    "{path}.{name}: \"{quantity}\" is negative: expected zero or more"
                ));
            }
            Ok(()) => {}
            Err(error) => problem(format!("{path}.{name}: {error}")),
        }
    }
    amounts
}

/// The amounts of a list that kubelet, the API server's schema or ourselves vouch for; what is no quantity counts as absent.
pub(super) fn vouched_amounts(list: &ResourceList) -> Resources {
    let mut amounts = Resources::default();
    for (name, quantity) in list {
        amounts.set_quantity(name, quantity.as_str()).ok();
    }
    amounts
}

pub(super) fn resource_list(amounts: &Resources) -> ResourceList {
    amounts
        .iter()
        .map(|(name, amount)| (name.to_owned(), Quantity(amount_text(name, amount))))
        .collect()
}
