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
    /// L1
    IgnoreLease,
    /// L2
    ForgetDue,
    /// L2, L5
    SwallowFailures,
    /// L4: a message is acknowledged although its fact is not on record.
    AcknowledgeFirst,
    /// L5: wakes are lost, and nobody sweeps.
    NeverSweep,
    /// O2
    ForgetInFlight,
    /// C1
    NoFence,
    /// C1
    ForgetIntents,
    /// C3
    ForgetNotices,
    /// C4
    IgnoreMode,
    IgnorePauses,
    ActForWatchedPools,
    /// A2
    NeverFreeze,
    /// A2, A3: a call that was not answered is sent again as another one, without looking for what it launched.
    NewTokenEachTime,
    /// A3
    ForgetTag,
    /// A3
    NeverResume,
    /// A4
    NeverOwn,
    /// A5
    ReleaseEarly,
    /// A6
    NeverReread,
    /// G1
    NeverCollect,
    NeverClose,
    NeverForget,
    /// G3
    NoBrake,
    /// D1
    DeleteBeforeReplaced,
    /// D2
    NoPreconditions,
    /// B1
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
