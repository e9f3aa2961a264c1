use std::{
    ops::{Deref, DerefMut},
    sync::Arc,
};

use model::{Experience, InstanceType};

/// The instance types that every NodeClass allows. Reads like a list; as long as nothing has changed, the same ones are handed out.
#[derive(Default)]
pub struct Offered {
    types: Vec<InstanceType>,
    resolved: Option<(Experience, Arc<Vec<InstanceType>>)>,
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
    pub(crate) fn after(&mut self, experience: &Experience) -> Arc<Vec<InstanceType>> {
        match &self.resolved {
            Some((known, types)) if known == experience => types.clone(),
            Some(_) | None => {
                let mut types = self.types.clone();
                correct(&mut types, experience);
                let types = Arc::new(types);
                self.resolved = Some((experience.clone(), types.clone()));
                types
            }
        }
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
