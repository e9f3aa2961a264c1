//! Devices that pods claim with dynamic resource allocation (docs/spec/v1.15.md#dra-planning). Pods without claims skip
//! these checks.
//!
//! A claim of a single pod is allocated wherever the pod is placed. A claim that pods share is allocated with the first of
//! them, and binds the others to that node.

mod allocation;
mod claims;
mod index;
mod missing;
mod selector;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
};

use model::{Uid, pod::Pod};

pub(crate) use self::{allocation::DeviceUsage, index::LayoutId};
use self::{
    allocation::allocate,
    claims::EvaluatedClaim,
    index::{DeviceIndex, SpecId},
};
use crate::{
    bits::BitSet, claim::Claim, input::Input, node::Node, placement_context::PlacementContext,
    shape::ShapeCore, topology::HostId,
};

/// Devices and claims of a solve, with the allocations made so far.
#[derive(Clone)]
pub(crate) struct Devices<'a> {
    index: Rc<DeviceIndex<'a>>,
    /// Claims that are allocated now, but whose only users are pods that leave.
    freed: Rc<BTreeSet<usize>>,
    /// Per shared claim, by index, the site of its allocation.
    sites: BTreeMap<usize, AllocationSite>,
}

/// Site of a claim's devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AllocationSite {
    /// Existing node, as an index into the input's nodes.
    Node(usize),
    /// New node.
    New(HostId),
    /// Node that takes no pods.
    Nowhere,
    /// Devices that every node reaches.
    Everywhere,
}

/// Resolved claims of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ClaimNeeds {
    /// Claims that only this pod uses.
    own: Vec<SpecId>,
    /// Claims that other pods may use too, by index.
    shared: Vec<(usize, SpecId)>,
    /// Reason why the claims cannot be allocated anywhere.
    pub(crate) problem: Option<String>,
}

impl ClaimNeeds {
    pub(crate) fn is_empty(&self) -> bool {
        self.own.is_empty() && self.shared.is_empty() && self.problem.is_none()
    }

    /// Whether a refusal holds for the rest of the search: devices are only ever taken, but a shared claim may be allocated
    /// on the refused node later.
    pub(crate) fn refusals_are_permanent(&self) -> bool {
        self.shared.is_empty()
    }
}

impl<'a> Devices<'a> {
    /// `None` if no pod has claims, or the settings ignore claims.
    pub(crate) fn new(input: &Input<'a>, catalogs: &[crate::catalog::Catalog<'a>]) -> Option<Self> {
        let objects = input.devices?;
        let mut pods = input.pods.iter();
        pods.any(|pod| pod.resource_claims).then(|| Self {
            index: Rc::new(DeviceIndex::new(objects, input, catalogs)),
            freed: Rc::default(),
            sites: BTreeMap::new(),
        })
    }

    /// State in which these pods have left their nodes.
    pub(crate) fn without<'p>(&self, leaving: impl Iterator<Item = &'p Pod>) -> Self {
        let leaving = leaving.filter(|pod| pod.node_name.is_some());
        let leaving: BTreeSet<&Uid> = leaving.map(|pod| &pod.uid).collect();
        let freed = self.index.freed(&leaving);
        Self {
            sites: self.index.sites(&freed),
            index: Rc::clone(&self.index),
            freed: Rc::new(freed),
        }
    }

    /// Allocated devices of an existing node, by the node's index.
    pub(crate) fn taken(&self, node: usize) -> Rc<DeviceUsage> {
        Rc::new(self.index.taken(node, &self.freed))
    }

    fn needs(&self, pod: &'a Pod) -> ClaimNeeds {
        self.index
            .needs(pod, &self.freed)
            .unwrap_or_else(|problem| ClaimNeeds {
                problem: Some(problem),
                ..ClaimNeeds::default()
            })
    }

    /// Claims to allocate at a site; `None` if one is allocated elsewhere.
    fn to_allocate(
        &self,
        needs: &ClaimNeeds,
        site: AllocationSite,
    ) -> Option<Vec<&EvaluatedClaim>> {
        let mut specs = Vec::new();
        for (claim, spec) in &needs.shared {
            match self.sites.get(claim) {
                None => specs.push(self.index.spec(*spec)?),
                Some(AllocationSite::Everywhere) => {}
                Some(known) if *known == site => {}
                Some(_) => return None,
            }
        }
        for spec in &needs.own {
            specs.push(self.index.spec(*spec)?);
        }
        Some(specs)
    }

    /// Allocated devices of an existing node with the claims of one more pod.
    fn on_node(&self, node: &Node<'a>, needs: &ClaimNeeds) -> Option<DeviceUsage> {
        let specs = self.to_allocate(needs, AllocationSite::Node(node.index))?;
        let layout = self.index.layout_of_node(node.index)?;
        allocate(layout, node.devices.as_deref()?, &specs)
    }

    /// Allocated devices with the claims of one more pod, per device layout of the new node's types.
    fn on_claim(
        &self,
        claim: &Claim<'a>,
        needs: &ClaimNeeds,
        catalog: usize,
        rows: &BitSet,
    ) -> BTreeMap<LayoutId, DeviceUsage> {
        let Some(specs) = self.to_allocate(needs, AllocationSite::New(claim.host)) else {
            return BTreeMap::new();
        };
        let layouts = rows
            .iter()
            .filter_map(|row| self.index.layout_of_row(catalog, row));
        let layouts: BTreeSet<LayoutId> = layouts.collect();
        let nothing = DeviceUsage::default();
        let usages = layouts.into_iter().filter_map(|id| {
            let known = claim.devices.get(&id).unwrap_or(&nothing);
            let usage = allocate(self.index.layout(id)?, known, &specs)?;
            Some((id, usage))
        });
        usages.collect()
    }

    fn keep(&self, usages: &BTreeMap<LayoutId, DeviceUsage>, catalog: usize, rows: &mut BitSet) {
        let all: Vec<usize> = rows.iter().collect();
        for row in all {
            let layout = self.index.layout_of_row(catalog, row);
            if !layout.is_some_and(|id| usages.contains_key(&id)) {
                rows.remove(row);
            }
        }
    }

    fn record_allocation(&mut self, needs: &ClaimNeeds, site: AllocationSite) {
        for (claim, _) in &needs.shared {
            self.sites.entry(*claim).or_insert(site);
        }
    }
}

