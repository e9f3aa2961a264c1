//! What becomes of each node by itself, for people: whether it may go, what would run its pods instead and what that saves, or
//! the pod, budget, price or constraint that keeps it.

use api::conditions::types::CONSOLIDATABLE;
use model::{
    NanosPerHour, NodePoolName, labels::NODE_POOL, node_pool::ConsolidateAfter,
    plan::ExpectedOffering,
};
use scheduling::NewNode;

use super::{
    Reason,
    budgets::Budgets,
    candidates::{Candidate, Candidates, Class, kind_of, name_of},
    consolidation::{judged, may_consolidate},
    cost, drift, price,
    repair::{self, Patients},
    scene::Scene,
    simulate::Freedom,
    types,
};
use crate::repair::{Breaker, Held};

/// One node, as disruption sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outlook {
    /// The Node's name, or the NodeClaim's where there is no Node.
    pub node: String,
    /// Zero where it is not known.
    pub price: NanosPerHour,
    /// Why it would go, if anything speaks for that.
    pub reason: Option<Reason>,
    /// What would run its pods instead, if that was found out.
    pub alternative: Option<Alternative>,
    /// What keeps it; `None` where it may go now.
    pub kept: Option<String>,
}

/// New nodes in a node's place; none where its pods fit on others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alternative {
    pub nodes: Vec<ExpectedOffering>,
    /// Per hour; less than nothing where it costs more.
    pub saving: NanosPerHour,
}

pub(super) fn of_all(scene: &Scene<'_>) -> Vec<Outlook> {
    let graceful = Candidates::new(scene, Class::Graceful);
    let eventual = Candidates::new(scene, Class::Eventual);
    let of_blocked = eventual.blocked.iter().map(|blocked| Outlook {
        node: blocked.node.clone(),
        price: price_of(scene, &blocked.node),
        reason: None,
        alternative: None,
        kept: Some(blocked.message.clone()),
    });
    let held = Held::of(scene.snapshot);
    let budgets = AllBudgets::of(scene);
    let of_candidates = eventual.all.iter().map(|candidate| {
        let name = candidate.node.name.as_str();
        let mut blocked = graceful.blocked.iter();
        let mut outlook = of_one(scene, candidate, &budgets);
        // What must not be disturbed now goes for drift alone.
        if outlook.reason != Some(Reason::Drifted)
            && let Some(blocked) = blocked.find(|blocked| blocked.node == name)
        {
            outlook.kept = Some(blocked.message.clone());
        }
        if outlook.reason == Some(Reason::Drifted)
            && let Some(told) = held.drift(candidate.node, candidate.pool)
        {
            outlook.kept = Some(told);
        }
        outlook.kept = outlook.kept.take().or_else(|| {
            let reason = outlook.reason?;
            kept_by(budgets.for_reason(reason), candidate)
        });
        outlook
    });
    let mut all: Vec<Outlook> = of_blocked.chain(of_candidates).collect();
    let repaired = of_repair(scene, &held, &budgets.unhealthy);
    all.retain(|outlook| !repaired.iter().any(|other| other.node == outlook.node));
    all.extend(repaired);
    all.sort_by(|a, b| a.node.cmp(&b.node));
    all
}

/// Nodes that are due for repair.
fn of_repair(scene: &Scene<'_>, held: &Held<'_>, budgets: &Budgets) -> Vec<Outlook> {
    let breaker = Breaker::of(scene.snapshot);
    let patients = Patients::of(scene);
    let reason = Some(Reason::Unhealthy);
    let blocked = patients.blocked.into_iter().map(|blocked| Outlook {
        price: price_of(scene, &blocked.node),
        node: blocked.node,
        reason,
        alternative: None,
        kept: Some(blocked.message),
    });
    let due = patients.due.iter().map(|patient| {
        let candidate = &patient.candidate;
        let decided = repair::decide(scene, patient, budgets);
        let alternative = decided.as_ref().ok().and_then(Option::as_ref);
        let alternative = alternative.map(|command| Alternative {
            nodes: command
                .replacements
                .iter()
                .map(|launch| launch.cheapest.clone())
                .collect(),
            saving: command.savings,
        });
        let is_surplus = || "its static NodePool has more nodes than it wants".to_owned();
        let kept = match &decided {
            Ok(Some(_)) => None,
            Ok(None) => Some(is_surplus()),
            Err(why) => Some(why.clone()),
        };
        Outlook {
            node: candidate.node.name.to_string(),
            price: candidate.price,
            reason,
            alternative: alternative.filter(|_| candidate.pool.replicas.is_none()),
            kept: repair::held_back(&breaker, held, patient)
                .or(kept)
                .or_else(|| kept_by(budgets, candidate)),
        }
    });
    blocked.chain(due).collect()
}

/// What a node costs, whether or not it may go.
fn price_of(scene: &Scene<'_>, node: &str) -> NanosPerHour {
    let mut machines = scene.inventory.machines.iter();
    let price = machines
        .find(|machine| name_of(machine) == node)
        .and_then(|machine| {
            let pool = NodePoolName::from(machine.labels.get(NODE_POOL)?.as_str());
            let kind = kind_of(machine, scene.ground.types.get(&pool)?)?;
            let surcharge = scene.snapshot.surcharge_of(Some(&pool));
            Some(price::of_node(kind, &machine.labels, surcharge))
        });
    price.unwrap_or(NanosPerHour(0))
}

