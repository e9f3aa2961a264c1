//! The end of instances: EC2 refuses a whole call for one instance, so what it refuses is asked again in smaller parts.

use std::{collections::BTreeMap, future::Future};

use model::InstanceId;
use thiserror::Error;

use crate::CloudError;

/// Verdicts on instances that were to be ended, by id.
pub type Terminations = BTreeMap<InstanceId, Termination>;

/// Verdict on one instance that was to be ended.
#[derive(Clone, Debug)]
pub enum Termination {
    /// EC2 ends it, or has ended it already.
    Ended,
    /// EC2 knows no instance of this id.
    Gone,
    /// EC2 does not end this instance until somebody removes the cause.
    Refused(TerminationRefusal),
    /// No verdict about this instance: the call was not sent, was not answered, or was refused for another one.
    Unanswered(CloudError),
}

/// EC2's reason not to end one instance.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{code}: {message}; {}", self.remedy())]
pub struct TerminationRefusal {
    pub code: String,
    pub message: String,
}

impl TerminationRefusal {
    /// The user's way to let the instance end.
    pub fn remedy(&self) -> &'static str {
        match self.code.as_str() {
            "OperationNotPermitted" => {
                "termination protection is on: turn off the instance's attribute disableApiTermination"
            }
            "IncorrectInstanceState" => {
                "its state does not allow it: see the instance's state and its pending modifications in EC2"
            }
            "UnauthorizedOperation" | "AccessDenied" | "AccessDeniedException" => {
                "instances are ended only if their tag eks:eks-cluster-name is this cluster's name: see its tags, service control \
                 policies and permission boundaries"
            }
            _ => "remove what EC2 names, or end the instance by hand",
        }
    }
}

impl Termination {
    /// The verdict of a call that was about one instance alone.
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

/// Instances of one call of TerminateInstances: EC2 takes 1,000, and every refusal is halved from here.
const BATCH_MAX: usize = 200;
const _: () = assert!(BATCH_MAX <= crate::limits::ec2::INSTANCE_IDS);

/// Upper bound on the calls of one [`terminate_each`]: one refused instance in a full batch takes 16, and the account's budget of these
/// calls is 100. What is left unasked is asked by the next turn, which leaves out what this one saw refused.
const CALLS_MAX: usize = 60;

/// Asks for instances by `call`, which EC2 obeys or refuses as a whole. A refused part is asked again in halves, down to single
/// instances; a call that says nothing about its instances ends all further ones.
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
        message: format!("EC2 refused so many instances that {CALLS_MAX} calls were not enough"),
    }
}
