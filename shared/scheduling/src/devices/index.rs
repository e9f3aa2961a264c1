//! Index of the devices and claims of an input.

use std::collections::{BTreeMap, BTreeSet};

use model::{
    PodKey, Uid,
    devices::{AllocatedDevice, Allocation, ClaimSpec, Device, DeviceObjects, PodClaim},
    pod::{Pod, PodPhase},
};

use super::{
    AllocationSite, ClaimNeeds,
    allocation::{DeviceLayout, DeviceUsage},
    claims::{ClaimEvaluator, EvaluatedClaim},
};
use crate::{catalog::Catalog, input::Input};

/// Distinct list of devices that nodes may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LayoutId(usize);

/// Interned claim spec.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SpecId(usize);

/// Devices, claims and evaluated claim specs of an input.
pub(super) struct DeviceIndex<'a> {
    objects: &'a DeviceObjects,
    claims: BTreeMap<&'a PodKey, usize>,
    /// Pods that no longer use their claims.
    terminated: BTreeSet<&'a Uid>,
    specs: Vec<EvaluatedClaim>,
    spec_ids: BTreeMap<&'a ClaimSpec, SpecId>,
    templates: BTreeMap<&'a PodKey, &'a ClaimSpec>,
    layouts: Vec<DeviceLayout<'a>>,
    /// Per catalog and row, the layout of the type.
    of_rows: Vec<Vec<LayoutId>>,
    nodes: Vec<NodeDevices<'a>>,
}

/// Devices of an existing node, with their allocations.
struct NodeDevices<'a> {
    layout: LayoutId,
    /// Device index, claim index and allocation of each allocated device.
    held: Vec<(usize, usize, &'a AllocatedDevice)>,
}

