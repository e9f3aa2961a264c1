//! Strategies of a solve.

use crate::preferences::IgnoredPreferences;

/// Choices of one solve.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Strategy {
    pub(crate) order: ClaimOrder,
    pub(crate) ties: TieBreak,
    pub(crate) counted_as: LimitAccounting,
    pub(crate) pools: PoolChoice,
    pub(crate) domains: SpreadDomains,
    pub(crate) hosts: HostPreferences,
    pub(crate) peers: AffinityStart,
    pub(crate) queue: QueueOrder,
    /// Preferences that are ignored, regardless of the cost of honoring them.
    pub(crate) ignored: IgnoredPreferences,
    /// Most zones that preferred spreads extend over, those with the cheapest nodes; `None` for every zone on offer.
    pub(crate) zones_max: Option<usize>,
}

/// Order in which pods are placed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum QueueOrder {
    /// Descending requests.
    #[default]
    LargestFirst,
    /// Pods with the fewest open domains first, so that other pods do not fill the few domains open to them.
    ConfinedFirst,
}

/// Domain in which the first of several pods with affinity to each other is placed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum AffinityStart {
    /// Any domain that is open to the first pod.
    #[default]
    Anywhere,
    /// A domain that is open to all of them.
    Together,
}

/// Whether preferred spread and anti-affinity over hosts are honored: each pod may need its own node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum HostPreferences {
    #[default]
    AsPreferred,
    Shared,
}

/// Domains that count for spread constraints besides those of existing nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum SpreadDomains {
    /// Preferred constraints follow `OfferedDomains` of the request; required ones behave as upstream.
    #[default]
    RequestedIfPreferred,
    /// Upstream behavior: a pod drops a preferred constraint if a domain without offerings would have to be filled first.
    Named,
    /// As `OfferedDomains` of the request for preferred and required constraints.
    Requested,
}

/// Order in which in-flight claims are tried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ClaimOrder {
    /// Fewest pods first, as upstream.
    #[default]
    EmptiestFirst,
    OldestFirst,
}

/// Choice among domains with equally few pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum TieBreak {
    #[default]
    Cheapest,
    FirstByName,
}

/// Choice among NodePools of the same weight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum PoolChoice {
    /// NodePool whose new node is cheapest for the pod alone.
    #[default]
    CheapestNode,
    /// NodePool in which the pod's share of a full node is cheapest.
    CheapestShare,
    /// First NodePool that can serve the pod, in upstream's order.
    ByName,
}

/// Amounts that a new node counts against the limits of its NodePool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum LimitAccounting {
    /// Largest type that it may become, as upstream.
    #[default]
    Largest,
    /// Cheapest type, if the largest leaves too little for other nodes.
    Cheapest,
    /// Type that takes the least of the remaining limits, if the cheapest leaves too little for other nodes.
    Smallest,
}

/// Strategies in the order in which they are tried. Filling the oldest claim first leaves fuller nodes, so that order comes
/// first.
pub(super) const STRATEGIES: [Strategy; 4] = [
    OLDEST_FIRST,
    EMPTIEST_FIRST,
    Strategy {
        ties: TieBreak::FirstByName,
        ..OLDEST_FIRST
    },
    Strategy {
        ties: TieBreak::FirstByName,
        ..EMPTIEST_FIRST
    },
];

pub(super) const OLDEST_FIRST: Strategy = Strategy {
    order: ClaimOrder::OldestFirst,
    ties: TieBreak::Cheapest,
    counted_as: LimitAccounting::Largest,
    pools: PoolChoice::CheapestShare,
    domains: SpreadDomains::RequestedIfPreferred,
    hosts: HostPreferences::AsPreferred,
    peers: AffinityStart::Anywhere,
    queue: QueueOrder::LargestFirst,
    ignored: IgnoredPreferences::NONE,
    zones_max: None,
};

pub(super) const EMPTIEST_FIRST: Strategy = Strategy {
    order: ClaimOrder::EmptiestFirst,
    pools: PoolChoice::CheapestNode,
    ..OLDEST_FIRST
};

/// Strategies that save limits. The first two are also compared for cost, because a node that counts as its largest type
/// may leave no room in the limits for others.
pub(super) const LIMIT_SPARING: [Strategy; 4] = [
    Strategy {
        counted_as: LimitAccounting::Cheapest,
        ..OLDEST_FIRST
    },
    Strategy {
        counted_as: LimitAccounting::Cheapest,
        ..EMPTIEST_FIRST
    },
    Strategy {
        counted_as: LimitAccounting::Smallest,
        ..OLDEST_FIRST
    },
    Strategy {
        counted_as: LimitAccounting::Smallest,
        ..EMPTIEST_FIRST
    },
];
