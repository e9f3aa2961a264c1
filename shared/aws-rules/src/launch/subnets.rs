//! Which subnet a zone's instances go to (spec/aws §9.1).

use std::collections::BTreeMap;

use model::{
    InstanceType,
    launch::{FleetAnswer, FleetRequest},
    resources::PODS,
};

use super::{LaunchInput, LaunchRefusal};

/// Subnet → addresses believed to be free, launches of this turn taken off. What is not in here counts as none.
pub type FreeAddresses = BTreeMap<String, i64>;

/// Zone → its subnet with the most free addresses; of equals, the first in the NodeClass's status.
pub(super) fn by_zone<'a>(
    input: &LaunchInput<'a>,
) -> Result<BTreeMap<&'a str, &'a str>, LaunchRefusal> {
    let status = input.node_class.status.as_ref();
    let subnets = status
        .and_then(|status| status.subnets.as_deref())
        .unwrap_or_default();
    if subnets.is_empty() {
        return Err(LaunchRefusal::Create {
            reason: "SubnetResolutionFailed",
            message: format!(
                "EC2NodeClass {} has no subnets in its status",
                input.node_class.metadata.name
            ),
        });
    }
    let free = |id: &str| input.free_addresses.get(id).copied().unwrap_or(0);
    let mut chosen: BTreeMap<&str, &str> = BTreeMap::new();
    for subnet in subnets {
        let best = chosen.entry(&subnet.zone).or_insert(&subnet.id);
        if free(&subnet.id) > free(best) {
            *best = &subnet.id;
        }
    }
    Ok(chosen)
}

/// What a call will probably take from each subnet it may use: as many addresses as the smallest of its types has pods,
/// for each claim. Only steers the choice of later launches; DescribeSubnets corrects it.
pub fn addresses_taken(request: &FleetRequest, types: &[InstanceType]) -> FreeAddresses {
    let pods = |name: &str| {
        let found = types.iter().find(|candidate| candidate.name == name);
        found.map_or(0, |found| found.capacity.get(PODS))
    };
    let mut taken = FreeAddresses::new();
    for choice in request
        .templates
        .iter()
        .flat_map(|config| &config.overrides)
    {
        let Some(subnet) = &choice.subnet else {
            continue;
        };
        let addresses = pods(&choice.instance_type) * i64::from(request.target_capacity);
        let entry = taken.entry(subnet.clone()).or_insert(addresses);
        *entry = (*entry).min(addresses);
    }
    taken
}

/// Counts what a call will take as taken, so that the next call looks elsewhere. Subnets nobody counted stay so.
pub fn take(free: &mut FreeAddresses, taken: &FreeAddresses) {
    for (subnet, addresses) in taken {
        if let Some(left) = free.get_mut(subnet) {
            *left -= addresses;
        }
    }
}

/// Undoes [`take`] for the subnets that the call did not use after all.
pub fn give_back(free: &mut FreeAddresses, taken: &FreeAddresses, answer: Option<&FleetAnswer>) {
    let launched = answer.into_iter().flat_map(|answer| &answer.instances);
    let used: Vec<_> = launched
        .filter_map(|launched| launched.subnet.as_ref())
        .collect();
    for (subnet, addresses) in taken.iter().filter(|(subnet, _)| !used.contains(subnet)) {
        if let Some(left) = free.get_mut(subnet) {
            *left += addresses;
        }
    }
}