impl<'a> PlacementContext<'a> {
    pub(crate) fn claim_needs(&self, pod: &'a Pod) -> Rc<ClaimNeeds> {
        if !pod.resource_claims {
            return Rc::default();
        }
        Rc::new(match &self.devices {
            Some(devices) => devices.needs(pod),
            None => ClaimNeeds {
                problem: Some(NOT_COUNTED.to_owned()),
                ..ClaimNeeds::default()
            },
        })
    }

    /// Whether an existing node has free devices for a pod's claims.
    pub(crate) fn has_devices(&self, node: &Node<'a>, core: &ShapeCore<'a>) -> bool {
        core.claims.is_empty() || self.used_on_node(node, core).is_some()
    }

    pub(crate) fn used_on_node(
        &self,
        node: &Node<'a>,
        core: &ShapeCore<'a>,
    ) -> Option<DeviceUsage> {
        let devices = self
            .devices
            .as_ref()
            .filter(|_| core.claims.problem.is_none())?;
        devices.on_node(node, &core.claims)
    }

    /// Keeps the types with devices for a pod's claims besides those of the claim's other pods.
    pub(crate) fn keep_allocating(
        &self,
        claim: &Claim<'a>,
        core: &ShapeCore<'a>,
        rows: &mut BitSet,
    ) {
        let usages = self.used_on_claim(claim, core, rows);
        let catalog = self
            .templates
            .get(claim.template)
            .map(|known| known.catalog);
        match (&self.devices, catalog) {
            (Some(devices), Some(catalog)) => devices.keep(&usages, catalog, rows),
            _ => *rows = BitSet::none(0),
        }
    }

    pub(crate) fn used_on_claim(
        &self,
        claim: &Claim<'a>,
        core: &ShapeCore<'a>,
        rows: &BitSet,
    ) -> BTreeMap<LayoutId, DeviceUsage> {
        let devices = self
            .devices
            .as_ref()
            .filter(|_| core.claims.problem.is_none());
        let template = self.templates.get(claim.template);
        let (Some(devices), Some(template)) = (devices, template) else {
            return BTreeMap::new();
        };
        devices.on_claim(claim, &core.claims, template.catalog, rows)
    }

    pub(crate) fn record_allocation_on_node(&mut self, node: usize, core: &ShapeCore<'a>) {
        if let Some(devices) = &mut self.devices {
            devices.record_allocation(&core.claims, AllocationSite::Node(node));
        }
    }

    pub(crate) fn record_allocation_on_claim(&mut self, host: HostId, core: &ShapeCore<'a>) {
        if let Some(devices) = &mut self.devices {
            devices.record_allocation(&core.claims, AllocationSite::New(host));
        }
    }

    /// Drivers of the devices that a node of one type would have allocated.
    pub(crate) fn drivers(&self, claim: &Claim<'a>, row: usize) -> BTreeSet<&'a str> {
        let found = || {
            let devices = self.devices.as_ref()?;
            let catalog = self.templates.get(claim.template)?.catalog;
            let id = devices.index.layout_of_row(catalog, row)?;
            let layout = devices.index.layout(id)?;
            Some(claim.devices.get(&id)?.drivers(layout))
        };
        found().unwrap_or_default()
    }

    /// Text that names the claimed devices that no instance type has.
    pub(crate) fn lack_of_devices(
        &self,
        claim: &Claim<'a>,
        core: &ShapeCore<'a>,
        rows: &BitSet,
    ) -> String {
        if let Some(problem) = &core.claims.problem {
            return problem.clone();
        }
        let found = || {
            let devices = self.devices.as_ref()?;
            let catalog = self.templates.get(claim.template)?.catalog;
            Some(devices.lack(&core.claims, catalog, rows))
        };
        found().unwrap_or_else(|| NOT_COUNTED.to_owned())
    }
}

const NOT_COUNTED: &str = "uses resource claims (dynamic resource allocation), which the cluster's settings ignore (ignoreDRARequests)";
