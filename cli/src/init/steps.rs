//! The steps of an installation: which are done, which `whittle init` does, and the commands for the others. Pure.

use super::Create;

/// A change that `whittle init` makes itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    SpotRole,
    NodeRole,
    NodeAccess,
    Tags,
    /// The registry entry, in shadow mode.
    Entry,
    FunctionAccess,
    PodIdentityAgent,
    PodIdentity,
    /// The file with the chart's values.
    Values,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    AlreadyThere,
    /// Missing, and to be changed now.
    Change(Change),
    /// Missing, and left to the user.
    ToDo,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) title: String,
    pub(crate) state: State,
    /// Commands that do the step, to be pasted into a shell; or an instruction.
    pub(crate) commands: Vec<String>,
}

/// Whether a prerequisite exists, or why that is unknown.
pub(crate) type Found = Result<bool, String>;

/// State of the account and the cluster before the command.
pub(crate) struct Facts {
    pub(crate) cluster: String,
    pub(crate) region: String,
    /// Name and ARN of the role of nodes, which need not exist.
    pub(crate) node_role: String,
    pub(crate) node_role_arn: String,
    /// Whether the cluster's authentication mode has access entries.
    pub(crate) has_access_entries: bool,
    /// Subnets and the security group of the cluster that lack the discovery tag although nothing else has it.
    pub(crate) untagged: Result<Vec<String>, String>,
    pub(crate) spot_role: Found,
    /// Quotas that are too low or cannot be read.
    pub(crate) low_quotas: Vec<String>,
    pub(crate) has_node_role: Found,
    pub(crate) has_node_access: Found,
    pub(crate) stack: String,
    pub(crate) stack_facts: Option<StackFacts>,
}

/// State of the steps that need the stack.
pub(crate) struct StackFacts {
    pub(crate) is_registered: Found,
    /// Whether every function has an access entry.
    pub(crate) functions_have_access: Found,
    pub(crate) has_pod_identity_agent: Found,
    pub(crate) has_pod_identity: Found,
    /// Role of the relay; `None` for a stack of an older version.
    pub(crate) relay_role: Option<String>,
    pub(crate) values: ValuesFile,
    /// Path of the values file.
    pub(crate) values_path: String,
    /// Whether the relay's heartbeat is recent.
    pub(crate) relay_is_alive: Found,
    /// Commands that push the relay's image, if it is the user's own, and install the chart.
    pub(crate) install: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    not(feature = "aws"),
    expect(dead_code, reason = "steps are found and done in AWS only")
)]
pub(crate) enum ValuesFile {
    Missing,
    Same,
    /// Another content, which may be overwritten.
    Replaceable,
    /// Another content, which is kept.
    Different,
}

/// Service account of the relay in the chart.
pub(crate) const NAMESPACE: &str = "kube-system";
pub(crate) const SERVICE_ACCOUNT: &str = "whittle-relay";
pub(crate) const AGENT: &str = "eks-pod-identity-agent";
pub(crate) const DISCOVERY: &str = "karpenter.sh/discovery";

/// A step: done already, done by the command if that was requested, or left to the user.
fn step(
    title: impl Into<String>,
    found: &Found,
    change: Change,
    create: Create,
    commands: Vec<String>,
) -> Step {
    let mut title = title.into();
    let state = match found {
        Ok(true) => State::AlreadyThere,
        Ok(false) if create.allows(change) => State::Change(change),
        Ok(false) => State::ToDo,
        Err(why) => {
            title = format!("{title} (not checked: {why})");
            State::ToDo
        }
    };
    Step {
        title,
        state,
        commands,
    }
}

fn left_to_user(title: impl Into<String>, is_done: bool, commands: Vec<String>) -> Step {
    Step {
        title: title.into(),
        state: match is_done {
            true => State::AlreadyThere,
            false => State::ToDo,
        },
        commands,
    }
}

