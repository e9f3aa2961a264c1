//! Shapes: equal pods share the state of the search and the steps of relaxation.

use std::rc::Rc;

use model::{
    labels,
    pod::{Pod, TopologySpread, WhenUnsatisfiable},
    snapshot::{Optimize, PreferencePolicy},
};

use super::Solver;
use crate::{
    algebra::Sym,
    devices::ClaimNeeds,
    input::Options,
    offered_domains::{LaunchRequirements, OfferedDomains},
    placement_context::PlacementContext,
    shape::{ShapeCore, ShapeId, ShapeIdentity, ShapeSearch, VolumeNeeds},
    spec::{Relaxation, RelaxationStep, Spec},
    strategy::{HostPreferences, SpreadDomains},
    topology::{GroupMembership, classes::ClassId, filter::Filter, group::GroupKind},
};

fn is_by_weight(options: &Options<'_>) -> bool {
    options.optimize == Optimize::Cost && options.preference_policy == PreferencePolicy::Respect
}

impl<'a> Solver<'a> {
    pub(crate) fn relaxed(&mut self, shape: ShapeId) -> Option<(ShapeId, RelaxationStep)> {
        let (core, search) = self.shapes.get(shape.0 as usize)?;
        if let Some(known) = search.relaxed {
            return known;
        }
        let (core, next) = (Rc::clone(core), core.spec.relaxed(self.may_tolerate));
        let found = next.map(|(spec, sacrifice)| (self.add_like(&core, spec), sacrifice));
        if let Some((_, search)) = self.shapes.get_mut(shape.0 as usize) {
            search.relaxed = Some(found);
        }
        found
    }

    /// Shape of the same pods with another spec.
    pub(crate) fn shape_asking(&mut self, shape: ShapeId, spec: Spec<'a>) -> Option<ShapeId> {
        let (core, _) = self.shapes.get(shape.0 as usize)?;
        let core = Rc::clone(core);
        Some(self.add_like(&core, spec))
    }

    fn add_like(&mut self, core: &ShapeCore<'a>, spec: Spec<'a>) -> ShapeId {
        self.add_shape(
            spec,
            core.requests.clone(),
            core.moved,
            (Rc::clone(&core.volumes), Rc::clone(&core.claims)),
            core.member.class,
        )
    }

    pub(crate) fn shape_of(&mut self, at: usize) -> ShapeId {
        let input = Rc::clone(&self.context.input);
        let Some(pod) = input.pods.get(at).copied() else {
            return ShapeId(u32::MAX);
        };
        let volumes = self.context.volume_needs(pod);
        let claims = self.context.claim_needs(pod);
        let class = self
            .has_topology
            .then(|| self.context.topology.class_of(pod));
        let requests = self.context.dimensions.vector(&pod.requests);
        let moved = input.moved.get(at) == Some(&true);
        let identity = ShapeIdentity {
            requests: requests.clone(),
            class,
            moved,
            is_bound: pod.node_name.is_some(),
            confined: self.confined.get(&at).cloned(),
            selector: &pod.node_selector,
            required: &pod.node_affinity.required,
            preferred: &pod.node_affinity.preferred,
            affinity: &pod.pod_affinity,
            anti_affinity: &pod.pod_anti_affinity,
            spread: &pod.topology_spread,
            tolerations: &pod.tolerations,
            ports: &pod.host_ports,
            volumes: Rc::clone(&volumes),
            claims: Rc::clone(&claims),
        };
        if let Some(known) = self.identities.get(&identity) {
            return *known;
        }
        let mut spec = Spec::new(pod, input.options.preference_policy);
        if is_by_weight(&input.options) {
            spec = spec.relaxing(Relaxation::LightestFirst);
        }
        spec.confined = self.confined.get(&at).cloned();
        if self.strategy.hosts == HostPreferences::Shared {
            spec = spec.sharing_hosts();
        }
        let ignored = self.strategy.ignored;
        if !ignored.is_none() {
            let known = &self.preferences;
            spec = spec.without(|preference| known.is_ignored(preference, ignored));
        }
        let class = class.unwrap_or_default();
        let id = self.add_shape(spec, requests, moved, (volumes, claims), class);
        self.identities.insert(identity, id);
        id
    }

