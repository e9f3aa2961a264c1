//! Images of an EC2NodeClass: requested parameters and images, and the status.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Error, Result, bail};
use api::{EC2NodeClass, conditions::types::AMIS_READY, karpenter::Ami};
use aws_rules::{
    ClusterFacts,
    ami::{Image, ImageQuery, Variant, first_that_fits, parameters, queries, select},
    families::Alias,
    node_class::{Discovery, status},
};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{
    account::{AccountState, RegionFacts, node_class},
    describe::Account,
    object,
    selectors::{discovery, nothing, shown},
    settings::CaseSettings,
};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Case {
    #[serde(deserialize_with = "node_class")]
    node_class: EC2NodeClass,
    account: Account,
    now: Timestamp,
    settings: CaseSettings,
    /// Instance types that the case asks about.
    expect: Asked,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Asked {
    #[serde(default)]
    ami_by_instance_type: BTreeMap<String, Value>,
}

pub(super) fn decide(case: Case, facts: &RegionFacts) -> Result<Value> {
    let Case {
        node_class: class,
        mut account,
        now,
        settings,
        expect,
    } = case;
    let (cluster, provider) = (settings.cluster()?, settings.provider()?);
    let mut failed = None;
    let mut discovered = nothing();
    discovered.amis = images(&class, &cluster, &mut account, now, &mut failed);
    let is_refused = matches!(discovered.amis, Discovery::Refused { .. });
    let status = status(&class, discovered, &cluster, &provider, now);
    let mut got = shown(&status, AMIS_READY, now, failed.is_some())?;
    let amis = status.amis.unwrap_or_default();
    let asked = expect.ami_by_instance_type.into_keys().collect();
    let types = AccountState::default()
        .resolve(facts, &asked, None, &class, &provider, &cluster.region)
        .unwrap_or_default();
    let chosen: Map<_, _> = types
        .iter()
        .map(|instance_type| {
            let image = first_that_fits(&amis, instance_type).map(|image| &image.id);
            (instance_type.name.clone(), json!(image))
        })
        .collect();
    got.extend(object([
        ("amis", json!(amis)),
        ("amiByInstanceType", Value::Object(chosen)),
        ("ssmParameters", json!(account.asked)),
        ("calls", json!(account.calls)),
        ("errorTerminal", json!(is_refused)),
        ("error", json!(failed.map(|error| error.to_string()))),
    ]));
    Ok(Value::Object(got))
}

fn images(
    class: &EC2NodeClass,
    cluster: &ClusterFacts,
    account: &mut Account,
    now: Timestamp,
    failed: &mut Option<Error>,
) -> Discovery<Vec<Ami>> {
    let alias = Alias::of(&class.spec).map_err(Error::from);
    let parameters = alias.and_then(|alias| {
        let of_alias = |alias: Alias<'_>| Ok(parameters(&alias, cluster.version)?);
        alias.map(of_alias).transpose()
    });
    let found = match parameters {
        Err(error) => {
            let message = error.to_string();
            *failed = Some(error);
            return Discovery::Refused {
                reason: "UnsupportedAlias",
                message,
            };
        }
        Ok(Some(parameters)) => {
            let mut variants: BTreeMap<String, Vec<Variant>> = BTreeMap::new();
            let read = || {
                for parameter in parameters {
                    if let Some(image) = account.parameter(&parameter.name)? {
                        variants
                            .entry(image)
                            .or_default()
                            .extend(parameter.variants);
                    }
                }
                if variants.is_empty() {
                    bail!("none of the alias' parameters exists");
                }
                let ids = variants.keys().cloned().collect();
                let images = described(queries(&[], &ids), account)?;
                Ok(select(&images, &variants, now))
            };
            read()
        }
        Ok(None) => of_terms(class, account, now),
    };
    discovery(found, failed)
}

fn of_terms(class: &EC2NodeClass, account: &mut Account, now: Timestamp) -> Result<Vec<Ami>> {
    let terms = &class.spec.ami_selector_terms;
    let mut ids = BTreeSet::new();
    for name in terms
        .iter()
        .filter_map(|term| term.ssm_parameter.as_deref())
    {
        let image = account.parameter(name)?;
        ids.extend(image.filter(|image| image.starts_with("ami-")));
    }
    let images = described(queries(terms, &ids), account)?;
    Ok(select(&images, &BTreeMap::new(), now))
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Described {
    image_id: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    architecture: String,
    creation_date: Option<Timestamp>,
    deprecation_time: Option<Timestamp>,
}

fn described(queries: Vec<ImageQuery>, account: &mut Account) -> Result<Vec<Image>> {
    let mut images = Vec::new();
    for query in queries {
        let mut members = Map::from_iter([
            ("IncludeDeprecated".to_owned(), json!(true)),
            ("MaxResults".to_owned(), json!(1000)),
        ]);
        if !query.owners.is_empty() {
            members.insert("Owners".to_owned(), json!(query.owners));
        }
        let found: Vec<Described> =
            account.describe("DescribeImages", "images", &query.filters, members)?;
        images.extend(found.into_iter().map(|image| Image {
            id: image.image_id,
            name: image.name,
            architecture: image.architecture,
            created: image.creation_date,
            deprecated: image.deprecation_time,
        }));
    }
    Ok(images)
}
