//! Decoded views of the ledger's rows, for tests.
//!
//! The table is authoritative: when a test accesses the world, views are updated from changed rows; when the access ends, rows
//! are updated from views that the test changed.

use std::{
    collections::{BTreeMap, BTreeSet},
    future::Future,
    ops::{Deref, DerefMut},
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use jiff::Timestamp;
use ledger::{
    TableLedger,
    records::{
        AccountRecord, ClusterRecord, cluster_of, read_account, read_cluster, registered,
        write_account, write_cluster, write_generation,
    },
    table::{Item, Key},
};
use model::{
    ClusterName, InstanceId, Lane, NodeClaimName, Notification,
    budget::{Api, TokenBucket},
    caps::AccountSpending,
    experience::{FullSubnet, MeasuredMemory, ZonalShift},
    ids::{LaunchToken, TurnId},
    ledger::{
        Call, ClaimRow, Command, InstanceOwner, Intent, LaneRow, Meta, Notice, OfferingKey, Pause,
        RelayBeat, Request, SweepMemory, UnavailableOffering,
    },
    plan::Expected,
};
use ports::{JournalEntry, LedgerError, ledger::Record};

use crate::table::MemoryTable;

const ACCOUNT: &str = "123456789012";
const REGION: &str = "us-east-1";

/// The table, and views of its rows.
pub struct Rows {
    table: Arc<MemoryTable>,
    account: AccountRows,
    clusters: BTreeMap<ClusterName, ClusterRows>,
    /// Views that a test may be changing, as they were before.
    accessed: BTreeMap<ClusterName, ClusterRows>,
    accessed_account: Option<AccountRows>,
    /// Objects that are published for all functions.
    pub object_store: BTreeMap<String, Vec<u8>>,
    /// Objects that are too large for the ledger.
    pub archive: BTreeMap<String, Vec<u8>>,
}

/// A row that was made unreadable, with its previous content.
#[derive(Clone, Debug)]
pub struct CorruptedRow {
    key: Key,
    row: Option<Arc<Item>>,
}

/// The rows of the account.
#[derive(Clone, Default, PartialEq)]
pub struct AccountRows {
    pub owners: BTreeMap<InstanceId, InstanceOwner>,
    pub unavailable: BTreeMap<OfferingKey, UnavailableOffering>,
    pub full_subnets: BTreeMap<String, FullSubnet>,
    /// Measured memory by instance type and image.
    pub memory: BTreeMap<(String, String), MeasuredMemory>,
    pub not_ours: BTreeMap<InstanceId, Timestamp>,
    pub buckets: BTreeMap<Api, TokenBucket>,
    /// Pauses of the whole account.
    pub pauses: Vec<Pause>,
    pub spending: AccountSpending,
}

/// The rows of one cluster.
#[derive(Clone, Default, PartialEq)]
pub struct ClusterRows {
    /// Without pauses and requests, which are separate fields.
    pub meta: Option<Meta>,
    pub pauses: Vec<Pause>,
    pub requests: Vec<Request>,
    pub lanes: BTreeMap<Lane, LaneRow>,
    pub beat: Option<RelayBeat>,
    pub intents: BTreeMap<NodeClaimName, Intent>,
    pub calls: BTreeMap<LaunchToken, Call>,
    pub claims: BTreeMap<NodeClaimName, ClaimRow>,
    pub commands: BTreeMap<String, Command>,
    pub notices: BTreeMap<(InstanceId, String), Notice>,
    /// Notifications by ID; the flag is set once the notification was sent.
    pub notifications: BTreeMap<String, (Notification, bool)>,
    pub nominated: BTreeMap<Expected, Timestamp>,
    pub said: BTreeMap<String, Timestamp>,
    pub sweep: SweepMemory,
    pub shifts: Vec<ZonalShift>,
    /// Generations that a test adds; those of turns are not shown.
    pub records: Vec<Record>,
    /// Journal by start and ID of the turn, and lane; not stored in the table.
    pub journal: BTreeMap<(Timestamp, TurnId, Lane), JournalEntry>,
}

impl Rows {
    pub(crate) fn new(table: Arc<MemoryTable>) -> Self {
        Self {
            table,
            account: AccountRows::default(),
            clusters: BTreeMap::new(),
            accessed: BTreeMap::new(),
            accessed_account: None,
            object_store: BTreeMap::new(),
            archive: BTreeMap::new(),
        }
    }

    /// The ledger over a table of this account.
    pub(crate) fn ledger(table: Arc<MemoryTable>) -> TableLedger {
        TableLedger::new(table, ACCOUNT, REGION)
    }

    pub fn table(&self) -> &MemoryTable {
        &self.table
    }

    /// The rows of a cluster, for reading or changing.
    pub fn of(&mut self, cluster: &ClusterName) -> &mut ClusterRows {
        let rows = self.clusters.entry(cluster.clone()).or_default();
        let accessed = self.accessed.entry(cluster.clone());
        accessed.or_insert_with(|| rows.clone());
        rows
    }

    /// The rows of a cluster, if it has any.
    pub fn cluster(&self, cluster: &ClusterName) -> Option<&ClusterRows> {
        self.clusters.get(cluster)
    }

    /// The journal of a cluster.
    pub(crate) fn journal(
        &mut self,
        cluster: &ClusterName,
    ) -> &mut BTreeMap<(Timestamp, TurnId, Lane), JournalEntry> {
        &mut self.clusters.entry(cluster.clone()).or_default().journal
    }

    /// Removes all attributes except the key, so that the row cannot be read until [`Rows::mend`].
    pub fn spoil(&mut self, pk: &str, sk: &str) -> CorruptedRow {
        let key = Key {
            pk: pk.to_owned(),
            sk: sk.to_owned(),
        };
        let row = self.table.row(&key);
        self.table.store(&key, Some(key.attributes()));
        CorruptedRow { key, row }
    }

    /// Changes attributes of a row, as another version of the functions would.
    pub fn change_attributes(&mut self, pk: &str, sk: &str, change: impl FnOnce(&mut Item)) {
        let key = Key {
            pk: pk.to_owned(),
            sk: sk.to_owned(),
        };
        let mut row = self.table.row(&key).as_deref().cloned().unwrap_or_default();
        change(&mut row);
        self.table.store(&key, Some(row));
    }

    /// Restores a row's previous content, except attributes that were written since.
    pub fn mend(&mut self, spoilt: &CorruptedRow) {
        let CorruptedRow { key, row } = spoilt;
        if let (Some(now), Some(before)) = (self.table.row(key), row) {
            let mut mended = Item::clone(before);
            mended.extend(Item::clone(&now));
            self.table.store(key, Some(mended));
        }
    }

    /// Stores a relay's heartbeat, which affects no other row.
    pub(crate) fn beat(&mut self, cluster: &ClusterName, beat: RelayBeat) {
        self.settle();
        let row = write_cluster(cluster, &ClusterRecord::RelayBeat(beat));
        let (key, row) = row.unwrap_or_else(|error| panic!("{error}"));
        self.table.store(&key, Some(row));
    }

    /// Runs a ledger request to completion; it awaits only the in-memory table.
    pub(crate) fn act<T>(&mut self, now: Timestamp, request: impl Future<Output = T>) -> T {
        self.settle();
        self.table.set_now(now);
        let mut request = pin!(request);
        let mut context = Context::from_waker(Waker::noop());
        for _ in 0..POLLS_MAX {
            if let Poll::Ready(answer) = request.as_mut().poll(&mut context) {
                return answer;
            }
        }
        panic!("a ledger request awaits something other than the in-memory table");
    }

    /// Updates the views from rows that changed.
    pub(crate) fn refresh(&mut self) {
        self.settle();
        for key in self.table.take_changed() {
            self.follow(&key);
        }
    }

    /// Updates the rows from views that a test changed.
    pub(crate) fn settle(&mut self) {
        if let Some(before) = self.accessed_account.take()
            && before != self.account
        {
            let (before, after) = (before.records(), self.account.records());
            let key = |record: &AccountRecord| {
                let row = write_account(ACCOUNT, REGION, record);
                row.unwrap_or_else(|error| panic!("{error}"))
            };
            replace(&self.table, &before, &after, key);
        }
        for (cluster, before) in std::mem::take(&mut self.accessed) {
            let Some(rows) = self.clusters.get_mut(&cluster) else {
                continue;
            };
            for record in std::mem::take(&mut rows.records) {
                let added = write_generation(&cluster, &record);
                for (key, row) in added.unwrap_or_else(|error| panic!("{error}")) {
                    self.table.store(&key, Some(row));
                }
            }
            if before.meta.is_none() && rows.meta.is_some() {
                let (key, row) = registered(&cluster);
                self.table.store(&key, Some(row));
            }
            if before != *rows {
                let (before, after) = (before.records(), rows.records());
                let key = |record: &ClusterRecord| {
                    let row = write_cluster(&cluster, record);
                    row.unwrap_or_else(|error| panic!("{error}"))
                };
                replace(&self.table, &before, &after, key);
            }
        }
    }

    /// Updates the view of one row; a row that cannot be read is removed from the view.
    fn follow(&mut self, key: &Key) {
        let row = self.table.row(key);
        if let Some(cluster) = cluster_of(key) {
            let record = row.and_then(|row| read_cluster(key, &row).ok().flatten());
            let rows = self.clusters.entry(cluster).or_default();
            match record {
                Some(record) => rows.show(record),
                None => rows.hide(key),
            }
            return;
        }
        let record = row.and_then(|row| read_account(key, &row).ok().flatten());
        match record {
            Some(record) => self.account.show(record),
            None => self.account.hide(key),
        }
    }
}

/// Upper bound on polls of one request: only the request itself wakes its task, and large batches yield occasionally.
const POLLS_MAX: usize = 100_000;

/// Writes the records that differ from before.
fn replace<R: PartialEq>(
    table: &MemoryTable,
    before: &[R],
    after: &[R],
    row: impl Fn(&R) -> (Key, Item),
) {
    let new = after.iter().filter(|record| !before.contains(record));
    let new: BTreeMap<Key, Item> = new.map(&row).collect();
    let kept: BTreeSet<Key> = after.iter().map(|record| row(record).0).collect();
    for record in before {
        let (key, _) = row(record);
        if !kept.contains(&key) {
            table.store(&key, None);
        }
    }
    for (key, row) in new {
        table.store(&key, Some(row));
    }
}

impl Deref for Rows {
    type Target = AccountRows;

    fn deref(&self) -> &AccountRows {
        &self.account
    }
}

/// Mutable access counts as a change of the account's rows.
impl DerefMut for Rows {
    fn deref_mut(&mut self) -> &mut AccountRows {
        if self.accessed_account.is_none() {
            self.accessed_account = Some(self.account.clone());
        }
        &mut self.account
    }
}

impl AccountRows {
    fn records(&self) -> Vec<AccountRecord> {
        let owners = self.owners.iter();
        let owners = owners.map(|(id, owner)| AccountRecord::Owner(id.clone(), owner.clone()));
        let not_ours = self.not_ours.iter();
        let not_ours = not_ours.map(|(id, until)| AccountRecord::NotOurs(id.clone(), *until));
        let offerings = self.unavailable.values().cloned();
        let subnets = self.full_subnets.values().cloned();
        let memory = self.memory.values().cloned();
        let buckets = self.buckets.iter();
        let buckets = buckets.map(|(api, bucket)| AccountRecord::TokenBucket(*api, bucket.clone()));
        let pauses = AccountRecord::Pauses(self.pauses.clone(), self.spending.clone());
        owners
            .chain(not_ours)
            .chain(offerings.map(AccountRecord::Unavailable))
            .chain(subnets.map(AccountRecord::FullSubnet))
            .chain(memory.map(AccountRecord::MeasuredMemory))
            .chain(buckets)
            .chain([pauses])
            .collect()
    }

    fn show(&mut self, record: AccountRecord) {
        match record {
            AccountRecord::Owner(id, owner) => {
                self.owners.insert(id, owner);
            }
            AccountRecord::NotOurs(id, until) => {
                self.not_ours.insert(id, until);
            }
            AccountRecord::Unavailable(entry) => {
                self.unavailable.insert(entry.offering.clone(), entry);
            }
            AccountRecord::FullSubnet(entry) => {
                self.full_subnets.insert(entry.subnet.clone(), entry);
            }
            AccountRecord::MeasuredMemory(entry) => {
                let key = (entry.instance_type.clone(), entry.image.clone());
                self.memory.insert(key, entry);
            }
            AccountRecord::TokenBucket(api, bucket) => {
                self.buckets.insert(api, bucket);
            }
            AccountRecord::Pauses(pauses, spending) => {
                self.pauses = pauses;
                self.spending = spending;
            }
        }
    }

    fn hide(&mut self, key: &Key) {
        let gone = |record: &AccountRecord| {
            write_account(ACCOUNT, REGION, record).is_ok_and(|(own, _)| own == *key)
        };
        self.owners
            .retain(|id, owner| !gone(&AccountRecord::Owner(id.clone(), owner.clone())));
        self.not_ours
            .retain(|id, until| !gone(&AccountRecord::NotOurs(id.clone(), *until)));
        self.unavailable
            .retain(|_, entry| !gone(&AccountRecord::Unavailable(entry.clone())));
        self.full_subnets
            .retain(|_, entry| !gone(&AccountRecord::FullSubnet(entry.clone())));
        self.memory
            .retain(|_, entry| !gone(&AccountRecord::MeasuredMemory(entry.clone())));
        self.buckets
            .retain(|api, bucket| !gone(&AccountRecord::TokenBucket(*api, bucket.clone())));
    }
}

impl ClusterRows {
    /// `due = min(due, when)` (docs/protocol.md#l3).
    pub fn make_due(&mut self, lane: Lane, when: Timestamp) {
        let row = self.lanes.entry(lane).or_default();
        row.due = Some(row.due.map_or(when, |due| due.min(when)));
    }

    fn records(&self) -> Vec<ClusterRecord> {
        let meta = self.meta.iter().map(|meta| {
            ClusterRecord::Meta(Meta {
                pauses: self.pauses.clone(),
                requests: self.requests.clone(),
                account: AccountSpending::default(),
                ..meta.clone()
            })
        });
        let lanes = self.lanes.iter();
        let lanes = lanes.map(|(lane, row)| ClusterRecord::Lane(*lane, row.clone()));
        let claims = self.claims.iter();
        let claims = claims.map(|(name, row)| ClusterRecord::Claim(name.clone(), row.clone()));
        let notifications = self.notifications.values().cloned();
        let notifications = notifications
            .map(|(notification, sent)| ClusterRecord::Notification(notification, sent));
        let nominated = self.nominated.iter();
        let nominated =
            nominated.map(|(node, until)| ClusterRecord::Nomination(node.clone(), *until));
        let said = self.said.iter();
        let said = said.map(|(what, until)| ClusterRecord::OnceMarker(what.clone(), *until));
        let sweep = (self.sweep != SweepMemory::default())
            .then(|| ClusterRecord::Sweep(self.sweep.clone()));
        let shifts =
            (!self.shifts.is_empty()).then(|| ClusterRecord::ZonalShifts(self.shifts.clone()));
        meta.chain(lanes)
            .chain(self.intents.values().cloned().map(ClusterRecord::Intent))
            .chain(self.calls.values().cloned().map(ClusterRecord::Call))
            .chain(claims)
            .chain(self.commands.values().cloned().map(ClusterRecord::Command))
            .chain(self.notices.values().cloned().map(ClusterRecord::Notice))
            .chain(notifications)
            .chain(nominated)
            .chain(said)
            .chain(sweep)
            .chain(shifts)
            .chain(self.beat.iter().cloned().map(ClusterRecord::RelayBeat))
            .collect()
    }

    fn show(&mut self, record: ClusterRecord) {
        match record {
            ClusterRecord::Meta(mut meta) => {
                self.pauses = std::mem::take(&mut meta.pauses);
                self.requests = std::mem::take(&mut meta.requests);
                self.meta = Some(meta);
            }
            ClusterRecord::Lane(lane, row) => {
                self.lanes.insert(lane, row);
            }
            ClusterRecord::Intent(intent) => {
                self.intents.insert(intent.name().clone(), intent);
            }
            ClusterRecord::Call(call) => {
                self.calls.insert(call.request.token.clone(), call);
            }
            ClusterRecord::Claim(name, row) => {
                self.claims.insert(name, row);
            }
            ClusterRecord::Command(command) => {
                self.commands.insert(command.id.clone(), command);
            }
            ClusterRecord::Notice(notice) => {
                let key = (notice.instance.clone(), notice.kind.clone());
                self.notices.insert(key, notice);
            }
            ClusterRecord::Notification(notification, sent) => {
                self.notifications
                    .insert(notification.id.clone(), (notification, sent));
            }
            ClusterRecord::Nomination(node, until) => {
                self.nominated.insert(node, until);
            }
            ClusterRecord::OnceMarker(what, until) => {
                self.said.insert(what, until);
            }
            ClusterRecord::Sweep(memory) => self.sweep = memory,
            ClusterRecord::ZonalShifts(shifts) => self.shifts = shifts,
            ClusterRecord::RelayBeat(beat) => self.beat = Some(beat),
        }
    }

    /// Removes a deleted row from the view. An intent or a call may have two rows: only the row of the shown state counts.
    fn hide(&mut self, key: &Key) {
        if key.pk.starts_with("RELAY#") {
            self.beat = None;
            return;
        }
        let (kind, name) = key.sk.split_once('#').unwrap_or((key.sk.as_str(), ""));
        let launched =
            |intent: &Intent| matches!(intent.state, model::ledger::IntentState::Launched { .. });
        match kind {
            "META" => {
                self.meta = None;
                self.pauses.clear();
                self.requests.clear();
            }
            "LANE" => self.lanes.retain(|lane, _| lane.as_str() != name),
            "INTENT" => self
                .intents
                .retain(|own, intent| own.as_str() != name || launched(intent)),
            "LAUNCHED" => self
                .intents
                .retain(|own, intent| own.as_str() != name || !launched(intent)),
            "CALL" => self
                .calls
                .retain(|token, call| token.as_str() != name || call.closed),
            "CLOSED" => self
                .calls
                .retain(|token, call| token.as_str() != name || !call.closed),
            "CLAIM" => {
                self.claims.remove(&NodeClaimName::from(name));
            }
            "COMMAND" => {
                self.commands.remove(name);
            }
            "NOTICE" => self
                .notices
                .retain(|(instance, kind), _| name != format!("{instance}#{kind}")),
            "OUTBOX" => {
                self.notifications.remove(name);
            }
            "NOMINATED" => {
                let expected = name.strip_prefix("nodeclaim/").map_or_else(
                    || Expected::Node(name.into()),
                    |claim| Expected::NodeClaim(claim.into()),
                );
                self.nominated.remove(&expected);
            }
            "ONCE" => {
                self.said.remove(name);
            }
            "SWEEP" => self.sweep = SweepMemory::default(),
            "SHIFT" => self.shifts.clear(),
            _ => {}
        }
    }
}

/// Converts a journal entry to the form in which it is read back.
pub(crate) fn as_read_back(
    cluster: &ClusterName,
    entry: &JournalEntry,
) -> Result<JournalEntry, LedgerError> {
    ledger::records::journal_entry(cluster, entry)
}
