//! Interned requirements: a set of requirements is a number, and intersections are memoized. The semantics are those of
//! [`model::requirement`] (docs/spec/scheduling.md#requirements); a property test compares both.

use std::rc::Rc;

use model::{Memo, requirement::Requirement};

/// Interned text: a label key or a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Sym(pub(crate) u32);

/// Interned requirement without its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ReqId(pub(crate) u32);

/// Interned set of requirements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SetId(pub(crate) u32);

/// Values that a label may have: a set, or the complement of a set within bounds.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Req {
    pub(crate) complement: bool,
    pub(crate) values: Box<[Sym]>,
    pub(crate) gte: Option<i64>,
    pub(crate) lte: Option<i64>,
    pub(crate) min_values: u32,
}

/// Keys that a pod may require although a node or claim does not define them (docs/spec/scheduling.md#custom-labels).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Undefined {
    /// Existing nodes: none.
    Refused,
    /// New nodes: well-known keys, which instance types supply.
    WellKnown,
}

/// Interner of label keys, values, requirements and sets, with memoized operations.
#[derive(Clone)]
pub(crate) struct Algebra {
    symbols: Memo<Rc<str>, Sym>,
    texts: Vec<Rc<str>>,
    numbers: Vec<Option<i64>>,
    well_known: Vec<bool>,
    reqs: Vec<Rc<Req>>,
    req_ids: Memo<Rc<Req>, ReqId>,
    sets: Vec<Rc<[(Sym, ReqId)]>>,
    set_ids: Memo<Rc<[(Sym, ReqId)]>, SetId>,
    intersections: Memo<(ReqId, ReqId), ReqId>,
    merges: Memo<(SetId, SetId), SetId>,
    /// `None` for incompatible sets.
    narrowings: [Memo<(SetId, SetId), Option<SetId>>; 2],
}

impl Algebra {
    /// Set without requirements.
    pub(crate) const EMPTY: SetId = SetId(0);

