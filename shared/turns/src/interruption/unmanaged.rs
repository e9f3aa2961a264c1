//! Interruptions of nodes that no NodePool made: ignored, unless a tag of their instance or a label of the node opts them in
//! (docs/spec/migrate.md#nth). The terminator drains them.

use std::sync::Arc;

use api::names::nth;
use futures::future::join_all;
use model::{
    InstanceId, Interruption, Lane, NodeName, interruption::InterruptionAction, launch::Instance,
    node::Node,
};
use planner::UnmanagedNodeSettings;
use ports::{
    Cluster, ClusterError,
    cluster::{Event, EventKind, EventTarget},
};

use super::{
    ClusterDelivery, InterruptionOutcome, InterruptionReport, LocatedFact,
    owners::remember_unmanaged,
};
use crate::{Entry, TurnError};

impl ClusterDelivery<'_> {
    pub(super) async fn handle_unmanaged(
        &self,
        located: &[LocatedFact<'_>],
    ) -> Vec<InterruptionOutcome> {
        let entry = Entry::read(&self.meta.registry).map_err(|source| TurnError::Entry {
            cluster: self.cluster.clone(),
            source,
        });
        let unmanaged = match entry {
            Ok(entry) => entry.unmanaged,
            Err(error) => return vec![Err(Arc::new(error)); located.len()],
        };
        let tagged: Vec<(&Interruption, InterruptionAction)> = located
            .iter()
            .filter(|located| is_tagged(located, &unmanaged))
            .filter_map(|located| Some((located.fact, unmanaged.action(located.fact.kind)?)))
            .filter(|_| !unmanaged.dry_run)
            .collect();
        // Facts are recorded first: the tag suffices.
        if let Err(error) = self.record(&tagged, true).await {
            return vec![Err(Arc::new(error)); located.len()];
        }
        let api = self.connect().await;
        let each = located.iter().map(|located| async {
            let api = api.as_deref().map_err(Arc::clone)?;
            let node = node_of(api, located).await;
            node.map_err(|error| Arc::new(TurnError::from(error)))
        });
        let nodes: Vec<Result<Option<Node>, Arc<TurnError>>> = join_all(each).await;
        let each = located
            .iter()
            .zip(&nodes)
            .map(|(located, node)| self.handle_fact(&unmanaged, located, node));
        let outcomes = join_all(each).await;
        let recorded = |outcome: &InterruptionOutcome| {
            matches!(outcome, Ok(InterruptionReport::Recorded { .. }))
        };
        if !outcomes.iter().any(recorded) {
            return outcomes;
        }
        // From here on the ledger obliges the terminator; the rest only makes it faster.
        let mark = async {
            let api = api.as_deref().map_err(Arc::clone)?;
            if !self.may_act(api).await.map_err(Arc::new)? {
                return Ok(());
            }
            let each = located.iter().zip(&nodes).zip(&outcomes);
            let each = each.filter(|(_, outcome)| recorded(outcome));
            let each = each
                .filter_map(|((located, node), _)| Some((located, node.as_ref().ok()?.as_ref()?)));
            join_all(
                each.map(|(located, node)| self.mark_node(api, &unmanaged, located.fact, node)),
            )
            .await;
            Ok::<_, Arc<TurnError>>(())
        };
        let lanes = [Lane::Provisioner, Lane::Terminator];
        let (marked, ()) = tokio::join!(mark, self.wake(&lanes, "unmanaged-node-leaves"));
        if let Err(error) = marked {
            tracing::warn!(cluster = %self.cluster, %error, "unmanaged nodes not tainted; the terminator retries");
        }
        outcomes
    }

    /// Makes sure that the fact is recorded, if its node is opted in.
    async fn handle_fact(
        &self,
        unmanaged: &UnmanagedNodeSettings,
        located: &LocatedFact<'_>,
        node: &Result<Option<Node>, Arc<TurnError>>,
    ) -> InterruptionOutcome {
        let cluster = self.cluster.clone();
        let tagged = is_tagged(located, unmanaged);
        if !tagged {
            let node = node.as_ref().map_err(Arc::clone)?;
            let labelled = |node: &Node| node.labels.contains_key(&unmanaged.managed_tag);
            if !node.as_ref().is_some_and(labelled) {
                let id = &located.fact.instance;
                remember_unmanaged(self.world, id).await.map_err(Arc::new)?;
                return Ok(InterruptionReport::NotOurs);
            }
        }
        let Some(action) = unmanaged.action(located.fact.kind) else {
            return Ok(InterruptionReport::Tolerated { cluster });
        };
        if unmanaged.dry_run {
            return Ok(InterruptionReport::Shadow { cluster });
        }
        if !tagged {
            let fact = [(located.fact, action)];
            self.record(&fact, true).await.map_err(Arc::new)?;
        }
        Ok(InterruptionReport::Recorded { cluster })
    }

    /// Taints the node and emits events with the reason. Failures are left to the terminator.
    async fn mark_node(
        &self,
        api: &dyn Cluster,
        unmanaged: &UnmanagedNodeSettings,
        fact: &Interruption,
        node: &Node,
    ) {
        let kind = fact.kind.as_str();
        let event = |kind, reason: &str| Event {
            about: EventTarget::Node(node.name.clone(), node.uid.clone()),
            kind,
            reason: reason.to_owned(),
            message: fact.announcement(),
            at: self.world.clock.now(),
        };
        let mut events = vec![event(EventKind::Warning, nth::reason(kind))];
        if let Some(update) = unmanaged.mark(node, &[fact.into()], self.world.clock.now()) {
            match api.update_node(&update).await {
                Ok(()) if unmanaged.action(fact.kind) == Some(InterruptionAction::Cordon) => {
                    events.push(event(EventKind::Normal, "Cordon"));
                }
                Ok(()) => events.push(event(EventKind::Normal, "CordonAndDrain")),
                Err(error) => {
                    tracing::warn!(cluster = %self.cluster, node = %node.name, %error, "unmanaged node not tainted; the terminator retries");
                }
            }
        }
        for event in events {
            if let Err(error) = api.post_event(&event).await {
                tracing::warn!(cluster = %self.cluster, node = %node.name, %error, "Kubernetes event not created");
            }
        }
    }
}

fn is_tagged(located: &LocatedFact<'_>, unmanaged: &UnmanagedNodeSettings) -> bool {
    let has = |instance: &Instance| instance.tags.contains_key(&unmanaged.managed_tag);
    located.instance.as_deref().is_some_and(has)
}

async fn node_of(
    api: &dyn Cluster,
    located: &LocatedFact<'_>,
) -> Result<Option<Node>, ClusterError> {
    let dns = located.instance.as_ref();
    let dns = dns.and_then(|instance| instance.private_dns.as_deref());
    node_of_instance(api, &located.fact.instance, dns).await
}

/// The Node of an instance, read by the names that it can have: its private DNS name or, with newer cloud controllers, its
/// instance's id.
pub(crate) async fn node_of_instance(
    api: &dyn Cluster,
    id: &InstanceId,
    private_dns: Option<&str>,
) -> Result<Option<Node>, ClusterError> {
    for name in private_dns.into_iter().chain([id.as_str()]) {
        let node = api.node(&NodeName::from(name)).await?;
        let is_its = |node: &Node| node.provider_id.ends_with(&format!("/{id}"));
        if let Some(node) = node.filter(is_its) {
            return Ok(Some(node));
        }
    }
    Ok(None)
}
