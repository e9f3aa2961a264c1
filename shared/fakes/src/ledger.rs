use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use jiff::Timestamp;
use model::{
    ClusterName, Experience, InstanceId, Lane, NodeClaimName, NodeName, Notification, Uid,
    budget::{Api, Draw, Priority, TokenBucket},
    caps::AccountSpending,
    experience::{FullSubnet, MeasuredMemory, ZonalShift},
    ids::{LaunchToken, TurnId},
    ledger::{
        Call, ClaimPhase, ClaimRow, Command, CommandState, InstanceOwner, Intent, IntentState,
        LaneRow, Lease, Meta, Mode, Notice, OfferingKey, Pause, RelayBeat, Request, SweepMemory,
        UnavailableOffering,
    },
};
use ports::{
    Ledger, LedgerError,
    ledger::{Commit, Committed, Ended, Glance, LaneEnd, Moved, Record, Taken, Unfenced},
};

use crate::{
    rows::{ClusterRows, is_launched},
    sim::Sim,
};

impl Sim {
    /// One call about one cluster.
    async fn row<T>(
        &self,
        call: &'static str,
        cluster: &ClusterName,
        act: impl FnOnce(&mut ClusterRows) -> T,
    ) -> Result<T, LedgerError> {
        self.port(call, |world| Ok(act(world.ledger.of(cluster))))
            .await
    }

    /// The same for what concerns nobody but turns.
    async fn row_aside<T>(
        &self,
        call: &'static str,
        cluster: &ClusterName,
        act: impl FnOnce(&mut ClusterRows) -> T,
    ) -> Result<T, LedgerError> {
        self.aside(call, |world| Ok(act(world.ledger.of(cluster))))
            .await
    }
}

#[async_trait]
impl Ledger for Sim {
    async fn take_lane(
        &self,
        cluster: &ClusterName,
        lane: Lane,
        lease: &Lease,
        now: Timestamp,
    ) -> Result<Taken, LedgerError> {
        self.row_aside("take_lane", cluster, |rows| {
            rows.take_lane(lane, lease, now)
        })
        .await
    }

    async fn end_lane(
        &self,
        cluster: &ClusterName,
        lane: Lane,
        turn: &TurnId,
        end: &LaneEnd,
    ) -> Result<Ended, LedgerError> {
        self.row_aside("end_lane", cluster, |rows| rows.end_lane(lane, turn, end))
            .await
    }

    async fn lanes(&self, cluster: &ClusterName) -> Result<Vec<(Lane, LaneRow)>, LedgerError> {
        self.row_aside("lanes", cluster, |rows| {
            rows.lanes.clone().into_iter().collect()
        })
        .await
    }

    async fn make_due(
        &self,
        cluster: &ClusterName,
        lane: Lane,
        when: Timestamp,
    ) -> Result<(), LedgerError> {
        self.row_aside("make_due", cluster, |rows| rows.make_due(lane, when))
            .await
    }

    async fn meta(&self, cluster: &ClusterName) -> Result<Option<Meta>, LedgerError> {
        self.aside("meta", |world| world.ledger.meta(cluster)).await
    }

    async fn mirror_registry(
        &self,
        cluster: &ClusterName,
        registry: &serde_json::Value,
        mode: &Mode,
    ) -> Result<(), LedgerError> {
        self.row("mirror_registry", cluster, |rows| {
            rows.mirror_registry(registry, mode)
        })
        .await
    }

    async fn identify(&self, cluster: &ClusterName, uid: &Uid) -> Result<(), LedgerError> {
        self.row("identify", cluster, |rows| {
            if let Some(meta) = &mut rows.meta {
                meta.uid = Some(uid.clone());
            }
        })
        .await
    }

    async fn pauses(&self, of: Option<&ClusterName>) -> Result<Vec<Pause>, LedgerError> {
        self.aside("pauses", |world| Ok(world.ledger.pauses(of).clone()))
            .await
    }

