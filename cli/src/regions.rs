//! Instance types and prices: of a file, or of the Region whose zones are named.

mod names;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, bail};
use clap::Args;
use model::{
    InstanceType,
    labels::{REGION, ZONE, ZONE_ID},
    requirement::Requirement,
    selector::Operator,
};

pub(crate) use self::names::{Zones, of_cluster, of_manifests};
use self::names::{known, region_of};
use crate::catalogs;

const SHIPPED: &str = "us-east-1";

/// Options that select instance types and prices.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Catalog {
    /// Instance types and prices as JSON, as printed by `whittle catalog`, or a folder of such files named after their Regions,
    /// such as eu-west-1.json; defaults to those of EC2 for a running cluster, in a build with AWS, otherwise to built-in ones of
    /// us-east-1, also for other Regions
    #[arg(long, value_name = "FILE OR FOLDER")]
    pub(crate) catalog: Option<PathBuf>,
    /// Region of the nodes; defaults to the Region of the zones in manifests, EC2NodeClasses or nodes
    #[arg(long)]
    pub(crate) region: Option<String>,
}

impl Catalog {
    /// Refuses options that have no effect.
    pub(crate) fn refuse(&self, why: &str) -> Result<()> {
        if self.catalog.is_some() || self.region.is_some() {
            bail!("--catalog and --region have no effect: {why}");
        }
        Ok(())
    }

    /// The types of the Region whose zones are named, and warnings about their source.
    pub(crate) fn types(&self, zones: &Zones) -> Result<(Vec<InstanceType>, Vec<String>)> {
        match &self.catalog {
            Some(folder) if folder.is_dir() => self.of_folder(folder, zones),
            Some(file) => Ok((self.of_file(file)?, Vec::new())),
            None => self.of_us_east_1(zones),
        }
    }

    fn of_file(&self, file: &Path) -> Result<Vec<InstanceType>> {
        let types = catalogs::read(file)?;
        let Some(region) = &self.region else {
            return Ok(types);
        };
        let mut offerings = types
            .iter()
            .flat_map(|instance_type| &instance_type.offerings);
        let is_there = |zone: &str| region_of(zone) == Some(region.as_str());
        if !offerings.any(|offering| is_there(&offering.zone)) {
            bail!(
                "{}: no instance type is offered in a zone of {region}, which --region names",
                file.display()
            );
        }
        Ok(types)
    }

    fn of_folder(&self, folder: &Path, zones: &Zones) -> Result<(Vec<InstanceType>, Vec<String>)> {
        let mut notes = Vec::new();
        let files = files(folder)?;
        let region = match (self.chosen(zones, &mut notes), files.keys().next()) {
            (Some(region), _) => region,
            (None, Some(only)) if files.len() == 1 => only.clone(),
            (None, _) => {
                let names: Vec<&str> = files.keys().map(String::as_str).collect();
                bail!(
                    "no zone is named: --region chooses among the catalogs in {}: {}",
                    folder.display(),
                    names.join(", ")
                )
            }
        };
        let path = folder.join(format!("{region}.json"));
        let file = files.get(&region).with_context(|| {
            format!(
                "there is no catalog of {region} in {}: `AWS_REGION={region} whittle catalog > {}` of a build with AWS writes one",
                folder.display(),
                shlex::try_quote(&path.to_string_lossy()).unwrap_or_default(),
            )
        })?;
        notes.push(format!(
            "instance types and prices are those of {}",
            file.display()
        ));
        Ok((catalogs::read(file)?, notes))
    }

    /// The bundled types, adapted to the Region.
    fn of_us_east_1(&self, zones: &Zones) -> Result<(Vec<InstanceType>, Vec<String>)> {
        let shipped = catalogs::us_east_1()?;
        let mut notes = Vec::new();
        if let Some(region) = &self.region {
            known(region)?;
        }
        let Some(region) = self.chosen(zones, &mut notes) else {
            return Ok((shipped, notes));
        };
        if region == SHIPPED {
            return Ok((shipped, notes));
        }
        notes.push(format!(
            "instance types and prices are those of {SHIPPED}, as if {region} had them: `AWS_REGION={region} whittle catalog` of a \
             build with AWS asks EC2 for its own, and --catalog takes what that prints"
        ));
        let mut all: BTreeSet<String> = ["a", "b", "c"]
            .map(|letter| format!("{region}{letter}"))
            .into();
        all.extend(zones.get(&region).into_iter().flatten().cloned());
        Ok((moved_to_region(shipped, &region, &all), notes))
    }

    /// The given Region, or the one with most of the zones.
    fn chosen(&self, zones: &Zones, notes: &mut Vec<String>) -> Option<String> {
        if let Some(region) = &self.region {
            return Some(region.clone());
        }
        let mut regions: Vec<&String> = zones.keys().collect();
        regions.sort_by_key(|region| std::cmp::Reverse(zones.get(*region).map(BTreeSet::len)));
        if let [first, _, ..] = regions.as_slice() {
            let all: Vec<&str> = regions.iter().map(|region| region.as_str()).collect();
            notes.push(format!(
                "zones of {} are named: {first} is planned for, --region chooses another",
                all.join(" and ")
            ));
        }
        regions.first().map(|region| (*region).clone())
    }
}

/// The catalogs of a folder by the Region in their name.
fn files(folder: &Path) -> Result<BTreeMap<String, PathBuf>> {
    let cannot = || format!("cannot read {}", folder.display());
    let mut files = BTreeMap::new();
    for entry in std::fs::read_dir(folder).with_context(cannot)? {
        let path = entry.with_context(cannot)?.path();
        let name = path.file_name().and_then(|name| name.to_str());
        let region = name.and_then(|name| {
            let name = name.strip_suffix(".gz").unwrap_or(name);
            name.strip_suffix(".json")
        });
        if let Some(region) = region {
            files.insert(region.to_owned(), path.clone());
        }
    }
    Ok(files)
}

/// The types with their offerings moved to the zones with the same letters.
fn moved_to_region(
    types: Vec<InstanceType>,
    region: &str,
    zones: &BTreeSet<String>,
) -> Vec<InstanceType> {
    let letter = |zone: &str| zone.chars().next_back().unwrap_or('a');
    let source = |zone: &str| match letter(zone) {
        known @ 'a'..='f' => format!("{SHIPPED}{known}"),
        _ => format!("{SHIPPED}a"),
    };
    types
        .into_iter()
        .map(|mut instance_type| {
            let offerings = std::mem::take(&mut instance_type.offerings);
            for zone in zones {
                let source = source(zone);
                let same = offerings.iter().filter(|offering| offering.zone == source);
                instance_type
                    .offerings
                    .extend(same.cloned().map(|mut offering| {
                        offering.zone.clone_from(zone);
                        offering.zone_id.clear();
                        offering
                    }));
            }
            let offered = instance_type
                .requirements
                .get(ZONE)
                .map(|zones| zones.values.clone());
            let offered = offered.unwrap_or_default();
            let here = zones
                .iter()
                .filter(|zone| offered.contains(&source(zone)))
                .cloned();
            let here: Vec<String> = here.collect();
            for (key, values) in [(ZONE, here), (REGION, vec![region.to_owned()])] {
                let requirement = Requirement::new(key, Operator::In, values);
                instance_type
                    .requirements
                    .0
                    .insert(key.to_owned(), requirement);
            }
            instance_type.requirements.0.remove(ZONE_ID);
            instance_type
        })
        .filter(|instance_type| !instance_type.offerings.is_empty())
        .collect()
}
