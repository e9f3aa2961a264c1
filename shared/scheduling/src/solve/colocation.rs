//! Pods with required affinity to each other, none of which runs yet, are confined to domains that are open to all of them.
//! The zone of one pod's volume decides where the others start.

use std::{
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
};

use model::{
    labels,
    requirement::{Requirement, Requirements},
    selector::Operator,
};

use super::Solver;
use crate::{
    algebra::{SetId, Sym, Undefined},
    offered_domains::LaunchRequirements,
    shape::{ShapeCore, ShapeId},
    topology::{GroupId, group::GroupKind},
};

impl<'a> Solver<'a> {
    /// Confines pods with affinity to each other to the domains that are open to all of them, if there are any.
    pub(super) fn confine_colocated(&mut self, pods: &[usize]) {
        let mut by_shape: BTreeMap<ShapeId, Vec<usize>> = BTreeMap::new();
        for pod in pods {
            by_shape.entry(self.shape_of(*pod)).or_default().push(*pod);
        }
        let shapes: Vec<ShapeId> = by_shape.keys().copied().collect();
        let mut confined: BTreeMap<ShapeId, Requirements> = BTreeMap::new();
        for (key, colocated) in self.colocation_groups(&shapes) {
            let shapes = colocated.iter();
            let domains = shapes.map(|shape| self.domains_open_to(*shape, key));
            let domains: Vec<BTreeSet<Sym>> = domains.collect();
            let Some(common) = domains.iter().cloned().reduce(|a, b| &a & &b) else {
                continue;
            };
            if common.is_empty() || domains.iter().all(|own| *own == common) {
                continue;
            }
            let algebra = &self.context.algebra;
            let values = common.iter().map(|value| algebra.text(*value).to_owned());
            let only = Requirement::new(algebra.text(key), Operator::In, values);
            for shape in colocated {
                confined.entry(shape).or_default().add(only.clone());
            }
        }
        for (shape, to) in confined {
            let to = Rc::new(to);
            let pods = by_shape.remove(&shape).into_iter().flatten();
            self.confined.extend(pods.map(|pod| (pod, Rc::clone(&to))));
        }
    }

    /// Sets of shapes that have to share a domain of a topology key, because pods of one need affinity to pods of another.
    fn colocation_groups(&mut self, shapes: &[ShapeId]) -> Vec<(Sym, BTreeSet<ShapeId>)> {
        let mut colocation_groups: Vec<(Sym, BTreeSet<ShapeId>)> = Vec::new();
        for shape in shapes {
            for (group, key) in self.unstarted_affinity_groups(*shape) {
                let leads = |other: &&ShapeId| {
                    let class = self.core_of(**other).map(|core| core.member.class);
                    class.is_some_and(|class| self.context.topology.selects(group, class))
                };
                let mut colocated: BTreeSet<ShapeId> =
                    shapes.iter().filter(leads).copied().collect();
                colocated.insert(*shape);
                let (same, others): (Vec<_>, Vec<_>) = colocation_groups
                    .into_iter()
                    .partition(|(known, all)| *known == key && !all.is_disjoint(&colocated));
                colocated.extend(same.into_iter().flat_map(|(_, all)| all));
                colocation_groups = others;
                colocation_groups.push((key, colocated));
            }
        }
        colocation_groups
    }

    /// Affinity groups without pods that the shape requires, with their keys. Pods that share a node share its zone.
    fn unstarted_affinity_groups(&mut self, shape: ShapeId) -> Vec<(GroupId, Sym)> {
        let Some(core) = self.core_of(shape) else {
            return Vec::new();
        };
        let pod = core.spec.pod;
        let terms = pod.pod_affinity.required.iter();
        let context = &mut self.context;
        let groups = terms.map(|term| {
            context.topology.affinity(
                (GroupKind::Affinity, false),
                term,
                &pod.key.namespace,
                core.tolerations,
                &mut context.algebra,
                &mut context.tolerance,
            )
        });
        let groups: Vec<GroupId> = groups.collect();
        let zone = context.algebra.symbol(labels::ZONE);
        let open = groups.into_iter().filter_map(|id| {
            let group = context.topology.group(id)?;
            let key = if group.by_host { zone } else { group.key };
            group.is_empty().then_some((id, key))
        });
        open.collect()
    }

    /// Domains with a node that pods of the shape may use, or in which one could be launched for them.
    pub(super) fn domains_open_to(&mut self, shape: ShapeId, key: Sym) -> BTreeSet<Sym> {
        let Some(core) = self.core_of(shape) else {
            return BTreeSet::new();
        };
        let context = &mut self.context;
        let alternatives = core.spec.all_alternatives();
        let alternatives: Vec<SetId> = alternatives
            .iter()
            .map(|all| context.algebra.set_of(all.0.values()))
            .collect();
        let wanted = LaunchRequirements {
            alternatives: &alternatives,
            tolerations: core.tolerations,
            requests: &core.requests,
            volumes: &core.volumes,
        };
        let mut found: BTreeSet<Sym> = context.domains_on_offer(key, &wanted).into_iter().collect();
        for node in &self.nodes {
            let algebra = &mut self.context.algebra;
            let mut meets =
                |set: &SetId| algebra.narrow(node.set, *set, Undefined::Refused).is_some();
            let volumes = &core.volumes.alternatives;
            let reaches = volumes.is_empty() || volumes.iter().any(|sets| meets(&sets.on_nodes));
            let suits = reaches && alternatives.iter().any(&mut meets);
            let tolerance = &mut self.context.tolerance;
            if suits && tolerance.tolerates(core.tolerations, node.taints) {
                let here = self.context.algebra.values(node.set, key);
                found.extend(here.iter().flat_map(|req| req.values.iter().copied()));
            }
        }
        found
    }

    pub(super) fn core_of(&self, shape: ShapeId) -> Option<Rc<ShapeCore<'a>>> {
        let (core, _) = self.shapes.get(shape.0 as usize)?;
        Some(Rc::clone(core))
    }
}
