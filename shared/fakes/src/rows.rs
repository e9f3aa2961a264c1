use std::collections::{BTreeMap, BTreeSet, btree_map::Entry};

use jiff::Timestamp;
use model::{
    ClusterName, Experience, InstanceId, Lane, NodeClaimName, NodeName, Notification,
    budget::{Api, TokenBucket},
    caps::AccountSpending,
    experience::{FullSubnet, MeasuredMemory, ZonalShift},
    ids::{LaunchToken, TurnId},
    ledger::{
        Call, ClaimPhase, ClaimRow, Command, CommandState, Holder, InstanceOwner, Intent,
        IntentState, LaneRow, Lease, Meta, Mode, Notice, OfferingKey, Pause, RelayBeat, Request,
        SweepMemory, UnavailableOffering,
    },
};
use ports::{
    JournalEntry, LedgerError,
    ledger::{Commit, Committed, Ended, Glance, LaneEnd, Moved, Record, Taken, Unfenced},
};

/// The ledger's rows, with each conditional write as PROTOCOL words it.
#[derive(Default)]
pub struct Rows {
    pub clusters: BTreeMap<ClusterName, ClusterRows>,
    pub owners: BTreeMap<InstanceId, InstanceOwner>,
    pub unavailable: BTreeMap<OfferingKey, UnavailableOffering>,
    pub full_subnets: BTreeMap<String, FullSubnet>,
    /// By type and image.
    pub memory: BTreeMap<(String, String), MeasuredMemory>,
    pub not_ours: BTreeMap<InstanceId, Timestamp>,
    pub buckets: BTreeMap<Api, TokenBucket>,
    /// The account's.
    pub pauses: Vec<Pause>,
    pub spending: AccountSpending,
    /// What is published for all functions.
    pub shelf: BTreeMap<String, Vec<u8>>,
    /// What is too large for the ledger.
    pub archive: BTreeMap<String, Vec<u8>>,
}

/// The rows of one cluster.
#[derive(Default)]
pub struct ClusterRows {
    pub meta: Option<Meta>,
    pub pauses: Vec<Pause>,
    pub requests: Vec<Request>,
    pub lanes: BTreeMap<Lane, LaneRow>,
    pub beat: Option<RelayBeat>,
    pub records: Vec<Record>,
    pub intents: BTreeMap<NodeClaimName, Intent>,
    pub calls: BTreeMap<LaunchToken, Call>,
    pub claims: BTreeMap<NodeClaimName, ClaimRow>,
    pub commands: BTreeMap<String, Command>,
    pub notices: BTreeMap<(InstanceId, String), Notice>,
    /// By id, with whether they are told.
    pub notifications: BTreeMap<String, (Notification, bool)>,
    pub nominated: BTreeMap<NodeName, Timestamp>,
    pub said: BTreeMap<String, Timestamp>,
    pub sweep: SweepMemory,
    /// One of its rows cannot be read: so do `meta` and `glances` answer.
    pub unreadable: Option<LedgerError>,
    pub shifts: Vec<ZonalShift>,
    /// By the beginning of their turns.
    pub journal: BTreeMap<(Timestamp, TurnId, Lane), JournalEntry>,
    /// Plans committed, so that a repeated commit is recognised.
    commits: BTreeMap<model::ids::PlanId, u64>,
}

impl Rows {
    pub fn of(&mut self, cluster: &ClusterName) -> &mut ClusterRows {
        self.clusters.entry(cluster.clone()).or_default()
    }

    pub(crate) fn meta(&mut self, cluster: &ClusterName) -> Result<Option<Meta>, LedgerError> {
        let (of_account, account) = (self.pauses.clone(), self.spending.clone());
        let rows = self.of(cluster);
        if let Some(error) = &rows.unreadable {
            return Err(error.clone());
        }
        let Some(mut meta) = rows.meta.clone() else {
            return Ok(None);
        };
        meta.pauses = rows.pauses.iter().cloned().chain(of_account).collect();
        meta.requests.clone_from(&rows.requests);
        meta.account = account;
        Ok(Some(meta))
    }

