//! `whittle init` in AWS: reads what there is, and carries out the steps that are missing.

mod facts;

use std::{io::Write, time::Duration};

use anyhow::{Context, Result};
use ec2::{Account, CallerIdentity, EksCluster};
use model::{ClusterName, ledger::Mode};
use ports::CloudError;

use super::{
    access, checks,
    registry::{self, RegisterOptions, account},
    until,
};
use crate::{
    doctor::LISTS,
    exit::Exit,
    finding,
    init::{
        Arguments,
        steps::{
            self, AGENT, Change, DISCOVERY, Facts, Found, NAMESPACE, Outcome, SERVICE_ACCOUNT,
            State,
        },
    },
    journal::source::block_on,
    objects::Objects,
    registry::mode_text,
};

/// Number of attempts to create an access entry: EKS does not see a role of IAM in its first seconds.
const ACCESS_ATTEMPTS: usize = 5;
/// Pause between these attempts.
const ACCESS_PAUSE: Duration = Duration::from_secs(3);

pub(crate) fn run(arguments: &Arguments) -> Result<Exit> {
    block_on(Box::pin(async {
        let account = account(arguments.registry.prefix()).await;
        let identity = account.caller_identity().await;
        let identity = identity.context("AWS does not accept the credentials")?;
        let eks = checks::eks(&account, &arguments.cluster).await?;
        let setup = Setup {
            account,
            identity,
            eks,
            arguments,
        };
        print(&format!(
            "credentials: {} in account {}, Region {}\ncluster {}: Kubernetes {}, {}\n",
            setup.identity.arn,
            setup.identity.account,
            setup.account.region(),
            arguments.cluster,
            setup.eks.version,
            setup.eks.status,
        ))?;
        let (facts, values) = setup.facts().await?;
        let left = setup.carry_out(&facts, &values).await?;
        setup.finish(&facts, left).await
    }))
}

/// An installation under way.
struct Setup<'a> {
    account: Account,
    identity: CallerIdentity,
    eks: EksCluster,
    arguments: &'a Arguments,
}

fn print(text: &str) -> Result<()> {
    Ok(std::io::stdout().write_all(text.as_bytes())?)
}