/// Budgets for each reason, counted once for all nodes.
struct AllBudgets {
    unhealthy: Budgets,
    empty: Budgets,
    drifted: Budgets,
    underutilized: Budgets,
}

impl AllBudgets {
    fn of(scene: &Scene<'_>) -> Self {
        let of = |reason| Budgets::new(scene.snapshot, scene.inventory, reason, scene.now);
        Self {
            unhealthy: of(Reason::Unhealthy),
            empty: of(Reason::Empty),
            drifted: of(Reason::Drifted),
            underutilized: of(Reason::Underutilized),
        }
    }

    fn for_reason(&self, reason: Reason) -> &Budgets {
        match reason {
            Reason::Unhealthy => &self.unhealthy,
            Reason::Empty => &self.empty,
            Reason::Drifted => &self.drifted,
            Reason::Underutilized => &self.underutilized,
        }
    }
}

fn kept_by(budgets: &Budgets, candidate: &Candidate<'_>) -> Option<String> {
    if !candidate.machine.initialized && budgets.allows(candidate) {
        return None;
    }
    let pool = candidate.pool;
    let waits = budgets.evictions.told(candidate).map(|(told, _)| told);
    waits.or_else(|| {
        (budgets.left(&pool.name) == 0).then(|| {
            budgets.closed(pool).unwrap_or_else(|| {
                let name = &pool.name;
                format!("As many nodes of NodePool {name} are on their way as its budgets allow")
            })
        })
    })
}

fn of_one<'a>(scene: &Scene<'a>, candidate: &Candidate<'a>, budgets: &AllBudgets) -> Outlook {
    let mut outlook = Outlook {
        node: candidate.node.name.to_string(),
        price: candidate.price,
        reason: None,
        alternative: None,
        kept: None,
    };
    let is_dynamic = candidate.pool.replicas.is_none();
    let is_consolidatable = candidate.claim.is_true(CONSOLIDATABLE);
    if is_dynamic && is_consolidatable && cost::is_empty(candidate.cost) {
        outlook.reason = Some(Reason::Empty);
        outlook.alternative = Some(alternative(scene, candidate, &[]));
    } else if drift::is_about_static(candidate) {
        outlook.reason = Some(Reason::Drifted);
    } else if drift::is_about(candidate) {
        let simulation = scene.simulate(&[candidate], Freedom::Drift);
        outlook.reason = Some(Reason::Drifted);
        outlook.kept = simulation.obstacle();
        if outlook.kept.is_none() {
            outlook.alternative = Some(alternative(scene, candidate, &simulation.new_nodes));
        } else if drift::decide(scene, candidate, &budgets.drifted).is_ok() {
            // The node goes before its replacement.
            outlook.kept = None;
        }
    } else {
        consolidation(scene, candidate, &mut outlook);
    }
    outlook
}

/// Whether pods came to the node or left it within the time that its NodePool waits.
fn changed_lately(scene: &Scene<'_>, candidate: &Candidate<'_>) -> bool {
    let ConsolidateAfter::Seconds(wait) = candidate.pool.disruption.consolidate_after else {
        return false;
    };
    let changed = candidate.claim.status.last_pod_event;
    changed.is_some_and(|at| scene.now.duration_since(at).as_secs() < wait)
}

fn consolidation<'a>(scene: &Scene<'a>, candidate: &Candidate<'a>, outlook: &mut Outlook) {
    match may_consolidate(candidate) {
        Err(why) => outlook.kept = Some(why),
        Ok(false) => {
            let why = match candidate.pool.replicas {
                Some(_) => "NodePool is static, and the node has not drifted",
                None if changed_lately(scene, candidate) => {
                    "Node is not Consolidatable: its pods changed within consolidateAfter"
                }
                None => {
                    "Node is not Consolidatable: its NodeClaim does not have the condition, though its pods have not changed within \
                     consolidateAfter"
                }
            };
            outlook.kept = Some(why.to_owned());
        }
        Ok(true) => {
            let simulation = scene.simulate(&[candidate], Freedom::Consolidation);
            if simulation.obstacle().is_none() {
                outlook.alternative = Some(alternative(scene, candidate, &simulation.new_nodes));
            }
            match judged(scene, &[candidate], simulation, 1) {
                Err(why) => outlook.kept = Some(why),
                Ok(step) => {
                    outlook.kept = scene.worth.pays(scene, &step).err();
                    outlook.reason = Some(Reason::Underutilized);
                    outlook.alternative = Some(alternative(scene, candidate, &step.replacements));
                }
            }
        }
    }
}

/// The cheapest that each of these nodes may become.
fn alternative(scene: &Scene<'_>, candidate: &Candidate<'_>, nodes: &[NewNode]) -> Alternative {
    let cheapest = nodes.iter().filter_map(|node| {
        let of_pool = types::of_new_node(scene, node);
        let choice = node.choices.iter().min_by_key(|choice| choice.price)?;
        let kind = of_pool.get(choice.instance_type())?;
        let offering = kind.offerings.get(choice.offering())?;
        Some(ExpectedOffering {
            instance_type: kind.name.clone(),
            capacity_type: offering.capacity_type,
            zone: offering.zone.clone(),
            price: choice.price,
            capacity: kind.capacity.clone(),
        })
    });
    let nodes: Vec<ExpectedOffering> = cheapest.collect();
    let cost: i64 = nodes.iter().map(|node| node.price.0).sum();
    Alternative {
        saving: NanosPerHour(candidate.price.0.saturating_sub(cost)),
        nodes,
    }
}
