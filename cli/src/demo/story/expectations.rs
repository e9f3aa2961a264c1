//! Expected effects. An effect that does not occur is kept as missing, and the story goes on.

use std::{collections::BTreeSet, fmt::Display};

use anyhow::Result;
use jiff::{SignedDuration, Timestamp};
use model::{CapacityType, NanosPerHour, NodeClaimName, counted, node_claim::NodeClaim};
use serde_json::Value;

use super::{Missing, Story};
use crate::{
    demo::{
        picture::{Bought, Picture, Stage, is_running},
        screen::age,
        script::{ExpectedCondition, ExpectedCost, ExpectedEvent, ExpectedNodes, Replicas},
    },
    objects::text,
};

/// Component of Whittle's events.
const COMPONENT: &str = "whittle";

impl Story<'_> {
    /// Waits until all pods of a Deployment run on nodes that are Ready.
    pub(in crate::demo) async fn runs(&mut self, app: &str, replicas: usize) {
        let waited = self.wait(|picture| run(picture, app, replicas) && all_joined(picture));
        if let Err(picture) = waited.await {
            let running = running(&picture, app);
            self.missing.push(if running == replicas {
                format!("nodes that became Ready: {}", young(&picture).join(", "))
            } else {
                format!("{running} of {replicas} pods of deployment/{app} run")
            });
        }
    }

    /// Waits until the nodes of the last act are gone, and all pods run on others.
    pub(super) async fn replaced(&mut self, replicas: &Replicas) {
        let before = self.last_act.claims.clone();
        let left = |picture: &Picture| -> BTreeSet<NodeClaimName> {
            let claims = picture.claims.iter().map(|claim| claim.name.clone());
            claims.filter(|claim| before.contains(claim)).collect()
        };
        let waited = self.wait(|picture| left(picture).is_empty() && all_run(picture, replicas));
        match waited.await {
            Ok(()) => self.note(format!(
                "{} replaced after {}, and all pods run",
                counted(before.len(), "node"),
                self.since_act()
            )),
            Err(picture) => self.missing.push(match joined(left(&picture)).as_str() {
                "" => not_running(&picture, replicas),
                left => format!("nodes that should be replaced are left: {left}"),
            }),
        }
    }

    /// Waits until the nodes cost as much less as expected, no node is leaving, and all pods run.
    pub(super) async fn cheaper(&mut self, expected: &ExpectedCost) {
        let before = self.last_act.hourly;
        let most = NanosPerHour(before.0 * expected.percent / 100);
        let is_settled = |picture: &Picture| {
            let leaves = |claim: &NodeClaim| claim.deleted_at.is_some();
            all_run(picture, &expected.runs) && !picture.claims.iter().any(leaves)
        };
        let waited = self.wait(|picture| picture.hourly <= most && is_settled(picture));
        match waited.await {
            Ok(()) => {
                let hourly = self.pictures.borrow().hourly;
                self.note(format!(
                    "${before}/h before, ${hourly}/h after {}",
                    self.since_act()
                ));
            }
            Err(picture) if picture.hourly <= most => {
                self.missing.push(not_running(&picture, &expected.runs));
            }
            Err(picture) => self.missing.push(format!(
                "the nodes should cost at most ${most}/h, and cost ${}/h",
                picture.hourly
            )),
        }
    }

    /// Lets time pass, in which no node may come or go.
    pub(super) async fn unchanged(&mut self, time: SignedDuration) {
        let claims = |picture: &Picture| -> BTreeSet<NodeClaimName> {
            let claims = picture.claims.iter();
            let stays = claims.filter(|claim| claim.deleted_at.is_none());
            stays.map(|claim| claim.name.clone()).collect()
        };
        let before = claims(&self.pictures.borrow());
        let timeout = std::mem::replace(&mut self.timeout, time);
        let changed = self.wait(|picture| claims(picture) != before).await;
        self.timeout = timeout;
        match changed {
            Ok(()) => self.missing.push("a node came or went".to_owned()),
            Err(_) => self.note(format!("no node came or went in {}", age(time))),
        }
    }

    pub(in crate::demo) async fn all_gone(&mut self) {
        let gone = |picture: &Picture| {
            picture.remaining().next().is_none()
                && picture.claims.is_empty()
                && picture.nodes.is_empty()
        };
        if let Err(picture) = self.wait(gone).await {
            let instances = picture.remaining();
            let instances = instances.map(|priced| format!("instance {}", priced.instance.id));
            let claims = picture.claims.iter();
            let claims = claims.map(|claim| format!("nodeclaim/{}", claim.name));
            let nodes = picture.nodes.keys().map(|name| format!("node/{name}"));
            let left = joined(instances.chain(claims).chain(nodes));
            self.missing.push(format!("still there: {left}"));
        }
    }

    /// Waits for a condition of an object, and shows its message.
    pub(super) async fn condition(&mut self, expected: &ExpectedCondition) -> Result<()> {
        let ExpectedCondition {
            api_version,
            kind,
            name,
            condition,
            status,
        } = expected;
        let is_expected =
            |found: &&Value| text(found, "/type") == condition && text(found, "/status") == status;
        let deadline = self.deadline();
        loop {
            let object = self.world.kubectl().get(api_version, kind, name).await?;
            let conditions = object
                .pointer("/status/conditions")
                .and_then(Value::as_array);
            let mut conditions = conditions.into_iter().flatten();
            if let Some(found) = conditions.find(is_expected) {
                let message = match text(found, "/message") {
                    "" => String::new(),
                    message => format!(": {message}"),
                };
                self.note(format!("{kind} {name} has {condition}={status}{message}"));
                return Ok(());
            }
            if !self.next_picture(&deadline).await {
                let missing = format!("the condition {condition}={status} of {kind} {name}");
                self.missing.push(missing);
                return Ok(());
            }
        }
    }

    /// Waits for an event of Whittle since the last act, and shows its message.
    pub(super) async fn event(&mut self, expected: &ExpectedEvent) -> Result<()> {
        let ExpectedEvent { kind, reason } = expected;
        let since = self.last_act.at;
        let is_expected = |event: &&Value| {
            text(event, "/involvedObject/kind") == kind
                && text(event, "/reason") == reason
                && is_event_since(event, since)
        };
        let deadline = self.deadline();
        loop {
            let events = self.world.kubectl().events().await?;
            if let Some(found) = events.iter().find(is_expected) {
                let (name, message) =
                    (text(found, "/involvedObject/name"), text(found, "/message"));
                self.note(format!("event {reason} of {kind} {name}: {message}"));
                return Ok(());
            }
            if !self.next_picture(&deadline).await {
                self.missing.push(format!("an event {reason} of a {kind}"));
                return Ok(());
            }
        }
    }

    /// Compares the nodes of a Deployment.
    pub(super) fn expect_nodes(&mut self, expected: &ExpectedNodes) {
        let picture = self.pictures.borrow().clone();
        let runs_here = |claim: &&NodeClaim| {
            let node = claim.status.node_name.as_ref();
            let mut pods = picture.pods_of(&expected.of);
            node.is_some() && pods.any(|pod| pod.node_name.as_ref() == node)
        };
        let claims = picture.claims.iter().filter(runs_here);
        let nodes: Vec<(&NodeClaim, Bought)> = claims
            .filter_map(|claim| Some((claim, Bought::of(picture.instance_of(claim)?))))
            .collect();
        if !is_as_expected(&nodes, expected) {
            let found = match joined(nodes.iter().map(|(_, bought)| bought)).as_str() {
                "" => "nothing".to_owned(),
                found => found.to_owned(),
            };
            let ExpectedNodes { of, are, .. } = expected;
            self.missing.push(format!(
                "deployment/{of} should run on {are}, and runs on: {found}"
            ));
        }
    }

    fn since_act(&self) -> String {
        age(self.world.now().duration_since(self.last_act.at))
    }
}

