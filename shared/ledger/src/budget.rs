//! The account's budget of EC2 calls: a bucket for each API, drawn from by every turn of every cluster.

use jiff::{SignedDuration, Timestamp};
use model::budget::{Api, Draw, Priority, TokenBucket};
use ports::LedgerError;

use crate::{
    key::Account,
    row::{NewRow, json},
    store::{Store, Written},
    table::{Key, Write},
};

/// Others draw at the same moment; whoever loses so often looks again a little later.
const TRIES: u32 = 5;
const BUSY: SignedDuration = SignedDuration::from_millis(200);

pub(crate) async fn draw(
    table: &Store,
    account: &Account,
    api: Api,
    wanted: u32,
    priority: Priority,
    now: Timestamp,
) -> Result<Draw, LedgerError> {
    for tries in 1..=TRIES {
        let (before, bucket) = read(table, account, api, now).await?;
        let (after, draw) = bucket.draw(api, wanted, priority, now);
        if draw.granted == 0 || write(table, account, api, before, &after).await? {
            return Ok(draw);
        }
        table.pause(tries).await;
    }
    Ok(Draw {
        granted: 0,
        again: now.checked_add(BUSY).ok(),
    })
}

pub(crate) async fn throttled(
    table: &Store,
    account: &Account,
    api: Api,
    now: Timestamp,
) -> Result<(), LedgerError> {
    for tries in 1..=TRIES {
        let (before, bucket) = read(table, account, api, now).await?;
        let after = bucket.refused(api, now);
        if write(table, account, api, before, &after).await? {
            return Ok(());
        }
        table.pause(tries).await;
    }
    // Others were refused too, and one of them has slowed the bucket down.
    Ok(())
}

/// The row's bucket, if there is one, and what it stands for.
async fn read(
    table: &Store,
    account: &Account,
    api: Api,
    now: Timestamp,
) -> Result<(Option<TokenBucket>, TokenBucket), LedgerError> {
    let row = table.get(&account.bucket(api)).await?;
    let before = row
        .as_ref()
        .map(|row| row.json::<TokenBucket>("body"))
        .transpose()?;
    let bucket = before
        .clone()
        .unwrap_or_else(|| TokenBucket::full(api, now));
    Ok((before, bucket))
}

/// Whether nobody wrote in between.
async fn write(
    table: &Store,
    account: &Account,
    api: Api,
    before: Option<TokenBucket>,
    after: &TokenBucket,
) -> Result<bool, LedgerError> {
    let key: Key = account.bucket(api);
    let put = Write::put(&key, NewRow::new(&key).json("body", after)?);
    let put = match before {
        None => put.when("attribute_not_exists(#pk)"),
        Some(before) => put.when("#body = :before").value("before", json(&before)?),
    };
    Ok(matches!(table.write(put).await?, Written::Done(_)))
}
