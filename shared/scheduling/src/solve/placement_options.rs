//! Placement options of a pod: existing nodes, in-flight claims, and a new claim.

use std::{cmp::Reverse, ops::Range, rc::Rc};

use model::snapshot::Optimize;

use super::Solver;
use crate::{
    amounts,
    bits::BitSet,
    claim::{Claim, ClaimFit, ClaimStage},
    placement_context::Refusal,
    shape::{Failure, ShapeCore, ShapeSearch},
    strategy::{ClaimOrder, PoolChoice},
    topology::{ApplicableConstraint, HostId},
};

/// Bits of the claim order below the number of pods.
const COUNT_SHIFT: u32 = 40;
/// Ties in the claim order are numbered downwards from here.
const TIES: u64 = (1 << COUNT_SHIFT) - 1;
/// Nodes per block that is skipped as a whole: large enough to save work, small enough to measure again after each
/// placement.
pub(super) const BLOCK: usize = 32;

impl<'a> Solver<'a> {
    pub(super) fn try_nodes(
        &mut self,
        pod: usize,
        core: &Rc<ShapeCore<'a>>,
        search: &mut ShapeSearch,
    ) -> Option<()> {
        let none = || BitSet::none(self.nodes.len());
        let mut rejected_nodes = search.rejected_nodes.take().unwrap_or_else(none);
        let mut placed = None;
        'search: for block in 0..self.blocks.len() {
            if !self
                .blocks
                .get(block)
                .is_some_and(|most| amounts::fits(&core.requests, most))
            {
                continue;
            }
            let end = self.nodes.len().min((block + 1) * BLOCK);
            for at in block * BLOCK..end {
                if rejected_nodes.contains(at) {
                    continue;
                }
                let Some(node) = self.nodes.get_mut(at) else {
                    continue;
                };
                match node.check(core, &search.constraints, &mut self.context) {
                    Ok(()) => {
                        node.commit(pod, core, &mut self.context);
                        self.measure_block(block);
                        placed = Some(());
                        break 'search;
                    }
                    Err(refusal) if refusal.is_permanent() => rejected_nodes.insert(at),
                    Err(_) => {}
                }
            }
        }
        search.rejected_nodes = Some(rejected_nodes);
        placed
    }

    pub(crate) fn measure_block_of(&mut self, node: usize) {
        self.measure_block(node / BLOCK);
    }

    /// Stores the largest remaining amount of each resource in a block, so that full blocks are skipped at once.
    pub(super) fn measure_block(&mut self, block: usize) {
        let nodes = self.nodes.iter().skip(block * BLOCK).take(BLOCK);
        let mut most = vec![-1; self.context.dimensions.len()];
        for left in nodes.filter_map(|node| node.remaining.as_deref()) {
            for (most, left) in most.iter_mut().zip(left) {
                *most = (*most).max(*left);
            }
        }
        if let Some(slot) = self.blocks.get_mut(block) {
            *slot = most;
        }
    }

    pub(super) fn try_claims(
        &mut self,
        pod: usize,
        core: &Rc<ShapeCore<'a>>,
        search: &mut ShapeSearch,
    ) -> Option<()> {
        for at in search.claims_seen..self.claims.len() {
            if let Some(claim) = self.claims.get(at) {
                let at = u32::try_from(at).unwrap_or(u32::MAX);
                search.claims.push(Reverse((claim.order, at)));
            }
        }
        search.claims_seen = self.claims.len();
        let version = self.context.topology.version(&search.constraints);
        let is_outdated = version != search.parked_at;
        search.parked_at = version;
        let mut parked = std::mem::take(&mut search.parked);
        parked.retain(|&(order, at)| {
            let now = self.claims.get(at as usize).map(|claim| claim.order);
            let stays = !is_outdated && now == Some(order);
            if !stays && let Some(now) = now {
                search.claims.push(Reverse((now, at)));
            }
            stays
        });
        search.parked = parked;
        while let Some(Reverse((order, at))) = search.claims.pop() {
            let Some(claim) = self.claims.get_mut(at as usize) else {
                continue;
            };
            if claim.order != order {
                search.claims.push(Reverse((claim.order, at)));
                continue;
            }
            match claim.check(
                core,
                &search.constraints,
                ClaimStage::InFlight,
                &mut self.context,
            ) {
                Ok(fit) => {
                    claim.commit(pod, core, fit, &mut self.context);
                    if self.strategy.order == ClaimOrder::EmptiestFirst {
                        claim.order = ((order >> COUNT_SHIFT) + 1) << COUNT_SHIFT
                            | TIES.saturating_sub(self.placements);
                    }
                    search.claims.push(Reverse((claim.order, at)));
                    return Some(());
                }
                Err(refusal) if refusal.is_permanent() => {}
                Err(_) => search.parked.push((order, at)),
            }
        }
        None
    }

    pub(super) fn try_templates(
        &mut self,
        pod: usize,
        core: &Rc<ShapeCore<'a>>,
        search: &mut ShapeSearch,
    ) -> Result<(), Failure> {
        search
            .rejected_templates
            .resize(self.context.templates.len(), false);
        let mut next = 0;
        while next < self.context.templates.len() {
            let end = self.end_of_weight(next);
            let tried = if end - next == 1 {
                self.try_template(pod, next, core, search)
            } else {
                self.try_cheapest(pod, next..end, core, search)
            };
            match tried {
                Ok(()) => return Ok(()),
                Err(Refusal::Reservation) => return Err(Failure::Deferred),
                Err(_) => next = end,
            }
        }
        Err(Failure::NoRoom)
    }

    fn try_template(
        &mut self,
        pod: usize,
        at: usize,
        core: &Rc<ShapeCore<'a>>,
        search: &mut ShapeSearch,
    ) -> Result<(), Refusal> {
        if search.rejected_templates.get(at) == Some(&true) {
            return Err(Refusal::Requirements);
        }
        let tried = self.new_claim(pod, at, core, &search.constraints);
        if let (Err(refusal), Some(rejected)) = (&tried, search.rejected_templates.get_mut(at)) {
            *rejected = refusal.is_permanent();
        }
        tried
    }

    /// End of the NodePools from `from` on that differ only in price. Upstream orders them by name, so each is its own
    /// range.
    fn end_of_weight(&self, from: usize) -> usize {
        let input = &self.context.input;
        let weight = input.pools.get(from).map(|pool| pool.weight);
        let alike = input.pools.iter().skip(from);
        let alike = alike.take_while(|pool| Some(pool.weight) == weight).count();
        match input.options.optimize {
            Optimize::Cost if self.strategy.pools != PoolChoice::ByName => from + alike.max(1),
            Optimize::Upstream | Optimize::Cost => from + 1,
        }
    }

    /// Creates a claim of the NodePool in `of` whose new node is cheapest for the pod.
    fn try_cheapest(
        &mut self,
        pod: usize,
        of: Range<usize>,
        core: &Rc<ShapeCore<'a>>,
        search: &mut ShapeSearch,
    ) -> Result<(), Refusal> {
        let mut best: Option<(i64, usize)> = None;
        let mut refused = Refusal::Requirements;
        for at in of {
            if search.rejected_templates.get(at) == Some(&true) {
                continue;
            }
            let tried = self.empty_claim(at).and_then(|claim| {
                let context = &mut self.context;
                claim.check(core, &search.constraints, ClaimStage::New, context)
            });
            match tried {
                Ok(fit) => {
                    let price = self.price_of_new(at, core, &fit);
                    if best.is_none_or(|(known, _)| price < known) {
                        best = Some((price, at));
                    }
                }
                Err(refusal) => {
                    if let Some(rejected) = search.rejected_templates.get_mut(at) {
                        *rejected = refusal.is_permanent();
                    }
                    if refused != Refusal::Reservation {
                        refused = refusal;
                    }
                }
            }
        }
        match best {
            Some((_, at)) => self.new_claim(pod, at, core, &search.constraints),
            None => Err(refused),
        }
    }

    /// Price of a new node for the pod alone, or the pod's share of a node that is full of equal pods.
    fn price_of_new(&mut self, template: usize, core: &ShapeCore<'a>, fit: &ClaimFit<'a>) -> i64 {
        let context = &mut self.context;
        if self.strategy.pools == PoolChoice::CheapestNode {
            return context.cheapest(template, fit.set, &fit.rows).0;
        }
        let Some(catalog) = context.templates.get(template).map(|known| known.catalog) else {
            return i64::MAX;
        };
        let prices = context.prices(catalog, fit.set);
        let Some(template) = context.templates.get(template) else {
            return i64::MAX;
        };
        let shares = prices.iter().filter(|(row, _)| fit.rows.contains(*row));
        let shares = shares.filter_map(|(row, choice)| {
            let room = template.left.get(*row)?.as_deref()?;
            Some(choice.price.0 / amounts::copies(&core.requests, room).max(1))
        });
        shares.min().unwrap_or(i64::MAX)
    }

    pub(crate) fn new_claim(
        &mut self,
        pod: usize,
        at: usize,
        core: &Rc<ShapeCore<'a>>,
        constraints: &[ApplicableConstraint],
    ) -> Result<(), Refusal> {
        let mut claim = self.empty_claim(at)?;
        let fit = claim.check(core, constraints, ClaimStage::New, &mut self.context)?;
        claim.commit(pod, core, fit, &mut self.context);
        self.next_host += 1;
        if let Some(template) = self.context.templates.get_mut(at) {
            template.limits.spend(&claim.rows);
        }
        self.claims.push(claim);
        Ok(())
    }

    /// Claim without pods, within the remaining limits.
    pub(crate) fn empty_claim(&self, at: usize) -> Result<Claim<'a>, Refusal> {
        let template = self
            .context
            .templates
            .get(at)
            .ok_or(Refusal::Requirements)?;
        if template.limits.has_no_node_left() {
            return Err(Refusal::NodeLimit);
        }
        let mut rows = template.base.clone();
        template.limits.keep_within(&mut rows);
        if rows.is_empty() {
            return Err(Refusal::Limits);
        }
        Claim::new(&self.context, at, rows, HostId(self.next_host)).ok_or(Refusal::Requirements)
    }

    /// Claim without regard to limits, to explain other refusals.
    pub(crate) fn unlimited_claim(&self, at: usize) -> Option<Claim<'a>> {
        let template = self.context.templates.get(at)?;
        let rows = Some(template.base.clone()).filter(|rows| !rows.is_empty())?;
        Claim::new(&self.context, at, rows, HostId(self.next_host))
    }
}
