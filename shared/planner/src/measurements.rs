//! Memory of instance types as measured on their nodes (docs/spec/aws.md#measured-memory).

use std::{collections::BTreeMap, ops::RangeInclusive};

use api::{conditions::types::REGISTERED, names::label};
use model::{
    Experience, Snapshot, experience::MeasuredMemory, node::Node, node_claim::NodeClaim,
    resources::MEMORY,
};

use crate::managed::is_managed;

/// Smallest memory per instance type and image that registered nodes show, if it is new or less than known.
///
/// All clusters of the account plan with it, so only values that an instance of the type can have are accepted: see
/// [`plausible`].
pub fn measurements(snapshot: &Snapshot, known: &Experience) -> Vec<MeasuredMemory> {
    let nodes: BTreeMap<&str, &Node> = snapshot
        .nodes
        .iter()
        .map(|node| (node.provider_id.as_str(), node))
        .collect();
    let mut least: BTreeMap<(&str, &str), i64> = BTreeMap::new();
    let registered = |claim: &&NodeClaim| is_managed(claim) && claim.is_true(REGISTERED);
    for claim in snapshot.node_claims.iter().filter(registered) {
        if let Some(node) = nodes.get(claim.status.provider_id.as_str())
            && let Some((instance_type, bytes)) = measurement(claim, node)
        {
            let entry = least
                .entry((instance_type, &claim.status.image_id))
                .or_insert(bytes);
            *entry = (*entry).min(bytes);
        }
    }
    let news = least
        .into_iter()
        .filter_map(|((instance_type, image), bytes)| {
            let mut known = known.memory.iter();
            let before =
                known.find(|known| known.instance_type == instance_type && known.image == image);
            MeasuredMemory::after(before, instance_type, image, bytes, snapshot.now)
        });
    news.collect()
}

fn measurement<'a>(claim: &'a NodeClaim, node: &Node) -> Option<(&'a str, i64)> {
    let instance_type = claim.labels.get(label::INSTANCE_TYPE)?;
    let sold: i64 = claim.labels.get(label::INSTANCE_MEMORY)?.parse().ok()?;
    let sold = sold.checked_mul(1 << 20)?;
    let bytes = node.capacity.get(MEMORY);
    let is_plausible = plausible(sold).contains(&bytes);
    (is_plausible && !claim.status.provider_id.is_empty() && !claim.status.image_id.is_empty())
        .then_some((instance_type, bytes))
}

/// Range of memory that an instance can show, of the amount that EC2 sells: hypervisor and firmware take up to a tenth, and a
/// kernel prepared for crash dumps reserves some hundred MiB. A value outside is rejected, whether reported by mistake or to
/// make other clusters buy larger types. A wrong value inside costs them about as much as planning without measurements.
fn plausible(sold: i64) -> RangeInclusive<i64> {
    let least = sold / 10 * 9 - RESERVED_MAX;
    least.max(sold / 2).max(1)..=sold
}

/// Most bytes that a kernel reserves for crash dumps, from distributions' defaults for `crashkernel`.
const RESERVED_MAX: i64 = 512 << 20;

#[cfg(test)]
mod tests {
    use api::conditions::types::LAUNCHED;
    use model::Resources;

    use super::*;
    use crate::fixtures;

    const MIB: i64 = 1 << 20;

    /// An m5.large with this image, whose node shows this much memory.
    fn node_with_memory(
        name: &str,
        image: &str,
        conditions: &[&str],
        mib: i64,
    ) -> (NodeClaim, Node) {
        let mut claim = fixtures::claim(name, conditions);
        claim.labels.extend([
            (label::INSTANCE_TYPE.to_owned(), "m5.large".to_owned()),
            (label::INSTANCE_MEMORY.to_owned(), "8192".to_owned()),
        ]);
        claim.status.image_id = image.to_owned();
        let mut node = fixtures::node(name, &claim);
        node.capacity = Resources::from([("memory", mib * MIB)]);
        (claim, node)
    }

    fn learned(nodes: Vec<(NodeClaim, Node)>, known: &Experience) -> Vec<String> {
        let mut snapshot = fixtures::snapshot();
        (snapshot.node_claims, snapshot.nodes) = nodes.into_iter().unzip();
        let learned = measurements(&snapshot, known).into_iter();
        learned
            .map(|m| format!("{} {} {}", m.instance_type, m.image, m.bytes / MIB))
            .collect()
    }

    #[test]
    fn smallest_memory_per_type_and_image_is_measured() {
        let registered = [LAUNCHED, REGISTERED];
        let nodes = vec![
            node_with_memory("a", "ami-1", &registered, 7_800),
            node_with_memory("b", "ami-1", &registered, 7_700),
            node_with_memory("c", "ami-2", &registered, 7_900),
            node_with_memory("d", "ami-3", &[LAUNCHED], 7_900),
        ];
        let expected = ["m5.large ami-1 7700", "m5.large ami-2 7900"];
        assert_eq!(learned(nodes, &Experience::default()), expected);
    }

    #[test]
    fn known_memory_is_not_measured_again() {
        let known = |mib: i64| Experience {
            memory: MeasuredMemory::after(None, "m5.large", "ami-1", mib * MIB, fixtures::now())
                .into_iter()
                .collect(),
            ..Experience::default()
        };
        let of = |mib| vec![node_with_memory("a", "ami-1", &[LAUNCHED, REGISTERED], mib)];
        assert!(learned(of(7_800), &known(7_800)).is_empty());
        assert!(
            learned(of(7_800), &known(7_700)).is_empty(),
            "more than some have"
        );
        assert_eq!(learned(of(7_700), &known(7_800)), ["m5.large ami-1 7700"]);
        let of_another_image = vec![node_with_memory(
            "a",
            "ami-2",
            &[LAUNCHED, REGISTERED],
            7_800,
        )];
        let learned = learned(of_another_image, &known(7_700));
        assert_eq!(learned, ["m5.large ami-2 7800"]);
    }

    #[test]
    fn compromised_kubelet_costs_at_most_a_tenth_and_half_a_gibibyte() {
        // In thousandths of the memory that EC2 documents.
        let least = |gib: i64| plausible(gib << 30).start() * 1_000 / (gib << 30);
        let of_sizes = [1, 8, 64, 1_024].map(least);
        assert_eq!(of_sizes, [500, 837, 892, 899]);
    }

    #[test]
    fn implausible_memory_is_rejected() {
        for mib in [0, 4_000, 6_800, 8_193] {
            let nodes = vec![node_with_memory("a", "ami-1", &[LAUNCHED, REGISTERED], mib)];
            assert!(learned(nodes, &Experience::default()).is_empty(), "{mib}");
        }
        let (mut claim, node) = node_with_memory("a", "ami-1", &[LAUNCHED, REGISTERED], 0);
        let sold = (label::INSTANCE_MEMORY.to_owned(), "0".to_owned());
        claim.labels.extend([sold]);
        assert!(learned(vec![(claim, node)], &Experience::default()).is_empty());
    }
}
