use std::collections::{BTreeMap, BTreeSet};

use api::{EC2NodeClass, karpenter::Ami};
use aws_rules::{
    ClusterFacts,
    ami::{self, Image, ImageQuery, Variant},
    families::Alias,
    node_class::Discovery,
};
use jiff::Timestamp;
use model::ClusterName;
use ports::CloudError;

use super::discovery;
use crate::{Account, errors::refused, filters::filters};

/// EC2's largest page size of images.
const PAGE: i32 = 1000;

impl Account {
    /// Images by the NodeClass's alias, or by its other terms.
    pub(super) async fn images(
        &self,
        class: &EC2NodeClass,
        cluster: &ClusterFacts,
        now: Timestamp,
    ) -> Result<Discovery<Vec<Ami>>, CloudError> {
        match Alias::of(&class.spec) {
            Err(error) => Ok(unsupported(error.to_string())),
            Ok(Some(alias)) => self.images_of_alias(&alias, cluster, now).await,
            Ok(None) => match self.images_of_terms(class, now).await {
                Ok(images) => Ok(images),
                Err(error) => discovery(Err(error)),
            },
        }
    }

    async fn images_of_alias(
        &self,
        alias: &Alias<'_>,
        cluster: &ClusterFacts,
        now: Timestamp,
    ) -> Result<Discovery<Vec<Ami>>, CloudError> {
        if cluster.version.minor == 0 {
            return Ok(unsupported(no_version(&cluster.name)));
        }
        let parameters = match ami::parameters(alias, cluster.version) {
            Ok(parameters) => parameters,
            Err(error) => return Ok(unsupported(error.to_string())),
        };
        let mut variants: BTreeMap<String, Vec<Variant>> = BTreeMap::new();
        for parameter in parameters {
            match self.image_of_parameter(&parameter.name).await {
                Ok(Some(id)) => variants.entry(id).or_default().extend(parameter.variants),
                // AWS does not publish every variant of every version.
                Ok(None) => {}
                Err(error) => return discovery(Err(error)),
            }
        }
        let ids: BTreeSet<String> = variants.keys().cloned().collect();
        if ids.is_empty() {
            let version = cluster.version;
            return Ok(Discovery::Unanswered {
                message: format!(
                    "AWS publishes no images of the alias for Kubernetes {version} in this Region"
                ),
            });
        }
        let mut images = Vec::new();
        for query in ami::queries(&[], &ids) {
            match self.describe_images(query).await {
                Ok(found) => images.extend(found),
                Err(error) => return discovery(Err(error)),
            }
        }
        Ok(Discovery::Found(ami::select(&images, &variants, now)))
    }

    async fn images_of_terms(
        &self,
        class: &EC2NodeClass,
        now: Timestamp,
    ) -> Result<Discovery<Vec<Ami>>, CloudError> {
        let terms = &class.spec.ami_selector_terms;
        let mut from_parameters = BTreeSet::new();
        let mut empty = Vec::new();
        for name in terms
            .iter()
            .filter_map(|term| term.ssm_parameter.as_deref())
        {
            match self.image_of_parameter(name).await? {
                Some(image) => drop(from_parameters.insert(image)),
                None => empty.push(name),
            }
        }
        let mut images = Vec::new();
        for query in ami::queries(terms, &from_parameters) {
            images.extend(self.describe_images(query).await?);
        }
        let selected = ami::select(&images, &BTreeMap::new(), now);
        if selected.is_empty() && !empty.is_empty() {
            let message = format!(
                "spec.amiSelectorTerms: parameter {} contains no AMI id; AMISelector did not match any AMIs",
                empty.join(", ")
            );
            return Ok(Discovery::Nothing { message });
        }
        Ok(Discovery::Found(selected))
    }

    /// The image id in a parameter; `None` if the parameter does not exist or contains something else.
    async fn image_of_parameter(&self, name: &str) -> Result<Option<String>, CloudError> {
        let answer = self.ssm.get_parameter().name(name).send().await;
        match answer.map_err(refused("ssm:GetParameter")) {
            Ok(answer) => {
                let value = answer.parameter.and_then(|parameter| parameter.value);
                Ok(value.as_deref().and_then(ami::image_id).map(str::to_owned))
            }
            Err(CloudError::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn describe_images(&self, query: ImageQuery) -> Result<Vec<Image>, CloudError> {
        let owners = (!query.owners.is_empty()).then_some(query.owners);
        let call = self
            .ec2
            .describe_images()
            .set_filters(Some(filters(&query.filters)))
            .set_owners(owners)
            .include_deprecated(true)
            .max_results(PAGE);
        let mut pages = call.into_paginator().items().send();
        let mut images = Vec::new();
        while let Some(image) = pages.next().await {
            let image = image.map_err(refused("ec2:DescribeImages"))?;
            let time = |text: Option<String>| text.and_then(|text| text.parse::<Timestamp>().ok());
            images.push(Image {
                id: image.image_id.unwrap_or_default(),
                name: image.name.unwrap_or_default(),
                architecture: image
                    .architecture
                    .map(|architecture| architecture.as_str().to_owned())
                    .unwrap_or_default(),
                created: time(image.creation_date),
                deprecated: time(image.deprecation_time),
            });
        }
        Ok(images)
    }
}

fn unsupported<T>(message: String) -> Discovery<T> {
    Discovery::Refused {
        reason: "UnsupportedAlias",
        message,
    }
}

fn no_version(cluster: &ClusterName) -> String {
    format!(
        "an alias needs the cluster's Kubernetes version, which is not known: set kubernetesVersion in the settings of cluster {cluster}"
    )
}
