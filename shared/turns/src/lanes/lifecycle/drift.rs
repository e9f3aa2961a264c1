//! Drift of nodes from their EC2NodeClass (docs/spec/lifecycle.md#drifted, docs/spec/aws.md#drift).

use std::collections::BTreeMap;

use api::conditions::types::LAUNCHED;
use jiff::SignedDuration;
use model::{InstanceId, launch::Instance};

use crate::{
    Report, TurnError,
    context::{Turn, node_claims::instance_of},
    observe::{Observed, node_class::readiness},
};

/// Interval between reads of instances from EC2; objects in the API server are compared in every turn.
const INSTANCE_READ_INTERVAL: SignedDuration = SignedDuration::from_mins(5);

/// Compares launched NodeClaims with their NodeClasses. NodeClaims that cannot be judged now are left out.
pub(crate) async fn evaluate(
    turn: &Turn<'_>,
    observed: &mut Observed,
    report: &mut Report,
) -> Result<(), TurnError> {
    let claims = observed.snapshot.node_claims.iter();
    let launched: Vec<_> = claims
        .filter(|claim| claim.is_true(LAUNCHED) && claim.deleted_at.is_none())
        .collect();
    if launched.is_empty() {
        return Ok(());
    }
    let now = turn.world.clock.now();
    let ledger = &turn.world.ledger;
    let instances = if ledger
        .once(turn.cluster, "drift", now, now + INSTANCE_READ_INTERVAL)
        .await?
    {
        report.run_again_at(now + INSTANCE_READ_INTERVAL);
        let mut instances = instances_by_id(turn, &mut observed.problems).await;
        let gates = &observed.snapshot.settings.feature_gates;
        for instance in instances.values_mut() {
            instance.reservation = counted_reservation(instance.reservation.take(), gates);
        }
        instances
    } else {
        BTreeMap::new()
    };
    let mut drift = BTreeMap::new();
    for claim in launched {
        let name = &claim.spec.node_class.name;
        let mut classes = observed.node_classes.iter();
        let class = classes.find(|class| class.metadata.name == name.0);
        let (Some(class), Some(facts)) = (class, observed.classes.get(name)) else {
            continue;
        };
        let instance = instance_of(claim).and_then(|id| instances.get(&id));
        let resolver = &turn.world.node_classes;
        match resolver.drift(class, &facts.types, claim, instance) {
            Ok(drifted) => drop(drift.insert(claim.name.clone(), drifted)),
            // A NodeClass that is not ready reports that itself.
            Err(why) if instance.is_some() && readiness(class).is_ok() => {
                let problem = format!("drift of NodeClaim {}: {why}", claim.name);
                observed.problems.push(problem);
            }
            Err(_) => {}
        }
    }
    observed.snapshot.drift = drift;
    Ok(())
}

/// Instances by id. Without an answer from EC2, drift that only instances show is not judged.
async fn instances_by_id(
    turn: &Turn<'_>,
    problems: &mut Vec<String>,
) -> BTreeMap<InstanceId, Instance> {
    match turn.world.cloud.list_instances(turn.cluster).await {
        Ok(instances) => instances
            .into_iter()
            .map(|instance| (instance.id.clone(), instance))
            .collect(),
        Err(error) => {
            problems.push(format!("instances to compare with their classes: {error}"));
            BTreeMap::new()
        }
    }
}

/// Drops the reservation while its feature gate is off, so that losing it is no drift.
fn counted_reservation(
    reservation: Option<String>,
    gates: &BTreeMap<String, bool>,
) -> Option<String> {
    reservation.filter(|_| gates.get("ReservedCapacity") != Some(&false))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_reservation_is_drift_only_with_its_feature_gate_on() {
        let is_counted = |gates: &[(&str, bool)]| {
            let gates = gates.iter().map(|(gate, on)| ((*gate).to_owned(), *on));
            counted_reservation(Some("cr-12345678".to_owned()), &gates.collect()).is_some()
        };
        assert!(is_counted(&[]));
        assert!(is_counted(&[("ReservedCapacity", true)]));
        assert!(!is_counted(&[("ReservedCapacity", false)]));
    }
}
