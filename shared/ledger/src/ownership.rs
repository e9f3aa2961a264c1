//! Ownership of instances by NodeClaims: two rows that name each other (docs/protocol.md#a4, docs/protocol.md#g1).

use jiff::{SignedDuration, Timestamp};
use model::{
    ClusterName, InstanceId, NodeClaimName,
    ids::LaunchToken,
    ledger::{ClaimPhase, ClaimRow, Holder, InstanceOwner, IntentState},
};
use ports::{LedgerError, ledger::Moved};

use crate::{
    launches,
    row::{NewRow, Row, json},
    store::{Store, Written},
    table::{Key, Write},
};

/// AWS reports events of an instance late and more than once; by then a launch that could own the instance has timed out.
const OWNER_RETENTION: SignedDuration = SignedDuration::from_hours(24);

pub(crate) async fn own(
    table: &Store,
    cluster: &ClusterName,
    claim: &NodeClaimName,
    instance: &InstanceId,
    token: &LaunchToken,
) -> Result<Moved, LedgerError> {
    let intent = match launches::intent(table, cluster, claim).await {
        Ok(Some(intent)) => intent,
        // An intent that cannot be read is not a launch of this version: another member of its call gets the instance.
        Err(error @ (LedgerError::Newer { .. } | LedgerError::Corrupt { .. })) => {
            tracing::warn!(%cluster, %error, "launch intent cannot be read; another NodeClaim of the call gets the instance");
            return Ok(Moved::No);
        }
        Ok(None) => return Ok(Moved::No),
        Err(error) => return Err(error),
    };
    let launching =
        matches!(&intent.state, IntentState::Launching { token: found, .. } if found == token);
    if !launching {
        return owned(table, cluster, claim, instance).await;
    }
    let held = InstanceOwner {
        cluster: cluster.clone(),
        holder: Holder::Claim(claim.clone()),
    };
    let writes = vec![
        Write::put(&Key::owner(instance), owner_row(instance, &held)?)
            .when("attribute_not_exists(#pk) OR #owner = :owner")
            .value("owner", json(&held)?),
        Write::put(
            &Key::claim(cluster, claim),
            claim_row(cluster, claim, instance, ClaimPhase::Open)?,
        )
        .when("attribute_not_exists(#pk) OR #instance = :instance")
        .value("instance", instance.as_str()),
        Write::check(&Key::intent(cluster, claim))
            .when("#state = :state")
            .value("state", json(&intent.state)?),
    ];
    match table.transact(writes).await? {
        Moved::Yes => Ok(Moved::Yes),
        Moved::No => owned(table, cluster, claim, instance).await,
    }
}

/// Returns `Moved::Yes` if both rows name each other. The NodeClaim's row is read first: without it, an owner's row that cannot
/// be read names another owner.
async fn owned(
    table: &Store,
    cluster: &ClusterName,
    name: &NodeClaimName,
    instance: &InstanceId,
) -> Result<Moved, LedgerError> {
    let of_claim = claim(table, cluster, name).await?;
    if of_claim.is_none_or(|row| row.instance != *instance) {
        return Ok(Moved::No);
    }
    let of_instance = owner(table, instance).await?.is_some_and(|owner| {
        owner.cluster == *cluster && owner.holder == Holder::Claim(name.clone())
    });
    Ok(match of_instance {
        true => Moved::Yes,
        false => Moved::No,
    })
}

pub(crate) async fn owner(
    table: &Store,
    instance: &InstanceId,
) -> Result<Option<InstanceOwner>, LedgerError> {
    table
        .get(&Key::owner(instance))
        .await?
        .map(|row| row.json("owner"))
        .transpose()
}

pub(crate) async fn claim(
    table: &Store,
    cluster: &ClusterName,
    claim: &NodeClaimName,
) -> Result<Option<ClaimRow>, LedgerError> {
    let row = table.get(&Key::claim(cluster, claim)).await?;
    row.as_ref().map(claim_of).transpose()
}

pub(crate) fn claim_of(row: &Row) -> Result<ClaimRow, LedgerError> {
    Ok(ClaimRow {
        instance: row.text("instance").unwrap_or_default().into(),
        phase: row.json("phase")?,
    })
}

pub(crate) async fn close(
    table: &Store,
    cluster: &ClusterName,
    claim: &NodeClaimName,
) -> Result<(), LedgerError> {
    let key = Key::claim(cluster, claim);
    let write = Write::update(&key, "SET #phase = :closed")
        .when("attribute_exists(#pk)")
        .value("closed", json(&ClaimPhase::Closed)?);
    table.write(write).await.map(drop)
}

