//! Intents and frozen calls (docs/protocol.md#launching).

use jiff::{SignedDuration, Timestamp};
use model::{
    ClusterName, Lane, NodeClaimName,
    ids::{LaunchToken, PlanId, TurnId},
    ledger::{Call, Intent, IntentState, Lease},
};
use ports::{LedgerError, ledger::Moved};
use serde::{Deserialize, Serialize};

use crate::{
    key, lanes,
    row::{NewRow, Row, json, readable},
    staging,
    store::{Store, Written},
    table::{Key, Write},
};

/// A closed call explains its instances to garbage collection for this long (docs/protocol.md#g3).
const CALL_RETENTION: SignedDuration = SignedDuration::from_hours(24);

/// The part of an intent that no condition compares.
#[derive(Deserialize, Serialize)]
struct IntentBody {
    plan: PlanId,
    generation: u64,
    launch: model::plan::Launch,
    committed_at: Timestamp,
}

pub(crate) fn intent_row(cluster: &ClusterName, intent: &Intent) -> Result<NewRow, LedgerError> {
    fill(NewRow::new(&Key::intent(cluster, intent.name())), intent)
}

fn fill(row: NewRow, intent: &Intent) -> Result<NewRow, LedgerError> {
    let body = IntentBody {
        plan: intent.plan.clone(),
        generation: intent.generation,
        launch: intent.launch.clone(),
        committed_at: intent.committed_at,
    };
    Ok(row
        .json("state", &intent.state)?
        .json("body", &body)?
        .lease(intent.lease.as_ref()))
}

pub(crate) fn intent_of(row: &Row) -> Result<Intent, LedgerError> {
    let body: IntentBody = row.json("body")?;
    Ok(Intent {
        plan: body.plan,
        generation: body.generation,
        launch: body.launch,
        state: row.json("state")?,
        lease: row.lease(),
        committed_at: body.committed_at,
    })
}

pub(crate) async fn intents(
    table: &Store,
    cluster: &ClusterName,
) -> Result<Vec<Intent>, LedgerError> {
    staging::materialize(table, cluster).await?;
    let rows = table.query(&key::partition(cluster), key::INTENT).await?;
    // An intent that cannot be read may be a launch under way. No turn of this version advances it, and its pods may get another
    // node; but no NodeClaim of its name is adopted while the row exists, and its call explains its instance to garbage
    // collection.
    let intents = readable(&rows, intent_of);
    // Functions of an earlier version leave launched intents here.
    let is_launched = |intent: &Intent| matches!(intent.state, IntentState::Launched { .. });
    Ok(intents.filter(|intent| !is_launched(intent)).collect())
}

/// Lists launched intents. Rows that an earlier version of the functions left among the other intents are moved first.
pub(crate) async fn launched(
    table: &Store,
    cluster: &ClusterName,
) -> Result<Vec<NodeClaimName>, LedgerError> {
    let partition = key::partition(cluster);
    for row in table.query(&partition, key::INTENT).await? {
        let Some(intent) = readable([&row], intent_of).next() else {
            continue;
        };
        if let IntentState::Launched { .. } = intent.state {
            let target_key = Key::launched(cluster, intent.name());
            let delete = Write::delete(&Key::intent(cluster, intent.name()))
                .when("#state = :state")
                .value("state", json(&intent.state)?);
            let writes = vec![
                delete,
                Write::put(&target_key, row.at(&target_key).released()),
            ];
            // A refused transaction means that the row is gone or another turn has moved it.
            table.transact(writes).await?;
        }
    }
    let rows = table.query(&partition, key::LAUNCHED).await?;
    let name = |row: &Row| row.sort_key().strip_prefix(key::LAUNCHED).map(Into::into);
    Ok(rows.iter().filter_map(name).collect())
}

pub(crate) async fn intent(
    table: &Store,
    cluster: &ClusterName,
    claim: &NodeClaimName,
) -> Result<Option<Intent>, LedgerError> {
    let row = match table.get(&Key::intent(cluster, claim)).await? {
        None => table.get(&Key::launched(cluster, claim)).await?,
        found => found,
    };
    row.as_ref().map(intent_of).transpose()
}

/// Creates the row of an intent whose NodeClaim has no intent yet.
pub(crate) fn put_new(cluster: &ClusterName, intent: &Intent) -> Result<Vec<Write>, LedgerError> {
    let key = Key::intent(cluster, intent.name());
    Ok(vec![
        Write::put(&key, intent_row(cluster, intent)?).when("attribute_not_exists(#pk)"),
        Write::check(&Key::launched(cluster, intent.name())).when("attribute_not_exists(#pk)"),
    ])
}

