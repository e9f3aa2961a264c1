//! Topology spread, pod affinity and anti-affinity: groups of pods, their counts per domain, and the domains open to one
//! more pod (docs/spec/scheduling.md#topology).

mod admission;
mod bound_pods;
pub(crate) mod classes;
mod counting;
pub(crate) mod daemons;
pub(crate) mod filter;
pub(crate) mod group;
pub(crate) mod universe;

use std::{
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
};

use model::{
    labels,
    pod::{Pod, PodAffinityTerm, TopologySpread},
    selector::{LabelExpression, LabelOperator, LabelSelector},
    snapshot::{Namespace, Optimize},
};

pub(crate) use self::admission::TopologyVerdict;
use self::{
    bound_pods::BoundPods,
    classes::{ClassId, Classes},
    daemons::Daemons,
    filter::{Filter, FilterId},
    group::{Group, GroupKind},
    universe::KnownDomains,
};
use crate::{
    algebra::{Algebra, SetId, Sym, Undefined},
    input::Input,
    tolerance::{TaintsId, Tolerance, TolerationsId},
};

/// Index of a topology group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct GroupId(pub(crate) u32);

/// Domain of the hostname key: an existing or a new node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct HostId(pub(crate) u32);

/// Node with the properties that topology depends on.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    pub(crate) set: SetId,
    pub(crate) host: HostId,
    pub(crate) taints: TaintsId,
    pub(crate) undefined: Undefined,
    /// Daemons that will run on the node with any instance type, and that are not counted yet.
    pub(crate) daemons: Daemons,
}

/// Relation of a pod to topology groups.
#[derive(Clone)]
pub(crate) struct GroupMembership {
    pub(crate) class: ClassId,
    /// Requirements without preferences: the domains that the pod itself could be in.
    pub(crate) strict: SetId,
    /// Groups of the pod's own constraints.
    pub(crate) owned: Vec<GroupId>,
    /// Inverse groups: the pod's anti-affinity, which constrains other pods.
    pub(crate) inverse: Vec<GroupId>,
}

/// Group that constrains a pod, and whether it counts that pod.
#[derive(Clone, Copy)]
pub(crate) struct ApplicableConstraint {
    pub(crate) group: GroupId,
    pub(crate) counts_itself: bool,
    /// Daemons that the group counts, or whose own anti-affinity it is.
    pub(crate) daemons: Daemons,
}

/// Properties that make two constraints share a group.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct GroupIdentity {
    inverse: bool,
    kind: GroupKind,
    key: Sym,
    max_skew: i64,
    min_domains: usize,
    /// Domains that count without a node in them; `None` for all domains that NodePools name.
    on_offer: Option<Vec<Sym>>,
    namespaces: Vec<String>,
    selector: Option<LabelSelector>,
    filter: Option<FilterId>,
}

/// Node object with its labels and place.
#[derive(Clone, Copy)]
pub(crate) struct HostLabels<'a> {
    pub(crate) labels: &'a BTreeMap<String, String>,
    pub(crate) place: Place,
}

