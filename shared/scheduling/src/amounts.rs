//! Resource amounts as vectors, with one slot per resource that any pod requests.

use std::collections::BTreeSet;

use model::{Resources, resources::PODS};

/// Names of the resources that have a slot.
#[derive(PartialEq, Eq)]
pub(crate) struct Dimensions {
    names: Vec<String>,
}

impl Dimensions {
    /// All resources requested by `all`. Other resources cannot affect placement, unless their amount on a node is
    /// negative.
    pub(crate) fn of<'r>(all: impl IntoIterator<Item = &'r Resources>) -> Self {
        let mut names: BTreeSet<&str> = BTreeSet::from([PODS]);
        for requests in all {
            names.extend(requests.iter().filter(|entry| entry.1 != 0).map(|e| e.0));
        }
        Self {
            names: names.into_iter().map(str::to_owned).collect(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.names.len()
    }

    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    pub(crate) fn vector(&self, resources: &Resources) -> Box<[i64]> {
        self.names.iter().map(|name| resources.get(name)).collect()
    }
}

/// Saturating addition.
pub(crate) fn add(total: &mut [i64], more: &[i64]) {
    for (total, more) in total.iter_mut().zip(more) {
        *total = total.saturating_add(*more);
    }
}

/// Saturating subtraction.
pub(crate) fn subtract(total: &mut [i64], less: &[i64]) {
    for (total, less) in total.iter_mut().zip(less) {
        *total = total.saturating_sub(*less);
    }
}

pub(crate) fn fits(requests: &[i64], room: &[i64]) -> bool {
    requests
        .iter()
        .zip(room)
        .all(|(wanted, left)| wanted <= left)
}

/// Number of times that `wanted` fits into `room`.
pub(crate) fn copies(wanted: &[i64], room: &[i64]) -> i64 {
    let dimensions = wanted.iter().zip(room);
    let times = dimensions.map(|(wanted, room)| match wanted {
        0 if *room >= 0 => i64::MAX,
        1.. => room / wanted,
        _ => 0,
    });
    times.min().unwrap_or(0)
}
