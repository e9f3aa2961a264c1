//! The relay's configuration, read once from the environment; all problems are reported together.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use jiff::SignedDuration;
use model::{ClusterName, Lane};
use tracing::level_filters::LevelFilter;

use crate::batcher::Window;

/// Lanes that the relay wakes, and the variables with their queues' URLs.
pub const QUEUES: [(Lane, &str); 4] = [
    (Lane::Provisioner, "WHITTLE_QUEUE_PROVISION"),
    (Lane::Lifecycle, "WHITTLE_QUEUE_LIFECYCLE"),
    (Lane::Disruption, "WHITTLE_QUEUE_DISRUPT"),
    (Lane::Terminator, "WHITTLE_QUEUE_TERMINATE"),
];

/// Upper bound on the batching window; with a longer one, the relay would appear not to work.
const WINDOW_MAX: Duration = Duration::from_mins(10);

/// A valid configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    pub cluster: ClusterName,
    pub table: String,
    /// Queue URLs by lane.
    pub queues: BTreeMap<Lane, String>,
    pub listen: SocketAddr,
    pub window: Window,
    pub log_level: LevelFilter,
    /// Namespace of the ConfigMap in which the functions publish their metrics.
    pub status_namespace: String,
    /// The stack's bucket, in which the relay publishes the view of pods.
    pub view_bucket: Option<String>,
    /// Whether `/metrics` has a series for each node, pod and object.
    pub per_object: bool,
}

/// Problems of the configuration, one per variable.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub struct ConfigError(Vec<String>);

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the relay's environment is invalid: {}",
            self.0.join("; ")
        )
    }
}

impl Config {
    /// Parses the given environment.
    pub fn parse(environment: &BTreeMap<String, String>) -> Result<Self, ConfigError> {
        let mut reader = Reader {
            environment,
            problems: Vec::new(),
        };
        let cluster = reader.required("WHITTLE_CLUSTER", "the cluster's registered name");
        let table = reader.required("WHITTLE_TABLE", "the name of the stack's DynamoDB table");
        let queues = QUEUES
            .into_iter()
            .map(|(lane, name)| (lane, reader.queue(name)))
            .collect();
        if !["AWS_REGION", "AWS_DEFAULT_REGION"]
            .iter()
            .any(|name| reader.get(name).is_some())
        {
            reader
                .problem("AWS_REGION is not set (expected the stack's Region, such as us-east-1)");
        }
        let listen = reader.parsed("WHITTLE_LISTEN", "0.0.0.0:8080", "address:port");
        let window = Window {
            idle: reader.duration("WHITTLE_BATCH_IDLE_DURATION", "1s"),
            max: reader.duration("WHITTLE_BATCH_MAX_DURATION", "10s"),
        };
        if window.idle > window.max {
            reader.problem(
                "WHITTLE_BATCH_IDLE_DURATION is longer than WHITTLE_BATCH_MAX_DURATION (expected at most as long)",
            );
        }
        let log_level = reader.parsed(
            "WHITTLE_LOG_LEVEL",
            "info",
            "off, error, warn, info, debug or trace",
        );
        let status_namespace = reader
            .get("WHITTLE_STATUS_NAMESPACE")
            .unwrap_or("kube-system")
            .to_owned();
        let view_bucket = reader.get("WHITTLE_VIEW_BUCKET").map(str::to_owned);
        let per_object = reader.parsed("WHITTLE_METRICS_PER_OBJECT", "false", "true or false");
        match (listen, log_level, per_object) {
            (Some(listen), Some(log_level), Some(per_object)) if reader.problems.is_empty() => {
                Ok(Self {
                    cluster: ClusterName::from(cluster),
                    table,
                    queues,
                    listen,
                    window,
                    log_level,
                    status_namespace,
                    view_bucket,
                    per_object,
                })
            }
            _ => Err(ConfigError(reader.problems)),
        }
    }
}

struct Reader<'a> {
    environment: &'a BTreeMap<String, String>,
    problems: Vec<String>,
}

