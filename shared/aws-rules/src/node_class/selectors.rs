//! The Describe calls that a NodeClass's subnet and security group terms need (docs/spec/aws.md#subnets,
//! docs/spec/aws.md#security-groups).

use std::collections::{BTreeMap, BTreeSet};

use api::karpenter::{SecurityGroupSelectorTerm, SubnetSelectorTerm};

/// Filter name and values, any of which matches; all filters of a call must match.
pub type Filters = Vec<(String, Vec<String>)>;

/// The filters for tags; the value `*` matches any value of the key.
pub fn tag_filters(tags: &BTreeMap<String, String>) -> Filters {
    let filter = |(key, value): (&String, &String)| match value.as_str() {
        "*" => ("tag-key".to_owned(), vec![key.clone()]),
        _ => (format!("tag:{key}"), vec![value.clone()]),
    };
    tags.iter().map(filter).collect()
}

/// The calls for subnet terms: one call for all ids, and one for each term with tags. Terms that would select everything select nothing.
pub fn subnet_queries(terms: &[SubnetSelectorTerm]) -> Vec<Filters> {
    let ids = terms.iter().filter_map(|term| term.id.clone());
    let tags = terms.iter().filter_map(|term| term.tags.as_ref());
    merged("subnet-id", ids).chain(by_tags(tags)).collect()
}

/// The calls for security group terms: as [`subnet_queries`], and one call for each name.
pub fn security_group_queries(terms: &[SecurityGroupSelectorTerm]) -> Vec<Filters> {
    let ids = terms.iter().filter_map(|term| term.id.clone());
    let names = terms.iter().filter_map(|term| term.name.clone());
    let tags = terms.iter().filter_map(|term| term.tags.as_ref());
    merged("group-id", ids)
        .chain(merged("group-name", names))
        .chain(by_tags(tags))
        .collect()
}

fn merged(filter: &str, values: impl Iterator<Item = String>) -> impl Iterator<Item = Filters> {
    let values: BTreeSet<String> = values.collect();
    let query = vec![(filter.to_owned(), values.iter().cloned().collect())];
    (!values.is_empty()).then_some(query).into_iter()
}

fn by_tags<'a>(
    terms: impl Iterator<Item = &'a BTreeMap<String, String>>,
) -> impl Iterator<Item = Filters> {
    terms.filter(|tags| !tags.is_empty()).map(tag_filters)
}