    pub(crate) fn glance(&mut self, cluster: &ClusterName) -> Result<Glance, LedgerError> {
        if !self.clusters.contains_key(cluster) {
            return Ok(Glance::default());
        }
        let meta = self.meta(cluster)?;
        let rows = self.of(cluster);
        let lanes = rows.lanes.iter();
        Ok(Glance {
            meta,
            beat: rows.beat.clone(),
            lanes: lanes.map(|(lane, row)| (*lane, row.clone())).collect(),
            memory: rows.sweep.clone(),
        })
    }

    pub(crate) fn pauses(&mut self, of: Option<&ClusterName>) -> &mut Vec<Pause> {
        match of {
            Some(cluster) => &mut self.of(cluster).pauses,
            None => &mut self.pauses,
        }
    }

    pub(crate) fn store_pauses(
        &mut self,
        of: Option<&ClusterName>,
        from: &[Pause],
        to: &[Pause],
    ) -> Moved {
        if of.is_some_and(|cluster| self.of(cluster).meta.is_none()) {
            return Moved::No;
        }
        let pauses = self.pauses(of);
        if *pauses != to && *pauses != from {
            return Moved::No;
        }
        *pauses = to.to_vec();
        Moved::Yes
    }

    pub(crate) fn store_spending(&mut self, next: &AccountSpending) -> Moved {
        let follows = next.revision == self.spending.revision.saturating_add(1);
        if self.spending != *next && !follows {
            return Moved::No;
        }
        self.spending = next.clone();
        Moved::Yes
    }

    /// C1, and the account's next revision with it.
    pub(crate) fn commit(&mut self, cluster: &ClusterName, commit: &Commit) -> Committed {
        let account = self.spending.clone();
        let rows = self.of(cluster);
        if let Some(generation) = rows.commits.get(&commit.id) {
            return Committed::At(*generation);
        }
        if let Some(refused) = rows.refuses(commit) {
            return refused;
        }
        if let Some(next) = &commit.spending {
            if next.revision != account.revision.saturating_add(1) {
                return Committed::Overtaken { account };
            }
            self.spending = next.clone();
        }
        self.of(cluster).commit(commit)
    }

    pub(crate) fn experience(&mut self, cluster: &ClusterName, now: Timestamp) -> Experience {
        let shifts = self.of(cluster).shifts.clone();
        let shifted = shifts.into_iter().filter(|shift| shift.until > now);
        let offerings = self.unavailable.values().filter(|entry| entry.until > now);
        let subnets = self.full_subnets.values().filter(|entry| entry.until > now);
        let memory = self.memory.values().filter(|entry| entry.until > now);
        Experience {
            shifted_zones: shifted.map(|shift| shift.zone_id).collect(),
            unavailable: offerings.cloned().collect(),
            full_subnets: subnets.cloned().collect(),
            memory: memory.cloned().collect(),
        }
    }

    /// A4.
    pub(crate) fn own(
        &mut self,
        cluster: &ClusterName,
        claim: &NodeClaimName,
        instance: &InstanceId,
        token: &LaunchToken,
    ) -> Moved {
        let owner = InstanceOwner {
            cluster: cluster.clone(),
            holder: Holder::Claim(claim.clone()),
        };
        let owner_fits = self
            .owners
            .get(instance)
            .is_none_or(|other| *other == owner);
        let rows = self.of(cluster);
        let claim_fits = rows
            .claims
            .get(claim)
            .is_none_or(|row| row.instance == *instance);
        let launching = rows.intents.get(claim).is_some_and(
            |intent| matches!(&intent.state, IntentState::Launching { token: current, .. } if current == token),
        );
        if !(owner_fits && claim_fits && launching) {
            return Moved::No;
        }
        let open = ClaimRow {
            instance: instance.clone(),
            phase: ClaimPhase::Open,
        };
        rows.claims.entry(claim.clone()).or_insert(open);
        self.owners.insert(instance.clone(), owner);
        Moved::Yes
    }

