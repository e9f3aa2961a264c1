use std::rc::Rc;

use model::{pod::Pod, snapshot::PreferencePolicy};

use super::*;
use crate::{
    algebra::Algebra,
    amounts,
    repack::{items::HostRule, offers::PurchaseOption},
    shape::{NodeRequirements, ShapeCore, VolumeNeeds},
    spec::Spec,
    tolerance::Tolerance,
    topology::{GroupId, GroupMembership, classes::ClassId},
};

const RULE: GroupId = GroupId(0);

/// Item of equal pods with these requests.
fn item<'a>(pod: &'a Pod, pods: usize, requests: &[i64], rules: &[HostRule]) -> Item<'a> {
    let core = ShapeCore {
        spec: Spec::new(pod, PreferencePolicy::Respect),
        requests: requests.into(),
        moved: false,
        sets: NodeRequirements {
            on_nodes: Algebra::EMPTY,
            on_claims: Algebra::EMPTY,
            any_hostname: true,
        },
        tolerations: Tolerance::default().tolerations(&[], false),
        volumes: Rc::new(VolumeNeeds::default()),
        claims: Rc::default(),
        member: GroupMembership {
            class: ClassId::default(),
            strict: Algebra::EMPTY,
            owned: Vec::new(),
            inverse: Vec::new(),
        },
    };
    Item::new(Rc::new(core), Vec::new(), rules.into(), (0..pods).collect())
}

/// Offers that every item may use, by price and capacity, without volumes.
fn offers(items: usize, all: &[(i64, [i64; 2])]) -> PurchaseOptions {
    let all = all.iter().map(|(price, room)| PurchaseOption {
        price: *price,
        room: room.iter().copied().chain([0]).collect(),
        kinds: 1,
    });
    PurchaseOptions {
        all: all.collect(),
        kinds: vec![1; items],
        nodes_max: i64::MAX,
    }
}

/// Host rule with this largest count.
fn rule(most: i64, counts: bool) -> HostRule {
    HostRule {
        group: RULE,
        most: Some(most),
        counts,
    }
}

fn plenty() -> WorkBudget {
    WorkBudget(1_000_000)
}

#[test]
fn number_of_copies_follows_the_scarcest_resource() {
    assert_eq!(amounts::copies(&[1, 3], &[8, 7]), 2);
    assert_eq!(amounts::copies(&[2, 0], &[8, 0]), 4);
    assert_eq!(amounts::copies(&[0, 0], &[0, 0]), i64::MAX);
    assert_eq!(amounts::copies(&[2, 0], &[8, -1]), 0);
}

#[test]
fn host_rules_bound_the_pods_on_a_node() {
    let pod = Pod::default();
    let items = [
        item(&pod, 9, &[1, 1], &[rule(2, true)]),
        item(&pod, 9, &[1, 1], &[rule(2, false)]),
        item(&pod, 9, &[1, 1], &[]),
    ];
    let offers = offers(3, &[(10, [8, 8])]);
    let pricing = Pricing::new(&items, &offers, &mut plenty()).unwrap();
    let admitted = |counted: i64| {
        let hosted = BTreeMap::from([(RULE, counted)]);
        [0, 1, 2].map(|item| pricing.admitted_by_host_rules(item, &hosted))
    };
    assert_eq!(admitted(0), [3, i64::MAX, i64::MAX]);
    assert_eq!(admitted(1), [2, i64::MAX, i64::MAX]);
    assert_eq!(admitted(3), [0, 0, i64::MAX]);
}

#[test]
fn plan_respects_host_rules() {
    let pod = Pod::default();
    let items = [item(&pod, 6, &[1, 1], &[rule(1, true)])];
    let offers = offers(1, &[(10, [8, 8])]);
    let plan = cheapest(&items, &offers, &mut plenty()).unwrap();
    let nodes = plan.nodes.iter();
    let nodes: Vec<_> = nodes
        .map(|(node, times)| (&node.items[..], *times))
        .collect();
    assert_eq!((nodes, plan.cost), (vec![(&[(0, 2)][..], 3)], 30));
}

/// Offers of which a full large one is the best value, and a small one is best for few pods.
fn sizes() -> PurchaseOptions {
    let larger = (1..=30).map(|size| (100 + 10 * size, [8 * size, 8 * size]));
    let all = [(40, [2, 2]), (60, [4, 4])].into_iter().chain(larger);
    offers(1, &all.collect::<Vec<_>>())
}

#[test]
fn small_offers_are_evaluated_despite_many_larger_ones() {
    let pod = Pod::default();
    let items = [item(&pod, 4, &[1, 1], &[])];
    let plan = cheapest(&items, &sizes(), &mut plenty()).unwrap();
    assert_eq!((plan.nodes.len(), plan.cost), (1, 60));
    let items = [item(&pod, 5, &[1, 1], &[])];
    let plan = cheapest(&items, &sizes(), &mut plenty()).unwrap();
    assert_eq!((plan.nodes.len(), plan.cost), (2, 100));
}