    fn add_shape(
        &mut self,
        spec: Spec<'a>,
        requests: Box<[i64]>,
        moved: bool,
        (volumes, claims): (Rc<VolumeNeeds<'a>>, Rc<ClaimNeeds>),
        class: ClassId,
    ) -> ShapeId {
        let id = ShapeId(u32::try_from(self.shapes.len()).unwrap_or(u32::MAX));
        let member = self.member(&spec, class, &requests, &volumes);
        let context = &mut self.context;
        let core = ShapeCore {
            requests,
            moved,
            sets: context.sets(&spec.all()),
            tolerations: context
                .tolerance
                .tolerations(&spec.pod.tolerations, spec.tolerates_prefer_no_schedule),
            volumes,
            claims,
            member,
            spec,
        };
        self.shapes.push((Rc::new(core), ShapeSearch::default()));
        id
    }

    /// Domains that count for a spread constraint without a node in them; `None` for all that NodePools name, as upstream.
    fn on_offer(
        &mut self,
        constraint: &TopologySpread,
        filter: &Filter,
        is_bound: bool,
        requests: &[i64],
        volumes: &VolumeNeeds<'a>,
    ) -> Option<Vec<Sym>> {
        let is_hard = constraint.when_unsatisfiable == WhenUnsatisfiable::DoNotSchedule;
        let as_upstream = is_hard && self.strategy.domains != SpreadDomains::Requested;
        let context = &mut self.context;
        let key = context.input.options.topology_key(&constraint.topology_key);
        let key = context.algebra.symbol(key);
        match context.on_offer {
            OfferedDomains::Named => None,
            OfferedDomains::Nothing if is_bound || !is_hard => Some(Vec::new()),
            _ if as_upstream => None,
            _ if key == context.hostname => Some(Vec::new()),
            OfferedDomains::Nothing | OfferedDomains::ForThePod => {
                let wanted = LaunchRequirements {
                    alternatives: &filter.alternatives,
                    tolerations: filter.tolerations,
                    requests,
                    volumes,
                };
                let domains = context.domains_on_offer(key, &wanted);
                let is_zone = context.algebra.text(key) == labels::ZONE;
                match self.strategy.zones_max.filter(|_| is_zone && !is_hard) {
                    Some(max) => Some(context.cheapest_domains(key, &wanted, domains, max)),
                    None => Some(domains),
                }
            }
        }
    }

    /// Adds the pod to its topology groups and creates missing ones (docs/spec/scheduling.md#topology-ownership).
    fn member(
        &mut self,
        spec: &Spec<'a>,
        class: ClassId,
        requests: &[i64],
        volumes: &VolumeNeeds<'a>,
    ) -> GroupMembership {
        let as_upstream = self.context.input.options.optimize == Optimize::Upstream;
        let PlacementContext {
            topology,
            algebra,
            tolerance,
            ..
        } = &mut self.context;
        let pod: &Pod = spec.pod;
        let mut member = GroupMembership {
            class,
            strict: algebra.set_of(spec.strict().0.values()),
            owned: Vec::new(),
            inverse: Vec::new(),
        };
        if volumes.lost {
            return member;
        }
        let tolerations =
            tolerance.tolerations(&pod.tolerations, spec.tolerates_prefer_no_schedule);
        let namespace = pod.key.namespace.as_str();
        for term in &pod.pod_anti_affinity.required {
            let kind = GroupKind::AntiAffinity;
            let group = topology.affinity(
                (kind, true),
                term,
                namespace,
                tolerations,
                algebra,
                tolerance,
            );
            member.inverse.push(group);
        }
        let is_bound = pod.node_name.is_some();
        let mut spread = Vec::new();
        for constraint in &spec.spread {
            use model::pod::NodeInclusionPolicy::{Honor, Ignore};
            // Upstream drops the relaxed terms, and with them pods that should count
            // (docs/spec/scheduling.md#spread-constraints).
            let alternatives = if as_upstream {
                spec.alternatives()
            } else {
                spec.all_alternatives()
            };
            let filter = Filter {
                honor_affinity: constraint.node_affinity_policy != Some(Ignore),
                honor_taints: constraint.node_taints_policy == Some(Honor),
                alternatives: alternatives
                    .iter()
                    .map(|all| algebra.set_of(all.0.values()))
                    .collect(),
                tolerations,
            };
            spread.push((constraint, filter));
        }
        for (constraint, filter) in spread {
            let on_offer = self.on_offer(constraint, &filter, is_bound, requests, volumes);
            let PlacementContext {
                topology,
                algebra,
                tolerance,
                ..
            } = &mut self.context;
            let group = topology.spread(constraint, class, filter, on_offer, algebra, tolerance);
            member.owned.push(group);
        }
        let PlacementContext {
            topology,
            algebra,
            tolerance,
            ..
        } = &mut self.context;
        let attracted = spec.affinity().map(|term| (GroupKind::Affinity, term));
        let repelled = spec
            .anti_affinity()
            .map(|term| (GroupKind::AntiAffinity, term));
        for (kind, term) in attracted.chain(repelled) {
            let group = topology.affinity(
                (kind, false),
                term,
                namespace,
                tolerations,
                algebra,
                tolerance,
            );
            member.owned.push(group);
        }
        member.owned.sort_unstable();
        member.owned.dedup();
        member.inverse.sort_unstable();
        member.inverse.dedup();
        member
    }
}
