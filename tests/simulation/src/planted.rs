/// A rule of PROTOCOL that is switched off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Bug {
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
    NeverDrain,
    TerminateNeighbour,
    NeverFinishNotices,
    NoJournal,
}

impl Bug {
    pub const ALL: [Self; 35] = [
        Self::IgnoreLease,
        Self::ForgetDue,
        Self::SwallowFailures,
        Self::AcknowledgeFirst,
        Self::NeverSweep,
        Self::ForgetInFlight,
        Self::NoFence,
        Self::ForgetIntents,
        Self::ForgetNotices,
        Self::IgnoreMode,
        Self::IgnorePauses,
        Self::ActForWatchedPools,
        Self::NeverFreeze,
        Self::NewTokenEachTime,
        Self::ForgetTag,
        Self::NeverResume,
        Self::NeverOwn,
        Self::ReleaseEarly,
        Self::NeverReread,
        Self::NeverCollect,
        Self::NeverClose,
        Self::NeverForget,
        Self::NoBrake,
        Self::DeleteBeforeReplaced,
        Self::NoPreconditions,
        Self::IgnoreLeader,
        Self::IgnoreMissingCapacity,
        Self::IgnoreLimits,
        Self::IgnoreBudgets,
        Self::IgnoreDoNotDisrupt,
        Self::DeleteForEvict,
        Self::NeverDrain,
        Self::TerminateNeighbour,
        Self::NeverFinishNotices,
        Self::NoJournal,
    ];
}
