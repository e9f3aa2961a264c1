//! Observations of EC2's behavior: rows of the account, except for zonal shifts, which belong to one cluster.

use jiff::{SignedDuration, Timestamp};
use model::{
    ClusterName, Evidence, Experience,
    experience::{FullSubnet, MeasuredMemory, ZonalShift},
    ledger::{OfferingKey, UnavailableOffering},
};
use ports::LedgerError;
use serde::de::DeserializeOwned;

use crate::{
    key::Account,
    row::{NewRow, readable},
    store::{Store, Written},
    table::{Key, Write},
};

/// Retention of an unavailable offering after its back-off: the back-off restarts after its longest wait, so an older row means
/// nothing.
const OFFERING_RETENTION: SignedDuration = SignedDuration::from_hours(2);
const TRIES: u32 = 5;

pub(crate) async fn all(
    table: &Store,
    account: &Account,
    cluster: &ClusterName,
    now: Timestamp,
) -> Result<Experience, LedgerError> {
    let (mut unavailable, mut full_subnets, mut memory, shifts) = futures::try_join!(
        bodies::<UnavailableOffering>(table, account.offerings()),
        bodies::<FullSubnet>(table, account.subnets()),
        bodies::<MeasuredMemory>(table, account.learned()),
        zonal_shifts(table, cluster),
    )?;
    unavailable.retain(|entry| entry.until > now);
    full_subnets.retain(|entry| entry.until > now);
    memory.retain(|entry| entry.until > now);
    let shifted = shifts.into_iter().filter(|shift| shift.until > now);
    Ok(Experience {
        shifted_zones: shifted.map(|shift| shift.zone_id).collect(),
        unavailable,
        full_subnets,
        memory,
    })
}

async fn bodies<T: DeserializeOwned>(
    table: &Store,
    partition: String,
) -> Result<Vec<T>, LedgerError> {
    let rows = table.query(&partition, "").await?;
    Ok(readable(&rows, |row| row.json("body")).collect())
}

pub(crate) async fn mark_unavailable(
    table: &Store,
    account: &Account,
    offering: &OfferingKey,
    now: Timestamp,
) -> Result<(), LedgerError> {
    change(table, &account.offering(offering), |before| {
        let after = UnavailableOffering::after(offering.clone(), before, now);
        let expires_at = after.until.saturating_add(OFFERING_RETENTION);
        let expires_at = expires_at.unwrap_or(after.until);
        Some((after, expires_at))
    })
    .await
}

pub(crate) async fn mark_full(
    table: &Store,
    account: &Account,
    subnet: &str,
    now: Timestamp,
) -> Result<(), LedgerError> {
    let key = account.subnet(subnet);
    let entry = FullSubnet::at(subnet, now);
    let row = NewRow::new(&key).json("body", &entry)?.expires(entry.until);
    table.write(Write::put(&key, row)).await.map(drop)
}

pub(crate) async fn measure_memory(
    table: &Store,
    key: &Key,
    after: impl Fn(Option<&MeasuredMemory>) -> Option<MeasuredMemory>,
) -> Result<(), LedgerError> {
    change(table, key, |before| {
        let after = after(before)?;
        let expires_at = after.until;
        Some((after, expires_at))
    })
    .await
}

/// Replaces a row by the value that `after` derives from the current one, with its expiry; retries if the row changed in between.
/// `after` returns `None` to leave the row as it is.
async fn change<T: DeserializeOwned + serde::Serialize>(
    table: &Store,
    key: &Key,
    after: impl Fn(Option<&T>) -> Option<(T, Timestamp)>,
) -> Result<(), LedgerError> {
    for tries in 1..=TRIES {
        let row = table.get(key).await?;
        // A row that cannot be read counts as absent: it describes what will be observed again, and is overwritten.
        let before: Option<T> = readable(&row, |row| row.json("body")).next();
        let Some((after, expires_at)) = after(before.as_ref()) else {
            return Ok(());
        };
        let put = Write::put(
            key,
            NewRow::new(key).json("body", &after)?.expires(expires_at),
        );
        let put = put.when_body_is_as_in(row.as_ref());
        if let Written::Done(_) = table.write(put).await? {
            return Ok(());
        }
        table.pause(tries).await;
    }
    // Other turns observed the same thing, and one of them has written it.
    Ok(())
}

pub(crate) async fn evidence(
    table: &Store,
    account: &Account,
) -> Result<Vec<Evidence>, LedgerError> {
    bodies(table, account.evidence()).await
}

pub(crate) async fn store_evidence(
    table: &Store,
    account: &Account,
    evidence: &Evidence,
) -> Result<(), LedgerError> {
    let key = account.evidence_of(&evidence.cluster);
    let row = NewRow::new(&key).json("body", evidence)?;
    let row = row.expires(evidence.until);
    table.write(Write::put(&key, row)).await.map(drop)
}

pub(crate) async fn zonal_shifts(
    table: &Store,
    cluster: &ClusterName,
) -> Result<Vec<ZonalShift>, LedgerError> {
    let row = table.get(&Key::shifts(cluster)).await?;
    // A row that cannot be read counts as empty: AWS announces the shift again, and the row is rewritten.
    Ok(readable(&row, |row| row.json("body"))
        .next()
        .unwrap_or_default())
}

pub(crate) async fn store_zonal_shifts(
    table: &Store,
    cluster: &ClusterName,
    shifts: &[ZonalShift],
) -> Result<(), LedgerError> {
    let key = Key::shifts(cluster);
    let row = NewRow::new(&key).json("body", &shifts)?;
    table.write(Write::put(&key, row)).await.map(drop)
}