impl<'a> DeviceIndex<'a> {
    pub(super) fn new(
        objects: &'a DeviceObjects,
        input: &Input<'a>,
        catalogs: &[Catalog<'a>],
    ) -> Self {
        let mut layouts = DeviceLayouts::default();
        let of_rows = catalogs.iter().map(|catalog| {
            let rows = catalog.rows.iter();
            let devices = rows.map(|row| {
                catalog
                    .types
                    .get(row.instance_type)
                    .map(|instance_type| &*instance_type.devices)
            });
            let ids = devices.map(|devices| layouts.id_of(devices.unwrap_or_default().iter()));
            ids.collect()
        });
        let of_rows = of_rows.collect();
        let of_nodes = input.nodes.iter();
        let of_nodes: Vec<LayoutId> = of_nodes
            .map(|node| layouts.id_of(node.devices.iter().copied()))
            .collect();
        let DeviceLayouts { kinds, all, .. } = layouts;
        let mut kinds: Vec<(&Device, usize)> =
            kinds.into_iter().map(|(key, at)| (key.0, at)).collect();
        kinds.sort_by_key(|(_, at)| *at);
        let kinds: Vec<&Device> = kinds.into_iter().map(|(device, _)| device).collect();
        let mut judge = ClaimEvaluator::new(&objects.classes, &kinds);
        let mut index = Self {
            objects,
            claims: objects
                .claims
                .iter()
                .zip(0..)
                .map(|(claim, at)| (&claim.key, at))
                .collect(),
            terminated: terminated(input),
            specs: Vec::new(),
            spec_ids: BTreeMap::new(),
            templates: objects
                .templates
                .iter()
                .map(|template| (&template.key, &template.spec))
                .collect(),
            layouts: all,
            of_rows,
            nodes: Vec::new(),
        };
        for pod in input.pods.iter().filter(|pod| pod.resource_claims) {
            for claim in &pod.device_claims {
                let spec = index.find(pod, claim).ok().map(|(_, spec)| spec);
                if let Some(spec) = spec.filter(|spec| !index.spec_ids.contains_key(spec)) {
                    let id = SpecId(index.specs.len());
                    index.specs.push(judge.judge(spec));
                    index.spec_ids.insert(spec, id);
                }
            }
        }
        let allocated = allocated(objects);
        let nodes = of_nodes.into_iter().zip(&input.nodes);
        let nodes = nodes.map(|(layout, node)| NodeDevices {
            held: index.held(layout, node.name, &allocated),
            layout,
        });
        index.nodes = nodes.collect();
        index
    }

    /// Allocated devices of a node. Nodes that have not published devices use those that they are expected to have.
    fn held(
        &self,
        layout: LayoutId,
        node: &str,
        allocated: &AllocatedDevices<'a>,
    ) -> Vec<(usize, usize, &'a AllocatedDevice)> {
        let layout = self.layouts.get(layout.0);
        let devices = layout
            .into_iter()
            .flat_map(|layout| layout.devices.iter().zip(0..));
        let held = devices.flat_map(|(device, at)| {
            let pool = match device.pool.as_str() {
                "" => node,
                pool => pool,
            };
            let key = (device.driver.as_str(), pool, device.name.as_str());
            let claims = allocated.get(&key).into_iter().flatten();
            claims.map(move |(claim, device)| (at, *claim, *device))
        });
        held.collect()
    }

    /// Claim that a pod names or that was generated for it, if it exists, and its spec.
    fn find(&self, pod: &Pod, claim: &PodClaim) -> Result<(Option<usize>, &'a ClaimSpec), String> {
        let key = |name: &str| PodKey {
            namespace: pod.key.namespace.clone(),
            name: name.to_owned(),
        };
        let named = claim.claim.as_deref();
        let at = named.and_then(|name| self.claims.get(&key(name)).copied());
        if let Some(known) = at.and_then(|at| self.objects.claims.get(at)) {
            return Ok((at, &known.spec));
        }
        if let Some(template) = &claim.template {
            let spec = self.templates.get(&key(template)).copied();
            let spec =
                spec.ok_or_else(|| format!("ResourceClaimTemplate {template} does not exist"))?;
            return Ok((None, spec));
        }
        Err(match named {
            Some(name) => format!("ResourceClaim {name} does not exist"),
            None => format!("resource claim {} names no ResourceClaim", claim.name),
        })
    }

    pub(super) fn needs(&self, pod: &Pod, freed: &BTreeSet<usize>) -> Result<ClaimNeeds, String> {
        if pod.device_claims.is_empty() {
            return Err("a container uses resource claims that the pod does not name".to_owned());
        }
        let mut needs = ClaimNeeds::default();
        for claim in pod.device_claims.iter().filter(|claim| !claim.is_void) {
            let (at, spec) = self.find(pod, claim)?;
            let id = self.spec_ids.get(spec).copied();
            let id = id.ok_or_else(|| format!("resource claim {} is not known", claim.name))?;
            let known = at.and_then(|at| self.objects.claims.get(at));
            let is_allocated = known.is_some_and(|claim| claim.allocation.is_some());
            let stays_allocated = is_allocated && at.is_some_and(|at| !freed.contains(&at));
            let problem = self.specs.get(id.0).and_then(|spec| spec.problem.clone());
            if let Some(problem) = problem.filter(|_| !stays_allocated) {
                return Err(format!("resource claim {}: {problem}", claim.name));
            }
            let is_own = known.is_none_or(|claim| claim.owner.is_some()) && !stays_allocated;
            match at.filter(|_| !is_own) {
                Some(at) => needs.shared.push((at, id)),
                None => needs.own.push(id),
            }
        }
        needs.own.sort_unstable();
        needs.shared.sort_unstable();
        Ok(needs)
    }

    /// Claims without users after these pods have left; they can be allocated again.
    pub(super) fn freed(&self, leaving: &BTreeSet<&Uid>) -> BTreeSet<usize> {
        let claims = self.objects.claims.iter().enumerate();
        let freed = claims.filter(|(_, claim)| {
            let mut users = claim.reserved_for.iter();
            !claim.reserved_for.is_empty()
                && users.all(|user| leaving.contains(user) || self.terminated.contains(user))
        });
        freed.map(|(at, _)| at).collect()
    }

    /// Sites of the claims that stay allocated.
    pub(super) fn sites(&self, freed: &BTreeSet<usize>) -> BTreeMap<usize, AllocationSite> {
        let mut sites = BTreeMap::new();
        let claims = self.objects.claims.iter().enumerate();
        for (at, claim) in claims.filter(|(at, _)| !freed.contains(at)) {
            if let Some(Allocation { nodes, .. }) = &claim.allocation {
                let anywhere = nodes.is_none();
                sites.insert(
                    at,
                    if anywhere {
                        AllocationSite::Everywhere
                    } else {
                        AllocationSite::Nowhere
                    },
                );
            }
        }
        for (node, index) in self.nodes.iter().enumerate() {
            for (_, claim, _) in &index.held {
                if let Some(site) = sites.get_mut(claim) {
                    *site = AllocationSite::Node(node);
                }
            }
        }
        sites
    }

    pub(super) fn taken(&self, node: usize, freed: &BTreeSet<usize>) -> DeviceUsage {
        let mut usage = DeviceUsage::default();
        let held = self.nodes.get(node).map_or(&[][..], |known| &known.held);
        for (device, _, allocated) in held.iter().filter(|(_, claim, _)| !freed.contains(claim)) {
            match &allocated.consumed {
                Some(consumed) => {
                    let used = usage.parts.entry(*device).or_default();
                    for (name, amount) in consumed {
                        *used.entry(name.clone()).or_default() += amount;
                    }
                }
                None => {
                    usage.whole.insert(*device);
                }
            }
        }
        usage
    }

    pub(super) fn spec(&self, id: SpecId) -> Option<&EvaluatedClaim> {
        self.specs.get(id.0)
    }

    pub(super) fn layout(&self, id: LayoutId) -> Option<&DeviceLayout<'a>> {
        self.layouts.get(id.0)
    }

