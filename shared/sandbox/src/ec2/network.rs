use std::collections::BTreeMap;

use aws_rules::{ami, node_class::Filters};

/// Subnet of the account.
#[derive(Clone, Debug)]
pub struct Subnet {
    pub id: String,
    pub zone: String,
    pub zone_id: String,
    pub free_addresses: i64,
    pub tags: BTreeMap<String, String>,
}

#[derive(Clone, Debug)]
pub struct SecurityGroup {
    pub id: String,
    pub name: String,
    pub tags: BTreeMap<String, String>,
}

#[derive(Clone, Debug)]
pub struct Image {
    pub image: ami::Image,
    /// Account number, `amazon` or `self`.
    pub owner: String,
    pub tags: BTreeMap<String, String>,
}

impl Subnet {
    pub(super) fn numbered(
        index: usize,
        zone: &str,
        zone_id: &str,
        tags: &BTreeMap<String, String>,
    ) -> Self {
        const FREE_ADDRESSES: i64 = 8_000;
        Self {
            id: format!("subnet-{:017x}", index + 1),
            zone: zone.to_owned(),
            zone_id: zone_id.to_owned(),
            free_addresses: FREE_ADDRESSES,
            tags: tags.clone(),
        }
    }

    pub(super) fn matches(&self, filters: &Filters) -> bool {
        all(filters, &self.tags, |name| match name {
            "subnet-id" => Some(&self.id),
            _ => None,
        })
    }
}

impl SecurityGroup {
    pub(super) fn matches(&self, filters: &Filters) -> bool {
        all(filters, &self.tags, |name| match name {
            "group-id" => Some(&self.id),
            "group-name" => Some(&self.name),
            _ => None,
        })
    }
}

impl Image {
    pub(super) fn matches(&self, query: &ami::ImageQuery) -> bool {
        let available = "available".to_owned();
        let owned = query.owners.is_empty() || query.owners.contains(&self.owner);
        owned
            && all(&query.filters, &self.tags, |name| match name {
                "image-id" => Some(&self.image.id),
                "name" => Some(&self.image.name),
                "state" => Some(&available),
                _ => None,
            })
    }
}

/// Returns whether every filter has a matching value, as in Describe calls.
fn all<'a>(
    filters: &Filters,
    tags: &BTreeMap<String, String>,
    property: impl Fn(&str) -> Option<&'a String>,
) -> bool {
    filters.iter().all(|(name, wanted)| {
        if name == "tag-key" {
            return wanted.iter().any(|key| tags.contains_key(key));
        }
        let value = match name.strip_prefix("tag:") {
            Some(key) => tags.get(key),
            None => property(name),
        };
        value.is_some_and(|value| wanted.iter().any(|pattern| is_like(value, pattern)))
    })
}

/// Matches EC2's wildcards: `*` for any text, `?` for any character.
fn is_like(text: &str, pattern: &str) -> bool {
    match pattern.split_at_checked(1) {
        None => text.is_empty(),
        Some(("*", rest)) => {
            (0..=text.len()).any(|at| text.get(at..).is_some_and(|text| is_like(text, rest)))
        }
        Some((first, rest)) => match text.split_at_checked(1) {
            Some((letter, text)) => (first == "?" || first == letter) && is_like(text, rest),
            None => false,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_are_anded_and_their_values_ored() {
        let subnet = Subnet::numbered(
            0,
            "us-east-1a",
            "use1-az1",
            &BTreeMap::from([("team".to_owned(), "blue".to_owned())]),
        );
        let matches = |filters: &[(&str, &[&str])]| {
            let filters = filters
                .iter()
                .map(|(name, values)| {
                    let values = values.iter().map(|value| (*value).to_owned()).collect();
                    ((*name).to_owned(), values)
                })
                .collect();
            subnet.matches(&filters)
        };
        assert!(matches(&[("tag:team", &["red", "blue"])]));
        assert!(matches(&[("tag-key", &["team"])]));
        assert!(matches(&[("tag:team", &["b*"])]));
        assert!(!matches(&[
            ("tag:team", &["blue"]),
            ("subnet-id", &["subnet-x"])
        ]));
        assert!(is_like("al2023-1.37-x86", "al2023-*-x??"));
        assert!(!is_like("al2023", "al2023-*"));
    }
}
