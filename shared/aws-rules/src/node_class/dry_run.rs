//! Dry runs: whether EC2 would allow launches through a NodeClass, asked with the calls of a launch that launches nothing
//! (docs/spec/aws.md#dry-runs).

use std::collections::BTreeMap;

use api::EC2NodeClass;
use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use sha2::{Digest, Sha256};

use crate::{
    LaunchRefusal,
    errors::{self, ErrorClass},
    launch::Trial,
};

/// Time for which EC2's answers stay valid for an unchanged NodeClass.
const VERDICT_LIFETIME: SignedDuration = SignedDuration::from_mins(30);

/// The next call, or the verdict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DryRunAct {
    /// A real call, because dry runs need a launch template that exists; the later calls name it.
    CreateLaunchTemplate,
    /// CreateFleet with `DryRun`, over every subnet of the trial.
    CreateFleet,
    /// RunInstances with `DryRun`.
    RunInstances {
        subnet: String,
    },
    Done(Verdict),
}

/// EC2's error to a call. An error without a code does not come from EC2, and the effect of the call is unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refusal {
    pub code: String,
    pub message: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Passed,
    /// Launches would fail. If `stands`, the verdict holds until the NodeClass changes or it expires; otherwise the dry run is repeated
    /// immediately.
    Refused {
        reason: &'static str,
        message: String,
        stands: bool,
    },
    /// EC2 gave no verdict on the launch: the dry run is repeated immediately.
    Unanswered {
        message: String,
    },
    /// EC2 refused for a reason outside the NodeClass: the dry run is repeated later.
    Failed {
        message: String,
    },
}

impl Verdict {
    /// Whether the dry run is repeated without delay.
    pub fn asks_again(&self) -> bool {
        match self {
            Self::Unanswered { .. } => true,
            Self::Refused { stands, .. } => !stands,
            Self::Passed | Self::Failed { .. } => false,
        }
    }
}

/// The verdict on a NodeClass that cannot even be tried.
impl From<LaunchRefusal> for Verdict {
    fn from(problem: LaunchRefusal) -> Self {
        let (reason, message) = match problem {
            LaunchRefusal::NodeClassNotReady { message } => ("InvalidSpec", message),
            LaunchRefusal::InsufficientCapacity { message } => ("NoUsableInstanceType", message),
            LaunchRefusal::Create { reason, message } => (reason, message),
        };
        Self::Refused {
            reason,
            message,
            stands: true,
        }
    }
}

/// State of the dry-run calls, which are made in order, one at a time.
#[derive(Clone, Debug)]
pub struct DryRuns<'a> {
    trial: &'a Trial,
    /// The NodeClass names its own instance profile.
    owns_profile: bool,
    last: Option<Call>,
    /// Refusal of the first subnet. An answer for another subnet counts only if it is a success.
    refused: Option<Refusal>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    Template,
    Fleet,
    /// RunInstances in the subnet of this index.
    Instances(usize),
}

impl Call {
    fn action(self) -> (&'static str, &'static str) {
        match self {
            Self::Template => (
                "CreateLaunchTemplate",
                "CreateLaunchTemplateAuthCheckFailed",
            ),
            Self::Fleet => ("CreateFleet", "CreateFleetAuthCheckFailed"),
            Self::Instances(_) => ("RunInstances", "RunInstancesAuthCheckFailed"),
        }
    }
}

impl<'a> DryRuns<'a> {
    pub fn new(class: &EC2NodeClass, trial: &'a Trial) -> Self {
        Self {
            trial,
            owns_profile: class.spec.instance_profile.is_some(),
            last: None,
            refused: None,
        }
    }

    /// The next call, given EC2's answer to the previous one.
    pub fn next(&mut self, answer: Result<(), Refusal>) -> DryRunAct {
        let answer = answer.or_else(|refusal| match refusal.code.as_str() {
            errors::DRY_RUN | errors::TEMPLATE_EXISTS => Ok(()),
            _ => Err(refusal),
        });
        match (self.last, answer) {
            (None, _) => {
                self.last = Some(Call::Template);
                DryRunAct::CreateLaunchTemplate
            }
            (Some(Call::Template), Ok(())) => {
                self.last = Some(Call::Fleet);
                DryRunAct::CreateFleet
            }
            (Some(Call::Fleet), Ok(())) => self.run_in(0),
            (Some(Call::Instances(_)), Ok(())) => DryRunAct::Done(Verdict::Passed),
            (Some(Call::Instances(subnet)), Err(refusal)) => {
                self.refused.get_or_insert(refusal);
                self.run_in(subnet + 1)
            }
            (Some(call @ (Call::Template | Call::Fleet)), Err(refusal)) => {
                DryRunAct::Done(self.verdict_on(call, &refusal))
            }
        }
    }