/// All steps in the order in which they are done.
pub(crate) fn plan(facts: &Facts, create: Create) -> Vec<Step> {
    let mut steps = of_account(facts, create);
    match &facts.stack_facts {
        Some(stack) => steps.extend(of_stack(facts, stack, create)),
        None => steps.push(left_to_user(
            format!("stack {} in {}", facts.stack, facts.region),
            false,
            vec![
                "make package ARCHITECTURE=arm64".to_owned(),
                format!("sam deploy --stack-name {}", facts.stack),
                format!("whittle init {}   # goes on from there", facts.cluster),
            ],
        )),
    }
    steps
}

fn of_account(facts: &Facts, create: Create) -> Vec<Step> {
    let Facts {
        cluster,
        node_role,
        node_role_arn,
        ..
    } = facts;
    let spot = step(
        "service-linked role of EC2 Spot",
        &facts.spot_role,
        Change::SpotRole,
        create,
        vec!["aws iam create-service-linked-role --aws-service-name spot.amazonaws.com".to_owned()],
    );
    let quotas = match facts.low_quotas.is_empty() {
        true => "vCPU quotas of EC2".to_owned(),
        false => format!("vCPU quotas of EC2 ({})", facts.low_quotas.join("; ")),
    };
    let quotas = left_to_user(
        quotas,
        facts.low_quotas.is_empty(),
        vec!["aws service-quotas request-service-quota-increase --service-code ec2 --quota-code <code> --desired-value <vCPU>".to_owned()],
    );
    let role = step(
        format!("role of nodes {node_role}"),
        &facts.has_node_role,
        Change::NodeRole,
        create,
        role_commands(node_role),
    );
    let access = match facts.has_access_entries {
        true => step(
            format!("access of {node_role} to the cluster"),
            &facts.has_node_access,
            Change::NodeAccess,
            create,
            vec![format!(
                "aws eks create-access-entry --cluster-name {cluster} --type EC2_LINUX --principal-arn {node_role_arn}"
            )],
        ),
        false => left_to_user(
            format!("access of {node_role} to the cluster"),
            false,
            vec![format!(
                "aws eks update-cluster-config --name {cluster} --access-config authenticationMode=API_AND_CONFIG_MAP   # or map the role in aws-auth"
            )],
        ),
    };
    let untagged = facts.untagged.clone();
    let tags = step(
        format!("subnets and security group with the tag {DISCOVERY}={cluster}"),
        &untagged.clone().map(|ids| ids.is_empty()),
        Change::Tags,
        create,
        vec![format!(
            "aws ec2 create-tags --tags Key={DISCOVERY},Value={cluster} --resources {}",
            untagged.unwrap_or_default().join(" ")
        )],
    );
    vec![spot, quotas, role, access, tags]
}

fn role_commands(name: &str) -> Vec<String> {
    let mut commands = vec![format!(
        "aws iam create-role --role-name {name} --assume-role-policy-document \
         '{{\"Version\":\"2012-10-17\",\"Statement\":[{{\"Effect\":\"Allow\",\"Principal\":{{\"Service\":\"ec2.amazonaws.com\"}},\
         \"Action\":\"sts:AssumeRole\"}}]}}'"
    )];
    commands.push(format!(
        "for policy in AmazonEKSWorkerNodePolicy AmazonEKS_CNI_Policy AmazonEC2ContainerRegistryPullOnly AmazonSSMManagedInstanceCore; do \
         aws iam attach-role-policy --role-name {name} --policy-arn arn:aws:iam::aws:policy/$policy; done"
    ));
    commands
}

