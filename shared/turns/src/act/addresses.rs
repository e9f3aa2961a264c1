//! Free IP addresses that launches may use (docs/spec/aws.md#subnets).

use std::collections::BTreeSet;

use model::FreeAddresses;

use crate::{Report, TurnError, context::Turn, observe::Observed};

/// Reads the free addresses of the NodeClasses' subnets from EC2 and subtracts the addresses that open calls will take. Without
/// an answer from EC2, all subnets count as equally free, except those that were full a short while ago.
pub(crate) async fn free(
    turn: &Turn<'_>,
    observed: &Observed,
    report: &mut Report,
) -> Result<FreeAddresses, TurnError> {
    let classes = observed.classes.values();
    let subnets: BTreeSet<String> = classes
        .filter_map(|class| class.object.status.as_ref()?.subnets.as_ref())
        .flatten()
        .map(|subnet| subnet.id.clone())
        .collect();
    let mut free = match turn.world.launches.free_addresses(&subnets).await {
        Ok(free) => free,
        Err(error) => {
            report.problems.push(format!("free addresses: {error}"));
            FreeAddresses(subnets.into_iter().map(|subnet| (subnet, 1)).collect())
        }
    };
    for full in &observed.experience.full_subnets {
        free.exhaust(&full.subnet);
    }
    for call in turn.world.ledger.open_calls(turn.cluster).await? {
        if let Some(class) = observed.classes.get(&call.request.node_class) {
            free.take(&FreeAddresses::needed(&call.request, &class.types));
        }
    }
    Ok(free)
}
