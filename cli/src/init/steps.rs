//! The steps of an installation: which are done, which `whittle init` does, and the commands for the others. Pure.

use aws_rules::node_role;
use model::ledger::Mode;

use super::{
    Create,
    invocation::{Invocation, Selection},
    registration::Registration,
};
use crate::registry::mode_text;

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

/// State of a prerequisite.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    There,
    Missing,
    /// The prerequisite exists, but cannot be used, for this reason.
    Wrong(String),
    /// The prerequisite cannot be checked, for this reason.
    Unknown(String),
}

impl From<bool> for Found {
    fn from(is_there: bool) -> Self {
        match is_there {
            true => Self::There,
            false => Self::Missing,
        }
    }
}

/// State of the account and the cluster before the command.
pub(crate) struct Facts {
    pub(crate) cluster: String,
    pub(crate) region: String,
    /// Partition of the account, such as `aws-cn`.
    pub(crate) partition: String,
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
    /// Access entry of the role of nodes, of the type for Linux.
    pub(crate) has_node_access: Found,
    pub(crate) stack: String,
    pub(crate) stack_facts: Option<StackFacts>,
    /// This run of the command.
    pub(crate) invocation: Invocation,
    /// Options with which other commands select the same stack, registry and cluster.
    pub(crate) selection: Selection,
}

/// State of the steps that need the stack.
pub(crate) struct StackFacts {
    pub(crate) registration: Registration,
    /// Whether the role of every function has an access entry with its group.
    pub(crate) functions_have_access: Found,
    pub(crate) has_pod_identity_agent: Found,
    pub(crate) has_pod_identity: Found,
    /// Id of the association that gives another role to the relay.
    pub(crate) other_association: Option<String>,
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
    let title = title.into();
    let state = match found {
        Found::There => State::AlreadyThere,
        Found::Missing if create.allows(change) => State::Change(change),
        Found::Missing | Found::Wrong(_) | Found::Unknown(_) => State::ToDo,
    };
    Step {
        title: match found {
            Found::There | Found::Missing => title,
            Found::Wrong(why) => format!("{title} ({why})"),
            Found::Unknown(why) => format!("{title} (not checked: {why})"),
        },
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
                format!("{}   # goes on from there", facts.invocation.again()),
            ],
        )),
    }
    steps
}

fn of_account(facts: &Facts, create: Create) -> Vec<Step> {
    let Facts {
        cluster, node_role, ..
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
        vec![
            format!(
                "aws iam create-role --role-name {node_role} --assume-role-policy-document '{}'",
                node_role::TRUST_POLICY
            ),
            attach_policies(node_role, &facts.partition),
        ],
    );
    let untagged = facts.untagged.clone();
    let tags = step(
        format!("subnets and security group with the tag {DISCOVERY}={cluster}"),
        &match &untagged {
            Ok(ids) => ids.is_empty().into(),
            Err(why) => Found::Unknown(why.clone()),
        },
        Change::Tags,
        create,
        vec![format!(
            "aws ec2 create-tags --tags Key={DISCOVERY},Value={cluster} --resources {}",
            untagged.unwrap_or_default().join(" ")
        )],
    );
    vec![spot, quotas, role, node_access(facts, create), tags]
}

fn node_access(facts: &Facts, create: Create) -> Step {
    let Facts {
        cluster,
        node_role,
        node_role_arn,
        ..
    } = facts;
    let title = format!("access of {node_role} to the cluster");
    if !facts.has_access_entries {
        let command = format!(
            "{}   # or map the role in aws-auth",
            allow_access_entries(cluster)
        );
        return left_to_user(title, false, vec![command]);
    }
    let of_role = format!("--cluster-name {cluster} --principal-arn {node_role_arn}");
    let mut commands = vec![format!(
        "aws eks create-access-entry {of_role} --type {}",
        node_role::ACCESS_TYPE
    )];
    if let Found::Wrong(_) = facts.has_node_access {
        // The type of an access entry cannot be changed.
        let delete = format!("aws eks delete-access-entry {of_role}");
        commands.insert(
            0,
            format!("{delete}   # running nodes have no access until the next command"),
        );
    }
    step(
        title,
        &facts.has_node_access,
        Change::NodeAccess,
        create,
        commands,
    )
}

/// Command that adds access entries to the ConfigMap aws-auth.
fn allow_access_entries(cluster: &str) -> String {
    format!(
        "aws eks update-cluster-config --name {cluster} --access-config authenticationMode=API_AND_CONFIG_MAP"
    )
}

