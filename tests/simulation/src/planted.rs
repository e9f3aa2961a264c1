/// Declares the bugs and the list of all of them together, so that no list can lack one.
macro_rules! bugs {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// A rule that is switched off, between turns and the fakes: nothing in the product knows of it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Bug {
            $($(#[$doc])* $name,)*
        }

        impl Bug {
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];
        }
    };
}

bugs! {
    /// Breaks docs/protocol.md#l1.
    IgnoreLease,
    /// Breaks docs/protocol.md#l2.
    ForgetDue,
    /// Breaks docs/protocol.md#l2, docs/protocol.md#l5.
    SwallowFailures,
    /// A message is acknowledged although its fact is not on record (docs/protocol.md#l4).
    AcknowledgeFirst,
    /// Wakes are lost, and nobody sweeps (docs/protocol.md#l5).
    NeverSweep,
    /// Breaks docs/protocol.md#o2.
    ForgetInFlight,
    /// Breaks docs/protocol.md#c1.
    NoFence,
    /// Breaks docs/protocol.md#c1.
    ForgetIntents,
    /// Breaks docs/protocol.md#c3.
    ForgetNotices,
    /// Breaks docs/protocol.md#c4.
    IgnoreMode,
    IgnorePauses,
    ActForWatchedPools,
    /// Breaks docs/protocol.md#a2.
    NeverFreeze,
    /// A call that was not answered is sent again as another one, without looking for what it launched (docs/protocol.md#a2,
    /// docs/protocol.md#a3).
    NewTokenEachTime,
    /// Breaks docs/protocol.md#a3.
    ForgetTag,
    /// Breaks docs/protocol.md#a3.
    NeverResume,
    /// Breaks docs/protocol.md#a4.
    NeverOwn,
    /// Breaks docs/protocol.md#a5.
    ReleaseEarly,
    /// Breaks docs/protocol.md#a6.
    NeverReread,
    /// Breaks docs/protocol.md#g1.
    NeverCollect,
    NeverClose,
    NeverForget,
    /// Breaks docs/protocol.md#g3.
    NoBrake,
    /// Breaks docs/protocol.md#d1.
    DeleteBeforeReplaced,
    /// Breaks docs/protocol.md#d2.
    NoPreconditions,
    /// Breaks docs/protocol.md#b1.
    IgnoreLeader,
    IgnoreMissingCapacity,
    IgnoreLimits,
    IgnoreBudgets,
    IgnoreDoNotDisrupt,
    DeleteForEvict,
    /// Pods of nodes with a terminationGracePeriod are deleted at once, long before it runs out.
    DeleteWithinGracePeriod,
    /// Instances are ended under pods that are given time to end.
    EndWithinGracePeriod,
    NeverDrain,
    TerminateNeighbour,
    NeverFinishNotices,
    NoJournal,
    /// Nodes that fail are never seen to.
    NeverRepair,
    /// Of the nodes that fail, repair is shown one at a time.
    RepairTogether,
    MiscountReplicas,
    OvercommitReservations,
}
