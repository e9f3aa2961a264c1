//! Intents beyond the size of one transaction (docs/protocol.md#c1). They are written before it, packed, under their plan, and
//! count once the plan's header exists. Rows of a plan that lost the race are deleted immediately.

use std::collections::BTreeMap;

use futures::{StreamExt, TryStreamExt, stream};
use jiff::{SignedDuration, Timestamp};
use model::{ClusterName, ids::PlanId, ledger::Intent};
use ports::{LedgerError, ledger::Moved, limits::dynamodb::TRANSACTION_ITEMS};
use serde::{Deserialize, Serialize};

use crate::{
    key,
    launches::{self, intent_of, put_new},
    plan_header::{PlanOutcome, plan_outcome},
    row::{NewRow, Row, pack, unpack},
    store::Store,
    table::{Key, Write},
};

/// Retention of rows whose turn died before its transaction: by then no turn that could commit the plan is under way.
const STAGED_RETENTION: SignedDuration = SignedDuration::from_hours(24);
/// Prefix of rows that hold many intents each.
const PACKED: &str = "STAGEDPACK#";
/// Prefix of rows of one intent each, which earlier versions of the functions wrote.
const SINGLE: &str = "STAGED#";
/// Common prefix of both.
const ANY: &str = "STAGED";
/// Most intents of a row: materializing an intent takes two items of a transaction, and deleting the staged row one.
const INTENTS_IN_ROW: usize = (TRANSACTION_ITEMS - 1) / 2;
/// Transactions under way concurrently.
const CONCURRENCY: usize = 4;

/// Keys of the staged rows; the outcome of their plan decides what happens to them.
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
    let expires_at = now.saturating_add(STAGED_RETENTION).unwrap_or(now);
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
            .expires(expires_at);
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

    /// Deletes the rows of a plan that lost the race, so that no turn reads them again.
    pub(crate) async fn discard(self, table: &Store) -> Result<(), LedgerError> {
        table
            .write_together(self.0.iter().map(Write::delete).collect())
            .await
    }
}

/// Turns staged intents of committed plans into separate rows; any turn may continue the work of another. An intent that was
/// launched in between does not start again: its staged row and its own row change in one transaction.
pub(crate) async fn materialize(table: &Store, cluster: &ClusterName) -> Result<(), LedgerError> {
    let partition = key::partition(cluster);
    let rows = table.query(&partition, ANY).await?;
    let mut outcomes = BTreeMap::new();
    let mut lost = Vec::new();
    let mut committed = Vec::new();
    for row in &rows {
        let (plan, generation, intents) = match staged(row) {
            Ok(staged) => staged,
            Err(error) => {
                tracing::warn!(%cluster, %error, "staged row cannot be decoded; skipped");
                continue;
            }
        };
        let outcome = match outcomes.get(&(plan.clone(), generation)) {
            Some(outcome) => *outcome,
            None => {
                let outcome = match plan_outcome(table, cluster, generation, &plan).await {
                    Ok(outcome) => outcome,
                    Err(error @ (LedgerError::Newer { .. } | LedgerError::Corrupt { .. })) => {
                        tracing::warn!(%cluster, %error, "commit of a staged plan cannot be read; its rows are kept");
                        PlanOutcome::Open
                    }
                    Err(error) => return Err(error),
                };
                outcomes.insert((plan, generation), outcome);
                outcome
            }
        };
        let key = Key {
            pk: partition.clone(),
            sk: row.sort_key().to_owned(),
        };
        match outcome {
            PlanOutcome::Committed => committed.push((key, intents)),
            PlanOutcome::Lost => lost.push(Write::delete(&key)),
            PlanOutcome::Open => {}
        }
    }
    table.write_together(lost).await?;
    // Collected before the first await, so that the future is `Send`.
    let each: Vec<_> = committed
        .iter()
        .map(|(key, intents)| unstage(table, cluster, key, intents))
        .collect();
    let each = stream::iter(each).buffer_unordered(CONCURRENCY);
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

/// Materializes all intents of a row in one transaction; one by one if another turn has begun with them or a NodeClaim was
/// created in between.
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
    for intent in intents {
        let mut writes = put_new(cluster, intent)?;
        writes.push(Write::check(staged).when("attribute_exists(#pk)"));
        if table.transact(writes).await? == Moved::No && table.get(staged).await?.is_none() {
            // Another turn has finished the row.
            return Ok(());
        }
    }
    for intent in intents {
        if launches::intent(table, cluster, intent.name())
            .await?
            .is_none()
        {
            // This turn cannot create the intent's row; a later turn tries again.
            return Ok(());
        }
    }
    table.write(Write::delete(staged)).await.map(drop)
}