    /// G1.
    pub(crate) fn collect(&mut self, cluster: &ClusterName, instance: &InstanceId) -> Moved {
        let held = match self.owners.get(instance).map(|owner| &owner.holder) {
            None | Some(Holder::Collector) => false,
            Some(Holder::Claim(claim)) => {
                let claim = claim.clone();
                self.of(cluster)
                    .claims
                    .get(&claim)
                    .is_some_and(|row| row.phase != ClaimPhase::Closed)
            }
        };
        if held {
            return Moved::No;
        }
        let owner = InstanceOwner {
            cluster: cluster.clone(),
            holder: Holder::Collector,
        };
        self.owners.insert(instance.clone(), owner);
        Moved::Yes
    }
}

impl ClusterRows {
    pub(crate) fn take_lane(&mut self, lane: Lane, lease: &Lease, now: Timestamp) -> Taken {
        let row = self.lanes.entry(lane).or_default();
        let free = row
            .lease
            .as_ref()
            .is_none_or(|held| !held.is_live(now) || held.owner == lease.owner);
        if !free {
            row.again = true;
            return Taken::Held;
        }
        row.lease = Some(lease.clone());
        let taken = row.clone();
        row.due = None;
        Taken::Mine(Box::new(taken))
    }

    pub(crate) fn end_lane(&mut self, lane: Lane, turn: &TurnId, end: &LaneEnd) -> Ended {
        let row = self.lanes.entry(lane).or_default();
        if row.lease.as_ref().is_none_or(|lease| lease.owner != *turn) {
            return Ended { again: false };
        }
        row.lease = None;
        let again = std::mem::take(&mut row.again);
        row.due = earliest(row.due, end.due);
        if again {
            row.due = Some(end.now);
        }
        row.failures = if end.error.is_some() {
            row.failures.saturating_add(1)
        } else {
            0
        };
        row.last_error.clone_from(&end.error);
        row.cursor.clone_from(&end.cursor);
        if let Some(seen) = &end.full_look {
            row.seen = Some(seen.clone());
            row.last_full_look = Some(end.now);
        }
        Ended { again }
    }

    pub fn make_due(&mut self, lane: Lane, when: Timestamp) {
        let row = self.lanes.entry(lane).or_default();
        row.due = earliest(row.due, Some(when));
    }

    fn make_all_due(&mut self, due: &[(Lane, Timestamp)]) {
        for (lane, when) in due {
            self.make_due(*lane, *when);
        }
    }

    pub(crate) fn mirror_registry(&mut self, registry: &serde_json::Value, mode: &Mode) {
        match &mut self.meta {
            None => {
                self.meta = Some(Meta {
                    generation: 0,
                    mode: *mode,
                    registry: registry.clone(),
                    uid: None,
                    pauses: Vec::new(),
                    account: AccountSpending::default(),
                    requests: Vec::new(),
                })
            }
            Some(meta) => {
                meta.registry = registry.clone();
                meta.mode = *mode;
            }
        }
    }

    pub(crate) fn store_requests(&mut self, from: &[Request], to: &[Request]) -> Moved {
        let known = self.meta.is_some() && (self.requests == from || self.requests == to);
        if !known {
            return Moved::No;
        }
        self.requests = to.to_vec();
        Moved::Yes
    }

    fn refuses(&self, commit: &Commit) -> Option<Committed> {
        let Some(meta) = &self.meta else {
            return Some(Committed::NotActive);
        };
        let paused = Pause::of_cluster(&self.pauses, commit.held_by, commit.now);
        if meta.mode != Mode::Active || paused.is_some() {
            return Some(Committed::NotActive);
        }
        let generation = meta.generation;
        (generation != commit.base).then_some(Committed::Raced { generation })
    }

