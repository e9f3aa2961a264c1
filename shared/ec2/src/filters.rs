//! Conversions that several calls share.

use std::collections::BTreeMap;

use aws_sdk_ec2::types::{Filter, Tag};
use aws_smithy_types::DateTime;
use jiff::Timestamp;

pub(crate) fn filter(name: &str, values: impl IntoIterator<Item = impl Into<String>>) -> Filter {
    let values = values.into_iter().map(Into::into).collect();
    Filter::builder()
        .name(name)
        .set_values(Some(values))
        .build()
}

pub(crate) fn filters(filters: &aws_rules::node_class::Filters) -> Vec<Filter> {
    filters
        .iter()
        .map(|(name, values)| filter(name, values))
        .collect()
}

pub(crate) fn tags(tags: &BTreeMap<String, String>) -> Vec<Tag> {
    tags.iter()
        .map(|(key, value)| Tag::builder().key(key).value(value).build())
        .collect()
}

pub(crate) fn timestamp(time: &DateTime) -> Option<Timestamp> {
    Timestamp::from_second(time.secs()).ok()
}
