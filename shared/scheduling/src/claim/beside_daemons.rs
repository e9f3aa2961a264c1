//! Filters the types of a new node by the daemons that they run, for pods with affinity or anti-affinity to daemons.

use super::Claim;
use crate::{
    bits::BitSet,
    placement_context::{Permanence, PlacementContext, Refusal},
    topology::{ApplicableConstraint, daemons::Daemons, group::GroupKind},
};

impl<'a> Claim<'a> {
    /// Keeps the types that run daemons the pod has host affinity to, and drops those that run daemons with anti-affinity
    /// to or of the pod. Returns the daemons that all remaining types run.
    pub(crate) fn keep_beside_daemons(
        &self,
        constraints: &[ApplicableConstraint],
        rows: &mut BitSet,
        context: &PlacementContext<'a>,
    ) -> Result<Daemons, Refusal> {
        let groups = context.templates.get(self.template);
        let groups = groups.map_or(&[][..], |template| &template.daemons);
        for rule in constraints.iter().filter(|rule| !rule.daemons.is_none()) {
            let mut with = rows.clone();
            with.clear();
            for group in groups {
                if !group.daemons.and(rule.daemons).is_none() {
                    with.or(&group.rows);
                }
            }
            match context.topology.group(rule.group) {
                Some(group) if group.kind == GroupKind::AntiAffinity => rows.subtract(&with),
                Some(group) if group.kind == GroupKind::Affinity && group.by_host => {
                    let is_alone = group.on_host(self.host) == 0;
                    if is_alone && with.intersects(rows) {
                        rows.and(&with);
                    }
                }
                _ => {}
            }
            if rows.is_empty() {
                return Err(Refusal::Topology(rule.group, Permanence::ForGood));
            }
        }
        let hosting = groups.iter().filter(|group| group.rows.intersects(rows));
        let all = hosting.map(|group| group.daemons).reduce(Daemons::and);
        Ok(all.unwrap_or_default())
    }
}
