//! The Bottlerocket version that a NodeClass launches, if it can be determined.

use api::karpenter::EC2NodeClass;

use crate::families::{Alias, Family};

/// The first version whose `apiclient ephemeral-storage bind` binds the right directories by default.
const BINDS_BY_DEFAULT: [u32; 3] = [1, 46, 0];

/// Whether the version binds directories by default. An unknown version counts as old: naming the directories works everywhere.
pub(super) fn binds_by_default(class: &EC2NodeClass) -> bool {
    match known(class) {
        Some(Version::Latest) => true,
        Some(Version::Exactly(version)) => version >= BINDS_BY_DEFAULT,
        None => false,
    }
}

enum Version {
    Latest,
    Exactly([u32; 3]),
}

/// The version in the alias, a name selector, or the name of an image in the status.
fn known(class: &EC2NodeClass) -> Option<Version> {
    let terms = &class.spec.ami_selector_terms;
    let alias = terms.iter().find_map(|term| term.alias.as_deref());
    if let Some(alias) = alias.and_then(|text| Alias::parse(text).ok())
        && alias.family == Family::Bottlerocket
    {
        return if alias.is_latest() {
            Some(Version::Latest)
        } else {
            parse(alias.version).map(Version::Exactly)
        };
    }
    let names = terms.iter().filter_map(|term| term.name.as_deref());
    if let Some(version) = names.filter_map(in_name).next() {
        return Some(Version::Exactly(version));
    }
    let images = class
        .status
        .as_ref()
        .and_then(|status| status.amis.as_deref())
        .unwrap_or_default();
    let named = |id: Option<&str>| {
        let matching = images
            .iter()
            .filter(|image| id.is_none_or(|id| image.id == id));
        let mut names = matching.filter_map(|image| image.name.as_deref());
        names.find_map(|name| in_name(name).filter(|_| name.contains("bottlerocket")))
    };
    let ids = terms.iter().filter_map(|term| term.id.as_deref());
    ids.map(Some)
        .chain([None])
        .find_map(named)
        .map(Version::Exactly)
}

/// The version in an image's name: `bottlerocket-aws-k8s-1.33-x86_64-v1.47.0-431fe75a` → 1.47.0.
fn in_name(name: &str) -> Option<[u32; 3]> {
    name.split('-')
        .filter(|segment| segment.starts_with('v') && segment.contains('.'))
        .find_map(parse)
}

fn parse(text: &str) -> Option<[u32; 3]> {
    let text = text.strip_prefix('v').unwrap_or(text);
    let mut parts = text.splitn(3, '.').map(|part| {
        let end = part
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(part.len());
        part.get(..end)?.parse().ok()
    });
    let (major, minor) = (parts.next()??, parts.next()??);
    let patch = parts.next().flatten().unwrap_or(0);
    Some([major, minor, patch])
}
