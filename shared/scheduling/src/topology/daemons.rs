//! Daemons that a node will run, as the rules of other pods see them before they are there.
//!
//! Kubernetes' scheduler puts them on the node as soon as it joins, so that a pod which waits for the node finds them: near them it has
//! company on the host and in every domain of the node, and where it shuns them the node is of no use to it. Upstream counts daemons
//! that run.

use std::rc::Rc;

use super::{ClassId, GroupId, Topology};

/// Some of a question's daemons.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Daemons(u64);

impl Daemons {
    /// The one at this place in the question. No daemons are seen beyond the first 64: clusters have a handful.
    pub(crate) fn only(at: usize) -> Self {
        let bit = u32::try_from(at).ok().and_then(|at| 1_u64.checked_shl(at));
        Self(bit.unwrap_or(0))
    }

    pub(crate) fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    pub(crate) fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(crate) fn is_none(self) -> bool {
        self.0 == 0
    }

    pub(crate) fn number(self) -> u32 {
        self.0.count_ones()
    }
}

impl Topology<'_> {
    /// Makes the daemons of a question known, by class.
    pub(crate) fn expect_daemons(&mut self, classes: Vec<ClassId>) {
        self.daemons = Rc::from(classes);
    }

    /// The daemons that a group is about.
    pub(super) fn daemons_of(&self, group: GroupId) -> Daemons {
        let daemons = self.daemons.iter().enumerate();
        let about = daemons.filter(|(_, class)| self.selects(group, **class));
        about.fold(Daemons::default(), |all, (at, _)| {
            all.with(Daemons::only(at))
        })
    }
}