    pub(super) fn layout_of_row(&self, catalog: usize, row: usize) -> Option<LayoutId> {
        self.of_rows.get(catalog)?.get(row).copied()
    }

    pub(super) fn layout_of_node(&self, node: usize) -> Option<&DeviceLayout<'a>> {
        self.layout(self.nodes.get(node)?.layout)
    }
}

/// Allocated devices by driver, pool and name, with the indexes of their claims.
type AllocatedDevices<'a> =
    BTreeMap<(&'a str, &'a str, &'a str), Vec<(usize, &'a AllocatedDevice)>>;

fn allocated(objects: &DeviceObjects) -> AllocatedDevices<'_> {
    let mut allocated = AllocatedDevices::new();
    for (claim, object) in objects.claims.iter().enumerate() {
        for device in object.allocation.iter().flat_map(|known| &known.devices) {
            let key = (&*device.driver, &*device.pool, &*device.device);
            allocated.entry(key).or_default().push((claim, device));
        }
    }
    allocated
}

/// Pods that are being deleted or have ended. Their claims become free when the kubelet reports it.
fn terminated<'a>(input: &Input<'a>) -> BTreeSet<&'a Uid> {
    let pods = input.hosts.iter().flat_map(|host| &host.pods);
    let terminated = pods.filter(|pod| {
        pod.deletion.is_some() || matches!(pod.phase, PodPhase::Succeeded | PodPhase::Failed)
    });
    terminated.map(|pod| &pod.uid).collect()
}

/// Distinct device lists, and the kinds that selectors distinguish.
#[derive(Default)]
struct DeviceLayouts<'a> {
    all: Vec<DeviceLayout<'a>>,
    ids: BTreeMap<Vec<&'a Device>, LayoutId>,
    kinds: BTreeMap<KindKey<'a>, usize>,
}

/// Device without its name.
struct KindKey<'a>(&'a Device);

impl<'a> KindKey<'a> {
    fn parts(&self) -> impl Ord + use<'a> {
        let device = self.0;
        (
            &device.driver,
            &device.attributes,
            &device.capacity,
            device.is_shared,
        )
    }
}

impl PartialEq for KindKey<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for KindKey<'_> {}

impl PartialOrd for KindKey<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for KindKey<'_> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.parts().cmp(&other.parts())
    }
}

impl<'a> DeviceLayouts<'a> {
    fn id_of(&mut self, devices: impl Iterator<Item = &'a Device>) -> LayoutId {
        let devices: Vec<&'a Device> = devices.collect();
        if let Some(known) = self.ids.get(&devices) {
            return *known;
        }
        let id = LayoutId(self.all.len());
        let kinds = devices.iter().map(|device| {
            let next = self.kinds.len();
            *self.kinds.entry(KindKey(device)).or_insert(next)
        });
        let kinds = kinds.collect();
        self.all.push(DeviceLayout {
            devices: devices.clone(),
            kinds,
        });
        self.ids.insert(devices, id);
        id
    }
}