pub(crate) async fn lease_intent(
    table: &Store,
    cluster: &ClusterName,
    claim: &NodeClaimName,
    lease: &Lease,
    now: Timestamp,
) -> Result<Option<Intent>, LedgerError> {
    match table
        .write(take(&Key::intent(cluster, claim), lease, now))
        .await?
    {
        Written::Done(Some(row)) => intent_of(&row).map(Some),
        Written::Done(None) | Written::Refused(_) => Ok(None),
    }
}

fn take(key: &Key, lease: &Lease, now: Timestamp) -> Write {
    Write::update(key, "SET #leaseOwner = :me, #leaseUntil = :until")
        .when("attribute_exists(#pk) AND (attribute_not_exists(#leaseOwner) OR #leaseUntil <= :now OR #leaseOwner = :me)")
        .value("me", lease.owner.as_str())
        .value("until", lease.until)
        .value("now", now)
}

pub(crate) async fn move_intent(
    table: &Store,
    cluster: &ClusterName,
    turn: &TurnId,
    from: &Intent,
    to: &IntentState,
) -> Result<Moved, LedgerError> {
    let key = Key::intent(cluster, from.name());
    let over = match to {
        IntentState::Launched { .. } => {
            return end_with_instance(table, cluster, turn, from, to).await;
        }
        IntentState::Failed { .. } | IntentState::Void { .. } => true,
        IntentState::Intended | IntentState::Claimed { .. } | IntentState::Launching { .. } => {
            false
        }
    };
    let write = if over {
        Write::update(&key, "SET #state = :to REMOVE #leaseOwner, #leaseUntil")
    } else {
        Write::update(&key, "SET #state = :to")
    };
    let to = json(to)?;
    let write = write
        .when("#state = :from AND #leaseOwner = :me")
        .value("from", json(&from.state)?)
        .value("to", to.clone())
        .value("me", turn.as_str());
    Ok(match table.write(write).await? {
        // An earlier try whose response was lost, or another turn that made the same change.
        Written::Refused(Some(row)) if row.text("state") == Some(to.as_str()) => Moved::Yes,
        written @ (Written::Done(_) | Written::Refused(_)) => written.into(),
    })
}

/// Moves the row out of those that every turn reads: from here on the NodeClaim represents the node (docs/protocol.md#o2).
async fn end_with_instance(
    table: &Store,
    cluster: &ClusterName,
    turn: &TurnId,
    from: &Intent,
    to: &IntentState,
) -> Result<Moved, LedgerError> {
    let (source_key, target_key) = (
        Key::intent(cluster, from.name()),
        Key::launched(cluster, from.name()),
    );
    if let Some(row) = table.get(&source_key).await? {
        let row = row.at(&target_key).released().json("state", to)?;
        let delete = Write::delete(&source_key)
            .when("#state = :from AND #leaseOwner = :me")
            .value("from", json(&from.state)?)
            .value("me", turn.as_str());
        if table
            .transact(vec![delete, Write::put(&target_key, row)])
            .await?
            == Moved::Yes
        {
            return Ok(Moved::Yes);
        }
    }
    // An earlier try whose response was lost, or another turn that made the same change.
    let found = intent(table, cluster, from.name()).await?;
    Ok(match found.is_some_and(|found| found.state == *to) {
        true => Moved::Yes,
        false => Moved::No,
    })
}

pub(crate) async fn adopt(
    table: &Store,
    cluster: &ClusterName,
    intent: &Intent,
    lane: Lane,
    due: Timestamp,
) -> Result<Moved, LedgerError> {
    let mut writes = put_new(cluster, intent)?;
    writes.extend(lanes::due_in_transaction(table, cluster, &[(lane, due)]).await?);
    if table.transact(writes).await? == Moved::Yes {
        return Ok(Moved::Yes);
    }
    // An earlier try whose response was lost.
    let found = self::intent(table, cluster, intent.name()).await?;
    Ok(if found.as_ref() == Some(intent) {
        Moved::Yes
    } else {
        Moved::No
    })
}

pub(crate) async fn freeze(
    table: &Store,
    cluster: &ClusterName,
    turn: &TurnId,
    call: &Call,
) -> Result<Moved, LedgerError> {
    let call_key = Key::call(cluster, &call.request.token);
    let mut writes =
        vec![Write::put(&call_key, call_row(cluster, call)?).when("attribute_not_exists(#pk)")];
    for name in &call.members {
        let Some(intent) = intent(table, cluster, name).await? else {
            return Ok(Moved::No);
        };
        let IntentState::Claimed { uid, attempt } = &intent.state else {
            return already_frozen(table, cluster, call).await;
        };
        if *attempt != call.attempt {
            return Ok(Moved::No);
        }
        let launching = IntentState::Launching {
            uid: uid.clone(),
            attempt: *attempt,
            token: call.request.token.clone(),
        };
        writes.push(
            Write::update(&Key::intent(cluster, name), "SET #state = :to")
                .when("#state = :from AND #leaseOwner = :me")
                .value("from", json(&intent.state)?)
                .value("to", json(&launching)?)
                .value("me", turn.as_str()),
        );
    }
    match table.transact(writes).await? {
        Moved::Yes => Ok(Moved::Yes),
        Moved::No => already_frozen(table, cluster, call).await,
    }
}