    fn run_in(&mut self, index: usize) -> DryRunAct {
        self.last = Some(Call::Instances(index));
        match (self.trial.subnets.get(index), &self.refused) {
            (Some(subnet), _) => DryRunAct::RunInstances {
                subnet: subnet.clone(),
            },
            (None, Some(refusal)) => {
                DryRunAct::Done(self.verdict_on(Call::Instances(index), refusal))
            }
            (None, None) => DryRunAct::Done(Verdict::Passed),
        }
    }

    fn verdict_on(&self, call: Call, refusal: &Refusal) -> Verdict {
        let (action, reason) = call.action();
        let text = format!("{}: {}", refusal.code, refusal.message);
        let message = format!("ec2:{action} answered {text}");
        let failure = errors::launch_failure(&text);
        let about_profile = refusal.code == "InvalidParameterValue"
            && refusal
                .message
                .contains("Invalid IAM Instance Profile name");
        let class = errors::error_class(&refusal.code);
        if refusal.code.is_empty() || matches!(class, ErrorClass::Throttled | ErrorClass::Unknown) {
            Verdict::Unanswered { message }
        } else if refusal.code == errors::UNAUTHORIZED {
            Verdict::Refused {
                reason,
                message: format!("ec2:{action} is not allowed. {}: {text}", failure.message),
                stands: true,
            }
        } else if matches!(call, Call::Instances(_)) && about_profile {
            match self.owns_profile {
                true => Verdict::Refused {
                    reason: "InstanceProfileNotFound",
                    message: format!("spec.instanceProfile does not exist: {message}"),
                    stands: false,
                },
                // The profile exists in IAM; EC2 will see it soon.
                false => Verdict::Unanswered { message },
            }
        } else if call == Call::Template && failure.reason == "UserDataSizeLimitExceeded" {
            Verdict::Refused {
                reason: failure.reason,
                message: format!("spec.userData: {}: {text}", failure.message),
                stands: true,
            }
        } else {
            match errors::field(&text) {
                // The combination of networks is the user's choice and is reported first.
                Some(field) if failure.reason == "SecurityGroupSubnetVPCMismatch" => {
                    Verdict::Refused {
                        reason: failure.reason,
                        message: format!("{field}: {}: {message}", failure.message),
                        stands: true,
                    }
                }
                Some(field) => Verdict::Failed {
                    message: format!("{field}: {message}"),
                },
                None => Verdict::Failed { message },
            }
        }
    }
}

/// EC2's recent verdicts, by NodeClass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ValidationMemory(BTreeMap<String, Remembered>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Remembered {
    of: [u8; 32],
    at: Timestamp,
    verdict: Verdict,
}

impl ValidationMemory {
    /// The remembered verdict for the NodeClass as it is, with the status it is about to get.
    pub fn recall(&self, class: &EC2NodeClass, now: Timestamp) -> Option<Verdict> {
        let known = self.0.get(&class.metadata.name)?;
        let is_fresh = now.duration_since(known.at) < VERDICT_LIFETIME;
        (is_fresh && known.of == digest(class)).then(|| known.verdict.clone())
    }

    /// Remembers a verdict that stays valid for a while.
    pub fn keep(&mut self, class: &EC2NodeClass, verdict: &Verdict, now: Timestamp) {
        let name = class.metadata.name.clone();
        match verdict {
            Verdict::Passed | Verdict::Refused { stands: true, .. } => {
                let remembered = Remembered {
                    of: digest(class),
                    at: now,
                    verdict: verdict.clone(),
                };
                self.0.insert(name, remembered);
            }
            Verdict::Refused { stands: false, .. }
            | Verdict::Unanswered { .. }
            | Verdict::Failed { .. } => {
                self.0.remove(&name);
            }
        }
    }
}

/// Digest of everything that launches depend on. Annotations are included, so that a user can force another dry run.
fn digest(class: &EC2NodeClass) -> [u8; 32] {
    let status = class.status.as_ref();
    let content = json!({
        "uid": class.metadata.uid,
        "annotations": class.metadata.annotations,
        "spec": class.spec,
        "subnets": status.map(|status| &status.subnets),
        "securityGroups": status.map(|status| &status.security_groups),
        "amis": status.map(|status| &status.amis),
        "instanceProfile": status.map(|status| &status.instance_profile),
    });
    Sha256::digest(content.to_string()).into()
}
