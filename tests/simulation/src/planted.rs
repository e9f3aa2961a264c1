/// Declares the bugs together with the list of all of them, so that the list is always complete.
macro_rules! bugs {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// A rule that is disabled between turns and the fakes; the product does not know about it.
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
    /// Acknowledges a message although its fact is not recorded (docs/protocol.md#l4).
    AcknowledgeFirst,
    /// Loses all wakes and sweeps (docs/protocol.md#l5).
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
    /// Sends an unanswered call again as a new one, without looking for instances that it launched (docs/protocol.md#a2,
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
    /// Deletes pods of nodes with a terminationGracePeriod immediately, long before it ends.
    DeleteWithinGracePeriod,
    /// Terminates instances under pods that still have time to end.
    EndWithinGracePeriod,
    NeverDrain,
    TerminateNeighbour,
    NeverFinishNotices,
    NoJournal,
    /// Hides failing nodes from repair.
    NeverRepair,
    /// Shows repair only one failing node at a time.
    RepairTogether,
    MiscountReplicas,
    OvercommitReservations,
}
