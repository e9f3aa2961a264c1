//! Acts of the user, and changes in AWS.

use anyhow::{Context, Result};
use model::{CapacityType, NodeName, ledger::Mode};

use super::{LastAct, Story};
use crate::demo::{
    audience::Message,
    commands,
    names::CLUSTER,
    notices::{NOTICE, SPOT},
    picture::Stage,
    script::{CapacityLimit, Replicas, manifest},
};

impl Story<'_> {
    /// Keeps the state before an act.
    fn begin_act(&mut self) {
        let picture = self.pictures.borrow();
        self.last_act = LastAct {
            at: self.world.now(),
            hourly: picture.hourly,
            claims: picture
                .claims
                .iter()
                .map(|claim| claim.name.clone())
                .collect(),
        };
    }

    pub(in crate::demo) async fn apply(&mut self, file: &str) -> Result<()> {
        self.begin_act();
        self.typed(&format!("kubectl apply -f {file}"));
        self.world.kubectl().apply(manifest(file)?).await
    }

    pub(super) async fn scale(&mut self, replicas: &Replicas) -> Result<()> {
        self.begin_act();
        for (deployment, replicas) in replicas {
            self.typed(&format!(
                "kubectl scale deployment {deployment} --replicas={replicas}"
            ));
            self.world.kubectl().scale(deployment, *replicas).await?;
        }
        Ok(())
    }

    /// Runs a command that reads the journal. A turn is recorded when it ends, which may be after its nodes are Ready: a command that
    /// fails runs again until the deadline.
    pub(super) async fn whittle(&mut self, command: &str) -> Result<()> {
        let deadline = self.deadline();
        let (command, output) = loop {
            let run = self.run_command(command).await;
            if run.is_ok() || !self.next_picture(&deadline).await {
                break run?;
            }
        };
        self.typed(&format!("whittle {command}"));
        self.send(Message::Output(output));
        Ok(())
    }

    /// Returns the command with its placeholders replaced, and its output.
    async fn run_command(&self, command: &str) -> Result<(String, String)> {
        let picture = self.pictures.borrow().clone();
        let command = commands::filled(command, &picture, self.world.directory()).await?;
        let output = commands::output(&command).await?;
        Ok((command, output))
    }

    pub(super) fn switch(&mut self, command: &str, mode: Mode) {
        self.begin_act();
        self.typed(&format!("whittle {command} {CLUSTER}"));
        self.world.set_mode(mode);
    }

    pub(super) fn upgrade(&mut self, version: &str) {
        self.begin_act();
        self.typed(&format!(
            "aws eks update-cluster-version --name {CLUSTER} --kubernetes-version {version}"
        ));
        self.world.upgrade_kubernetes(version);
    }

    pub(super) fn limit_capacity(&mut self, limit: &CapacityLimit) {
        self.begin_act();
        let CapacityLimit {
            instance_type,
            capacity_type,
            instances,
        } = limit;
        for zone in self.world.zones() {
            let pool = (*capacity_type, instance_type.clone(), zone);
            self.world.set_capacity(pool, *instances);
        }
        let left = match instances {
            0 => "no".to_owned(),
            left => left.to_string(),
        };
        self.note(format!(
            "EC2 has {left} {capacity_type} {instance_type} left in each zone; beyond, it answers InsufficientInstanceCapacity"
        ));
    }

    /// Lets EC2 announce the interruption of the spot node with the most pods of a Deployment.
    pub(super) async fn notice(&mut self, app: &str) -> Result<()> {
        self.begin_act();
        let picture = self.pictures.borrow().clone();
        let pods = |node: Option<&NodeName>| {
            let of_node = picture.pods_of(app);
            of_node.filter(|pod| pod.node_name.as_ref() == node).count()
        };
        let ready = picture.lines().into_iter().filter(|line| {
            let bought = line.bought.as_ref();
            line.stage == Stage::Ready
                && bought.is_some_and(|bought| bought.capacity_type == CapacityType::Spot)
        });
        let ready = ready.filter_map(|line| {
            let mut claims = picture.claims.iter();
            claims.find(|claim| claim.name.as_str() == line.claim)
        });
        let claim = ready.max_by_key(|claim| pods(claim.status.node_name.as_ref()));
        let claim = claim.with_context(|| format!("deployment/{app} has no spot node"))?;
        let node = claim.status.node_name.clone().unwrap_or_default();
        self.last_act.claims = [claim.name.clone()].into();
        self.typed(&format!("kubectl annotate node {node} {NOTICE}={SPOT}"));
        self.world
            .kubectl()
            .annotate_node(&node, NOTICE, SPOT)
            .await
    }

    pub(super) fn start_karpenter(&mut self) -> Result<()> {
        self.begin_act();
        self.world.start_karpenter()?;
        self.note("Karpenter holds the Lease karpenter-leader-election and renews it".to_owned());
        Ok(())
    }

    pub(super) async fn stop_karpenter(&mut self) -> Result<()> {
        self.begin_act();
        self.typed("kubectl scale deployment karpenter --namespace kube-system --replicas=0");
        self.world.stop_karpenter().await
    }
}
