//! The log that is printed when a run fails: what turns did, and the final state.

use turns::{Outcome, Report, SweepReport};

use fakes::World;

use super::{Play, SimulatedCluster};
use crate::Laws;

/// Number of log lines kept; older ones are dropped.
const MOST: usize = 400;

impl Play {
    pub(super) fn report(&mut self, report: &Report) {
        let turn = &report.turn;
        let simulated = |simulated: &&SimulatedCluster| simulated.name == report.cluster;
        let sim = self
            .clusters
            .iter()
            .find(simulated)
            .map(|simulated| simulated.sim.clone());
        let judge = |judge: &dyn Fn(&mut Laws, &World)| {
            if let Some(sim) = &sim {
                sim.look(|world| self.laws.with(&report.cluster, |laws| judge(laws, world)));
            }
        };
        judge(&|laws, world| laws.lane_ended(world, report));
        if report.committed.is_some() || !report.launched.is_empty() {
            judge(&|laws, world| laws.journaled(world, turn, &report.problems));
        }
        let lines = [
            ("", &report.planned),
            ("proposed ", &report.proposed),
            ("refused ", &report.refused),
            ("launched ", &report.launched),
            ("unplaced ", &report.unplaced),
            ("failed ", &report.failed),
        ];
        for (kind, lines) in lines {
            for line in lines {
                self.note(&format!("{} {turn}: {kind}{line}", report.lane));
            }
        }
        for problem in &report.problems {
            self.note(&format!("{} {turn}: problem {problem}", report.lane));
        }
        if let Outcome::Failed(error) = &report.outcome {
            self.note(&format!("{} {turn} failed: {error}", report.lane));
        }
        if report.committed.is_some() || !report.launched.is_empty() {
            self.last_change = self.seconds;
            if let Some(generation) = report.committed {
                self.note(&format!(
                    "{} {turn} saw generation {} and committed {generation}",
                    report.lane, report.generation
                ));
            }
        }
    }

    pub(super) fn swept(&mut self, report: &SweepReport) {
        let lines = [
            ("collected", &report.collected),
            ("alarm", &report.alarms),
            ("problem", &report.problems),
        ];
        for (kind, lines) in lines {
            for line in lines {
                self.note(&format!("sweep: {kind} {line}"));
            }
        }
    }

    /// Logs the NodeClaims, Nodes and pending pods of every cluster, to help explain a broken law.
    pub(super) fn log_final_state(&mut self) {
        let clusters: Vec<_> = self
            .clusters
            .iter()
            .map(|simulated| simulated.sim.clone())
            .collect();
        let lines: Vec<String> = clusters
            .iter()
            .flat_map(|sim| sim.look(final_state))
            .collect();
        lines.iter().for_each(|line| self.note(line));
    }

    pub(crate) fn note(&mut self, line: &str) {
        if self.log.len() >= MOST {
            self.log.drain(..MOST / 4);
        }
        self.log.push(format!("{:>5}s {line}", self.seconds));
    }
}

fn final_state(world: &World) -> Vec<String> {
    let api = &world.api;
    let claims = api.node_claims.values().map(|claim| {
        let conditions = claim.status.conditions.iter();
        let conditions: Vec<_> = conditions
            .map(|condition| {
                format!(
                    "{}={:?} {}",
                    condition.kind, condition.status, condition.reason
                )
            })
            .collect();
        let (name, id) = (&claim.name, &claim.status.provider_id);
        let (node, deleted) = (&claim.status.node_name, claim.deleted_at);
        format!(
            "there is NodeClaim {name} of {id}, node {node:?}, deleted {deleted:?}, {conditions:?}"
        )
    });
    let nodes = api.nodes.values().map(|node| {
        let (name, id, taints) = (&node.name, &node.provider_id, &node.taints);
        let (ready, deleted) = (&node.ready.status, node.deleted_at);
        format!("there is Node {name} of {id}, ready {ready:?}, deleted {deleted:?}, taints {taints:?}, labels {:?}", node.labels)
    });
    let pods = api.pods.values().filter(|pod| pod.node_name.is_none());
    let pods = pods.map(|pod| {
        format!(
            "there is pod {}, which waits since {:?}",
            pod.key, pod.created_at
        )
    });
    claims.chain(nodes).chain(pods).collect()
}