/// Command that attaches the managed policies of a role of nodes.
pub(crate) fn attach_policies(role: &str, partition: &str) -> String {
    format!(
        "for policy in {}; do aws iam attach-role-policy --role-name {role} --policy-arn {}; done",
        node_role::MANAGED_POLICIES.join(" "),
        node_role::managed_policy_arn(partition, "$policy")
    )
}

fn of_stack(facts: &Facts, stack: &StackFacts, create: Create) -> Vec<Step> {
    let cluster = &facts.cluster;
    let path = &stack.values_path;
    vec![
        left_to_user(
            format!("stack {} in {}", facts.stack, facts.region),
            true,
            vec![],
        ),
        registration(facts, &stack.registration, create),
        step(
            "access of the functions to the cluster",
            &stack.functions_have_access,
            Change::FunctionAccess,
            create,
            vec![match facts.has_access_entries {
                true => facts.invocation.with("--create-access-entries"),
                false => allow_access_entries(cluster),
            }],
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
                None => Found::Unknown(
                    "the stack does not name its relay's role: deploy it with this version"
                        .to_owned(),
                ),
            },
            Change::PodIdentity,
            create,
            vec![associate_pod_identity(cluster, stack)],
        ),
        values_step(path, stack.values),
        left_to_user(
            match &stack.relay_is_alive {
                Found::Unknown(why) => format!("heartbeat of the relay (not checked: {why})"),
                Found::There | Found::Missing | Found::Wrong(_) => {
                    "heartbeat of the relay".to_owned()
                }
            },
            stack.relay_is_alive == Found::There,
            stack.install.clone(),
        ),
    ]
}

fn registration(facts: &Facts, registration: &Registration, create: Create) -> Step {
    let Facts {
        cluster, selection, ..
    } = facts;
    let mut title = format!("registration of {cluster}");
    if let Some(mode) = registration.mode {
        title.push_str(&format!(" in {} mode", mode_text(mode)));
    }
    let mut register = format!(
        "whittle register {cluster}{}{}",
        registration.options, selection.for_register
    );
    if registration.mode == Some(Mode::Active) {
        register.push_str(&format!(
            "   # in shadow mode until whittle activate {cluster}{}",
            selection.registry
        ));
    }
    step(
        title,
        &registration.found,
        Change::Entry,
        create,
        vec![register],
    )
}