impl Reader<'_> {
    /// Returns a variable's value; an empty value counts as not set, as charts and templates write it.
    fn get(&self, name: &str) -> Option<&str> {
        self.environment
            .get(name)
            .map(String::as_str)
            .filter(|value| !value.is_empty())
    }

    fn problem(&mut self, problem: impl Into<String>) {
        self.problems.push(problem.into());
    }

    fn required(&mut self, name: &str, meaning: &str) -> String {
        let value = self.get(name).map(str::to_owned);
        value.unwrap_or_else(|| {
            self.problem(format!("{name} is not set (expected {meaning})"));
            String::new()
        })
    }

    fn queue(&mut self, name: &str) -> String {
        let url = self.required(name, "the queue's URL");
        let is_url = ["https://", "http://"]
            .iter()
            .any(|scheme| url.starts_with(scheme));
        if !url.is_empty() && !is_url {
            self.problem(format!(
                "{name} is {url:?} (expected the queue's URL, https://…)"
            ));
        }
        url
    }

    fn parsed<T: std::str::FromStr>(
        &mut self,
        name: &str,
        default: &str,
        expected: &str,
    ) -> Option<T> {
        let value = self.get(name).unwrap_or(default).to_owned();
        let parsed = value.parse().ok();
        if parsed.is_none() {
            self.problem(format!("{name} is {value:?} (expected {expected})"));
        }
        parsed
    }

    fn duration(&mut self, name: &str, default: &str) -> Duration {
        let value = self.get(name).unwrap_or(default).to_owned();
        value
            .parse::<SignedDuration>()
            .ok()
            .and_then(|duration| Duration::try_from(duration).ok())
            .filter(|duration| !duration.is_zero() && *duration <= WINDOW_MAX)
            .unwrap_or_else(|| {
                self.problem(format!(
                    "{name} is {value:?} (expected a duration from 1ms to {}m, such as {default})",
                    WINDOW_MAX.as_secs() / 60
                ));
                Duration::ZERO
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment() -> BTreeMap<String, String> {
        let queue =
            |name| format!("https://sqs.us-east-1.amazonaws.com/111122223333/whittle-{name}");
        [
            ("WHITTLE_CLUSTER", "demo".to_owned()),
            ("WHITTLE_TABLE", "whittle".to_owned()),
            ("WHITTLE_QUEUE_PROVISION", queue("provision")),
            ("WHITTLE_QUEUE_LIFECYCLE", queue("lifecycle")),
            ("WHITTLE_QUEUE_DISRUPT", queue("disrupt")),
            ("WHITTLE_QUEUE_TERMINATE", queue("terminate")),
            ("AWS_REGION", "us-east-1".to_owned()),
        ]
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
    }

    fn problem(name: &str, value: &str) -> String {
        let mut environment = environment();
        environment.insert(name.to_owned(), value.to_owned());
        Config::parse(&environment).unwrap_err().to_string()
    }

    #[test]
    fn required_variables_are_sufficient() {
        let config = Config::parse(&environment()).unwrap();
        assert_eq!(config.cluster.as_str(), "demo");
        assert_eq!(config.window.idle, Duration::from_secs(1));
        assert_eq!(config.window.max, Duration::from_secs(10));
        assert_eq!(config.listen.to_string(), "0.0.0.0:8080");
        assert_eq!(config.log_level, LevelFilter::INFO);
        assert_eq!(config.status_namespace, "kube-system");
        assert_eq!(config.view_bucket, None, "publishing is opt-in");
        assert!(!config.per_object, "a large cluster has very many series");
        assert!(config.queues[&Lane::Terminator].ends_with("/whittle-terminate"));
    }

    #[test]
    fn durations_have_karpenters_format() {
        let mut environment = environment();
        environment.insert("WHITTLE_BATCH_IDLE_DURATION".to_owned(), "500ms".to_owned());
        environment.insert("WHITTLE_BATCH_MAX_DURATION".to_owned(), "1m30s".to_owned());
        let window = Config::parse(&environment).unwrap().window;
        assert_eq!(window.idle, Duration::from_millis(500));
        assert_eq!(window.max, Duration::from_secs(90));
    }

    #[test]
    fn all_problems_are_reported_together() {
        let error = Config::parse(&BTreeMap::new()).unwrap_err().to_string();
        for name in [
            "WHITTLE_CLUSTER",
            "WHITTLE_TABLE",
            "WHITTLE_QUEUE_PROVISION",
            "WHITTLE_QUEUE_LIFECYCLE",
            "WHITTLE_QUEUE_DISRUPT",
            "WHITTLE_QUEUE_TERMINATE",
            "AWS_REGION",
        ] {
            assert!(error.contains(&format!("{name} is not set")), "{error}");
        }
    }

    #[test]
    fn problem_names_variable_value_and_expectation() {
        for (name, value, expected) in [
            (
                "WHITTLE_QUEUE_PROVISION",
                "whittle-provision",
                "queue's URL",
            ),
            ("WHITTLE_LISTEN", "8080", "address:port"),
            ("WHITTLE_BATCH_IDLE_DURATION", "soon", "a duration"),
            ("WHITTLE_BATCH_MAX_DURATION", "-10s", "a duration"),
            ("WHITTLE_BATCH_MAX_DURATION", "20m", "a duration"),
            ("WHITTLE_LOG_LEVEL", "loud", "warn, info"),
            ("WHITTLE_METRICS_PER_OBJECT", "yes", "true or false"),
        ] {
            let error = problem(name, value);
            for part in [name, value, expected] {
                assert!(error.contains(part), "{part}: {error}");
            }
        }
        assert!(problem("WHITTLE_BATCH_IDLE_DURATION", "11s").contains("at most as long"));
    }
}