#[test]
fn node_limit_leads_to_fewer_and_larger_nodes() {
    let pod = Pod::default();
    let items = [item(&pod, 9, &[1, 1], &[])];
    let limited = |nodes_max| {
        let all = [(10, [2, 2]), (21, [4, 4]), (33, [6, 6]), (60, [9, 9])];
        let offers = PurchaseOptions {
            nodes_max,
            ..offers(1, &all)
        };
        let plan = cheapest(&items, &offers, &mut plenty());
        plan.map(|plan| plan.cost)
    };
    assert_eq!(limited(i64::MAX), Some(50));
    assert_eq!(limited(3), Some(53));
    assert_eq!(limited(1), Some(60));
    assert_eq!(limited(0), None);
}

/// Amounts of this size are compared by their upper bits.
const LARGE: i64 = 1 << 28;

#[test]
fn initial_worth_is_the_dearest_resource_at_its_lowest_price() {
    let pod = Pod::default();
    let items = [
        item(&pod, 1, &[2, 0], &[]),
        item(&pod, 1, &[0, LARGE / 2], &[]),
        item(&pod, 1, &[2, LARGE / 2], &[]),
    ];
    let offers = offers(3, &[(800_000, [8, LARGE]), (1_200_000, [8, 2 * LARGE])]);
    let pricing = Pricing::new(&items, &offers, &mut plenty()).unwrap();
    assert_eq!(pricing.worth, [200_000, 300_000, 300_000]);
}

#[test]
fn density_follows_the_scarcest_requested_resource() {
    let pod = Pod::default();
    let items = [
        item(&pod, 1, &[2, 0], &[]),
        item(&pod, 1, &[1, LARGE / 2], &[]),
    ];
    let offers = offers(2, &[(800, [8, LARGE])]);
    let mut pricing = Pricing::new(&items, &offers, &mut plenty()).unwrap();
    pricing.worth = vec![100, 100];
    assert_eq!(pricing.density(0, &[8, 1]), 400);
    assert_eq!(pricing.density(1, &[8, LARGE]), 200);
}

#[test]
fn initial_value_bound_fills_the_scarcest_resource() {
    const WORTH: i64 = 100 << 20;
    let pod = Pod::default();
    for (requests, room, times) in [
        ([2, 0], [8, 1], 4),
        ([2, LARGE / 2], [8, LARGE], 2),
        ([2, LARGE / 4], [4, LARGE], 2),
    ] {
        let items = [item(&pod, 1, &requests, &[])];
        let offers = offers(1, &[(800, room)]);
        let mut pricing = Pricing::new(&items, &offers, &mut plenty()).unwrap();
        pricing.worth = vec![WORTH];
        let drafts = pricing.drafts(&mut plenty()).unwrap();
        assert_eq!(
            drafts[0].value_bound,
            pricing.value(times * WORTH, 800),
            "{room:?}"
        );
    }
}

#[test]
fn node_price_is_split_by_worth() {
    let pod = Pod::default();
    let items = [item(&pod, 6, &[1, 1], &[]), item(&pod, 2, &[1, 1], &[])];
    let offers = offers(2, &[(10, [8, 8])]);
    let mut pricing = Pricing::new(&items, &offers, &mut plenty()).unwrap();
    pricing.worth = vec![10, 30];
    let node = PackedNode {
        items: vec![(0, 3), (1, 1)],
        price: 120,
        worth: 60,
    };
    pricing.update_worth(&Plan {
        nodes: vec![(node, 2)],
        cost: 240,
    });
    assert_eq!(pricing.worth, [20, 60]);
}

#[test]
fn rounds_end_after_three_without_improvement() {
    let pod = Pod::default();
    let items = [item(&pod, 6, &[1, 1], &[])];
    let offers = offers(1, &[(1_000_000, [8, 8])]);
    let spent = |steps: &dyn Fn(&mut WorkBudget)| {
        let mut work = plenty();
        steps(&mut work);
        plenty().0 - work.0
    };
    let pricing = Pricing::new(&items, &offers, &mut plenty()).unwrap();
    let first = spent(&|work| drop(Pricing::new(&items, &offers, work)));
    let round = spent(&|work| drop(pricing.round(work)));
    let all = spent(&|work| {
        drop(cheapest_of_rounds(
            &items,
            &offers,
            ValueBound::FullNode,
            work,
        ))
    });
    assert_eq!(all, first + 4 * round);
}

#[test]
fn no_plan_without_a_fitting_offer_or_beyond_the_work_budget() {
    let pod = Pod::default();
    let items = [
        item(&pod, 1, &[1, 1], &[]),
        item(&pod, 1, &[9, 1], &[]),
        item(&pod, 1, &[1, 1], &[]),
    ];
    let two = offers(3, &[(10, [8, 8]), (11, [8, 9])]);
    assert!(cheapest(&items, &two, &mut plenty()).is_none());
    let pricing = Pricing::new(&items, &two, &mut plenty()).unwrap();
    let drafted = |steps| pricing.drafts(&mut WorkBudget(steps)).is_some();
    assert_eq!([4, 5].map(drafted), [false, true]);
}
