//! Termination of instances. EC2 refuses a whole TerminateInstances call because of one instance, so a refused call is
//! retried in smaller parts.

use std::{collections::BTreeMap, future::Future};

use model::InstanceId;
use thiserror::Error;

use crate::CloudError;

/// Verdicts on instances to terminate, by id.
pub type Terminations = BTreeMap<InstanceId, Termination>;

/// Verdict on one instance to terminate.
#[derive(Clone, Debug)]
pub enum Termination {
    /// EC2 terminates the instance, or already has.
    Ended,
    /// EC2 knows no instance with this id.
    Gone,
    /// EC2 does not terminate this instance until someone removes the cause.
    Refused(TerminationRefusal),
    /// No verdict on this instance: the call was not sent, had no response, or was refused because of another one.
    Unanswered(CloudError),
}

/// EC2's reason for refusing to terminate an instance.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{code}: {message}; {}", self.remedy())]
pub struct TerminationRefusal {
    pub code: String,
    pub message: String,
}

impl TerminationRefusal {
    /// Action of the user that makes the instance terminable.
    pub fn remedy(&self) -> &'static str {
        match self.code.as_str() {
            "OperationNotPermitted" => {
                "termination protection is on: turn off the instance's attribute disableApiTermination"
            }
            "IncorrectInstanceState" => {
                "the instance's state does not allow it: check the state and pending modifications of the instance in EC2"
            }
            "UnauthorizedOperation" | "AccessDenied" | "AccessDeniedException" => {
                "instances are terminated only if their tag eks:eks-cluster-name is this cluster's name: check the instance's tags, service control policies and permissions boundaries"
            }
            _ => "remove the obstacle that EC2 names, or terminate the instance by hand",
        }
    }
}

impl Termination {
    /// Verdict from the result of a call for a single instance.
    pub fn of(answer: Result<(), CloudError>) -> Self {
        match answer {
            Ok(()) => Self::Ended,
            Err(CloudError::NotFound { .. }) => Self::Gone,
            Err(CloudError::Denied { message, .. }) => {
                let (code, message) = message.split_once(": ").unwrap_or(("", &message));
                Self::Refused(TerminationRefusal {
                    code: code.to_owned(),
                    message: message.to_owned(),
                })
            }
            Err(
                CloudError::Invalid { code, message, .. }
                | CloudError::NoCapacity { code, message },
            ) => Self::Refused(TerminationRefusal { code, message }),
            Err(
                error @ (CloudError::Throttled { .. }
                | CloudError::Postponed { .. }
                | CloudError::NotSent { .. }
                | CloudError::Unknown { .. }),
            ) => Self::Unanswered(error),
        }
    }
}

/// Upper bound on instances per TerminateInstances call. EC2 accepts 1,000, but every refused call is halved from here.
const BATCH_MAX: usize = 200;
const _: () = assert!(BATCH_MAX <= crate::limits::ec2::INSTANCE_IDS);

/// Upper bound on the calls of one [`terminate_each`]. One refused instance in a full batch takes 16 calls, and the
/// account's burst for these calls is 100. The next turn continues with the remaining instances, and skips those that
/// this one saw refused.
const CALLS_MAX: usize = 60;

/// Terminates instances by `call`, which EC2 executes or refuses as a whole. A refused call is retried in halves, down
/// to single instances. A call without a verdict ends the attempt for all remaining instances.
pub async fn terminate_each<F>(
    ids: &[InstanceId],
    call: impl Fn(Vec<InstanceId>) -> F,
) -> Terminations
where
    F: Future<Output = Result<(), CloudError>>,
{
    let mut ids = ids.to_vec();
    ids.sort();
    ids.dedup();
    let mut parts: Vec<Vec<InstanceId>> = ids.chunks(BATCH_MAX).rev().map(<[_]>::to_vec).collect();
    let mut terminations = Terminations::new();
    let mut calls = 0;
    while let Some(part) = parts.pop() {
        let verdict = match calls < CALLS_MAX {
            true => Termination::of(call(part.clone()).await),
            false => Termination::Unanswered(unasked()),
        };
        calls += 1;
        match verdict {
            Termination::Gone | Termination::Refused(_) if part.len() > 1 => {
                let (first, second) = part.split_at(part.len() / 2);
                parts.extend([second.to_vec(), first.to_vec()]);
            }
            verdict @ Termination::Unanswered(_) => {
                let rest = parts.drain(..).flatten().chain(part);
                terminations.extend(rest.map(|id| (id, verdict.clone())));
            }
            verdict @ (Termination::Ended | Termination::Gone | Termination::Refused(_)) => {
                terminations.extend(part.into_iter().map(|id| (id, verdict.clone())));
            }
        }
    }
    terminations
}

fn unasked() -> CloudError {
    CloudError::Unknown {
        action: "TerminateInstances".to_owned(),
        message: format!("not requested: EC2 refused too many instances for {CALLS_MAX} calls"),
    }
}
