use std::collections::{BTreeMap, BTreeSet};

use api::{
    EC2NodeClass,
    karpenter::{Ami, SecurityGroup},
};
use aws_rules::{
    ClusterFacts, ProviderSettings,
    ami::{self, Variant},
    families::Alias,
    node_class::{
        Discovered, Discovery, StatusDraft, StatusInput, SubnetFact, draft, security_group_queries,
        subnet_queries,
    },
};
use jiff::Timestamp;

use super::{Account, Image};
use crate::digest::digest;

impl Account {
    /// Computes the status of an EC2NodeClass from the resources of this account that its terms select.
    pub(super) fn resolve(
        &self,
        class: &EC2NodeClass,
        cluster: &ClusterFacts,
        settings: &ProviderSettings,
        now: Timestamp,
    ) -> StatusDraft {
        let discovered = Discovered {
            subnets: Discovery::Found(self.selected_subnets(class)),
            security_groups: Discovery::Found(self.selected_groups(class)),
            amis: self.selected_images(class, cluster, now),
            instance_profile: Discovery::Found(instance_profile(class, cluster)),
            capacity_reservations: Discovery::Found(Vec::new()),
            placement_group: Discovery::Found(None),
        };
        let known = StatusInput {
            cluster,
            settings,
            instance_types: &[],
        };
        draft(class, discovered, known, now)
    }

    fn selected_subnets(&self, class: &EC2NodeClass) -> Vec<SubnetFact> {
        let queries = subnet_queries(&class.spec.subnet_selector_terms);
        let own = self.options.subnets.iter();
        own.filter(|subnet| queries.iter().any(|query| subnet.matches(query)))
            .map(|subnet| SubnetFact {
                id: subnet.id.clone(),
                zone: subnet.zone.clone(),
                zone_id: Some(subnet.zone_id.clone()),
                free_addresses: subnet.free_addresses,
            })
            .collect()
    }

    fn selected_groups(&self, class: &EC2NodeClass) -> Vec<SecurityGroup> {
        let queries = security_group_queries(&class.spec.security_group_selector_terms);
        let own = self.options.security_groups.iter();
        own.filter(|group| queries.iter().any(|query| group.matches(query)))
            .map(|group| SecurityGroup {
                id: group.id.clone(),
                name: Some(group.name.clone()),
            })
            .collect()
    }

    fn selected_images(
        &self,
        class: &EC2NodeClass,
        cluster: &ClusterFacts,
        now: Timestamp,
    ) -> Discovery<Vec<Ami>> {
        let refused = |message: String| Discovery::Refused {
            reason: "UnsupportedAlias",
            message,
        };
        let alias = match Alias::of(&class.spec) {
            Ok(alias) => alias,
            Err(error) => return refused(error.to_string()),
        };
        let Some(alias) = alias else {
            let terms = &class.spec.ami_selector_terms;
            let parameters = terms
                .iter()
                .filter_map(|term| term.ssm_parameter.as_deref());
            let published: Vec<ami::Image> = parameters.map(published).collect();
            let ids: BTreeSet<String> = published.iter().map(|image| image.id.clone()).collect();
            let queries = ami::queries(terms, &ids);
            let own = self.options.images.iter();
            let selected = own
                .filter(|image: &&Image| queries.iter().any(|query| image.matches(query)))
                .map(|image| image.image.clone());
            let images: Vec<ami::Image> = selected.chain(published).collect();
            return Discovery::Found(ami::select(&images, &BTreeMap::new(), now));
        };
        let parameters = match ami::parameters(&alias, cluster.version) {
            Ok(parameters) => parameters,
            Err(error) => return refused(error.to_string()),
        };
        let mut variants: BTreeMap<String, Vec<Variant>> = BTreeMap::new();
        let mut images = Vec::new();
        for parameter in parameters {
            let image = published(&parameter.name);
            variants.insert(image.id.clone(), parameter.variants);
            images.push(image);
        }
        Discovery::Found(ami::select(&images, &variants, now))
    }
}

/// Image that AWS publishes in an SSM parameter: one exists for every name.
fn published(parameter: &str) -> ami::Image {
    let is_arm = parameter.contains("arm64") || parameter.contains("aarch64");
    ami::Image {
        id: format!("ami-{:017x}", digest(&[parameter])),
        name: parameter.trim_start_matches('/').replace('/', "-"),
        architecture: if is_arm { "arm64" } else { "x86_64" }.to_owned(),
        created: None,
        deprecated: None,
    }
}

fn instance_profile(class: &EC2NodeClass, cluster: &ClusterFacts) -> String {
    class.spec.instance_profile.clone().unwrap_or_else(|| {
        let role = class.spec.role.as_deref().unwrap_or_default();
        format!("{}_{}", cluster.name, digest(&[&class.metadata.uid, role]))
    })
}