    async fn store_pauses(
        &self,
        of: Option<&ClusterName>,
        from: &[Pause],
        to: &[Pause],
    ) -> Result<Moved, LedgerError> {
        self.port("store_pauses", |world| {
            Ok(world.ledger.store_pauses(of, from, to))
        })
        .await
    }

    async fn store_requests(
        &self,
        cluster: &ClusterName,
        from: &[Request],
        to: &[Request],
    ) -> Result<Moved, LedgerError> {
        self.row("store_requests", cluster, |rows| {
            rows.store_requests(from, to)
        })
        .await
    }

    async fn spending(&self) -> Result<AccountSpending, LedgerError> {
        self.aside("spending", |world| Ok(world.ledger.spending.clone()))
            .await
    }

    async fn store_spending(&self, next: &AccountSpending) -> Result<Moved, LedgerError> {
        self.port("store_spending", |world| {
            Ok(world.ledger.store_spending(next))
        })
        .await
    }

    async fn relay_beat(&self, cluster: &ClusterName) -> Result<Option<RelayBeat>, LedgerError> {
        self.row_aside("relay_beat", cluster, |rows| rows.beat.clone())
            .await
    }

    async fn commit(
        &self,
        cluster: &ClusterName,
        commit: &Commit,
    ) -> Result<Committed, LedgerError> {
        self.port("commit", |world| Ok(world.ledger.commit(cluster, commit)))
            .await
    }

    async fn committed_since(
        &self,
        cluster: &ClusterName,
        generation: u64,
    ) -> Result<Vec<Record>, LedgerError> {
        self.row_aside("committed_since", cluster, |rows| {
            rows.committed_since(generation)
        })
        .await
    }

    async fn intents(&self, cluster: &ClusterName) -> Result<Vec<Intent>, LedgerError> {
        self.row_aside("intents", cluster, |rows| {
            let open = rows.intents.values().filter(|intent| !is_launched(intent));
            open.cloned().collect()
        })
        .await
    }

    async fn launched(&self, cluster: &ClusterName) -> Result<Vec<NodeClaimName>, LedgerError> {
        self.row_aside("launched", cluster, |rows| {
            let launched = rows.intents.values().filter(|intent| is_launched(intent));
            launched.map(|intent| intent.name().clone()).collect()
        })
        .await
    }

    async fn intent(
        &self,
        cluster: &ClusterName,
        claim: &NodeClaimName,
    ) -> Result<Option<Intent>, LedgerError> {
        self.row_aside("intent", cluster, |rows| rows.intents.get(claim).cloned())
            .await
    }

    async fn lease_intent(
        &self,
        cluster: &ClusterName,
        claim: &NodeClaimName,
        lease: &Lease,
        now: Timestamp,
    ) -> Result<Option<Intent>, LedgerError> {
        self.row("lease_intent", cluster, |rows| {
            rows.lease_intent(claim, lease, now)
        })
        .await
    }

    async fn move_intent(
        &self,
        cluster: &ClusterName,
        turn: &TurnId,
        from: &Intent,
        to: &IntentState,
    ) -> Result<Moved, LedgerError> {
        self.row("move_intent", cluster, |rows| {
            rows.move_intent(turn, from, to)
        })
        .await
    }

    async fn adopt_intent(
        &self,
        cluster: &ClusterName,
        intent: &Intent,
        lane: Lane,
        due: Timestamp,
    ) -> Result<Moved, LedgerError> {
        self.row("adopt_intent", cluster, |rows| {
            rows.adopt_intent(intent, lane, due)
        })
        .await
    }

    async fn forget_claim(
        &self,
        cluster: &ClusterName,
        claim: &NodeClaimName,
        _now: Timestamp,
    ) -> Result<(), LedgerError> {
        self.row("forget_claim", cluster, |rows| {
            rows.intents.remove(claim);
            rows.claims.remove(claim);
        })
        .await
    }