fn of_stack(facts: &Facts, stack: &StackFacts, create: Create) -> Vec<Step> {
    let cluster = &facts.cluster;
    let register = format!("whittle register {cluster}");
    let relay_role = stack.relay_role.as_deref().unwrap_or("<RelayRoleArn>");
    let path = &stack.values_path;
    vec![
        left_to_user(
            format!("stack {} in {}", facts.stack, facts.region),
            true,
            vec![],
        ),
        step(
            format!("registration of {cluster} in shadow mode"),
            &stack.is_registered,
            Change::Entry,
            create,
            vec![register.clone()],
        ),
        step(
            "access of the functions to the cluster",
            &stack.functions_have_access,
            Change::FunctionAccess,
            create,
            vec![format!("whittle init {cluster} --create-access-entries")],
        ),
        step(
            format!("add-on {AGENT}"),
            &stack.has_pod_identity_agent,
            Change::PodIdentityAgent,
            create,
            vec![format!(
                "aws eks create-addon --cluster-name {cluster} --addon-name {AGENT}"
            )],
        ),
        step(
            format!("Pod Identity association of {NAMESPACE}/{SERVICE_ACCOUNT}"),
            &match stack.relay_role {
                Some(_) => stack.has_pod_identity.clone(),
                None => Err(
                    "the stack does not name its relay's role: deploy it with this version"
                        .to_owned(),
                ),
            },
            Change::PodIdentity,
            create,
            vec![format!(
                "aws eks create-pod-identity-association --cluster-name {cluster} --namespace {NAMESPACE} --service-account {SERVICE_ACCOUNT} \
                 --role-arn {relay_role}"
            )],
        ),
        values_step(path, stack.values),
        left_to_user(
            match &stack.relay_is_alive {
                Ok(_) => "heartbeat of the relay".to_owned(),
                Err(why) => format!("heartbeat of the relay (not checked: {why})"),
            },
            stack.relay_is_alive == Ok(true),
            stack.install.clone(),
        ),
    ]
}

fn values_step(path: &str, file: ValuesFile) -> Step {
    Step {
        title: match file {
            ValuesFile::Different => format!("values of the chart (another {path} exists)"),
            ValuesFile::Missing | ValuesFile::Same | ValuesFile::Replaceable => {
                format!("values of the chart in {path}")
            }
        },
        state: match file {
            ValuesFile::Same => State::AlreadyThere,
            ValuesFile::Missing | ValuesFile::Replaceable => State::Change(Change::Values),
            ValuesFile::Different => State::ToDo,
        },
        commands: vec![
            "repeat this with --replace, or with --values and the name of another file".to_owned(),
        ],
    }
}

/// Outcome of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    not(feature = "aws"),
    expect(dead_code, reason = "steps are found and done in AWS only")
)]
pub(crate) enum Outcome {
    AlreadyThere,
    Done,
    /// A change of a dry run.
    WouldBeDone,
    ToDo,
}

