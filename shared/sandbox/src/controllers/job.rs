use std::sync::Arc;

use jiff::Timestamp;
use serde_json::json;

use super::{
    Client, Controller, JOBS, PODS,
    client::Severity,
    owned::{is_active, is_controlled_by, phase, pod_from_template},
};
use crate::{
    error::ApiResult,
    json,
    server::{Part, is_ready, rfc3339, set_condition},
    store::{Object, TableId},
};

/// Job controller: runs the pods of each Job to completion.
#[derive(Debug)]
pub(super) struct Jobs;

const COMPONENT: &str = "job-controller";

impl Controller for Jobs {
    fn name(&self) -> &'static str {
        COMPONENT
    }

    fn inputs(&self) -> &'static [TableId] {
        const { &[JOBS, PODS] }
    }

    fn run(&mut self, client: &mut Client<'_>) -> ApiResult<Option<Timestamp>> {
        for job in client.all(&JOBS) {
            if !job.is_terminating() && !is_over(&job) {
                sync(client, &job)?;
            }
        }
        Ok(None)
    }
}

fn is_over(job: &Object) -> bool {
    json::items(job.value(), &["status", "conditions"])
        .iter()
        .any(|condition| {
            matches!(json::text(condition, &["type"]), "Complete" | "Failed")
                && json::text(condition, &["status"]) == "True"
        })
}

fn sync(client: &mut Client<'_>, job: &Object) -> ApiResult<()> {
    let pods: Vec<Arc<Object>> = client
        .dependents(&PODS, job)
        .into_iter()
        .filter(|pod| is_controlled_by(pod, job))
        .collect();
    let number = |field: &str| {
        let number = json::integer(job.value(), &["spec", field]).unwrap_or(1);
        usize::try_from(number).unwrap_or(0)
    };
    let count = |desired: &str| pods.iter().filter(|pod| phase(pod) == desired).count();
    let (succeeded, failed) = (count("Succeeded"), count("Failed"));
    let active: Vec<&Arc<Object>> = pods.iter().filter(|pod| is_active(pod)).collect();
    let suspended = json::flag(job.value(), &["spec", "suspend"]);
    let is_complete = succeeded >= number("completions");
    let is_failed = failed > number("backoffLimit");
    let desired = if suspended || is_complete || is_failed {
        0
    } else {
        number("parallelism").min(number("completions") - succeeded)
    };
    let template = json::at(job.value(), &["spec", "template"]);
    for _ in active.len()..desired {
        let pod = client.create(&PODS, job.namespace(), pod_from_template(job, template))?;
        let message = format!("Created pod: {}", pod.name());
        client.record(
            job,
            COMPONENT,
            Severity::Normal,
            "SuccessfulCreate",
            &message,
        )?;
    }
    for pod in active.iter().skip(desired) {
        client.delete(&PODS, &pod.key())?;
    }
    let ready = active.iter().filter(|pod| is_ready(pod.value())).count();
    let now = client.now;
    client.change(&JOBS, &job.key(), Part::Status, |job| {
        json::set_default(job, &["status", "startTime"], rfc3339(now));
        for (field, count) in [
            ("active", desired),
            ("ready", ready),
            ("succeeded", succeeded),
            ("failed", failed),
        ] {
            json::set(job, &["status", field], count);
        }
        if is_complete {
            json::set_default(job, &["status", "completionTime"], rfc3339(now));
            let condition =
                json!({"type": "Complete", "status": "True", "reason": "CompletionsReached"});
            set_condition(job, condition, now);
        } else if is_failed {
            let condition = json!({
                "type": "Failed", "status": "True", "reason": "BackoffLimitExceeded",
                "message": "Job has reached the specified backoff limit",
            });
            set_condition(job, condition, now);
        }
    })
}
