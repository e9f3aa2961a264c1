/// How much one turn takes on where there is more to do (docs/adr/0006-a-fair-share-per-turn.md,
/// docs/adr/0013-a-look-goes-on-from-a-cursor.md). It is counted, not timed, so that the same snapshot gives the same plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Pods that the search looks at, those of capacity buffers included.
    pub pods: usize,
    /// Nodes to launch. A plan may exceed it by those that pods find instead of a node that was put off.
    pub launches: usize,
    /// What one look for disruptions simulates: the nodes of the cluster and the pods that need a place, each time a node is
    /// taken out of it in thought. The last simulation may exceed it, and what a look does in any case is not left out for it.
    pub simulated: usize,
}

impl Share {
    /// What a turn takes on: pods whose search ends well within an invocation, however they depend on each other, launches
    /// that the account's rate of requests lets go before much has changed, and a few seconds of simulations, so that every
    /// one of 4,000 nodes is considered in one look.
    pub const TURN: Self = Self {
        pods: 20_000,
        launches: 1_000,
        simulated: 20_000_000,
    };
    /// For plans that are only read.
    pub const WHOLE: Self = Self {
        pods: usize::MAX,
        launches: usize::MAX,
        simulated: usize::MAX,
    };
}
