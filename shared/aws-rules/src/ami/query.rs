//! The DescribeImages calls that a NodeClass's terms need.

use std::collections::BTreeSet;

use api::karpenter::AmiSelectorTerm;

use crate::node_class::{Filters, tag_filters};

/// One DescribeImages call. Its answer includes deprecated images.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImageQuery {
    pub filters: Filters,
    /// Owners to search; empty for any owner.
    pub owners: Vec<String>,
}

/// One call for all ids, those from SSM parameters included, and one for each term with a name or tags.
pub fn queries(terms: &[AmiSelectorTerm], from_parameters: &BTreeSet<String>) -> Vec<ImageQuery> {
    let ids = terms.iter().filter_map(|term| term.id.clone());
    let ids: BTreeSet<String> = ids.chain(from_parameters.iter().cloned()).collect();
    let mut queries: Vec<_> = terms.iter().filter_map(by_properties).collect();
    if !ids.is_empty() {
        queries.push(ImageQuery {
            filters: vec![("image-id".to_owned(), ids.into_iter().collect())],
            owners: Vec::new(),
        });
    }
    for query in &mut queries {
        let available = vec!["available".to_owned()];
        query.filters.push(("state".to_owned(), available));
    }
    queries
}

/// A name without an owner means the account's own images and Amazon's: anyone could publish an image of that name.
fn by_properties(term: &AmiSelectorTerm) -> Option<ImageQuery> {
    let tags = term.tags.as_ref().filter(|tags| !tags.is_empty());
    if term.name.is_none() && tags.is_none() {
        return None;
    }
    let mut query = ImageQuery {
        filters: tags.map(tag_filters).unwrap_or_default(),
        owners: term.owner.iter().cloned().collect(),
    };
    if let Some(name) = &term.name {
        query.filters.push(("name".to_owned(), vec![name.clone()]));
        if query.owners.is_empty() {
            query.owners = vec!["self".to_owned(), "amazon".to_owned()];
        }
    }
    Some(query)
}
