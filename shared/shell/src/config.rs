use std::{collections::BTreeMap, fmt};

use model::Lane;
use thiserror::Error;

/// A function's settings, read once at cold start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    pub stack: String,
    pub account: String,
    pub region: String,
    /// DynamoDB table of the ledger.
    pub table: String,
    /// S3 bucket of catalogs, journal snapshots and views.
    pub bucket: String,
    /// Queue URLs of the lanes that receive wakes.
    pub queues: BTreeMap<Lane, String>,
    /// The role for EC2 writes, assumed with the session tag `cluster`; `None` if the environment has no such role.
    pub cluster_role: Option<String>,
    /// Path of the registry entries in Parameter Store.
    pub registry_prefix: String,
    /// Path of the credentials of clusters outside EKS in Parameter Store.
    pub credentials_prefix: String,
    /// Schema version to write on the ledger's rows, if it differs from this build's.
    pub schema: Option<u32>,
    /// The reach of the clusters that the function serves: `public` or `vpc:<id>`.
    pub reach: String,
    /// Least severe level that Lambda forwards to CloudWatch. Lines of metrics carry it, so that no setting drops them.
    pub log_level: String,
}

/// All errors in the environment.
#[derive(Debug, Error, PartialEq, Eq)]
pub struct ConfigError {
    problems: Vec<String>,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the function's environment is not usable: {}",
            self.problems.join("; ")
        )
    }
}

const QUEUES: [(Lane, &str); 4] = [
    (Lane::Provisioner, "WHITTLE_QUEUE_PROVISION"),
    (Lane::Lifecycle, "WHITTLE_QUEUE_LIFECYCLE"),
    (Lane::Disruption, "WHITTLE_QUEUE_DISRUPT"),
    (Lane::Terminator, "WHITTLE_QUEUE_TERMINATE"),
];

impl Config {
    /// Reads the process environment.
    pub fn from_env() -> Result<Self, ConfigError> {
        #[expect(
            clippy::disallowed_methods,
            reason = "configuration is read here, once, and nowhere else"
        )]
        Self::read(|name| std::env::var(name).ok())
    }

    fn read(variable: impl Fn(&str) -> Option<String>) -> Result<Self, ConfigError> {
        let mut problems = Vec::new();
        let mut required =
            |name: &str, meaning: &str| match variable(name).filter(|value| !value.is_empty()) {
                Some(value) => value,
                None => {
                    problems.push(format!("{name} is not set (expected {meaning})"));
                    String::new()
                }
            };
        let mut config = Self {
            stack: required("WHITTLE_STACK", "the stack's name"),
            account: required("WHITTLE_ACCOUNT", "the account's 12 digits"),
            region: required("AWS_REGION", "a Region such as eu-central-1"),
            table: required("WHITTLE_TABLE", "the ledger table's name"),
            bucket: required("WHITTLE_BUCKET", "the stack's bucket"),
            queues: QUEUES
                .iter()
                .map(|(lane, name)| (*lane, required(name, "a queue URL")))
                .collect(),
            cluster_role: variable("WHITTLE_CLUSTER_ROLE").filter(|arn| !arn.is_empty()),
            registry_prefix: variable("WHITTLE_REGISTRY_PREFIX")
                .unwrap_or_else(|| "/whittle/clusters".to_owned()),
            credentials_prefix: variable("WHITTLE_CREDENTIALS_PREFIX")
                .filter(|prefix| !prefix.is_empty())
                .unwrap_or_else(|| "/whittle/credentials".to_owned()),
            schema: None,
            reach: variable("WHITTLE_REACH")
                .filter(|reach| !reach.is_empty())
                .unwrap_or_else(|| turns::PUBLIC.to_owned()),
            log_level: variable("AWS_LAMBDA_LOG_LEVEL")
                .filter(|level| !level.is_empty())
                .unwrap_or_else(|| "ERROR".to_owned()),
        };
        if let Some(schema) = variable("WHITTLE_LEDGER_SCHEMA").filter(|schema| !schema.is_empty())
        {
            config.schema = schema.parse().ok();
            if config.schema.is_none() {
                problems.push(format!(
                    "WHITTLE_LEDGER_SCHEMA is \"{schema}\" (expected a number)"
                ));
            }
        }
        if !config.account.is_empty() && !is_account(&config.account) {
            problems.push(format!(
                "WHITTLE_ACCOUNT is \"{}\" (expected 12 digits)",
                config.account
            ));
        }
        if !config.registry_prefix.starts_with('/') {
            problems.push(format!(
                "WHITTLE_REGISTRY_PREFIX is \"{}\" (expected a path that begins with /)",
                config.registry_prefix
            ));
        }
        if let Some(arn) = config
            .cluster_role
            .as_ref()
            .filter(|arn| !arn.starts_with("arn:"))
        {
            problems.push(format!(
                "WHITTLE_CLUSTER_ROLE is \"{arn}\" (expected a role's ARN)"
            ));
        }
        config
            .registry_prefix
            .truncate(config.registry_prefix.trim_end_matches('/').len());
        if problems.is_empty() {
            Ok(config)
        } else {
            Err(ConfigError { problems })
        }
    }
}

fn is_account(text: &str) -> bool {
    text.len() == 12 && text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMPLETE: [(&str, &str); 9] = [
        ("WHITTLE_STACK", "whittle"),
        ("WHITTLE_ACCOUNT", "123456789012"),
        ("AWS_REGION", "us-east-1"),
        ("WHITTLE_TABLE", "whittle-ledger"),
        ("WHITTLE_BUCKET", "whittle-bucket"),
        ("WHITTLE_QUEUE_PROVISION", "http://q/provision"),
        ("WHITTLE_QUEUE_LIFECYCLE", "http://q/lifecycle"),
        ("WHITTLE_QUEUE_DISRUPT", "http://q/disrupt"),
        ("WHITTLE_QUEUE_TERMINATE", "http://q/terminate"),
    ];

    fn read(changes: &[(&str, &str)]) -> Result<Config, ConfigError> {
        let variables: BTreeMap<_, _> = COMPLETE.iter().chain(changes).copied().collect();
        Config::read(|name| variables.get(name).map(|value| (*value).to_owned()))
    }

    #[test]
    fn complete_environment_is_parsed() {
        let config = read(&[("WHITTLE_REGISTRY_PREFIX", "/teams/a/")]).unwrap();
        assert_eq!(config.queues[&Lane::Terminator], "http://q/terminate");
        assert_eq!(config.registry_prefix, "/teams/a");
        assert_eq!(config.cluster_role, None);
        assert_eq!(config.reach, "public");
        assert_eq!(config.log_level, "ERROR");
    }

    #[test]
    fn all_errors_are_reported_together_by_name() {
        let error = read(&[
            ("WHITTLE_TABLE", ""),
            ("WHITTLE_ACCOUNT", "12"),
            ("WHITTLE_CLUSTER_ROLE", "admin"),
            ("WHITTLE_LEDGER_SCHEMA", "next"),
        ])
        .unwrap_err();
        let text = error.to_string();
        for part in [
            "WHITTLE_TABLE is not set",
            "WHITTLE_ACCOUNT is \"12\"",
            "WHITTLE_CLUSTER_ROLE is \"admin\"",
            "WHITTLE_LEDGER_SCHEMA is \"next\"",
        ] {
            assert!(text.contains(part), "{text}");
        }
    }
}
