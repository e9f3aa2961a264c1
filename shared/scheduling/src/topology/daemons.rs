//! Daemons that a node will run, in the constraints of other pods before the daemons exist.
//!
//! The Kubernetes scheduler binds daemons as soon as the node joins, so pods that wait for the node find them there.
//! Affinity to a daemon is met on the host and in every domain of the node; anti-affinity to or of a daemon makes the node
//! useless for the pod. Upstream counts running daemons only.

use std::rc::Rc;

use model::pod::Pod;

use super::{ClassId, GroupId, GroupKind, Topology};
use crate::{algebra::Algebra, tolerance::Tolerance};

/// Set of the input's daemons.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Daemons(u64);

impl Daemons {
    /// Set of the daemon with this index. Daemons beyond the first 64 are ignored; clusters have a handful.
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

impl<'a> Topology<'a> {
    /// Adds the input's daemons and their anti-affinity.
    pub(crate) fn expect_daemons(
        &mut self,
        daemons: &[&'a Pod],
        algebra: &mut Algebra,
        tolerance: &mut Tolerance<'a>,
    ) {
        let classes = daemons.iter().map(|daemon| self.class_of(daemon));
        let classes: Vec<ClassId> = classes.collect();
        self.daemons = Rc::from(classes);
        for (at, daemon) in daemons.iter().enumerate() {
            let tolerations = tolerance.tolerations(&daemon.tolerations, false);
            for term in &daemon.pod_anti_affinity.required {
                let kind = (GroupKind::AntiAffinity, true);
                let namespace = &daemon.key.namespace;
                let id = self.affinity(kind, term, namespace, tolerations, algebra, tolerance);
                let known = self.anti_affinity_of_daemons.entry(id).or_default();
                *known = known.with(Daemons::only(at));
            }
        }
    }

    /// Daemons that a group selects.
    pub(super) fn daemons_of(&self, group: GroupId) -> Daemons {
        let daemons = self.daemons.iter().enumerate();
        let about = daemons.filter(|(_, class)| self.selects(group, **class));
        about.fold(Daemons::default(), |all, (at, _)| {
            all.with(Daemons::only(at))
        })
    }

    /// Daemons whose anti-affinity the group is.
    pub(super) fn daemons_behind(&self, group: GroupId) -> Daemons {
        self.anti_affinity_of_daemons
            .get(&group)
            .copied()
            .unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;