pub(crate) async fn collect(
    table: &Store,
    cluster: &ClusterName,
    instance: &InstanceId,
    now: Timestamp,
) -> Result<Moved, LedgerError> {
    let key = Key::owner(instance);
    let collector = InstanceOwner {
        cluster: cluster.clone(),
        holder: Holder::Collector,
    };
    let held = table
        .get(&key)
        .await?
        .map(|row| row.json::<InstanceOwner>("owner"))
        .transpose()?;
    let expires_at = now.saturating_add(OWNER_RETENTION).unwrap_or(now);
    let put = Write::put(&key, owner_row(instance, &collector)?.expires(expires_at));
    let written = match held {
        None => table.write(put.when("attribute_not_exists(#pk)")).await?,
        Some(held) if held == collector => return Ok(Moved::Yes),
        Some(held) => {
            let Holder::Claim(name) = &held.holder else {
                return Ok(Moved::No);
            };
            let open = claim(table, &held.cluster, name)
                .await?
                .is_some_and(|row| row.phase == ClaimPhase::Open);
            if open {
                return Ok(Moved::No);
            }
            // A closed or deleted claim never opens again, so the condition on the owner's row is enough.
            table
                .write(put.when("#owner = :held").value("held", json(&held)?))
                .await?
        }
    };
    Ok(match written {
        Written::Refused(Some(row)) if row.json::<InstanceOwner>("owner")? == collector => {
            Moved::Yes
        }
        written @ (Written::Done(_) | Written::Refused(_)) => written.into(),
    })
}

/// Deletes the rows of a NodeClaim that is gone, as they are read here. A launch in flight under that name means that another
/// NodeClaim has taken the name, so all rows are its own and stay. The CLAIM row goes last, because it leads to the owner's row.
/// If it cannot be read, all rows stay.
pub(crate) async fn forget(
    table: &Store,
    cluster: &ClusterName,
    name: &NodeClaimName,
    now: Timestamp,
) -> Result<(), LedgerError> {
    let keys = [
        Key::intent(cluster, name),
        Key::launched(cluster, name),
        Key::claim(cluster, name),
    ];
    let rows = table.get_together(&keys).await?;
    let found = |key: &Key| rows.iter().find(|row| row.sort_key() == key.sk);
    let [intent_key, launched_key, claim_key] = &keys;
    if let Some(row) = found(intent_key)
        && launches::intent_of(row)?.is_in_flight()
    {
        return Ok(());
    }
    let instance = found(claim_key).and_then(|row| row.text("instance"));
    if found(claim_key).is_some() && instance.is_none() {
        // A function that can read the row finds the owner's row by it, and all rows by the launch that is over.
        return Ok(());
    }
    if let Some(instance) = instance {
        let held = InstanceOwner {
            cluster: cluster.clone(),
            holder: Holder::Claim(name.clone()),
        };
        let expires_at = now.saturating_add(OWNER_RETENTION).unwrap_or(now);
        let write = Write::update(&Key::owner(&instance.into()), "SET #expires = :expires")
            // A collector's row already has an expiry.
            .when("#owner = :held")
            .value("held", json(&held)?)
            .value("expires", expires_at.as_second());
        table.write(write).await?;
    }
    for key in [intent_key, launched_key] {
        if let Some(state) = found(key).and_then(|row| row.text("state")) {
            let write = Write::delete(key).when("#state = :state");
            table.write(write.value("state", state)).await?;
        }
    }
    if let Some(instance) = instance {
        let write = Write::delete(claim_key).when("#instance = :instance");
        table.write(write.value("instance", instance)).await?;
    }
    Ok(())
}

pub(crate) fn owner_row(
    instance: &InstanceId,
    owner: &InstanceOwner,
) -> Result<NewRow, LedgerError> {
    NewRow::new(&Key::owner(instance)).json("owner", owner)
}

pub(crate) fn claim_row(
    cluster: &ClusterName,
    claim: &NodeClaimName,
    instance: &InstanceId,
    phase: ClaimPhase,
) -> Result<NewRow, LedgerError> {
    NewRow::new(&Key::claim(cluster, claim))
        .with("instance", instance.as_str())
        .json("phase", &phase)
}

pub(crate) fn not_ours(instance: &InstanceId) -> Key {
    Key {
        pk: format!("INSTANCE#{instance}"),
        sk: "NOTOURS".to_owned(),
    }
}

pub(crate) async fn remember_unmanaged(
    table: &Store,
    instance: &InstanceId,
    until: Timestamp,
) -> Result<(), LedgerError> {
    let key = not_ours(instance);
    table
        .write(Write::put(
            &key,
            NewRow::new(&key).with("until", until).expires(until),
        ))
        .await
        .map(drop)
}

pub(crate) async fn is_unmanaged(
    table: &Store,
    instance: &InstanceId,
    now: Timestamp,
) -> Result<bool, LedgerError> {
    let row: Option<Row> = table.get(&not_ours(instance)).await?;
    Ok(row
        .and_then(|row| row.time("until"))
        .is_some_and(|until| until > now))
}