fn associate_pod_identity(cluster: &str, stack: &StackFacts) -> String {
    let role = stack.relay_role.as_deref().unwrap_or("<RelayRoleArn>");
    match &stack.other_association {
        Some(id) => format!(
            "aws eks update-pod-identity-association --cluster-name {cluster} --association-id {id} --role-arn {role}"
        ),
        None => format!(
            "aws eks create-pod-identity-association --cluster-name {cluster} --namespace {NAMESPACE} --service-account {SERVICE_ACCOUNT} \
             --role-arn {role}"
        ),
    }
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
            partition: "aws".to_owned(),
            node_role: "KarpenterNodeRole-prod".to_owned(),
            node_role_arn: "arn:aws:iam::123456789012:role/KarpenterNodeRole-prod".to_owned(),
            has_access_entries: true,
            untagged: Ok(vec!["subnet-1".to_owned(), "sg-1".to_owned()]),
            spot_role: Found::Missing,
            low_quotas: Vec::new(),
            has_node_role: Found::Missing,
            has_node_access: Found::Missing,
            stack: "whittle".to_owned(),
            stack_facts: None,
            invocation: Invocation::of(["init", "prod", "--wait"].map(str::to_owned)),
            selection: Selection::default(),
        }
    }

    fn stack(is_complete: bool, values: ValuesFile) -> StackFacts {
        let found = Found::from(is_complete);
        StackFacts {
            registration: Registration {
                found: found.clone(),
                mode: Some(Mode::Shadow),
                reach: "public".to_owned(),
                options: String::new(),
            },
            functions_have_access: found.clone(),
            has_pod_identity_agent: found.clone(),
            has_pod_identity: found.clone(),
            other_association: None,
            relay_role: Some("arn:aws:iam::123456789012:role/relay".to_owned()),
            values,
            values_path: "values.yaml".to_owned(),
            relay_is_alive: found,
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
            spot_role: Found::There,
            has_node_role: Found::There,
            has_node_access: Found::There,
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
        for command in [
            "sam deploy --stack-name whittle",
            "whittle init prod --wait   # goes on from there",
        ] {
            assert!(text.contains(&format!("    {command}\n")), "{text}");
        }
    }

    #[test]
    fn unreadable_prerequisite_and_different_values_file_are_left_to_the_user() {
        let facts = Facts {
            has_node_role: Found::Unknown("iam:GetRole was denied".to_owned()),
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

    fn text_of(facts: &Facts, title: &str) -> String {
        let steps = plan(facts, Create::default());
        let step = steps.iter().find(|step| step.title.starts_with(title));
        step.unwrap().text(Outcome::ToDo)
    }

    #[test]
    fn cluster_without_access_entries_needs_another_authentication_mode() {
        let facts = Facts {
            has_access_entries: false,
            stack_facts: Some(StackFacts {
                functions_have_access: Found::Unknown("of no use".to_owned()),
                ..stack(false, ValuesFile::Missing)
            }),
            ..facts()
        };
        let steps = plan(&facts, ALL);
        assert!(!changes(&steps).contains(&Change::NodeAccess));
        assert!(!changes(&steps).contains(&Change::FunctionAccess));
        let command = "aws eks update-cluster-config --name prod --access-config authenticationMode=API_AND_CONFIG_MAP";
        for title in ["access of Karpenter", "access of the functions"] {
            let text = text_of(&facts, title);
            assert!(text.contains(command), "{text}");
        }
    }

    #[test]
    fn access_entry_of_another_type_is_created_again() {
        let facts = Facts {
            has_node_access: Found::Wrong("its access entry has the type STANDARD".to_owned()),
            ..facts()
        };
        assert!(!changes(&plan(&facts, ALL)).contains(&Change::NodeAccess));
        let of_role = "--cluster-name prod --principal-arn arn:aws:iam::123456789012:role/KarpenterNodeRole-prod";
        assert_eq!(
            text_of(&facts, "access of Karpenter"),
            format!(
                "access of KarpenterNodeRole-prod to the cluster (its access entry has the type STANDARD): to do:\n    \
                 aws eks delete-access-entry {of_role}   # running nodes have no access until the next command\n    aws eks create-access-entry {of_role} --type EC2_LINUX\n"
            )
        );
    }

    #[test]
    fn policies_of_nodes_belong_to_the_partition() {
        let facts = Facts {
            partition: "aws-cn".to_owned(),
            ..facts()
        };
        let text = text_of(&facts, "role of nodes");
        let policies = node_role::MANAGED_POLICIES.join(" ");
        assert!(
            text.contains(&format!("for policy in {policies}; do")),
            "{text}"
        );
        assert!(
            text.contains("arn:aws-cn:iam::aws:policy/$policy"),
            "{text}"
        );
    }

    #[test]
    fn association_with_another_role_is_updated() {
        let facts = Facts {
            stack_facts: Some(StackFacts {
                has_pod_identity: Found::Wrong("it has the role other".to_owned()),
                other_association: Some("a-1".to_owned()),
                ..stack(true, ValuesFile::Same)
            }),
            ..facts()
        };
        assert_eq!(
            text_of(&facts, "Pod Identity"),
            "Pod Identity association of kube-system/whittle-relay (it has the role other): to do: aws eks \
             update-pod-identity-association --cluster-name prod --association-id a-1 --role-arn arn:aws:iam::123456789012:role/relay\n"
        );
    }

    #[test]
    fn entry_that_contradicts_the_options_is_left_to_the_user() {
        let different = StackFacts {
            registration: Registration {
                found: Found::Wrong("its reach is public, not vpc:vpc-1".to_owned()),
                mode: Some(Mode::Active),
                reach: "vpc:vpc-1".to_owned(),
                options: " --replace --reach vpc:vpc-1".to_owned(),
            },
            ..stack(true, ValuesFile::Same)
        };
        let facts = Facts {
            stack_facts: Some(different),
            selection: Selection {
                for_register: " --stack other".to_owned(),
                ..Selection::default()
            },
            ..facts()
        };
        assert!(!changes(&plan(&facts, ALL)).contains(&Change::Entry));
        assert_eq!(
            text_of(&facts, "registration"),
            "registration of prod in active mode (its reach is public, not vpc:vpc-1): to do: whittle register prod --replace --reach \
             vpc:vpc-1 --stack other   # in shadow mode until whittle activate prod\n"
        );
    }
}
