use std::{
    collections::BTreeMap,
    ops::{Deref, DerefMut},
    sync::Arc,
};

use model::{Experience, InstanceType};

/// The instance types that every NodeClass allows. Dereferences to a list; the resolved types are shared until something changes.
#[derive(Default)]
pub struct Offered {
    types: Vec<InstanceType>,
    resolved: Option<Resolved>,
}

/// The types resolved with this experience and this remaining capacity of reservations.
struct Resolved {
    experience: Experience,
    free: BTreeMap<String, u32>,
    types: Arc<Vec<InstanceType>>,
}

impl From<Vec<InstanceType>> for Offered {
    fn from(types: Vec<InstanceType>) -> Self {
        Self {
            types,
            resolved: None,
        }
    }
}

impl Deref for Offered {
    type Target = Vec<InstanceType>;

    fn deref(&self) -> &Vec<InstanceType> {
        &self.types
    }
}

impl DerefMut for Offered {
    fn deref_mut(&mut self) -> &mut Vec<InstanceType> {
        self.resolved = None;
        &mut self.types
    }
}

impl Offered {
    pub(crate) fn after(
        &mut self,
        experience: &Experience,
        free: BTreeMap<String, u32>,
    ) -> Arc<Vec<InstanceType>> {
        if let Some(resolved) = &self.resolved
            && resolved.experience == *experience
            && resolved.free == free
        {
            return resolved.types.clone();
        }
        let mut types = self.types.clone();
        correct(&mut types, experience, &free);
        let types = Arc::new(types);
        self.resolved = Some(Resolved {
            experience: experience.clone(),
            free,
            types: types.clone(),
        });
        types
    }
}

/// Applies experience and remaining capacity. The fake has no placement groups, so instance type, zone, capacity type and
/// reservation identify an offering.
fn correct(types: &mut [InstanceType], experience: &Experience, free: &BTreeMap<String, u32>) {
    for instance_type in types {
        for offering in &mut instance_type.offerings {
            let mut marked = experience.unavailable.iter().map(|entry| &entry.offering);
            offering.available &= !experience.shifted_zones.contains(&offering.zone_id);
            offering.available &= !marked.any(|marked| {
                marked.instance_type == instance_type.name
                    && marked.capacity_type == offering.capacity_type
                    && marked.zone_id == offering.zone_id
            });
            if let Some(reservation) = &mut offering.reservation
                && let Some(free) = free.get(&reservation.id)
            {
                reservation.capacity = *free;
                reservation.is_full = offering.available && *free == 0;
                offering.available &= *free > 0;
            }
        }
    }
}
