//! Text for users that explains which claimed devices no instance type has.

use std::collections::BTreeSet;

use model::devices::DeviceCount;

use super::{
    AllocationSite, ClaimNeeds, Devices,
    allocation::{DeviceLayout, DeviceUsage, allocate},
    claims::{Alternative, EvaluatedClaim, Request},
    index::LayoutId,
};
use crate::bits::BitSet;

impl Devices<'_> {
    /// Explains why none of these types has the devices, by the first request that none can satisfy.
    pub(super) fn lack(&self, needs: &ClaimNeeds, catalog: usize, rows: &BitSet) -> String {
        let elsewhere = needs.shared.iter().any(|(claim, _)| {
            let site = self.sites.get(claim);
            site.is_some_and(|site| *site != AllocationSite::Everywhere)
        });
        if elsewhere {
            return "a resource claim is allocated on a node that cannot take the pod".to_owned();
        }
        let layouts = rows
            .iter()
            .filter_map(|row| self.index.layout_of_row(catalog, row));
        let layouts: BTreeSet<LayoutId> = layouts.collect();
        let layouts = layouts.into_iter().filter_map(|id| self.index.layout(id));
        let layouts: Vec<&DeviceLayout<'_>> = layouts.collect();
        let shared = needs.shared.iter().map(|(_, spec)| spec);
        let specs = needs.own.iter().chain(shared);
        let specs: Vec<&EvaluatedClaim> = specs.filter_map(|id| self.index.spec(*id)).collect();
        let requests = specs.iter().flat_map(|spec| &spec.requests);
        for request in requests {
            if let Some(lack) = lack_of(request, &layouts) {
                return lack;
            }
        }
        let alone = |spec: &&EvaluatedClaim| {
            let mut layouts = layouts.iter();
            layouts.any(|layout| allocate(layout, &DeviceUsage::default(), &[spec]).is_some())
        };
        match specs.iter().all(alone) {
            true => "no instance type has the devices of all its resource claims at once",
            false => "no instance type has the devices of its resource claim that meet its constraints and capacity requests",
        }
        .to_owned()
    }
}

/// Reason why no device list satisfies any alternative of a request.
fn lack_of(request: &Request, layouts: &[&DeviceLayout<'_>]) -> Option<String> {
    let lacks = request.alternatives.iter();
    let lacks: Option<Vec<String>> = lacks
        .map(|wanted| lack_of_alternative(request, wanted, layouts))
        .collect();
    lacks.map(|lacks| lacks.join("; "))
}

fn lack_of_alternative(
    request: &Request,
    wanted: &Alternative,
    layouts: &[&DeviceLayout<'_>],
) -> Option<String> {
    let judged = layouts
        .iter()
        .filter(|layout| wanted.failures(&layout.kinds).is_none());
    let counts = judged.map(|layout| {
        let matching = layout.kinds.iter().zip(&layout.devices);
        let matching = matching.filter(|(kind, _)| wanted.matches(**kind));
        // Shared devices may serve any number of requests.
        let counts = matching.map(|(_, device)| if device.is_shared { u32::MAX } else { 1 });
        counts.fold(0_u32, u32::saturating_add)
    });
    let most = counts.max().unwrap_or(0);
    let count = match wanted.count {
        DeviceCount::Exactly(count) => count,
        DeviceCount::All => 1,
    };
    if most >= count {
        return None;
    }
    let mut failures = layouts
        .iter()
        .filter_map(|layout| wanted.failures(&layout.kinds));
    if let Some(why) = failures.next().filter(|_| most == 0) {
        return Some(why.to_owned());
    }
    let name = match wanted.name.as_str() {
        "" => request.name.clone(),
        alternative => format!("{}/{alternative}", request.name),
    };
    let class = &wanted.class;
    Some(match most {
        0 => format!("no instance type has a device of DeviceClass {class} for request {name}"),
        most => format!(
            "request {name} needs {count} devices of DeviceClass {class}, no instance type has more than {most}"
        ),
    })
}