    async fn freeze(
        &self,
        cluster: &ClusterName,
        turn: &TurnId,
        call: &Call,
    ) -> Result<Moved, LedgerError> {
        self.row("freeze", cluster, |rows| rows.freeze(turn, call))
            .await
    }

    async fn call(
        &self,
        cluster: &ClusterName,
        token: &LaunchToken,
    ) -> Result<Option<Call>, LedgerError> {
        self.row_aside("call", cluster, |rows| rows.calls.get(token).cloned())
            .await
    }

    async fn open_calls(&self, cluster: &ClusterName) -> Result<Vec<Call>, LedgerError> {
        self.row_aside("open_calls", cluster, |rows| {
            rows.calls
                .values()
                .filter(|call| !call.closed)
                .cloned()
                .collect()
        })
        .await
    }

    async fn lease_call(
        &self,
        cluster: &ClusterName,
        token: &LaunchToken,
        lease: &Lease,
        now: Timestamp,
    ) -> Result<Option<Call>, LedgerError> {
        self.row("lease_call", cluster, |rows| {
            rows.lease_call(token, lease, now)
        })
        .await
    }

    async fn close_call(
        &self,
        cluster: &ClusterName,
        token: &LaunchToken,
        turn: &TurnId,
    ) -> Result<Moved, LedgerError> {
        self.row("close_call", cluster, |rows| rows.close_call(token, turn))
            .await
    }

    async fn claim(
        &self,
        cluster: &ClusterName,
        claim: &NodeClaimName,
    ) -> Result<Option<ClaimRow>, LedgerError> {
        self.row_aside("claim", cluster, |rows| rows.claims.get(claim).cloned())
            .await
    }

    async fn close_claim(
        &self,
        cluster: &ClusterName,
        claim: &NodeClaimName,
    ) -> Result<(), LedgerError> {
        self.row("close_claim", cluster, |rows| {
            if let Some(row) = rows.claims.get_mut(claim) {
                row.phase = ClaimPhase::Closed;
            }
        })
        .await
    }

    async fn record_unfenced(
        &self,
        cluster: &ClusterName,
        acts: &Unfenced,
    ) -> Result<u64, LedgerError> {
        self.row("record_unfenced", cluster, |rows| {
            rows.record_unfenced(acts)
        })
        .await
    }

    async fn commands(&self, cluster: &ClusterName) -> Result<Vec<Command>, LedgerError> {
        self.row_aside("commands", cluster, |rows| {
            rows.commands.values().cloned().collect()
        })
        .await
    }

    async fn move_command(
        &self,
        cluster: &ClusterName,
        from: &Command,
        to: CommandState,
    ) -> Result<Moved, LedgerError> {
        self.row("move_command", cluster, |rows| rows.move_command(from, to))
            .await
    }

    async fn note_initialized(
        &self,
        cluster: &ClusterName,
        command: &Command,
        replacements: &[NodeClaimName],
    ) -> Result<Moved, LedgerError> {
        self.row("note_initialized", cluster, |rows| {
            rows.note_initialized(command, replacements)
        })
        .await
    }

    async fn forget_command(
        &self,
        cluster: &ClusterName,
        command: &Command,
    ) -> Result<(), LedgerError> {
        self.row("forget_command", cluster, |rows| {
            let known = rows.commands.get(&command.id);
            if known.is_some_and(|known| known.state == command.state) {
                rows.commands.remove(&command.id);
            }
        })
        .await
    }

    async fn notices(&self, cluster: &ClusterName) -> Result<Vec<Notice>, LedgerError> {
        self.row_aside("notices", cluster, |rows| {
            rows.notices
                .values()
                .filter(|notice| !notice.done)
                .cloned()
                .collect()
        })
        .await
    }

    async fn finish_notice(
        &self,
        cluster: &ClusterName,
        instance: &InstanceId,
        kind: &str,
    ) -> Result<(), LedgerError> {
        self.row("finish_notice", cluster, |rows| {
            if let Some(notice) = rows.notices.get_mut(&(instance.clone(), kind.to_owned())) {
                notice.done = true;
            }
        })
        .await
    }