    pub(crate) fn new<'k>(well_known: impl IntoIterator<Item = &'k str>) -> Self {
        let mut algebra = Self {
            symbols: Memo::default(),
            texts: Vec::new(),
            numbers: Vec::new(),
            well_known: Vec::new(),
            reqs: Vec::new(),
            req_ids: Memo::default(),
            sets: Vec::new(),
            set_ids: Memo::default(),
            intersections: Memo::default(),
            merges: Memo::default(),
            narrowings: [Memo::default(), Memo::default()],
        };
        algebra.intern_set(Vec::new());
        for key in well_known {
            let key = algebra.symbol(key);
            if let Some(flag) = algebra.well_known.get_mut(key.0 as usize) {
                *flag = true;
            }
        }
        algebra
    }

    pub(crate) fn symbol(&mut self, text: &str) -> Sym {
        if let Some(symbol) = self.symbols.get(text) {
            return symbol;
        }
        let symbol = Sym(next_id(self.texts.len()));
        let text: Rc<str> = text.into();
        self.numbers.push(text.parse().ok());
        self.well_known.push(false);
        self.texts.push(Rc::clone(&text));
        self.symbols.insert(text, symbol);
        symbol
    }

    /// Symbol of a text, if it has been interned.
    pub(crate) fn find_symbol(&self, text: &str) -> Option<Sym> {
        self.symbols.get(text)
    }

    pub(crate) fn text(&self, symbol: Sym) -> &str {
        self.texts.get(symbol.0 as usize).map_or("", |text| text)
    }

    pub(crate) fn is_well_known(&self, key: Sym) -> bool {
        self.well_known.get(key.0 as usize).copied() == Some(true)
    }

    pub(crate) fn req(&self, id: ReqId) -> Rc<Req> {
        #[expect(
            clippy::indexing_slicing,
            reason = "intern_req stores a value for every id it returns"
        )]
        Rc::clone(&self.reqs[id.0 as usize])
    }

    pub(crate) fn set(&self, id: SetId) -> Rc<[(Sym, ReqId)]> {
        #[expect(
            clippy::indexing_slicing,
            reason = "intern_set stores a value for every id it returns"
        )]
        Rc::clone(&self.sets[id.0 as usize])
    }

    pub(crate) fn intern_req(&mut self, req: Req) -> ReqId {
        if let Some(id) = self.req_ids.get(&req) {
            return id;
        }
        let id = ReqId(next_id(self.reqs.len()));
        let req = Rc::new(req);
        self.reqs.push(Rc::clone(&req));
        self.req_ids.insert(req, id);
        id
    }

    fn intern_set(&mut self, entries: Vec<(Sym, ReqId)>) -> SetId {
        if let Some(id) = self.set_ids.get(entries.as_slice()) {
            return id;
        }
        let id = SetId(next_id(self.sets.len()));
        let entries: Rc<[(Sym, ReqId)]> = entries.into();
        self.sets.push(Rc::clone(&entries));
        self.set_ids.insert(entries, id);
        id
    }

    /// Requirement `key In values`.
    pub(crate) fn one_of(&mut self, mut values: Vec<Sym>) -> ReqId {
        values.sort_unstable();
        self.intern_req(Req {
            complement: false,
            values: values.into(),
            gte: None,
            lte: None,
            min_values: 0,
        })
    }

    pub(crate) fn requirement(&mut self, requirement: &Requirement) -> (Sym, ReqId) {
        let key = self.symbol(&requirement.key);
        let mut values: Vec<Sym> = requirement.values.iter().map(|v| self.symbol(v)).collect();
        values.sort_unstable();
        let req = self.intern_req(Req {
            complement: requirement.complement,
            values: values.into(),
            gte: requirement.gte,
            lte: requirement.lte,
            min_values: requirement.min_values.unwrap_or(0),
        });
        (key, req)
    }

    /// Set of these requirements. Requirements on the same key are intersected.
    pub(crate) fn set_of<'r>(&mut self, all: impl IntoIterator<Item = &'r Requirement>) -> SetId {
        let mut set = Self::EMPTY;
        for requirement in all {
            let (key, req) = self.requirement(requirement);
            set = self.add(set, key, req);
        }
        set
    }

    pub(crate) fn single(&mut self, key: Sym, req: ReqId) -> SetId {
        self.intern_set(vec![(key, req)])
    }

    pub(crate) fn add(&mut self, set: SetId, key: Sym, req: ReqId) -> SetId {
        let one = self.single(key, req);
        self.merge(set, one)
    }

    pub(crate) fn get(&self, set: SetId, key: Sym) -> Option<ReqId> {
        let entries = self.sets.get(set.0 as usize)?;
        let at = entries.binary_search_by_key(&key, |entry| entry.0).ok()?;
        entries.get(at).map(|entry| entry.1)
    }

    /// Requirement on `key`, if it lists its values.
    pub(crate) fn values(&self, set: SetId, key: Sym) -> Option<Rc<Req>> {
        self.get(set, key)
            .map(|req| self.req(req))
            .filter(|req| !req.complement)
    }

    pub(crate) fn without(&mut self, set: SetId, keys: &[Sym]) -> SetId {
        let entries = self.set(set);
        if entries.iter().any(|entry| keys.contains(&entry.0)) {
            let kept = entries.iter().filter(|entry| !keys.contains(&entry.0));
            let kept = kept.copied().collect();
            self.intern_set(kept)
        } else {
            set
        }
    }

    /// Set with the requirement on `key` replaced.
    pub(crate) fn replace(&mut self, set: SetId, key: Sym, req: ReqId) -> SetId {
        let rest = self.without(set, &[key]);
        self.add(rest, key, req)
    }

    pub(crate) fn has(&self, req: &Req, value: Sym) -> bool {
        req.values.binary_search(&value).is_ok() != req.complement
            && self.within_bounds(req.gte, req.lte, value)
    }

    fn within_bounds(&self, gte: Option<i64>, lte: Option<i64>, value: Sym) -> bool {
        if gte.is_none() && lte.is_none() {
            return true;
        }
        self.numbers
            .get(value.0 as usize)
            .copied()
            .flatten()
            .is_some_and(|n| gte.is_none_or(|gte| n >= gte) && lte.is_none_or(|lte| n <= lte))
    }

    pub(crate) fn intersection(&mut self, a: ReqId, b: ReqId) -> ReqId {
        if a == b {
            return a;
        }
        let key = (a.min(b), a.max(b));
        if let Some(id) = self.intersections.get(&key) {
            return id;
        }
        let (left, right) = (self.req(a), self.req(b));
        let both = self.intersect(&left, &right);
        let id = self.intern_req(both);
        self.intersections.insert(key, id);
        id
    }

    fn intersect(&self, a: &Req, b: &Req) -> Req {
        let gte = a.gte.max(b.gte);
        let lte = match (a.lte, b.lte) {
            (Some(x), Some(y)) => Some(x.min(y)),
            (x, y) => x.or(y),
        };
        let min_values = a.min_values.max(b.min_values);
        let nothing = Req {
            complement: false,
            values: Box::default(),
            gte: None,
            lte: None,
            min_values,
        };
        if gte.zip(lte).is_some_and(|(gte, lte)| gte > lte) {
            return nothing;
        }
        let outside = |of: &Req, other: &Req| -> Vec<Sym> {
            let kept = of.values.iter().copied();
            kept.filter(|v| other.values.binary_search(v).is_err())
                .collect()
        };
        let mut values = match (a.complement, b.complement) {
            (true, true) => {
                let mut union = [&*a.values, &*b.values].concat();
                union.sort_unstable();
                union.dedup();
                union
            }
            (true, false) => outside(b, a),
            (false, true) => outside(a, b),
            (false, false) => {
                let common = a.values.iter().copied();
                common
                    .filter(|v| b.values.binary_search(v).is_ok())
                    .collect()
            }
        };
        values.retain(|value| self.within_bounds(gte, lte, *value));
        let complement = a.complement && b.complement;
        Req {
            complement,
            values: values.into(),
            gte: gte.filter(|_| complement),
            lte: lte.filter(|_| complement),
            min_values,
        }
    }

    /// Whether two requirements on a key have a common value, or both only exclude values
    /// (docs/spec/scheduling.md#compatibility).
    pub(crate) fn agree(&mut self, a: ReqId, b: ReqId) -> bool {
        let both = self.intersection(a, b);
        let both = self.req(both);
        both.complement
            || !both.values.is_empty()
            || self.req(a).excludes() && self.req(b).excludes()
    }

    pub(crate) fn merge(&mut self, a: SetId, b: SetId) -> SetId {
        if a == b || b == Self::EMPTY {
            return a;
        }
        if a == Self::EMPTY {
            return b;
        }
        let key = (a.min(b), a.max(b));
        if let Some(id) = self.merges.get(&key) {
            return id;
        }
        let (left, right) = (self.set(a), self.set(b));
        let mut entries: Vec<(Sym, ReqId)> = left.to_vec();
        for &(key, req) in right.iter() {
            match entries.binary_search_by_key(&key, |entry| entry.0) {
                Ok(at) => {
                    if let Some(entry) = entries.get_mut(at) {
                        entry.1 = self.intersection(entry.1, req);
                    }
                }
                Err(at) => entries.insert(at, (key, req)),
            }
        }
        let id = self.intern_set(entries);
        self.merges.insert(key, id);
        id
    }

    /// Whether the sets agree on every key that both define.
    pub(crate) fn intersects(&mut self, a: SetId, b: SetId) -> bool {
        self.conflict(a, b).is_none()
    }

    /// First key on which the sets do not agree.
    pub(crate) fn conflict(&mut self, a: SetId, b: SetId) -> Option<Sym> {
        let incoming = self.set(b);
        incoming
            .iter()
            .find(|(key, req)| {
                self.get(a, *key)
                    .is_some_and(|known| !self.agree(known, *req))
            })
            .map(|entry| entry.0)
    }

    /// First key that `incoming` requires and `known` lacks.
    pub(crate) fn undefined(
        &self,
        known: SetId,
        incoming: SetId,
        undefined: Undefined,
    ) -> Option<Sym> {
        let incoming = self.set(incoming);
        incoming
            .iter()
            .find(|(key, req)| {
                !(undefined == Undefined::WellKnown && self.is_well_known(*key))
                    && self.get(known, *key).is_none()
                    && !self.req(*req).excludes()
            })
            .map(|entry| entry.0)
    }

    /// `known` with `incoming` added, if they are compatible.
    pub(crate) fn narrow(
        &mut self,
        known: SetId,
        incoming: SetId,
        undefined: Undefined,
    ) -> Option<SetId> {
        if incoming == Self::EMPTY {
            return Some(known);
        }
        let key = (known, incoming);
        let table = usize::from(undefined == Undefined::WellKnown);
        if let Some(narrowed) = self.narrowings.get(table).and_then(|memo| memo.get(&key)) {
            return narrowed;
        }
        let compatible = self.undefined(known, incoming, undefined).is_none()
            && self.intersects(known, incoming);
        let narrowed = compatible.then(|| self.merge(known, incoming));
        if let Some(memo) = self.narrowings.get_mut(table) {
            memo.insert(key, narrowed);
        }
        narrowed
    }
}

impl Req {
    /// Whether the operator is NotIn or DoesNotExist, so that the label may be missing.
    pub(crate) fn excludes(&self) -> bool {
        self.complement != self.values.is_empty()
    }
}

/// Ids never reach 2³²: memory would be exhausted before.
fn next_id(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
