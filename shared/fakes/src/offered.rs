use std::sync::Arc;

use model::{Experience, InstanceType};

/// Instance types as they were resolved last: as long as nothing that they are made of changes, they are the same.
#[derive(Default)]
pub(crate) struct Offered {
    catalog: Vec<InstanceType>,
    experience: Experience,
    types: Arc<Vec<InstanceType>>,
}

impl Offered {
    pub(crate) fn of(
        &mut self,
        catalog: &[InstanceType],
        experience: &Experience,
    ) -> Arc<Vec<InstanceType>> {
        if self.catalog != catalog || self.experience != *experience {
            let mut types = catalog.to_vec();
            correct(&mut types, experience);
            *self = Self {
                catalog: catalog.to_vec(),
                experience: experience.clone(),
                types: Arc::new(types),
            };
        }
        self.types.clone()
    }
}

/// Nothing here has reservations or placement groups, so an offering is its type, zone and capacity type.
fn correct(types: &mut [InstanceType], experience: &Experience) {
    for kind in types {
        for offering in &mut kind.offerings {
            let mut marked = experience.unavailable.iter().map(|entry| &entry.offering);
            offering.available &= !experience.shifted_zones.contains(&offering.zone_id);
            offering.available &= !marked.any(|marked| {
                marked.instance_type == kind.name
                    && marked.capacity_type == offering.capacity_type
                    && marked.zone_id == offering.zone_id
            });
        }
    }
}
