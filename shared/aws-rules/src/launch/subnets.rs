//! Choice of a zone's subnet (docs/spec/aws.md#subnets).

use std::collections::BTreeMap;

use super::{LaunchInput, LaunchRefusal};

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
    let free = |id: &str| input.free_addresses.of(id);
    let mut chosen: BTreeMap<&str, &str> = BTreeMap::new();
    for subnet in subnets {
        let best = chosen.entry(&subnet.zone).or_insert(&subnet.id);
        if free(&subnet.id) > free(best) {
            *best = &subnet.id;
        }
    }
    Ok(chosen)
}