/// Whether Whittle has reported an event since this time. Events have whole seconds.
fn is_event_since(event: &Value, since: Timestamp) -> bool {
    let at: Option<Timestamp> = text(event, "/lastTimestamp").parse().ok();
    text(event, "/reportingComponent") == COMPONENT
        && at.is_some_and(|at| at.as_second() >= since.as_second())
}

fn is_as_expected(nodes: &[(&NodeClaim, Bought)], expected: &ExpectedNodes) -> bool {
    fn is<T: Ord>(wanted: Option<&BTreeSet<T>>, found: BTreeSet<T>) -> bool {
        wanted.is_none_or(|wanted| *wanted == found)
    }
    let bought = || nodes.iter().map(|(_, bought)| bought);
    let spot = nodes
        .iter()
        .filter(|(_, bought)| bought.capacity_type == CapacityType::Spot);
    let millicores = spot.map(|(claim, _)| claim.status.capacity.get(model::resources::CPU));
    let spot_cpus = u64::try_from(millicores.sum::<i64>() / 1000).unwrap_or(0);
    let pools = nodes.iter().filter_map(|(claim, _)| claim.node_pool());
    !nodes.is_empty()
        && expected.count.is_none_or(|count| count == nodes.len())
        && expected.spot_cpus_max.is_none_or(|most| spot_cpus <= most)
        && is(
            expected.instance_types.as_ref(),
            bought()
                .map(|bought| bought.instance_type.clone())
                .collect(),
        )
        && is(
            expected.capacity_types.as_ref(),
            bought().map(|bought| bought.capacity_type).collect(),
        )
        && is(
            expected.zones.as_ref(),
            bought().map(|bought| bought.zone.clone()).collect(),
        )
        && is(
            expected.node_pools.as_ref(),
            pools.map(|pool| pool.to_string()).collect(),
        )
}

