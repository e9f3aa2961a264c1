//! Conversions between resource lists and integer amounts.

use model::{Resources, resources::amount_text};

use crate::quantity::{Quantity, ResourceList};

/// Amounts of a list written by a user. An entry that is negative or no quantity is omitted and reported to `problem`.
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

/// Amounts of a list that the kubelet, the API server's schema or Whittle guarantees to be valid. An invalid entry
/// counts as absent.
pub(super) fn trusted_amounts(list: &ResourceList) -> Resources {
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