    fn commit(&mut self, commit: &Commit) -> Committed {
        let Some(meta) = self.meta.as_mut() else {
            return Committed::NotActive;
        };
        meta.generation += 1;
        let generation = meta.generation;
        self.records.push(Record::Plan {
            generation,
            plan: Box::new(commit.plan.clone()),
        });
        for intent in &commit.intents {
            self.intents.insert(intent.name().clone(), intent.clone());
        }
        for command in &commit.commands {
            self.commands.insert(command.id.clone(), command.clone());
        }
        self.make_all_due(&commit.due);
        self.commits.insert(commit.id.clone(), generation);
        Committed::At(generation)
    }

    pub(crate) fn committed_since(&self, generation: u64) -> Vec<Record> {
        let later = |record: &&Record| match record {
            Record::Plan { generation: at, .. } | Record::Unfenced { generation: at, .. } => {
                *at > generation
            }
        };
        self.records.iter().filter(later).cloned().collect()
    }

    pub(crate) fn lease_intent(
        &mut self,
        claim: &NodeClaimName,
        lease: &Lease,
        now: Timestamp,
    ) -> Option<Intent> {
        let intent = self.intents.get_mut(claim)?;
        if is_launched(intent) {
            return None;
        }
        take_lease(&mut intent.lease, lease, now).then(|| intent.clone())
    }

    pub(crate) fn move_intent(&mut self, turn: &TurnId, from: &Intent, to: &IntentState) -> Moved {
        let Some(intent) = self.intents.get_mut(from.name()) else {
            return Moved::No;
        };
        if intent.state == *to {
            return Moved::Yes;
        }
        if intent.state != from.state || !is_mine(intent.lease.as_ref(), turn) {
            return Moved::No;
        }
        intent.state = to.clone();
        if !intent.is_in_flight() {
            intent.lease = None;
        }
        Moved::Yes
    }

    pub(crate) fn adopt_intent(&mut self, intent: &Intent, lane: Lane, due: Timestamp) -> Moved {
        match self.intents.get(intent.name()) {
            Some(other) if other == intent => Moved::Yes,
            Some(_) => Moved::No,
            None => {
                self.intents.insert(intent.name().clone(), intent.clone());
                self.make_due(lane, due);
                Moved::Yes
            }
        }
    }

    /// A2.
    pub(crate) fn freeze(&mut self, turn: &TurnId, call: &Call) -> Moved {
        let token = &call.request.token;
        if self.calls.contains_key(token) {
            let mine = |known: &Call| {
                known.frozen_at == call.frozen_at && is_mine(known.lease.as_ref(), turn)
            };
            return if self.calls.get(token).is_some_and(mine) {
                Moved::Yes
            } else {
                Moved::No
            };
        }
        let ready = |name: &NodeClaimName| {
            self.intents.get(name).is_some_and(|intent| {
                is_mine(intent.lease.as_ref(), turn)
                    && matches!(intent.state, IntentState::Claimed { attempt, .. } if attempt == call.attempt)
            })
        };
        if call.members.len() > Call::MEMBERS_MAX || !call.members.iter().all(ready) {
            return Moved::No;
        }
        for name in &call.members {
            if let Some(intent) = self.intents.get_mut(name)
                && let IntentState::Claimed { uid, attempt } = intent.state.clone()
            {
                intent.state = IntentState::Launching {
                    uid,
                    attempt,
                    token: token.clone(),
                };
            }
        }
        self.calls.insert(token.clone(), call.clone());
        Moved::Yes
    }

    pub(crate) fn lease_call(
        &mut self,
        token: &LaunchToken,
        lease: &Lease,
        now: Timestamp,
    ) -> Option<Call> {
        let call = self.calls.get_mut(token).filter(|call| !call.closed)?;
        take_lease(&mut call.lease, lease, now).then(|| call.clone())
    }

    pub(crate) fn close_call(&mut self, token: &LaunchToken, turn: &TurnId) -> Moved {
        match self.calls.get_mut(token) {
            Some(call) if call.closed => Moved::Yes,
            Some(call) if is_mine(call.lease.as_ref(), turn) => {
                call.closed = true;
                call.lease = None;
                Moved::Yes
            }
            Some(_) | None => Moved::No,
        }
    }

