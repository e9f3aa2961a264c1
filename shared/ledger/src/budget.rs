//! The account's budget of EC2 calls: one token bucket per API, shared by the turns of all clusters.

use jiff::{SignedDuration, Timestamp};
use model::budget::{Api, Priority, TokenBucket, TokenGrant};
use ports::LedgerError;

use crate::{
    key::Account,
    row::{NewRow, Row},
    store::{Store, Written},
    table::{Key, Write},
};

/// Conditional writes tried per draw; other turns draw concurrently. A draw that loses all of them is granted nothing and retries
/// after [`BUSY`].
const TRIES: u32 = 5;
const BUSY: SignedDuration = SignedDuration::from_millis(200);

pub(crate) async fn draw(
    table: &Store,
    account: &Account,
    api: Api,
    wanted: u32,
    priority: Priority,
    now: Timestamp,
) -> Result<TokenGrant, LedgerError> {
    for tries in 1..=TRIES {
        let (before, bucket) = read(table, account, api, now).await?;
        let (after, draw) = bucket.draw(api, wanted, priority, now);
        if draw.granted == 0 || write(table, account, api, before.as_ref(), &after).await? {
            return Ok(draw);
        }
        table.pause(tries).await;
    }
    Ok(TokenGrant {
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
        if write(table, account, api, before.as_ref(), &after).await? {
            return Ok(());
        }
        table.pause(tries).await;
    }
    // Other turns were throttled as well, and one of them has already slowed the bucket down.
    Ok(())
}

/// Returns the row, and the bucket in effect: a full one without a row. A corrupt row counts as a full bucket, and
/// is overwritten: the calls of all clusters would wait for it otherwise, and EC2 itself throttles calls above its limits.
async fn read(
    table: &Store,
    account: &Account,
    api: Api,
    now: Timestamp,
) -> Result<(Option<Row>, TokenBucket), LedgerError> {
    let row = table.get(&account.bucket(api)).await?;
    let bucket = match row.as_ref().map(|row| row.json("body")) {
        None => TokenBucket::full(api, now),
        Some(Err(error @ LedgerError::Corrupt { .. })) => {
            tracing::warn!(%error, "token bucket cannot be decoded; a full one replaces it");
            TokenBucket::full(api, now)
        }
        Some(bucket) => bucket?,
    };
    Ok((row, bucket))
}

/// Writes the bucket if the row is still as it was read; returns whether it was.
async fn write(
    table: &Store,
    account: &Account,
    api: Api,
    before: Option<&Row>,
    after: &TokenBucket,
) -> Result<bool, LedgerError> {
    let key: Key = account.bucket(api);
    let put = Write::put(&key, NewRow::new(&key).json("body", after)?);
    let put = put.when_body_is_as_in(before);
    Ok(matches!(table.write(put).await?, Written::Done(_)))
}
