//! Node filter of a spread constraint: nodes that the pod's selectors and tolerations allow
//! (docs/spec/scheduling.md#spread-constraints).

use crate::{
    algebra::{Algebra, SetId, Undefined},
    tolerance::{TaintsId, Tolerance, TolerationsId},
};

/// Index of an interned filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FilterId(pub(crate) u32);

/// Node filter: affinity and taint policies with the requirements and tolerations of the owner.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Filter {
    pub(crate) honor_affinity: bool,
    pub(crate) honor_taints: bool,
    /// Node selector combined with each required term.
    pub(crate) alternatives: Vec<SetId>,
    pub(crate) tolerations: TolerationsId,
}

impl Filter {
    pub(crate) fn accepts(
        &self,
        set: SetId,
        taints: TaintsId,
        algebra: &mut Algebra,
        tolerance: &mut Tolerance<'_>,
    ) -> bool {
        let mut allowed = |alternative: &SetId| {
            algebra
                .narrow(set, *alternative, Undefined::Refused)
                .is_some()
        };
        (!self.honor_affinity || self.alternatives.iter().any(&mut allowed))
            && (!self.honor_taints || tolerance.tolerates(self.tolerations, taints))
    }
}
