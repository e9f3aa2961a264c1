//! Strategies of a solve.

use crate::preferences::Ignored;

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Strategy {
    pub(crate) order: Order,
    pub(crate) ties: Ties,
    pub(crate) counted_as: CountedAs,
    pub(crate) pools: Pools,
    pub(crate) domains: Domains,
    pub(crate) hosts: Hosts,
    pub(crate) peers: Peers,
    pub(crate) queue: Queue,
    /// Preferences that are ignored, whatever honouring them would cost.
    pub(crate) ignored: Ignored,
}

/// Order in which pods are placed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Queue {
    /// Descending requests.
    #[default]
    LargestFirst,
    /// Pods with fewer open domains than others, so that others do not fill the only ones they have.
    ConfinedFirst,
}

/// Domain in which the first of several pods with affinity to each other is placed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Peers {
    /// Any domain that is open to the first pod.
    #[default]
    Anywhere,
    /// A domain that is open to all of them.
    Together,
}

/// Whether preferred spread and anti-affinity over hosts are honoured: each pod may need its own node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Hosts {
    #[default]
    AsPreferred,
    Shared,
}

/// Domains that count for spread constraints besides those of existing nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Domains {
    /// As [`OnOffer`](crate::on_offer::OnOffer) of the request for preferred constraints, as upstream for required ones.
    #[default]
    AsRequested,
    /// As upstream: a pod drops a preferred constraint if a domain without offerings would have to be filled first.
    Named,
    /// As [`OnOffer`](crate::on_offer::OnOffer) of the request for preferred and required constraints.
    OnOffer,
}

/// Order in which in-flight claims are tried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Order {
    /// Fewest pods first, as upstream.
    #[default]
    EmptiestFirst,
    OldestFirst,
}

/// Choice among domains with equally few pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Ties {
    #[default]
    Cheapest,
    FirstByName,
}

/// Choice among NodePools of the same weight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Pools {
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
pub(crate) enum CountedAs {
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
        ties: Ties::FirstByName,
        ..OLDEST_FIRST
    },
    Strategy {
        ties: Ties::FirstByName,
        ..EMPTIEST_FIRST
    },
];

pub(super) const OLDEST_FIRST: Strategy = Strategy {
    order: Order::OldestFirst,
    ties: Ties::Cheapest,
    counted_as: CountedAs::Largest,
    pools: Pools::CheapestShare,
    domains: Domains::AsRequested,
    hosts: Hosts::AsPreferred,
    peers: Peers::Anywhere,
    queue: Queue::LargestFirst,
    ignored: Ignored::NONE,
};

pub(super) const EMPTIEST_FIRST: Strategy = Strategy {
    order: Order::EmptiestFirst,
    pools: Pools::CheapestNode,
    ..OLDEST_FIRST
};

/// Strategies that save limits. The first two are also compared for cost, because a node that counts as its largest type
/// may leave no room in the limits for others.
pub(super) const LIMIT_SPARING: [Strategy; 4] = [
    Strategy {
        counted_as: CountedAs::Cheapest,
        ..OLDEST_FIRST
    },
    Strategy {
        counted_as: CountedAs::Cheapest,
        ..EMPTIEST_FIRST
    },
    Strategy {
        counted_as: CountedAs::Smallest,
        ..OLDEST_FIRST
    },
    Strategy {
        counted_as: CountedAs::Smallest,
        ..EMPTIEST_FIRST
    },
];