impl Step {
    /// Renders the step on one line; the commands of a step that is left follow, one per line if there are several.
    pub(crate) fn text(&self, outcome: Outcome) -> String {
        let title = &self.title;
        match outcome {
            Outcome::AlreadyThere => format!("{title}: already there\n"),
            Outcome::Done => format!("{title}: done\n"),
            Outcome::WouldBeDone => format!("{title}: would be done\n"),
            Outcome::ToDo => match self.commands.as_slice() {
                [command] => format!("{title}: to do: {command}\n"),
                commands => {
                    let lines = commands.iter().map(|command| format!("    {command}\n"));
                    format!("{title}: to do:\n{}", lines.collect::<String>())
                }
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> Facts {
        Facts {
            cluster: "prod".to_owned(),
            region: "eu-central-1".to_owned(),
            node_role: "KarpenterNodeRole-prod".to_owned(),
            node_role_arn: "arn:aws:iam::123456789012:role/KarpenterNodeRole-prod".to_owned(),
            has_access_entries: true,
            untagged: Ok(vec!["subnet-1".to_owned(), "sg-1".to_owned()]),
            spot_role: Ok(false),
            low_quotas: Vec::new(),
            has_node_role: Ok(false),
            has_node_access: Ok(false),
            stack: "whittle".to_owned(),
            stack_facts: None,
        }
    }

    fn stack(found: bool, values: ValuesFile) -> StackFacts {
        StackFacts {
            is_registered: Ok(found),
            functions_have_access: Ok(found),
            has_pod_identity_agent: Ok(found),
            has_pod_identity: Ok(found),
            relay_role: Some("arn:aws:iam::123456789012:role/relay".to_owned()),
            values,
            values_path: "values.yaml".to_owned(),
            relay_is_alive: Ok(found),
            install: vec!["helm upgrade --install whittle infra/chart".to_owned()],
        }
    }

    fn changes(steps: &[Step]) -> Vec<Change> {
        let changes = steps.iter().filter_map(|step| match step.state {
            State::Change(change) => Some(change),
            State::AlreadyThere | State::ToDo => None,
        });
        changes.collect()
    }

    const ALL: Create = Create {
        create_all: true,
        create_spot_role: false,
        create_node_role: false,
        create_node_access: false,
        create_tags: false,
        create_access_entries: false,
        create_pod_identity: false,
    };

    #[test]
    fn without_create_options_only_entry_and_values_are_written() {
        let facts = Facts {
            stack_facts: Some(stack(false, ValuesFile::Missing)),
            ..facts()
        };
        let steps = plan(&facts, Create::default());
        assert_eq!(changes(&steps), [Change::Entry, Change::Values]);
        let tags = steps.iter().find(|step| step.title.contains(DISCOVERY));
        assert_eq!(
            tags.unwrap().text(Outcome::ToDo),
            "subnets and security group with the tag karpenter.sh/discovery=prod: to do: aws ec2 create-tags --tags \
             Key=karpenter.sh/discovery,Value=prod --resources subnet-1 sg-1\n"
        );
    }

    #[test]
    fn one_option_creates_one_kind_of_resource_and_create_all_every_kind() {
        let only_tags = Create {
            create_tags: true,
            ..Create::default()
        };
        assert_eq!(changes(&plan(&facts(), only_tags)), [Change::Tags]);
        let facts = Facts {
            stack_facts: Some(stack(false, ValuesFile::Missing)),
            ..facts()
        };
        let all = changes(&plan(&facts, ALL));
        assert_eq!(
            all,
            [
                Change::SpotRole,
                Change::NodeRole,
                Change::NodeAccess,
                Change::Tags,
                Change::Entry,
                Change::FunctionAccess,
                Change::PodIdentityAgent,
                Change::PodIdentity,
                Change::Values,
            ]
        );
    }

    #[test]
    fn complete_installation_changes_nothing() {
        let facts = Facts {
            untagged: Ok(Vec::new()),
            spot_role: Ok(true),
            has_node_role: Ok(true),
            has_node_access: Ok(true),
            stack_facts: Some(stack(true, ValuesFile::Same)),
            ..facts()
        };
        for step in plan(&facts, ALL) {
            assert_eq!(step.state, State::AlreadyThere, "{}", step.title);
        }
    }

    #[test]
    fn missing_stack_ends_the_steps_with_its_deployment() {
        let steps = plan(&facts(), ALL);
        let last = steps.last().unwrap();
        assert_eq!(last.state, State::ToDo);
        let text = last.text(Outcome::ToDo);
        assert!(
            text.contains("    sam deploy --stack-name whittle\n"),
            "{text}"
        );
    }

    #[test]
    fn unreadable_prerequisite_and_different_values_file_are_left_to_the_user() {
        let facts = Facts {
            has_node_role: Err("iam:GetRole was denied".to_owned()),
            stack_facts: Some(stack(true, ValuesFile::Different)),
            ..facts()
        };
        let steps = plan(&facts, ALL);
        assert!(!changes(&steps).contains(&Change::NodeRole));
        assert!(!changes(&steps).contains(&Change::Values));
        let role = steps.iter().find(|step| step.title.starts_with("role of"));
        assert_eq!(
            role.unwrap().title,
            "role of nodes KarpenterNodeRole-prod (not checked: iam:GetRole was denied)"
        );
    }

    #[test]
    fn cluster_without_access_entries_needs_another_authentication_mode() {
        let facts = Facts {
            has_access_entries: false,
            ..facts()
        };
        let steps = plan(&facts, ALL);
        assert!(!changes(&steps).contains(&Change::NodeAccess));
        let text: String = steps.iter().map(|step| step.text(Outcome::ToDo)).collect();
        assert!(
            text.contains("authenticationMode=API_AND_CONFIG_MAP"),
            "{text}"
        );
    }
}
