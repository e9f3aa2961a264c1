//! Spread, affinity and anti-affinity: groups of pods, their counts per domain, and what they allow one more pod
//! (spec/scheduling §17).

mod bound;
pub(crate) mod classes;
pub(crate) mod filter;
pub(crate) mod group;
pub(crate) mod universe;

use std::{collections::BTreeMap, rc::Rc};

use model::{
    labels,
    pod::{Pod, PodAffinityTerm, TopologySpread},
    selector::{LabelExpression, LabelOperator, LabelSelector},
    snapshot::Namespace,
};

use self::{
    bound::Bound,
    classes::{ClassId, Classes},
    filter::{Filter, FilterId},
    group::{Group, Kind},
    universe::Universe,
};
use crate::{
    algebra::{Algebra, SetId, Sym, Undefined},
    setup::Seat,
    tolerance::{TaintsId, Tolerance, TolerationsId},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct GroupId(pub(crate) u32);

/// A domain of the hostname key: a node that exists, or one to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct HostId(pub(crate) u32);

/// A node as topology sees it.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    pub(crate) set: SetId,
    pub(crate) host: HostId,
    pub(crate) taints: TaintsId,
    pub(crate) undefined: Undefined,
}

/// What a pod brings to topology.
#[derive(Clone)]
pub(crate) struct Member {
    pub(crate) class: ClassId,
    /// Its requirements without preferences: the domains it counts for itself.
    pub(crate) strict: SetId,
    /// The groups it must obey.
    pub(crate) owned: Vec<GroupId>,
    /// Anti-affinity of its own that others must obey.
    pub(crate) inverse: Vec<GroupId>,
}

/// A group that a pod has to obey, and whether the pod counts in it.
#[derive(Clone, Copy)]
pub(crate) struct Obeyed {
    pub(crate) group: GroupId,
    pub(crate) counts_itself: bool,
}

/// More equally empty combinations of domains are not compared; zones × capacity types stay below.
const ALTERNATIVES_MAX: usize = 32;

pub(crate) enum Answer {
    /// What the node's requirements may become with the pod there: alternatives between which counts do not decide.
    Allowed(Vec<SetId>),
    /// Counts elsewhere may still change this.
    NotNow(GroupId),
    /// Counts only grow, so this node stays closed.
    Never(GroupId),
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Identity {
    inverse: bool,
    kind: Kind,
    key: Sym,
    max_skew: i64,
    min_domains: usize,
    namespaces: Vec<String>,
    selector: Option<LabelSelector>,
    filter: Option<FilterId>,
}

/// A Node object as counting sees it.
#[derive(Clone, Copy)]
pub(crate) struct HostLabels<'a> {
    pub(crate) labels: &'a BTreeMap<String, String>,
    pub(crate) place: Place,
}

