//! Identity of the cluster behind a registry entry, by the uid of the namespace `kube-system`: names and endpoints can be
//! spelled in two ways (docs/adr/0020-identity-is-proven.md).

use std::collections::{BTreeMap, BTreeSet};

use api::names::tag;
use model::{
    ClusterName, Uid,
    launch::Instance,
    ledger::{Meta, Mode},
};
use ports::{LedgerError, ledger::ClusterSummary};

use crate::settings::entry::unlisted_since;

/// Rank of an entry among several for one cluster; the first is served. An active entry precedes one in shadow mode, and the
/// recorded entry precedes a new one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct EntryRank {
    watches: bool,
    is_new: bool,
    name: ClusterName,
}

/// Registered entries by the cluster that they were found to lead to.
#[derive(Debug, Default)]
pub(crate) struct EntriesByCluster(BTreeMap<Uid, BTreeSet<EntryRank>>);

impl EntriesByCluster {
    pub(crate) fn of(
        summaries: &BTreeMap<ClusterName, Result<ClusterSummary, LedgerError>>,
    ) -> Self {
        let mut entries = Self::default();
        for (name, summary) in summaries {
            let meta = summary
                .as_ref()
                .ok()
                .and_then(|summary| summary.meta.as_ref());
            let registered = meta.filter(|meta| unlisted_since(&meta.registry).is_none());
            let Some((meta, uid)) = registered.and_then(|meta| Some((meta, meta.uid.as_ref()?)))
            else {
                continue;
            };
            let ranks = entries.0.entry(uid.clone()).or_default();
            ranks.insert(rank_of(name, meta, uid));
        }
        entries
    }

    /// The entry under which a cluster is served.
    pub(crate) fn first(&self, uid: &Uid) -> Option<ClusterName> {
        let first = self.0.get(uid)?.first()?;
        Some(first.name.clone())
    }

    /// Another entry for the same cluster that precedes this one.
    pub(crate) fn preceding_entry(
        &self,
        name: &ClusterName,
        meta: &Meta,
        uid: &Uid,
    ) -> Option<ClusterName> {
        let own = rank_of(name, meta, uid);
        let mut others = self.0.get(uid)?.iter();
        let first = others.find(|other| other.name != *name)?;
        (*first < own).then(|| first.name.clone())
    }
}

fn rank_of(name: &ClusterName, meta: &Meta, uid: &Uid) -> EntryRank {
    EntryRank {
        watches: meta.mode == Mode::Shadow,
        is_new: meta.uid.as_ref() != Some(uid),
        name: name.clone(),
    }
}

/// Owner of an instance that carries a cluster's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InstanceOwnership {
    Ours,
    /// A cluster that the entry led to before.
    FormerCluster,
    /// Unknown: the instance was launched by a version that did not tag instances with uids, by Karpenter, or by another stack
    /// of such a version.
    Unproven,
    /// Another cluster of this name.
    OtherCluster,
}

pub(crate) fn ownership_of(
    instance: &Instance,
    uid: Option<&Uid>,
    formers: &BTreeSet<Uid>,
) -> InstanceOwnership {
    let Some(tagged) = instance.tags.get(tag::CLUSTER_UID) else {
        return InstanceOwnership::Unproven;
    };
    let tagged = Uid::from(tagged.as_str());
    if uid == Some(&tagged) {
        InstanceOwnership::Ours
    } else if formers.contains(&tagged) {
        InstanceOwnership::FormerCluster
    } else {
        InstanceOwnership::OtherCluster
    }
}

#[cfg(test)]
mod tests {
    use model::caps::AccountSpending;

    use super::*;

    fn meta(mode: Mode, uid: Option<&str>) -> Meta {
        Meta {
            generation: 0,
            mode,
            registry: serde_json::Value::Null,
            uid: uid.map(Uid::from),
            pauses: Vec::new(),
            account: AccountSpending::default(),
            requests: Vec::new(),
        }
    }

    /// For each of these entries for one cluster, the entry that it yields to.
    fn yields(entries: &[(&str, Mode, Option<&str>)]) -> Vec<Option<String>> {
        let glance = |mode, uid| ClusterSummary {
            meta: Some(meta(mode, uid)),
            ..ClusterSummary::default()
        };
        let summaries = entries
            .iter()
            .map(|(name, mode, uid)| (ClusterName::from(*name), Ok(glance(*mode, *uid))));
        let by_cluster = EntriesByCluster::of(&summaries.collect());
        let twin = |(name, mode, uid): &(&str, Mode, Option<&str>)| {
            let twin = by_cluster.preceding_entry(&(*name).into(), &meta(*mode, *uid), &"u".into());
            twin.map(|twin| twin.0)
        };
        entries.iter().map(twin).collect()
    }

    #[test]
    fn new_entry_for_a_known_cluster_yields() {
        let known = ("b", Mode::Active, Some("u"));
        let new = ("a", Mode::Active, None);
        assert_eq!(yields(&[known, new]), [None, Some("b".to_owned())]);
    }

    #[test]
    fn entry_in_shadow_mode_yields_to_an_active_one() {
        let watches = ("a", Mode::Shadow, Some("u"));
        let acts = ("b", Mode::Active, Some("u"));
        assert_eq!(yields(&[watches, acts]), [Some("b".to_owned()), None]);
        let (first, second) = (("a", Mode::Active, Some("u")), acts);
        assert_eq!(yields(&[first, second]), [None, Some("a".to_owned())]);
    }

    #[test]
    fn entries_for_different_clusters_do_not_yield() {
        let (one, other) = (
            ("a", Mode::Active, Some("u")),
            ("b", Mode::Active, Some("v")),
        );
        let entries = yields(&[one]);
        assert_eq!(entries, [None]);
        assert_eq!(yields(&[other]), [None]);
    }
}
