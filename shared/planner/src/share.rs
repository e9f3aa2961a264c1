/// Amount of work that one turn takes on (docs/adr/0006-a-fair-share-per-turn.md,
/// docs/adr/0013-disruption-evaluations-resume-from-a-cursor.md). It is counted, not timed, so that equal snapshots give equal
/// plans.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Pods to plan for, virtual pods of CapacityBuffers included.
    pub pods: usize,
    /// Nodes to launch. A plan may exceed it by nodes for pods that were planned on a postponed one.
    pub launches: usize,
    /// Size of the simulations of one disruption evaluation: nodes of the cluster plus pods to place, for each simulation. The
    /// last simulation may exceed it, and simulations that every evaluation needs are not skipped for it.
    pub simulated: usize,
}

impl Share {
    /// Share of a turn: pods that are solved well within an invocation, regardless of their dependencies; launches that the
    /// account's API rate admits before much has changed; and a few seconds of simulations, enough to consider each of 4,000
    /// nodes once.
    pub const TURN: Self = Self {
        pods: 20_000,
        launches: 1_000,
        simulated: 20_000_000,
    };
    /// No limit, for plans that are only displayed.
    pub const WHOLE: Self = Self {
        pods: usize::MAX,
        launches: usize::MAX,
        simulated: usize::MAX,
    };
}