/// Returns `Moved::Yes` if exactly this call is already recorded: an earlier try whose response was lost.
async fn already_frozen(
    table: &Store,
    cluster: &ClusterName,
    call: &Call,
) -> Result<Moved, LedgerError> {
    let found = self::call(table, cluster, &call.request.token).await?;
    let same = found.is_some_and(|found| {
        found.request == call.request
            && found.members == call.members
            && found.attempt == call.attempt
    });
    Ok(if same { Moved::Yes } else { Moved::No })
}

/// The part of a call that no condition compares.
#[derive(Deserialize, Serialize)]
struct CallBody {
    request: model::launch::FleetRequest,
    attempt: u32,
    members: Vec<NodeClaimName>,
    frozen_at: Timestamp,
}

pub(crate) fn call_row(cluster: &ClusterName, call: &Call) -> Result<NewRow, LedgerError> {
    let body = CallBody {
        request: call.request.clone(),
        attempt: call.attempt,
        members: call.members.clone(),
        frozen_at: call.frozen_at,
    };
    let expires_at = call
        .frozen_at
        .saturating_add(CALL_RETENTION)
        .unwrap_or(call.frozen_at);
    Ok(NewRow::new(&Key::call(cluster, &call.request.token))
        .json("body", &body)?
        .with("closed", call.closed)
        .with("keepUntil", expires_at)
        .lease(call.lease.as_ref()))
}

pub(crate) fn call_of(row: &Row) -> Result<Call, LedgerError> {
    let body: CallBody = row.json("body")?;
    Ok(Call {
        request: body.request,
        attempt: body.attempt,
        members: body.members,
        frozen_at: body.frozen_at,
        lease: row.lease(),
        closed: row.flag("closed"),
    })
}

pub(crate) async fn call(
    table: &Store,
    cluster: &ClusterName,
    token: &LaunchToken,
) -> Result<Option<Call>, LedgerError> {
    let row = match table.get(&Key::call(cluster, token)).await? {
        None => table.get(&Key::closed_call(cluster, token)).await?,
        found => found,
    };
    row.as_ref().map(call_of).transpose()
}

pub(crate) async fn open_calls(
    table: &Store,
    cluster: &ClusterName,
) -> Result<Vec<Call>, LedgerError> {
    let rows = table.query(&key::partition(cluster), key::CALL).await?;
    // Functions of an earlier version keep closed calls here for [`CALL_RETENTION`].
    let open = rows.iter().filter(|row| !row.flag("closed"));
    // A call that cannot be read is looked up by its token before one of its instances is collected.
    Ok(readable(open, call_of).collect())
}

pub(crate) async fn lease_call(
    table: &Store,
    cluster: &ClusterName,
    token: &LaunchToken,
    lease: &Lease,
    now: Timestamp,
) -> Result<Option<Call>, LedgerError> {
    let key = Key::call(cluster, token);
    let write = Write::update(&key, "SET #leaseOwner = :me, #leaseUntil = :until")
        .when("#closed = :no AND (attribute_not_exists(#leaseOwner) OR #leaseUntil <= :now OR #leaseOwner = :me)")
        .value("no", false)
        .value("me", lease.owner.as_str())
        .value("until", lease.until)
        .value("now", now);
    match table.write(write).await? {
        Written::Done(Some(row)) => call_of(&row).map(Some),
        Written::Done(None) | Written::Refused(_) => Ok(None),
    }
}

/// Moves a call's row out of those that every turn reads, and keeps it for lookups by token (docs/protocol.md#g3).
pub(crate) async fn close_call(
    table: &Store,
    cluster: &ClusterName,
    token: &LaunchToken,
    turn: &TurnId,
) -> Result<Moved, LedgerError> {
    let (source_key, target_key) = (Key::call(cluster, token), Key::closed_call(cluster, token));
    if let Some(row) = table.get(&source_key).await? {
        // DynamoDB's TTL is in seconds; `keepUntil` is in milliseconds and counts from the freeze.
        let expires = row.number("keepUntil").unwrap_or(0) / 1_000;
        let row = row.at(&target_key).released();
        let row = row.with("closed", true).with("expires", expires);
        let delete = Write::delete(&source_key)
            .when("#closed = :no AND #leaseOwner = :me")
            .value("no", false)
            .value("me", turn.as_str());
        if table
            .transact(vec![delete, Write::put(&target_key, row)])
            .await?
            == Moved::Yes
        {
            return Ok(Moved::Yes);
        }
    }
    let found = call(table, cluster, token).await?;
    Ok(match found.is_some_and(|found| found.closed) {
        true => Moved::Yes,
        false => Moved::No,
    })
}