    /// C3.
    pub(crate) fn record_unfenced(&mut self, acts: &Unfenced) -> u64 {
        let mut new = Unfenced {
            commands: Vec::new(),
            notices: Vec::new(),
            ..acts.clone()
        };
        for command in &acts.commands {
            if !self.commands.contains_key(&command.id) {
                self.commands.insert(command.id.clone(), command.clone());
                new.commands.push(command.clone());
            }
        }
        for notice in &acts.notices {
            let key = (notice.instance.clone(), notice.kind.clone());
            if let Entry::Vacant(free) = self.notices.entry(key) {
                free.insert(notice.clone());
                new.notices.push(notice.clone());
            }
        }
        self.make_all_due(&acts.due);
        self.record(new.commands, new.notices)
    }

    /// Moves the generation, if there is something new.
    fn record(&mut self, commands: Vec<Command>, notices: Vec<Notice>) -> u64 {
        let meta = self.meta.get_or_insert(Meta {
            generation: 0,
            mode: Mode::Shadow,
            registry: serde_json::Value::Null,
            uid: None,
            pauses: Vec::new(),
            account: AccountSpending::default(),
            requests: Vec::new(),
        });
        if !(commands.is_empty() && notices.is_empty()) {
            meta.generation += 1;
            let generation = meta.generation;
            self.records.push(Record::Unfenced {
                generation,
                commands,
                notices,
            });
        }
        meta.generation
    }

    pub(crate) fn move_command(&mut self, from: &Command, to: CommandState) -> Moved {
        match self.commands.get_mut(&from.id) {
            Some(command) if command.state == to => Moved::Yes,
            Some(command) if command.state == from.state => {
                command.state = to;
                if (from.state, to) == (CommandState::Replacing, CommandState::RolledBack) {
                    let command = command.clone();
                    self.record(vec![command], Vec::new());
                }
                Moved::Yes
            }
            Some(_) | None => Moved::No,
        }
    }

    pub(crate) fn note_initialized(
        &mut self,
        command: &Command,
        replacements: &[NodeClaimName],
    ) -> Moved {
        match self.commands.get_mut(&command.id) {
            Some(known) if known.state == command.state => {
                for name in replacements {
                    if !known.initialized.contains(name) {
                        known.initialized.push(name.clone());
                    }
                }
                Moved::Yes
            }
            Some(_) | None => Moved::No,
        }
    }

    pub(crate) fn nominate(&mut self, nodes: &BTreeMap<NodeName, Timestamp>, now: Timestamp) {
        self.nominated.retain(|_, until| *until > now);
        for (node, until) in nodes {
            let entry = self.nominated.entry(node.clone()).or_insert(*until);
            *entry = (*entry).max(*until);
        }
    }

    pub(crate) fn once(&mut self, key: &str, now: Timestamp, until: Timestamp) -> bool {
        self.said.retain(|_, until| *until > now);
        if self.said.contains_key(key) {
            return false;
        }
        self.said.insert(key.to_owned(), until);
        true
    }

    pub(crate) fn said(&self, prefix: &str, now: Timestamp) -> BTreeSet<String> {
        let holds = self.said.iter().filter(|(_, until)| **until > now);
        let keys = holds.map(|(key, _)| key);
        keys.filter(|key| key.starts_with(prefix))
            .cloned()
            .collect()
    }
}

fn earliest(a: Option<Timestamp>, b: Option<Timestamp>) -> Option<Timestamp> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

pub(crate) fn is_launched(intent: &Intent) -> bool {
    matches!(intent.state, IntentState::Launched { .. })
}

fn is_mine(lease: Option<&Lease>, turn: &TurnId) -> bool {
    lease.is_some_and(|lease| lease.owner == *turn)
}

fn take_lease(held: &mut Option<Lease>, lease: &Lease, now: Timestamp) -> bool {
    let free = held
        .as_ref()
        .is_none_or(|held| !held.is_live(now) || held.owner == lease.owner);
    if free {
        *held = Some(lease.clone());
    }
    free
}