    async fn put_notifications(
        &self,
        cluster: &ClusterName,
        notifications: &[Notification],
    ) -> Result<(), LedgerError> {
        self.row_aside("put_notifications", cluster, |rows| {
            for one in notifications {
                let row = rows.notifications.entry(one.id.clone());
                row.or_insert_with(|| (one.clone(), false));
            }
        })
        .await
    }

    async fn notifications(&self, cluster: &ClusterName) -> Result<Vec<Notification>, LedgerError> {
        self.row_aside("notifications", cluster, |rows| {
            let open = rows.notifications.values().filter(|(_, told)| !told);
            open.map(|(one, _)| one.clone()).collect()
        })
        .await
    }

    async fn finish_notification(
        &self,
        cluster: &ClusterName,
        notification: &Notification,
    ) -> Result<(), LedgerError> {
        self.row_aside("finish_notification", cluster, |rows| {
            if let Some((_, told)) = rows.notifications.get_mut(&notification.id) {
                *told = true;
            }
        })
        .await
    }

    async fn nominate(
        &self,
        cluster: &ClusterName,
        nodes: &BTreeMap<NodeName, Timestamp>,
        now: Timestamp,
    ) -> Result<(), LedgerError> {
        self.row_aside("nominate", cluster, |rows| rows.nominate(nodes, now))
            .await
    }

    async fn nominations(
        &self,
        cluster: &ClusterName,
        now: Timestamp,
    ) -> Result<BTreeMap<NodeName, Timestamp>, LedgerError> {
        self.row_aside("nominations", cluster, |rows| {
            rows.nominated
                .iter()
                .filter(|(_, until)| **until > now)
                .map(|(node, until)| (node.clone(), *until))
                .collect()
        })
        .await
    }

    async fn once(
        &self,
        cluster: &ClusterName,
        key: &str,
        now: Timestamp,
        until: Timestamp,
    ) -> Result<bool, LedgerError> {
        self.row_aside("once", cluster, |rows| rows.once(key, now, until))
            .await
    }

    async fn said(
        &self,
        cluster: &ClusterName,
        prefix: &str,
        now: Timestamp,
    ) -> Result<BTreeSet<String>, LedgerError> {
        self.row_aside("said", cluster, |rows| rows.said(prefix, now))
            .await
    }

    async fn sweep_memory(&self, cluster: &ClusterName) -> Result<SweepMemory, LedgerError> {
        self.row_aside("sweep_memory", cluster, |rows| rows.sweep.clone())
            .await
    }

    async fn store_sweep_memory(
        &self,
        cluster: &ClusterName,
        memory: &SweepMemory,
    ) -> Result<(), LedgerError> {
        self.row_aside("store_sweep_memory", cluster, |rows| {
            rows.sweep = memory.clone()
        })
        .await
    }

    async fn glances(
        &self,
        clusters: &BTreeSet<ClusterName>,
    ) -> Result<BTreeMap<ClusterName, Result<Glance, LedgerError>>, LedgerError> {
        self.aside("glances", |world| {
            let each = clusters.iter();
            let each = each.map(|cluster| (cluster.clone(), world.ledger.glance(cluster)));
            Ok(each.collect())
        })
        .await
    }

    async fn clusters(&self) -> Result<Vec<ClusterName>, LedgerError> {
        self.aside("clusters", |world| {
            Ok(world.ledger.clusters.keys().cloned().collect())
        })
        .await
    }

    async fn own(
        &self,
        cluster: &ClusterName,
        claim: &NodeClaimName,
        instance: &InstanceId,
        token: &LaunchToken,
    ) -> Result<Moved, LedgerError> {
        self.port("own", |world| {
            Ok(world.ledger.own(cluster, claim, instance, token))
        })
        .await
    }

    async fn owner(&self, instance: &InstanceId) -> Result<Option<InstanceOwner>, LedgerError> {
        self.aside("owner", |world| {
            Ok(world.ledger.owners.get(instance).cloned())
        })
        .await
    }

