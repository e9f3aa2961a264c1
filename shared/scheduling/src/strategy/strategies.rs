//! Ways to answer a question, as far as no rule decides.

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
    /// Preferences that pods do not ask for, however little they would cost.
    pub(crate) ignored: Ignored,
}

/// Which pods are placed first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Queue {
    /// Large ones.
    #[default]
    LargestFirst,
    /// Those that could be in fewer domains than others, so that these do not take the only ones that they have.
    ConfinedFirst,
}

/// Where the first of several pods goes that have to be near each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Peers {
    /// Wherever it can be itself.
    #[default]
    Anywhere,
    /// Where all of them can be.
    Together,
}

/// Whether pods that prefer to be on other nodes than their kind look for that at all: each of them may need a node more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Hosts {
    #[default]
    AsPreferred,
    Shared,
}

/// Which domains spreads are held to besides those of nodes that exist.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Domains {
    /// As the question asks for where a spread is preferred, as upstream where it must be met.
    #[default]
    ConstraintSource,
    /// As upstream: whoever prefers to be spread over one in which nothing can be bought gives up a preference for it.
    Named,
    /// As the question asks for, also where a spread must be met.
    OnOffer,
}

/// Which claim in flight is tried first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Order {
    /// As upstream.
    #[default]
    EmptiestFirst,
    OldestFirst,
}

/// Which of several equally empty domains is taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Ties {
    #[default]
    Cheapest,
    FirstByName,
}

/// Which of several NodePools of the same weight makes a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Pools {
    /// The one whose node is the cheapest for the pod that it is made for.
    #[default]
    CheapestNode,
    /// The one where a pod costs least on a node that is full of such pods.
    CheapestShare,
    /// The first that can, in upstream's order.
    ByName,
}

/// Which of its types a new node counts as against its NodePool's limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum CountedAs {
    /// The largest that it might become, as upstream.
    #[default]
    Largest,
    /// The cheapest, where the largest ones leave too little for others.
    Cheapest,
    /// The one that takes the least of what limits leave, where the cheapest ones leave too little.
    Smallest,
}

/// All ways to answer. Filling the oldest claim first leaves fuller nodes, so it comes first where cost decides.
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
    domains: Domains::ConstraintSource,
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

/// Ways that spare limits. The first two are also tried for a cheaper answer, as a node that counts as the largest it might become
/// leaves nothing for others beside it.
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
