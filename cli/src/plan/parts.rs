//! Parts of the price of a node.

use model::{NanosPerHour, NodePoolName, Snapshot, Surcharge, plan::Launch};
use serde_json::{Value, json};

use crate::decision::dollars;

/// The parts of a price.
pub(super) struct Parts {
    whole: NanosPerHour,
    instance: NanosPerHour,
    surcharge: Surcharge,
}

impl Parts {
    /// Parts for a node of this NodePool; `None` if the price is unknown.
    pub(super) fn of(
        price: NanosPerHour,
        pool: &NodePoolName,
        snapshot: &Snapshot,
    ) -> Option<Self> {
        if price.0 == 0 {
            return None;
        }
        let mut pools = snapshot.node_pools.iter();
        let pool = pools.find(|known| known.name == *pool);
        let surcharge = pool.map_or_else(Surcharge::default, |pool| snapshot.surcharge(pool));
        Some(Self {
            whole: price,
            instance: NanosPerHour(price.0.saturating_sub(surcharge.total().0)),
            surcharge,
        })
    }

    pub(super) fn text(&self) -> String {
        format!(
            "${}/h is ${} for the instance, ${} for its volumes and ${} for the node itself",
            self.whole, self.instance, self.surcharge.volumes, self.surcharge.node
        )
    }

    pub(super) fn json(&self) -> Value {
        json!({
            "instance": dollars(self.instance),
            "volumes": dollars(self.surcharge.volumes),
            "node": dollars(self.surcharge.node),
        })
    }
}

/// Adds price parts to launches in the order of their output.
pub(super) fn add_to<'l>(
    shown: Option<&mut Value>,
    launches: impl IntoIterator<Item = &'l Launch>,
    snapshot: &Snapshot,
) {
    let shown = shown.and_then(Value::as_array_mut);
    for (shown, launch) in shown.into_iter().flatten().zip(launches) {
        let parts = Parts::of(launch.cheapest.price, &launch.node_pool, snapshot);
        if let (Some(parts), Some(fields)) = (parts, shown.as_object_mut()) {
            fields.insert("priceParts".to_owned(), parts.json());
        }
    }
}
