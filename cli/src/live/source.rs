//! Sources of a running cluster's instance types.

#[cfg(feature = "aws")]
use std::sync::OnceLock;
use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
};

use anyhow::Result;
use api::EC2NodeClass;
use jiff::Timestamp;
use model::InstanceType;

use crate::regions::{Catalog, Zones};

/// Source of instance types.
pub(super) enum Source {
    Table(Vec<InstanceType>),
    /// A catalog, and its types for the last zones, with warnings for the user.
    Catalog(Catalog, TypeCache),
    #[cfg(feature = "aws")]
    Region(Box<crate::aws::Region>),
    /// EC2, and the bundled types once EC2 has refused, with the reason.
    #[cfg(feature = "aws")]
    RegionOrTable(Box<crate::aws::Region>, TypeCache, OnceLock<String>),
}

/// Instance types, and warnings about their source.
type TypesWithNotes = (Vec<InstanceType>, Vec<String>);

/// Types and warnings of the last read, for these zones.
type TypeCache = Mutex<Option<(Zones, Arc<TypesWithNotes>)>>;

impl Source {
    #[cfg(feature = "aws")]
    pub(super) async fn of(catalog: &Catalog, now: Timestamp) -> Result<(Self, Vec<String>)> {
        if catalog.catalog.is_some() {
            return Ok((Self::Catalog(catalog.clone(), Mutex::default()), Vec::new()));
        }
        let (region, problems) = crate::aws::Region::connect(now).await;
        if let Some(other) = catalog
            .region
            .as_deref()
            .filter(|other| *other != region.name())
        {
            anyhow::bail!(
                "EC2 is asked in {}, the Region of the environment: AWS_REGION={other} asks it in another",
                region.name()
            );
        }
        Ok((Self::Region(Box::new(region)), problems))
    }

    #[cfg(not(feature = "aws"))]
    #[expect(clippy::unused_async, reason = "as where EC2 is asked")]
    pub(super) async fn of(catalog: &Catalog, _: Timestamp) -> Result<(Self, Vec<String>)> {
        Ok((Self::Catalog(catalog.clone(), Mutex::default()), Vec::new()))
    }

    /// The types of a catalog for these zones, read again when the zones change.
    fn found(catalog: &Catalog, known: &TypeCache, zones: &Zones) -> Result<Arc<TypesWithNotes>> {
        let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, found)) = known.as_ref().filter(|(of, _)| of == zones) {
            return Ok(Arc::clone(found));
        }
        let (types, mut notes) = catalog.types(zones)?;
        if notes.is_empty() && catalog.catalog.is_none() {
            let note = "instance types and prices are those of us-east-1: --catalog names others, and a build with \
                        `--features aws` asks EC2";
            notes.push(note.to_owned());
        }
        let found = Arc::new((types, notes));
        *known = Some((zones.clone(), Arc::clone(&found)));
        Ok(found)
    }

    pub(super) fn or_table(self) -> Self {
        match self {
            #[cfg(feature = "aws")]
            Self::Region(region) => Self::RegionOrTable(region, Mutex::default(), OnceLock::new()),
            other => other,
        }
    }

    pub(super) async fn types(
        &self,
        class: &EC2NodeClass,
        zones: &Zones,
        problems: &mut Vec<String>,
    ) -> Result<Arc<Vec<InstanceType>>> {
        match self {
            Self::Table(types) => Ok(Arc::new(offered(types, class))),
            Self::Catalog(catalog, known) => {
                let found = Self::found(catalog, known, zones)?;
                let (types, notes) = &*found;
                for note in notes {
                    if !problems.contains(note) {
                        problems.push(note.clone());
                    }
                }
                Ok(Arc::new(offered(types, class)))
            }
            #[cfg(feature = "aws")]
            Self::Region(region) => region.instance_types(class).await,
            #[cfg(feature = "aws")]
            Self::RegionOrTable(region, known, refused) => {
                let why = match refused.get() {
                    Some(why) => why,
                    None => match region.instance_types(class).await {
                        Ok(types) => return Ok(types),
                        Err(error) => refused.get_or_init(|| format!("{error:#}")),
                    },
                };
                let note = format!(
                    "instance types and prices are those of us-east-1, because EC2 refuses: {why}"
                );
                if !problems.contains(&note) {
                    problems.push(note);
                }
                let found = Self::found(&Catalog::default(), known, zones)?;
                Ok(Arc::new(offered(&found.0, class)))
            }
        }
    }
}

/// The types with an offering in a zone of the NodeClass's subnets.
pub(crate) fn offered(types: &[InstanceType], class: &EC2NodeClass) -> Vec<InstanceType> {
    let subnets = class
        .status
        .as_ref()
        .and_then(|status| status.subnets.as_ref());
    let zones: BTreeSet<&str> = subnets
        .into_iter()
        .flatten()
        .map(|subnet| subnet.zone.as_str())
        .collect();
    let mut offered = types.to_vec();
    for instance_type in &mut offered {
        instance_type
            .offerings
            .retain(|offering| zones.contains(offering.zone.as_str()));
    }
    offered.retain(|instance_type| !instance_type.offerings.is_empty());
    offered
}
