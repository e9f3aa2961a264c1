//! Summaries of all clusters for the sweep, read in batches across clusters (docs/protocol.md#l5).

use std::collections::{BTreeMap, BTreeSet};

use model::{ClusterName, Lane, caps::AccountSpending, ledger::Pause};
use ports::{LedgerError, ledger::ClusterSummary, limits::dynamodb::BATCH_KEYS};

use crate::{commit, key::Account, lanes, memory, pauses, row::Row, store::Store, table::Key};

/// The lanes that turns take.
const LANES: [Lane; 5] = [
    Lane::Provisioner,
    Lane::Lifecycle,
    Lane::Disruption,
    Lane::Terminator,
    Lane::Housekeeper,
];
/// Rows per cluster: one per lane, META, the relay's heartbeat and the housekeeper's notes.
const ROWS: usize = LANES.len() + 3;

/// Rows by partition and sort key.
type Rows = BTreeMap<(String, String), Row>;

pub(crate) async fn cluster_summaries(
    table: &Store,
    account: &Account,
    clusters: &BTreeSet<ClusterName>,
) -> Result<BTreeMap<ClusterName, Result<ClusterSummary, LedgerError>>, LedgerError> {
    let of_account = pauses::of_account(table, account).await?;
    let clusters: Vec<&ClusterName> = clusters.iter().collect();
    let mut summaries = BTreeMap::new();
    // A batch holds whole clusters, so that a failed request affects only the clusters in it.
    for batch in clusters.chunks(BATCH_KEYS / ROWS) {
        let keys: Vec<Key> = batch.iter().flat_map(|cluster| keys(cluster)).collect();
        let rows = read(table, &keys).await;
        for cluster in batch {
            let summary = match &rows {
                Ok(rows) => cluster_summary(rows, cluster, &of_account),
                Err(error) => Err(error.clone()),
            };
            summaries.insert((*cluster).clone(), summary);
        }
    }
    Ok(summaries)
}

fn keys(cluster: &ClusterName) -> Vec<Key> {
    let mut keys = vec![Key::meta(cluster), Key::relay(cluster), Key::sweep(cluster)];
    keys.extend(LANES.map(|lane| Key::lane(cluster, lane)));
    keys
}

async fn read(table: &Store, keys: &[Key]) -> Result<Rows, LedgerError> {
    let rows = table.get_together(keys).await?.into_iter();
    let keyed = rows.map(|row| {
        let pk = row.text("pk").unwrap_or_default().to_owned();
        let sk = row.sort_key().to_owned();
        ((pk, sk), row)
    });
    Ok(keyed.collect())
}

fn cluster_summary(
    rows: &Rows,
    cluster: &ClusterName,
    (of_account, account): &(Vec<Pause>, AccountSpending),
) -> Result<ClusterSummary, LedgerError> {
    let row = |key: Key| rows.get(&(key.pk, key.sk));
    let mut meta = row(Key::meta(cluster)).map(commit::meta_of).transpose()?;
    if let Some(meta) = &mut meta {
        meta.pauses.extend(of_account.iter().cloned());
        meta.account = account.clone();
    }
    let lane = |lane: Lane| {
        let row = row(Key::lane(cluster, lane))?;
        Some((lane, lanes::lane_row(row)))
    };
    Ok(ClusterSummary {
        meta,
        beat: row(Key::relay(cluster)).map(memory::beat_of),
        lanes: LANES.into_iter().filter_map(lane).collect(),
        memory: memory::sweep_of(row(Key::sweep(cluster)))?,
    })
}