impl Setup<'_> {
    fn cluster(&self) -> ClusterName {
        self.arguments.cluster.as_str().into()
    }

    /// Carries the steps out and prints each. Returns how many are left to the user.
    async fn carry_out(&self, facts: &Facts, values: &str) -> Result<usize> {
        let mut left = 0;
        for step in steps::plan(facts, self.arguments.create) {
            let outcome = match step.state {
                State::AlreadyThere => Outcome::AlreadyThere,
                State::ToDo => Outcome::ToDo,
                State::Change(_) if self.arguments.dry_run => Outcome::WouldBeDone,
                State::Change(change) => {
                    let done = Box::pin(self.change(change, facts, values)).await;
                    done.with_context(|| {
                        format!(
                            "{} failed; what was done before stays, and a repetition goes on from there",
                            step.title
                        )
                    })?;
                    Outcome::Done
                }
            };
            left += usize::from(outcome == Outcome::ToDo);
            print(&step.text(outcome))?;
        }
        Ok(left)
    }

    async fn change(&self, change: Change, facts: &Facts, values: &str) -> Result<()> {
        let (account, arguments, cluster) = (&self.account, self.arguments, self.cluster());
        let stack = facts.stack_facts.as_ref();
        match change {
            Change::SpotRole => account.create_spot_role().await?,
            Change::NodeRole => self.create_node_role(facts).await?,
            Change::NodeAccess => self.create_node_access(&facts.node_role_arn).await?,
            Change::Tags => {
                let untagged = self.untagged().await?;
                account
                    .tag_resources(&untagged, DISCOVERY, &arguments.cluster)
                    .await?;
            }
            Change::Entry => {
                let reach = stack.map(|stack| stack.registration.reach.as_str());
                self.register(reach.unwrap_or("public")).await?;
            }
            Change::FunctionAccess => {
                access::grant(account, &arguments.cluster, &arguments.stack.name).await?;
            }
            Change::PodIdentityAgent => account.create_addon(&cluster, AGENT).await?,
            Change::PodIdentity => {
                let role = stack.and_then(|stack| stack.relay_role.as_ref());
                let role = role.context("the stack does not name the relay's role")?;
                account
                    .associate_pod_identity(&cluster, NAMESPACE, SERVICE_ACCOUNT, role)
                    .await?;
            }
            Change::Values => {
                let path = &arguments.values;
                std::fs::write(path, values)
                    .with_context(|| format!("cannot write {}", path.display()))?;
            }
        }
        Ok(())
    }

    async fn create_node_role(&self, facts: &Facts) -> Result<()> {
        let (name, partition) = (&facts.node_role, &facts.partition);
        self.account.create_node_role(name).await?;
        let attached = self.account.attach_node_policies(name, partition).await;
        attached.with_context(|| {
            format!(
                "the role {name} exists now, but nodes need all of its policies: {}",
                steps::attach_policies(name, partition)
            )
        })
    }

    async fn create_node_access(&self, role: &str) -> Result<()> {
        let mut attempts = 1;
        loop {
            let done = self.account.create_node_access(&self.cluster(), role).await;
            match done {
                Err(CloudError::Invalid { .. }) if attempts < ACCESS_ATTEMPTS => {
                    attempts += 1;
                    tokio::time::sleep(ACCESS_PAUSE).await;
                }
                done => return Ok(done?),
            }
        }
    }

    async fn register(&self, reach: &str) -> Result<()> {
        let arguments = self.arguments;
        let selected = arguments
            .kubeconfig
            .select_named(arguments.context.as_deref());
        let objects = match selected {
            Some(selection) => {
                let connected = k8s::from_kubeconfig(&selection).await?;
                Some(Objects::of_client(&connected.client, LISTS).await?)
            }
            None => None,
        };
        let asked = RegisterOptions {
            replace: false,
            grants_access: false,
            stack: &arguments.stack.name,
            objects,
        };
        let (prefix, entry) = (arguments.registry.prefix(), arguments.entry(reach));
        let findings =
            registry::write_entry(&self.account, prefix, &arguments.cluster, &entry, &asked);
        let findings = Box::pin(findings).await?;
        if !findings.is_empty() {
            let count = findings.len();
            print(&format!(
                "findings of the checks: {count}\n{}",
                finding::text(&findings)
            ))?;
        }
        Ok(())
    }

    async fn finish(&self, facts: &Facts, left: usize) -> Result<Exit> {
        let Arguments {
            cluster,
            dry_run,
            wait,
            timeout,
            context,
            ..
        } = self.arguments;
        if *dry_run {
            print("\nNothing was changed.\n")?;
            return Ok(Exit::Done);
        }
        let mut left = left;
        let stack = facts.stack_facts.as_ref();
        let lacks_relay = stack.is_some_and(|stack| stack.relay_is_alive != Found::There);
        if *wait && lacks_relay {
            let timeout = Duration::from_secs(*timeout);
            let is_alive = async || self.relay_is_alive().await;
            if until(timeout, "the relay's heartbeat", is_alive).await? {
                print("heartbeat of the relay: done\n")?;
                left -= 1;
            }
        }
        if left > 0 {
            print(&format!(
                "\n{} to do. Repeat {} afterwards: it goes on from there. --create-all lets it create what it can.\n",
                crate::plan::counted(left, "step"),
                facts.invocation.again()
            ))?;
            return Ok(Exit::Left);
        }
        let mode = stack.and_then(|stack| stack.registration.mode);
        let selection = &facts.selection;
        let (registry, for_status) = (&selection.registry, &selection.for_status);
        let context = match context {
            Some(_) => selection.context.clone(),
            None => format!(" --context <context>{}", selection.context),
        };
        let is_active = mode == Some(Mode::Active);
        let mut text = format!(
            "\n{cluster} is installed in {} mode: Whittle plans, and {}. Next:\n",
            mode_text(mode.unwrap_or(Mode::Shadow)),
            match is_active {
                true => "changes nodes",
                false => "changes nothing",
            }
        );
        let mut commands = vec![
            (
                format!("whittle plan{context}"),
                "the plan for the pods that wait now",
            ),
            (
                format!("whittle status{for_status}"),
                "turns, relay, and what waits for you",
            ),
            (
                format!("whittle doctor {cluster}{context}{registry}"),
                "obstacles, with remedies",
            ),
        ];
        if !is_active {
            commands.push((
                format!("whittle activate {cluster}{registry}"),
                "when you agree with the plans",
            ));
        }
        for (command, what) in commands {
            text.push_str(&format!("  {command}   # {what}\n"));
        }
        print(&text)?;
        Ok(Exit::Done)
    }
}