    async fn collect(
        &self,
        cluster: &ClusterName,
        instance: &InstanceId,
        _now: Timestamp,
    ) -> Result<Moved, LedgerError> {
        self.port("collect", |world| {
            Ok(world.ledger.collect(cluster, instance))
        })
        .await
    }

    async fn experience(
        &self,
        cluster: &ClusterName,
        now: Timestamp,
    ) -> Result<Experience, LedgerError> {
        self.aside("experience", |world| {
            Ok(world.ledger.experience(cluster, now))
        })
        .await
    }

    async fn mark_unavailable(
        &self,
        offering: &OfferingKey,
        now: Timestamp,
    ) -> Result<(), LedgerError> {
        self.port("mark_unavailable", |world| {
            let before = world.ledger.unavailable.get(offering);
            let entry = UnavailableOffering::after(offering.clone(), before, now);
            world.ledger.unavailable.insert(offering.clone(), entry);
            Ok(())
        })
        .await
    }

    async fn mark_full(&self, subnet: &str, now: Timestamp) -> Result<(), LedgerError> {
        self.port("mark_full", |world| {
            let entry = FullSubnet::at(subnet, now);
            world.ledger.full_subnets.insert(subnet.to_owned(), entry);
            Ok(())
        })
        .await
    }

    async fn measure_memory(
        &self,
        instance_type: &str,
        image: &str,
        bytes: i64,
        now: Timestamp,
    ) -> Result<(), LedgerError> {
        self.aside("measure_memory", |world| {
            let key = (instance_type.to_owned(), image.to_owned());
            let before = world.ledger.memory.get(&key);
            let after = MeasuredMemory::after(before, instance_type, image, bytes, now);
            world.ledger.memory.extend(after.map(|after| (key, after)));
            Ok(())
        })
        .await
    }

    async fn draw(
        &self,
        api: Api,
        wanted: u32,
        priority: Priority,
        now: Timestamp,
    ) -> Result<Draw, LedgerError> {
        self.aside("draw", |world| {
            let bucket = world.ledger.buckets.entry(api);
            let bucket = bucket.or_insert_with(|| TokenBucket::full(api, now));
            let (after, draw) = bucket.draw(api, wanted, priority, now);
            *bucket = after;
            Ok(draw)
        })
        .await
    }

    async fn throttled(&self, api: Api, now: Timestamp) -> Result<(), LedgerError> {
        self.aside("throttled", |world| {
            let bucket = world.ledger.buckets.entry(api);
            let bucket = bucket.or_insert_with(|| TokenBucket::full(api, now));
            *bucket = bucket.refused(api, now);
            Ok(())
        })
        .await
    }

    async fn store_zonal_shifts(
        &self,
        cluster: &ClusterName,
        shifts: &[ZonalShift],
    ) -> Result<(), LedgerError> {
        self.port("store_zonal_shifts", |world| {
            world.ledger.of(cluster).shifts = shifts.to_vec();
            Ok(())
        })
        .await
    }

    async fn zonal_shifts(&self, cluster: &ClusterName) -> Result<Vec<ZonalShift>, LedgerError> {
        self.aside("zonal_shifts", |world| {
            Ok(world.ledger.of(cluster).shifts.clone())
        })
        .await
    }

    async fn remember_not_ours(
        &self,
        instance: &InstanceId,
        until: Timestamp,
    ) -> Result<(), LedgerError> {
        self.aside("remember_not_ours", |world| {
            world.ledger.not_ours.insert(instance.clone(), until);
            Ok(())
        })
        .await
    }

    async fn is_not_ours(
        &self,
        instance: &InstanceId,
        now: Timestamp,
    ) -> Result<bool, LedgerError> {
        self.aside("is_not_ours", |world| {
            Ok(world
                .ledger
                .not_ours
                .get(instance)
                .is_some_and(|until| *until > now))
        })
        .await
    }
}
