//! Tolerations against taints, compared once per pair of lists.

use std::collections::BTreeMap;

use model::{
    Memo,
    taint::{Taint, TaintEffect, Toleration},
};

/// Interned list of tolerations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct TolerationsId(u32);

/// Interned list of taints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct TaintsId(u32);

/// Tolerations of a pod, and whether relaxation added one for every PreferNoSchedule taint.
type Tolerations<'a> = (&'a [Toleration], bool);

/// Interner of toleration and taint lists, with memoized comparisons.
#[derive(Clone, Default)]
pub(crate) struct Tolerance<'a> {
    tolerations: Vec<Tolerations<'a>>,
    toleration_ids: BTreeMap<Tolerations<'a>, TolerationsId>,
    taints: Vec<Vec<&'a Taint>>,
    taint_ids: BTreeMap<Vec<&'a Taint>, TaintsId>,
    known: Memo<(TolerationsId, TaintsId), bool>,
}

impl<'a> Tolerance<'a> {
    pub(crate) fn tolerations(
        &mut self,
        list: &'a [Toleration],
        prefer_no_schedule: bool,
    ) -> TolerationsId {
        let next = TolerationsId(u32::try_from(self.tolerations.len()).unwrap_or(u32::MAX));
        let key = (list, prefer_no_schedule);
        let id = *self.toleration_ids.entry(key).or_insert(next);
        if id == next {
            self.tolerations.push(key);
        }
        id
    }

    pub(crate) fn taints(&mut self, list: Vec<&'a Taint>) -> TaintsId {
        let next = TaintsId(u32::try_from(self.taints.len()).unwrap_or(u32::MAX));
        if let Some(id) = self.taint_ids.get(&list) {
            return *id;
        }
        self.taints.push(list.clone());
        self.taint_ids.insert(list, next);
        next
    }

    /// Whether every taint is tolerated, including PreferNoSchedule taints (docs/spec/scheduling.md#taints).
    pub(crate) fn tolerates(&mut self, tolerations: TolerationsId, taints: TaintsId) -> bool {
        let key = (tolerations, taints);
        if let Some(known) = self.known.get(&key) {
            return known;
        }
        let tolerates = self.intolerable(tolerations, taints).is_none();
        self.known.insert(key, tolerates);
        tolerates
    }

    /// Whether a daemon runs despite the taints. PreferNoSchedule taints do not matter
    /// (docs/spec/scheduling.md#daemon-overhead).
    pub(crate) fn tolerated_by_daemon(&self, list: &[Toleration], taints: TaintsId) -> bool {
        let mut taints = self.taints.get(taints.0 as usize).into_iter().flatten();
        taints.all(|taint| {
            taint.effect == TaintEffect::PreferNoSchedule
                || list.iter().any(|toleration| toleration.tolerates(taint))
        })
    }

    /// First taint that is not tolerated.
    pub(crate) fn intolerable(
        &self,
        tolerations: TolerationsId,
        taints: TaintsId,
    ) -> Option<&'a Taint> {
        let (list, prefer_no_schedule) = self.tolerations.get(tolerations.0 as usize)?;
        self.taints
            .get(taints.0 as usize)?
            .iter()
            .copied()
            .find(|taint| {
                let is_relaxed =
                    *prefer_no_schedule && taint.effect == TaintEffect::PreferNoSchedule;
                let tolerated = list.iter().any(|toleration| toleration.tolerates(taint));
                !is_relaxed && !tolerated
            })
    }
}

#[cfg(test)]
mod tests;