fn running(picture: &Picture, app: &str) -> usize {
    picture.pods_of(app).filter(|pod| is_running(pod)).count()
}

/// Whether a Deployment has as many pods as it should, and all run.
fn run(picture: &Picture, app: &str, replicas: usize) -> bool {
    running(picture, app) == replicas && picture.pods_of(app).count() == replicas
}

/// Whether the pods of all Deployments run, and every node is Ready.
fn all_run(picture: &Picture, replicas: &Replicas) -> bool {
    let mut replicas = replicas.iter();
    all_joined(picture) && replicas.all(|(app, replicas)| run(picture, app, *replicas))
}

fn all_joined(picture: &Picture) -> bool {
    young(picture).is_empty()
}

/// Names of NodeClaims whose nodes are not Ready yet.
fn young(picture: &Picture) -> Vec<String> {
    let lines = picture.lines().into_iter();
    let young = lines.filter(|line| line.stage < Stage::Ready);
    young.map(|line| line.claim).collect()
}

fn not_running(picture: &Picture, replicas: &Replicas) -> Missing {
    let lacking = replicas.iter().map(|(app, replicas)| {
        let running = running(picture, app);
        format!("{running} of {replicas} pods of deployment/{app} run")
    });
    joined(lacking)
}

fn joined(names: impl IntoIterator<Item = impl Display>) -> String {
    let names: Vec<String> = names.into_iter().map(|name| name.to_string()).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_events_of_whittle_since_the_act_count() {
        let since = "2026-11-28T12:00:00.5Z".parse().unwrap();
        for (component, at, counts) in [
            ("whittle", "2026-11-28T12:00:00Z", true),
            ("whittle", "2026-11-28T12:01:00Z", true),
            ("whittle", "2026-11-28T11:59:59Z", false),
            ("whittle", "", false),
            ("default-scheduler", "2026-11-28T12:01:00Z", false),
        ] {
            let event = json!({"reportingComponent": component, "lastTimestamp": at});
            assert_eq!(is_event_since(&event, since), counts, "{event}");
        }
    }
}