/// All topology groups of a solve, with the bound and placed pods that they count.
#[derive(Clone)]
pub(crate) struct Topology<'a> {
    groups: Vec<(Group, Rc<GroupIdentity>)>,
    ids: BTreeMap<Rc<GroupIdentity>, GroupId>,
    filters: Vec<Filter>,
    filter_ids: BTreeMap<Filter, FilterId>,
    pub(crate) classes: Rc<Classes<'a>>,
    /// Per class, the groups that select it (`[forward, inverse]`), and the number of groups compared so far.
    selecting: Vec<(Rc<[Vec<GroupId>; 2]>, usize)>,
    /// Classes of the daemons, in the order of the input.
    daemons: Rc<[ClassId]>,
    /// Inverse groups of the daemons' anti-affinity, with their daemons.
    anti_affinity_of_daemons: BTreeMap<GroupId, Daemons>,
    universe: Rc<KnownDomains>,
    namespaces: &'a [Namespace],
    as_upstream: bool,
    bound: BoundPods,
    /// Per class, the hosts of bound pods that have been removed.
    absent: BTreeMap<ClassId, Vec<u32>>,
    /// Pods placed in this solve. Groups that relaxation creates later count them too.
    placed: Vec<(ClassId, Place)>,
    hosts: Rc<[HostLabels<'a>]>,
    /// Nodes that may take pods. Their labels are domains even if no NodePool names them.
    nodes: Rc<[HostLabels<'a>]>,
    /// Removed nodes among `nodes`.
    removed: Vec<HostLabels<'a>>,
    /// Topology groups whose owner pods are all gone; their domains need no further tracking.
    ownerless: BTreeSet<GroupId>,
}

impl<'a> Topology<'a> {
    pub(crate) fn new(
        classes: Classes<'a>,
        universe: KnownDomains,
        input: &Input<'a>,
        hosts: Vec<HostLabels<'a>>,
        nodes: Vec<HostLabels<'a>>,
    ) -> Self {
        Self {
            groups: Vec::new(),
            ids: BTreeMap::new(),
            filters: Vec::new(),
            filter_ids: BTreeMap::new(),
            classes: Rc::new(classes),
            selecting: Vec::new(),
            daemons: Rc::default(),
            anti_affinity_of_daemons: BTreeMap::new(),
            universe: Rc::new(universe),
            namespaces: input.namespaces,
            as_upstream: input.options.optimize == Optimize::Upstream,
            bound: BoundPods::default(),
            absent: BTreeMap::new(),
            placed: Vec::new(),
            hosts: hosts.into(),
            nodes: nodes.into(),
            removed: Vec::new(),
            ownerless: BTreeSet::new(),
        }
    }

    pub(crate) fn class_of(&mut self, pod: &'a Pod) -> ClassId {
        let known = self.classes.known(pod);
        known.unwrap_or_else(|| Rc::make_mut(&mut self.classes).class_of(pod))
    }

    /// Label key of a topology key; see [`crate::input::Options::topology_key`].
    fn key_of<'k>(&self, key: &'k str) -> &'k str {
        match self.as_upstream {
            true => key,
            false => labels::normalized(key),
        }
    }

    /// Topology keys except the hostname.
    pub(crate) fn keys(&self) -> impl Iterator<Item = Sym> {
        self.universe.keys()
    }

    pub(crate) fn group(&self, id: GroupId) -> Option<&Group> {
        self.groups.get(id.0 as usize).map(|(group, _)| group)
    }

    /// Group of a spread constraint. `on_offer` are the domains that count without a node in them; `None` for those that
    /// any NodePool names.
    pub(crate) fn spread(
        &mut self,
        constraint: &TopologySpread,
        class: ClassId,
        filter: Filter,
        on_offer: Option<Vec<Sym>>,
        algebra: &mut Algebra,
        tolerance: &mut Tolerance<'a>,
    ) -> GroupId {
        use model::pod::NodeInclusionPolicy::Honor;
        let key = algebra.symbol(self.key_of(&constraint.topology_key));
        let (namespace, mut selector) = match self.classes.all.get(class.0 as usize) {
            Some(class) => (class.namespace.to_owned(), constraint.selector.clone()),
            None => (String::new(), None),
        };
        if let (Some(selector), Some(class)) =
            (selector.as_mut(), self.classes.all.get(class.0 as usize))
        {
            for key in &constraint.match_label_keys {
                if let Some(value) = class.labels.get(key) {
                    selector.match_expressions.push(one_of(key, value));
                }
            }
        }
        let honored = (constraint.node_taints_policy == Some(Honor)).then_some(filter.tolerations);
        let domains = match &on_offer {
            Some(domains) => domains.clone(),
            None => self.universe.reachable(key, honored, tolerance),
        };
        let filter = self.filter(filter);
        let identity = GroupIdentity {
            inverse: false,
            kind: GroupKind::Spread,
            key,
            max_skew: constraint.max_skew.into(),
            min_domains: constraint
                .min_domains
                .and_then(|n| usize::try_from(n).ok())
                .unwrap_or(0),
            on_offer,
            namespaces: vec![namespace],
            selector: selector.map(canonical),
            filter: Some(filter),
        };
        self.intern(identity, &domains, algebra, tolerance)
    }

    /// Group of an affinity or anti-affinity term, with the domains that its first owner tolerates
    /// (docs/spec/scheduling.md#topology-domains). `inverse` selects the group that constrains the selected pods.
    pub(crate) fn affinity(
        &mut self,
        (kind, inverse): (GroupKind, bool),
        term: &PodAffinityTerm,
        namespace: &str,
        tolerations: TolerationsId,
        algebra: &mut Algebra,
        tolerance: &mut Tolerance<'a>,
    ) -> GroupId {
        let key = algebra.symbol(self.key_of(&term.topology_key));
        let domains = self.universe.reachable(key, Some(tolerations), tolerance);
        let identity = GroupIdentity {
            inverse,
            kind,
            key,
            max_skew: 0,
            min_domains: 0,
            on_offer: None,
            namespaces: self.namespaces_of(term, namespace),
            selector: term.selector.clone().map(canonical),
            filter: None,
        };
        self.intern(identity, &domains, algebra, tolerance)
    }

    fn namespaces_of(&self, term: &PodAffinityTerm, own: &str) -> Vec<String> {
        let mut found = term.namespaces.clone();
        match &term.namespace_selector {
            Some(selector) => {
                let all = self.namespaces.iter();
                let selected = all.filter(|namespace| selector.matches(&namespace.labels));
                found.extend(selected.map(|namespace| namespace.name.clone()));
            }
            None if found.is_empty() => found.push(own.to_owned()),
            None => {}
        }
        found.sort_unstable();
        found.dedup();
        found
    }

    fn filter(&mut self, filter: Filter) -> FilterId {
        let next = FilterId(u32::try_from(self.filters.len()).unwrap_or(u32::MAX));
        if let Some(id) = self.filter_ids.get(&filter) {
            return *id;
        }
        self.filters.push(filter.clone());
        self.filter_ids.insert(filter, next);
        next
    }

    fn intern(
        &mut self,
        identity: GroupIdentity,
        domains: &[Sym],
        algebra: &mut Algebra,
        tolerance: &mut Tolerance<'a>,
    ) -> GroupId {
        if let Some(id) = self.ids.get(&identity).copied() {
            self.take_over(id, domains, algebra);
            return id;
        }
        let by_host = algebra.text(identity.key) == labels::HOSTNAME;
        let mut group = Group::new(identity.kind, identity.key, by_host, identity.filter);
        group.max_skew = identity.max_skew;
        group.min_domains = identity.min_domains;
        group.as_named = identity.on_offer.is_none();
        for value in domains {
            group.register(*value, algebra);
        }
        if !identity.inverse {
            self.count(&mut group, &identity, algebra, tolerance);
        }
        let identity = Rc::new(identity);
        let id = GroupId(u32::try_from(self.groups.len()).unwrap_or(u32::MAX));
        self.groups.push((group, Rc::clone(&identity)));
        self.ids.insert(identity, id);
        id
    }

    fn accepts(
        &self,
        group: &Group,
        place: &Place,
        algebra: &mut Algebra,
        tolerance: &mut Tolerance<'_>,
    ) -> bool {
        group
            .filter
            .and_then(|id| self.filters.get(id.0 as usize))
            .is_none_or(|filter| filter.accepts(place.set, place.taints, algebra, tolerance))
    }

    pub(crate) fn selects(&self, id: GroupId, class: ClassId) -> bool {
        self.groups.get(id.0 as usize).is_some_and(|(_, identity)| {
            let class = class.0 as usize;
            identity.in_namespace(&self.classes, class) && identity.selects(&self.classes, class)
        })
    }

    /// Updates the list of groups that select a class.
    fn update_selecting(&mut self, class: ClassId) {
        let at = class.0 as usize;
        if self.selecting.len() <= at {
            self.selecting.resize_with(at + 1, Default::default);
        }
        let seen = self.selecting.get(at).map_or(0, |entry| entry.1);
        if seen == self.groups.len() {
            return;
        }
        let new = (seen..self.groups.len()).filter_map(|n| u32::try_from(n).ok());
        let new: Vec<GroupId> = new.map(GroupId).collect();
        for id in new {
            if self.selects(id, class)
                && let Some((_, identity)) = self.groups.get(id.0 as usize)
                && let Some((lists, _)) = self.selecting.get_mut(at)
                && let Some(list) = Rc::make_mut(lists).get_mut(usize::from(identity.inverse))
            {
                list.push(id);
            }
        }
        let compared = self.groups.len();
        if let Some(entry) = self.selecting.get_mut(at) {
            entry.1 = compared;
        }
    }

    fn selecting(&mut self, class: ClassId, inverse: bool) -> Vec<GroupId> {
        self.update_selecting(class);
        let lists = self.selecting.get(class.0 as usize).map(|entry| &entry.0);
        lists
            .and_then(|lists| lists.get(usize::from(inverse)))
            .cloned()
            .unwrap_or_default()
    }

    /// Groups that constrain a pod: its own, and the anti-affinity of other pods that select it.
    pub(crate) fn applicable_constraints(
        &mut self,
        member: &GroupMembership,
    ) -> Vec<ApplicableConstraint> {
        let others = self.selecting(member.class, true);
        let others = others.into_iter();
        let others = others.map(|group| (group, self.daemons_behind(group)));
        let own = member.owned.iter();
        let own = own.map(|group| (*group, self.daemons_of(*group)));
        let constraints = others
            .chain(own)
            .map(|(group, daemons)| ApplicableConstraint {
                group,
                counts_itself: self.selects(group, member.class),
                daemons,
            });
        constraints.collect()
    }

    /// Groups that count a pod wherever it is placed.
    pub(crate) fn counting(&mut self, member: &GroupMembership) -> Vec<GroupId> {
        let mut groups = self.selecting(member.class, false);
        groups.extend(&member.inverse);
        groups
    }

    /// Number of groups. Relaxing a pod may add some.
    pub(crate) fn len(&self) -> usize {
        self.groups.len()
    }

    /// Number that changes whenever a verdict of these groups may change.
    pub(crate) fn version(&self, constraints: &[ApplicableConstraint]) -> u64 {
        let versions = constraints
            .iter()
            .filter_map(|constraint| self.group(constraint.group));
        versions.map(|group| u64::from(group.version)).sum()
    }
}

impl GroupIdentity {
    fn in_namespace(&self, classes: &Classes<'_>, class: usize) -> bool {
        classes.all.get(class).is_some_and(|class| {
            self.namespaces
                .binary_search_by(|namespace| namespace.as_str().cmp(class.namespace))
                .is_ok()
        })
    }

    /// A constraint without a selector selects no pods.
    fn selects(&self, classes: &Classes<'_>, class: usize) -> bool {
        let selector = self.selector.as_ref();
        selector.is_some_and(|s| classes.all.get(class).is_some_and(|c| s.matches(c.labels)))
    }
}

fn one_of(key: &str, value: &str) -> LabelExpression {
    LabelExpression {
        key: key.to_owned(),
        operator: LabelOperator::In,
        values: vec![value.to_owned()],
    }
}

/// Canonical form of a selector, so that equal selectors in another order share a group.
fn canonical(mut selector: LabelSelector) -> LabelSelector {
    for (key, value) in std::mem::take(&mut selector.match_labels) {
        selector.match_expressions.push(one_of(&key, &value));
    }
    for expression in &mut selector.match_expressions {
        expression.values.sort_unstable();
    }
    selector.match_expressions.sort_unstable();
    selector.match_expressions.dedup();
    selector
}