#[derive(Clone)]
pub(crate) struct Topology<'a> {
    groups: Vec<(Group, Rc<Identity>)>,
    ids: BTreeMap<Rc<Identity>, GroupId>,
    filters: Vec<Filter>,
    filter_ids: BTreeMap<Filter, FilterId>,
    pub(crate) classes: Rc<Classes<'a>>,
    /// Per class, the groups that select it, `[forward, inverse]`, and how many groups were looked at.
    selecting: Vec<(Rc<[Vec<GroupId>; 2]>, usize)>,
    universe: Rc<Universe>,
    namespaces: &'a [Namespace],
    bound: Bound,
    /// Of the bound pods, those that are not there any more.
    absent: BTreeMap<ClassId, Vec<u32>>,
    /// What this round has placed: a group that relaxation makes late has to count it too.
    placed: Vec<(ClassId, Place)>,
    hosts: Rc<[HostLabels<'a>]>,
    /// Nodes that may take pods: their labels are domains even where no NodePool offers them.
    nodes: Rc<[HostLabels<'a>]>,
    /// Those among them that are gone.
    gone: Vec<HostLabels<'a>>,
}

impl<'a> Topology<'a> {
    pub(crate) fn new(
        classes: Classes<'a>,
        universe: Universe,
        namespaces: &'a [Namespace],
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
            universe: Rc::new(universe),
            namespaces,
            bound: Bound::default(),
            absent: BTreeMap::new(),
            placed: Vec::new(),
            hosts: hosts.into(),
            nodes: nodes.into(),
            gone: Vec::new(),
        }
    }

    pub(crate) fn class_of(&mut self, pod: &'a Pod) -> ClassId {
        let known = self.classes.known(pod);
        known.unwrap_or_else(|| Rc::make_mut(&mut self.classes).class_of(pod))
    }

    /// What domains are counted by, hosts apart.
    pub(crate) fn keys(&self) -> impl Iterator<Item = Sym> {
        self.universe.keys()
    }

    /// Sums up what questions about this cluster share: whatever one of them interned, the others would not know.
    pub(crate) fn remember(&mut self, keys: &[Sym], algebra: &mut Algebra) {
        for key in keys {
            self.bound.know(*key, &self.hosts, &self.nodes, algebra);
        }
        for class in 0..self.classes.all.len() {
            self.look_up(ClassId(u32::try_from(class).unwrap_or(u32::MAX)));
        }
    }

    /// As if this node were not there.
    pub(crate) fn leave(&mut self, node: HostLabels<'a>) {
        self.gone.push(node);
    }

    /// As if this bound pod were not there, nor its anti-affinity.
    pub(crate) fn take_back(&mut self, seat: &Seat, algebra: &Algebra) {
        if seat.is_resident {
            let absent = self.absent.entry(seat.class).or_default();
            absent.extend(u32::try_from(seat.host));
        }
        let Some(host) = self.hosts.get(seat.host).copied() else {
            return;
        };
        for id in &seat.repelling {
            let Some((group, _)) = self.groups.get_mut(id.0 as usize) else {
                continue;
            };
            if group.by_host {
                group.take_back_host(host.place.host);
            } else if let Some(value) = host.labels.get(algebra.text(group.key))
                && let Some(value) = algebra.find_symbol(value)
            {
                group.take_back(value, algebra);
            }
        }
    }

    pub(crate) fn group(&self, id: GroupId) -> Option<&Group> {
        self.groups.get(id.0 as usize).map(|(group, _)| group)
    }

    pub(crate) fn spread(
        &mut self,
        constraint: &TopologySpread,
        class: ClassId,
        filter: Filter,
        algebra: &mut Algebra,
        tolerance: &mut Tolerance<'a>,
    ) -> GroupId {
        use model::pod::NodeInclusionPolicy::Honor;
        let key = algebra.symbol(&constraint.topology_key);
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
        let domains = self.universe.reachable(key, honored, tolerance);
        let filter = self.filter(filter);
        let identity = Identity {
            inverse: false,
            kind: Kind::Spread,
            key,
            max_skew: constraint.max_skew.into(),
            min_domains: constraint
                .min_domains
                .and_then(|n| usize::try_from(n).ok())
                .unwrap_or(0),
            namespaces: vec![namespace],
            selector: selector.map(canonical),
            filter: Some(filter),
        };
        self.intern(identity, &domains, algebra, tolerance)
    }

    /// The group of one affinity or anti-affinity term, with the domains that its first owner tolerates (spec/scheduling §17.2); `inverse` is the one that the others obey.
    pub(crate) fn affinity(
        &mut self,
        (kind, inverse): (Kind, bool),
        term: &PodAffinityTerm,
        namespace: &str,
        tolerations: TolerationsId,
        algebra: &mut Algebra,
        tolerance: &mut Tolerance<'a>,
    ) -> GroupId {
        let key = algebra.symbol(&term.topology_key);
        let domains = self.universe.reachable(key, Some(tolerations), tolerance);
        let identity = Identity {
            inverse,
            kind,
            key,
            max_skew: 0,
            min_domains: 0,
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
        identity: Identity,
        domains: &[Sym],
        algebra: &mut Algebra,
        tolerance: &mut Tolerance<'a>,
    ) -> GroupId {
        if let Some(id) = self.ids.get(&identity) {
            return *id;
        }
        let by_host = algebra.text(identity.key) == labels::HOSTNAME;
        let mut group = Group::new(identity.kind, identity.key, by_host, identity.filter);
        group.max_skew = identity.max_skew;
        group.min_domains = identity.min_domains;
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

    /// Counts what is there already (spec/scheduling §17.4).
    fn count(
        &mut self,
        group: &mut Group,
        identity: &Identity,
        algebra: &mut Algebra,
        tolerance: &mut Tolerance<'a>,
    ) {
        if !group.by_host {
            let domains = self.bound.domains(group.key, &self.nodes, algebra);
            let gone = self.gone.iter().filter_map(|node| {
                let value = node.labels.get(algebra.text(group.key))?;
                Some((algebra.find_symbol(value)?, node.place))
            });
            let domains = bound::without(&domains, gone.collect::<Vec<_>>().into_iter());
            for ((value, place), _) in domains.iter() {
                if self.accepts(group, place, algebra, tolerance) {
                    group.register(*value, algebra);
                }
            }
        }
        for class in self.bound.classes() {
            let at = class.0 as usize;
            let counts = identity.in_namespace(&self.classes, at)
                && (identity.selector.is_none() || identity.selects(&self.classes, at));
            if !counts {
                continue;
            }
            if group.by_host {
                for host in self.bound.hosts(class) {
                    if let Some(host) = self.hosts.get(*host as usize)
                        && self.accepts(group, &host.place, algebra, tolerance)
                    {
                        group.record_host(host.place.host);
                    }
                }
                for host in self.absent.get(&class).into_iter().flatten() {
                    if let Some(host) = self.hosts.get(*host as usize)
                        && self.accepts(group, &host.place, algebra, tolerance)
                    {
                        group.take_back_host(host.place.host);
                    }
                }
            } else {
                let tally = self.bound.tally(class, group.key, &self.hosts, algebra);
                let absent = self.absent.get(&class).into_iter().flatten();
                let absent = absent.filter_map(|host| {
                    self.bound.somewhere(*host, group.key, &self.hosts, algebra)
                });
                let tally = bound::without(&tally, absent);
                for ((value, place), pods) in tally.iter() {
                    if self.accepts(group, place, algebra, tolerance) {
                        group.record(*value, *pods, algebra);
                    }
                }
            }
        }
        let mut selected: Vec<Option<bool>> = vec![None; self.classes.all.len()];
        for (class, place) in &self.placed {
            let Some(known) = selected.get_mut(class.0 as usize) else {
                continue;
            };
            let is_selected = *known.get_or_insert_with(|| {
                let class = class.0 as usize;
                identity.in_namespace(&self.classes, class)
                    && identity.selects(&self.classes, class)
            });
            if is_selected && self.accepts(group, place, algebra, tolerance) {
                record_at(group, identity.inverse, place, algebra);
            }
        }
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

    /// Brings the list of groups that select a class up to date.
    fn look_up(&mut self, class: ClassId) {
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
        let looked_at = self.groups.len();
        if let Some(entry) = self.selecting.get_mut(at) {
            entry.1 = looked_at;
        }
    }

    fn selecting(&mut self, class: ClassId, inverse: bool) -> Vec<GroupId> {
        self.look_up(class);
        let lists = self.selecting.get(class.0 as usize).map(|entry| &entry.0);
        lists
            .and_then(|lists| lists.get(usize::from(inverse)))
            .cloned()
            .unwrap_or_default()
    }

    /// The groups a pod has to obey: its own, and the anti-affinity of others that selects it.
    pub(crate) fn obeyed(&mut self, member: &Member) -> Vec<Obeyed> {
        let mut groups = self.selecting(member.class, true);
        groups.extend(&member.owned);
        let obeyed = groups.into_iter().map(|group| Obeyed {
            group,
            counts_itself: self.selects(group, member.class),
        });
        obeyed.collect()
    }

    /// The groups that count a pod, wherever it is placed.
    pub(crate) fn counting(&mut self, member: &Member) -> Vec<GroupId> {
        let mut groups = self.selecting(member.class, false);
        groups.extend(&member.inverse);
        groups
    }

    /// How many groups there are: relaxing a pod may make new ones.
    pub(crate) fn len(&self) -> usize {
        self.groups.len()
    }

    /// A number that moves whenever an answer for these groups may.
    pub(crate) fn version(&self, obeyed: &[Obeyed]) -> u64 {
        let versions = obeyed.iter().filter_map(|one| self.group(one.group));
        versions.map(|group| u64::from(group.version)).sum()
    }

    /// Whether a pod may join a place, and what that leaves of the place's requirements (spec/scheduling §17.5).
    pub(crate) fn ask(
        &self,
        member: &Member,
        obeyed: &[Obeyed],
        place: &Place,
        algebra: &mut Algebra,
    ) -> Answer {
        let mut by_domain = false;
        for &Obeyed {
            group: id,
            counts_itself,
        } in obeyed
        {
            let Some(group) = self.group(id) else {
                continue;
            };
            if !group.by_host {
                by_domain = true;
                continue;
            }
            let count = group.on_host(place.host);
            match group.kind {
                Kind::AntiAffinity if count > 0 => return Answer::Never(id),
                Kind::Spread => {
                    if i64::from(count) + i64::from(counts_itself) > group.max_skew {
                        return Answer::Never(id);
                    }
                }
                Kind::Affinity if count == 0 => {
                    let may_begin = counts_itself
                        && (group.is_empty() || !self.reaches_host(group, member.strict, algebra));
                    if !may_begin {
                        return Answer::NotNow(id);
                    }
                }
                Kind::Affinity | Kind::AntiAffinity => {}
            }
        }
        if by_domain {
            self.ask_domains(member, obeyed, place, algebra)
        } else {
            Answer::Allowed(vec![place.set])
        }
    }

    /// Whether a pod with these requirements could join any host of the group.
    fn reaches_host(&self, group: &Group, strict: SetId, algebra: &mut Algebra) -> bool {
        let Some(wanted) = algebra.get(strict, group.key).map(|id| algebra.req(id)) else {
            return !group.is_empty();
        };
        group.occupied_hosts().any(|host| {
            let known = self.hosts.iter().find(|known| known.place.host == host);
            known
                .and_then(|known| known.labels.get(labels::HOSTNAME))
                .is_some_and(|name| {
                    algebra
                        .find_symbol(name)
                        .is_some_and(|name| algebra.has(&wanted, name))
                })
        })
    }

    fn ask_domains(
        &self,
        member: &Member,
        obeyed: &[Obeyed],
        place: &Place,
        algebra: &mut Algebra,
    ) -> Answer {
        let mut answers: Vec<(Sym, GroupId, bool, Vec<Sym>)> = Vec::new();
        for &Obeyed {
            group: id,
            counts_itself,
        } in obeyed
        {
            let Some(group) = self.group(id).filter(|group| !group.by_host) else {
                continue;
            };
            let pod = algebra
                .get(member.strict, group.key)
                .map(|id| algebra.req(id));
            let node = algebra.get(place.set, group.key).map(|id| algebra.req(id));
            let (pod, node) = (pod.as_deref(), node.as_deref());
            let (mut domains, mut one) = match group.kind {
                Kind::Spread => (group.emptiest(pod, node, counts_itself, algebra), true),
                Kind::Affinity => (group.attracting(pod, node, algebra), false),
                Kind::AntiAffinity => (group.empty(pod, node, algebra), false),
            };
            if group.kind == Kind::Affinity && domains.is_empty() && counts_itself {
                (domains, one) = (group.beginnings(pod, node, algebra), true);
            }
            match answers.iter_mut().find(|answer| answer.0 == group.key) {
                Some(known) => {
                    known.2 |= one;
                    known.3.retain(|domain| domains.contains(domain));
                }
                None => answers.push((group.key, id, one, domains)),
            }
            if answers.iter().any(|answer| answer.3.is_empty()) {
                return Answer::NotNow(id);
            }
        }
        let mut sets = vec![place.set];
        for (key, id, one, domains) in answers {
            let choices: Vec<Vec<Sym>> = if one {
                domains.into_iter().map(|domain| vec![domain]).collect()
            } else {
                vec![domains]
            };
            let mut narrowed = Vec::new();
            for choice in choices {
                let req = algebra.one_of(choice);
                let only = algebra.single(key, req);
                let fitting = sets.iter();
                narrowed
                    .extend(fitting.filter_map(|set| algebra.narrow(*set, only, place.undefined)));
            }
            if narrowed.is_empty() {
                return Answer::NotNow(id);
            }
            narrowed.truncate(ALTERNATIVES_MAX);
            sets = narrowed;
        }
        Answer::Allowed(sets)
    }

    /// Counts a pod that was placed (spec/scheduling §17.6).
    pub(crate) fn record(
        &mut self,
        member: &Member,
        place: &Place,
        algebra: &mut Algebra,
        tolerance: &mut Tolerance<'_>,
    ) {
        self.placed.push((member.class, *place));
        let mut groups = self.selecting(member.class, false);
        groups.retain(|id| {
            self.group(*id)
                .is_some_and(|group| self.accepts(group, place, algebra, tolerance))
        });
        groups.extend(&member.inverse);
        for id in groups {
            self.record_in(id, place, algebra);
        }
    }

    fn record_in(&mut self, id: GroupId, place: &Place, algebra: &Algebra) {
        if let Some((group, identity)) = self.groups.get_mut(id.0 as usize) {
            record_at(group, identity.inverse, place, algebra);
        }
    }

    /// A bound pod that groups made from now on count.
    pub(crate) fn add_resident(&mut self, class: ClassId, host: usize) {
        self.bound.add(class, host);
    }

    /// Counts a bound pod's own anti-affinity, which others have to obey.
    pub(crate) fn record_bound(&mut self, id: GroupId, host: usize, algebra: &mut Algebra) {
        let (Some((group, _)), Some(host)) =
            (self.groups.get_mut(id.0 as usize), self.hosts.get(host))
        else {
            return;
        };
        if group.by_host {
            group.record_host(host.place.host);
        } else if let Some(value) = host.labels.get(algebra.text(group.key)) {
            let value = algebra.symbol(value);
            group.record(value, 1, algebra);
        }
    }
}

impl Identity {
    fn in_namespace(&self, classes: &Classes<'_>, class: usize) -> bool {
        classes.all.get(class).is_some_and(|class| {
            self.namespaces
                .binary_search_by(|namespace| namespace.as_str().cmp(class.namespace))
                .is_ok()
        })
    }

    /// A rule without a selector selects nobody.
    fn selects(&self, classes: &Classes<'_>, class: usize) -> bool {
        let selector = self.selector.as_ref();
        selector.is_some_and(|s| classes.all.get(class).is_some_and(|c| s.matches(c.labels)))
    }
}

/// Counts a pod on a place: in the one domain it is in, or, where pods are to be kept away, in all it may turn out to be in.
fn record_at(group: &mut Group, inverse: bool, place: &Place, algebra: &Algebra) {
    if group.by_host {
        group.record_host(place.host);
    } else if let Some(domains) = algebra.values(place.set, group.key)
        && (inverse || group.kind == Kind::AntiAffinity || domains.values.len() == 1)
    {
        for domain in &domains.values {
            group.record(*domain, 1, algebra);
        }
    }
}

fn one_of(key: &str, value: &str) -> LabelExpression {
    LabelExpression {
        key: key.to_owned(),
        operator: LabelOperator::In,
        values: vec![value.to_owned()],
    }
}

/// Selectors that say the same in another order are the same.
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
