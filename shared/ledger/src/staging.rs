//! Intents beyond what one transaction holds (docs/protocol.md#c1): they are written before it, packed, under their plan; they
//! count once the plan's header stands. The rows of a plan that lost go at once.

use std::collections::BTreeMap;

use futures::{StreamExt, TryStreamExt, stream};
use jiff::{SignedDuration, Timestamp};
use model::{ClusterName, ids::PlanId, ledger::Intent};
use ports::{LedgerError, ledger::Moved, limits::dynamodb::TRANSACTION_ITEMS};
use serde::{Deserialize, Serialize};

use crate::{
    commit::{self, Fate},
    key,
    launches::{intent, intent_of, put_new},
    row::{NewRow, Row, pack, unpack},
    store::Store,
    table::{Key, Write},
};

/// Rows of a plan whose turn died before its transaction: by then no turn that could commit it is under way.
const STAGED_KEPT: SignedDuration = SignedDuration::from_hours(24);
/// Rows that hold many intents each.
const PACKED: &str = "STAGEDPACK#";
/// Rows that functions of earlier versions wrote, of one intent each.
const SINGLE: &str = "STAGED#";
/// Begins the keys of both.
const ANY: &str = "STAGED";
/// Most intents of a row: each takes two items of the transaction that makes rows of their own of them, and the staged row one.
const INTENTS_IN_ROW: usize = (TRANSACTION_ITEMS - 1) / 2;
/// Transactions under way at a time.
const AT_ONCE: usize = 4;

/// Whether rows were staged, which only their plan's outcome can say what to do with.
pub(crate) struct Staged(Vec<Key>);

#[derive(Deserialize, Serialize)]
struct Pack {
    plan: PlanId,
    generation: u64,
    intents: Vec<Intent>,
}

pub(crate) async fn stage(
    table: &Store,
    cluster: &ClusterName,
    plan: &PlanId,
    generation: u64,
    intents: &[Intent],
    now: Timestamp,
) -> Result<Staged, LedgerError> {
    let kept = now.saturating_add(STAGED_KEPT).unwrap_or(now);
    let mut keys = Vec::new();
    let mut writes = Vec::new();
    for (place, intents) in intents.chunks(INTENTS_IN_ROW).enumerate() {
        let key = Key {
            pk: key::partition(cluster),
            sk: format!("{PACKED}{plan}#{place:04}"),
        };
        let pack_of = Pack {
            plan: plan.clone(),
            generation,
            intents: intents.to_vec(),
        };
        let row = NewRow::new(&key)
            .with("plan", plan.as_str())
            .with("generation", generation)
            .with("body", pack(&pack_of)?)
            .expires(kept);
        writes.push(Write::put(&key, row));
        keys.push(key);
    }
    table.write_together(writes).await?;
    Ok(Staged(keys))
}

impl Staged {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The plan has lost: nobody need read its rows again.
    pub(crate) async fn discard(self, table: &Store) -> Result<(), LedgerError> {
        table
            .write_together(self.0.iter().map(Write::delete).collect())
            .await
    }
}

/// Turns staged intents of committed plans into rows of their own; any turn may finish what another began. One that has come to
/// an instance meanwhile never begins anew: its staged row and its own change places in one transaction.
pub(crate) async fn materialize(table: &Store, cluster: &ClusterName) -> Result<(), LedgerError> {
    let partition = key::partition(cluster);
    let rows = table.query(&partition, ANY).await?;
    let mut fates = BTreeMap::new();
    let mut lost = Vec::new();
    let mut won = Vec::new();
    for row in &rows {
        let (plan, generation, intents) = match staged(row) {
            Ok(staged) => staged,
            Err(error) => {
                tracing::warn!(%cluster, %error, "staged row skipped");
                continue;
            }
        };
        let fate = match fates.get(&(plan.clone(), generation)) {
            Some(fate) => *fate,
            None => {
                let fate = match commit::fate(table, cluster, generation, &plan).await {
                    Ok(fate) => fate,
                    Err(error @ (LedgerError::Newer { .. } | LedgerError::Corrupt { .. })) => {
                        tracing::warn!(%cluster, %error, "outcome of a staged plan unknown");
                        Fate::Open
                    }
                    Err(error) => return Err(error),
                };
                fates.insert((plan, generation), fate);
                fate
            }
        };
        let key = Key {
            pk: partition.clone(),
            sk: row.sort_key().to_owned(),
        };
        match fate {
            Fate::Committed => won.push((key, intents)),
            Fate::Lost => lost.push(Write::delete(&key)),
            Fate::Open => {}
        }
    }
    table.write_together(lost).await?;
    // Made before anything is awaited, so that the future can be sent between threads.
    let each: Vec<_> = won
        .iter()
        .map(|(key, intents)| unstage(table, cluster, key, intents))
        .collect();
    let each = stream::iter(each).buffer_unordered(AT_ONCE);
    each.try_for_each(|()| async { Ok(()) }).await
}

fn staged(row: &Row) -> Result<(PlanId, u64, Vec<Intent>), LedgerError> {
    if row.sort_key().starts_with(SINGLE) {
        let intent = intent_of(row)?;
        return Ok((intent.plan.clone(), intent.generation, vec![intent]));
    }
    let body = row.bytes("body");
    let body = body.ok_or_else(|| row.corrupt("attribute body is missing".to_owned()))?;
    let Pack {
        plan,
        generation,
        intents,
    } = unpack(body).map_err(|message| row.unreadable(format!("attribute body: {message}")))?;
    Ok((plan, generation, intents))
}

/// All of a row's intents in one transaction; one by one where another turn began with them, or a NodeClaim has come meanwhile.
async fn unstage(
    table: &Store,
    cluster: &ClusterName,
    staged: &Key,
    intents: &[Intent],
) -> Result<(), LedgerError> {
    let mut writes = Vec::new();
    for intent in intents {
        writes.extend(put_new(cluster, intent)?);
    }
    writes.push(Write::delete(staged).when("attribute_exists(#pk)"));
    if table.transact(writes).await? == Moved::Yes {
        return Ok(());
    }
    for one in intents {
        let mut writes = put_new(cluster, one)?;
        writes.push(Write::check(staged).when("attribute_exists(#pk)"));
        if table.transact(writes).await? == Moved::No && table.get(staged).await?.is_none() {
            // Another turn has come through.
            return Ok(());
        }
    }
    for one in intents {
        if intent(table, cluster, one.name()).await?.is_none() {
            // This turn cannot put the row; a later one tries again.
            return Ok(());
        }
    }
    table.write(Write::delete(staged)).await.map(drop)
}
