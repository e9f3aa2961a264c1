//! Validation of an EC2NodeClass: the condition, and the requests to EC2 for it.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use api::{EC2NodeClass, conditions::types::VALIDATION_SUCCEEDED, karpenter};
use aws_rules::{
    LaunchInput,
    launch::{Trial, trial},
    node_class::{
        DryRunAct, DryRuns, Refusal, StatusDraft, StatusInput, ValidationMemory, Verdict, draft,
        is_final, next_look,
    },
};
use jiff::Timestamp;
use model::{CapacityType, InstanceType, node_pool::NodePool};
use serde::{Deserialize, de::IgnoredAny};
use serde_json::{Value, json};

use super::{
    account::{AccountState, RegionFacts, node_class},
    requests,
    selectors::nothing,
    settings::CaseSettings,
};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Case {
    #[serde(deserialize_with = "node_class")]
    node_class: EC2NodeClass,
    settings: CaseSettings,
    #[serde(default)]
    node_pools: Vec<karpenter::NodePool>,
    #[serde(default)]
    dry_run_disabled: bool,
    #[serde(default)]
    ec2: Offered,
    #[serde(default)]
    state: Errors,
    /// Number of validations that the case asks about.
    expect: Passes,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Offered {
    instance_types: BTreeSet<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Errors {
    api_errors: Vec<ApiError>,
}

/// Answer to the given number of next calls.
#[derive(Deserialize)]
struct ApiError {
    api: String,
    code: String,
    message: String,
    times: u32,
}

#[derive(Deserialize)]
struct Passes {
    steps: Vec<IgnoredAny>,
}

pub(super) fn decide(case: Case, facts: &RegionFacts) -> Result<Value> {
    let passes = case.expect.steps.len();
    let mut validating = Validating {
        cluster: case.settings.cluster()?,
        provider: case.settings.provider()?,
        types: case.ec2.instance_types,
        node_pools: case.node_pools.into_iter().map(Into::into).collect(),
        dry_run_disabled: case.dry_run_disabled,
        errors: case.state.api_errors,
        memory: ValidationMemory::default(),
        facts,
    };
    let mut class = case.node_class;
    let mut steps = Vec::new();
    for _ in 0..passes {
        steps.push(validating.pass(&mut class)?);
    }
    Ok(json!({"steps": steps}))
}

struct Validating<'a> {
    cluster: aws_rules::ClusterFacts,
    provider: aws_rules::ProviderSettings,
    types: BTreeSet<String>,
    node_pools: Vec<NodePool>,
    dry_run_disabled: bool,
    errors: Vec<ApiError>,
    memory: ValidationMemory,
    facts: &'a RegionFacts,
}

impl Validating<'_> {
    fn pass(&mut self, class: &mut EC2NodeClass) -> Result<Value> {
        // No result here depends on the time.
        let now = Timestamp::UNIX_EPOCH;
        let infos = self.types.iter();
        let infos: Vec<_> = infos
            .filter_map(|name| self.facts.types.get(name).cloned())
            .collect();
        let known = StatusInput {
            cluster: &self.cluster,
            settings: &self.provider,
            instance_types: &infos,
        };
        let draft = draft(class, nothing(), known, now);
        let mut calls = Vec::new();
        let verdict = match draft.may_launch() && !self.dry_run_disabled {
            true => self.verdict(&draft, now, &mut calls)?,
            false => Verdict::Passed,
        };
        let may_launch = draft.may_launch();
        let status = draft.judged(verdict.clone());
        let conditions = status.conditions.iter().flatten();
        let condition = conditions
            .into_iter()
            .find(|condition| condition.r#type == VALIDATION_SUCCEEDED)
            .context("the status has no condition ValidationSucceeded")?;
        let is_final = is_final(&condition.reason);
        let failed = may_launch && matches!(verdict, Verdict::Failed { .. });
        let at_once = may_launch && verdict.asks_again();
        let again = next_look(VALIDATION_SUCCEEDED, false, &[], now)
            .filter(|_| !is_final && !failed && !at_once);
        // Upstream reports every final reason but this one as an error.
        let is_terminal = is_final && condition.reason != "InvalidKubeletConfiguration";
        let step = json!({
            "condition": {
                "status": condition.status,
                "reason": condition.reason,
                "message": condition.message,
            },
            "requeueAfterSeconds": again.map(|again| again.as_secs()),
            "requeue": at_once,
            "error": is_terminal || failed,
            "terminal": is_terminal,
            "calls": calls,
        });
        class.status = Some(status);
        Ok(step)
    }

    fn verdict(
        &mut self,
        draft: &StatusDraft,
        now: Timestamp,
        calls: &mut Vec<Value>,
    ) -> Result<Verdict> {
        let class = &draft.class;
        if let Some(verdict) = self.memory.recall(class, now) {
            return Ok(verdict);
        }
        let types = self.instance_types(class)?;
        let input = LaunchInput {
            cluster: &self.cluster,
            settings: &self.provider,
            node_class: class,
            instance_types: &types,
            free_addresses: &model::FreeAddresses::default(),
        };
        let verdict = match trial(&input, &self.node_pools) {
            Ok(trial) => self.dry_runs(class, &trial, calls),
            Err(problem) => problem.into(),
        };
        self.memory.keep(class, &verdict, now);
        Ok(verdict)
    }

    fn instance_types(&self, class: &EC2NodeClass) -> Result<Vec<InstanceType>> {
        AccountState::default().resolve(
            self.facts,
            &self.types,
            None,
            class,
            &self.provider,
            &self.cluster.region,
        )
    }

    fn dry_runs(&mut self, class: &EC2NodeClass, trial: &Trial, calls: &mut Vec<Value>) -> Verdict {
        let mut runs = DryRuns::new(class, trial);
        let mut answer = Ok(());
        loop {
            let (api, input) = match runs.next(answer) {
                DryRunAct::Done(verdict) => return verdict,
                DryRunAct::CreateLaunchTemplate => (
                    "CreateLaunchTemplate",
                    requests::create_launch_template(&trial.template, CapacityType::OnDemand),
                ),
                DryRunAct::CreateFleet => ("CreateFleet", requests::try_fleet(trial)),
                DryRunAct::RunInstances { subnet } => {
                    ("RunInstances", requests::try_instance(trial, &subnet))
                }
            };
            calls.push(json!({"api": api, "input": input}));
            answer = self.answer(api);
        }
    }

    fn answer(&mut self, api: &str) -> Result<(), Refusal> {
        let mut errors = self.errors.iter_mut();
        let error = errors.find(|error| error.api == api && error.times > 0);
        match error {
            Some(error) => {
                error.times -= 1;
                Err(Refusal {
                    code: error.code.clone(),
                    message: error.message.clone(),
                })
            }
            None => Ok(()),
        }
    }
}
