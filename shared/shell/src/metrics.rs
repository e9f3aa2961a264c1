//! Metrics in CloudWatch's embedded metric format: lines of JSON on stdout, which Lambda forwards to CloudWatch.

use std::io::Write;

use jiff::Timestamp;
use model::{ClusterName, NanosPerHour};
use ports::metrics::{Measured, Metric, Metrics};
use serde_json::{Map, Value, json};

const NAMESPACE: &str = "Whittle";

/// Writer of metrics. Every series costs, so `cluster` is the only dimension, or `stack` for metrics without a cluster; labels are
/// properties, by which Logs Insights can group.
pub(crate) struct EmbeddedMetrics {
    pub(crate) stack: String,
    /// Level of each line. Lambda treats lines without a level or an RFC 3339 timestamp as INFO, and drops lines below the function's log
    /// level.
    pub(crate) level: String,
}

impl Metrics for EmbeddedMetrics {
    fn publish(&self, cluster: Option<&ClusterName>, at: Timestamp, metrics: &[Metric]) {
        let mut lines = String::new();
        let about = match cluster {
            Some(cluster) => ("cluster", cluster.as_str()),
            None => ("stack", self.stack.as_str()),
        };
        for metric in metrics {
            lines.push_str(&line(&self.level, about, at, metric).to_string());
            lines.push('\n');
        }
        // A failed write cannot be reported anywhere and must not stop the turn.
        let _ = std::io::stdout().lock().write_all(lines.as_bytes());
    }
}

fn line(level: &str, (dimension, about): (&str, &str), at: Timestamp, metric: &Metric) -> Value {
    let (unit, value) = match metric.value {
        Measured::Count(count) => ("Count", json!(count)),
        Measured::Duration(took) => ("Seconds", json!(took.as_secs_f64())),
        Measured::Value(thousandths) => ("None", json!(thousandths)),
        Measured::PricePerHour(price) => ("None", json!(dollars(price))),
    };
    let mut line = Map::new();
    line.insert(
        "_aws".to_owned(),
        json!({
            "Timestamp": at.as_millisecond(),
            "CloudWatchMetrics": [{
                "Namespace": NAMESPACE,
                "Dimensions": [[dimension]],
                "Metrics": [{"Name": metric.name, "Unit": unit}],
            }],
        }),
    );
    let labels = metric.labels.iter();
    line.extend(labels.map(|(label, value)| ((*label).to_owned(), json!(value))));
    line.insert("level".to_owned(), json!(level));
    line.insert("timestamp".to_owned(), json!(at.to_string()));
    line.insert(dimension.to_owned(), json!(about));
    line.insert(metric.name.to_owned(), value);
    Value::Object(line)
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a chart shows fewer digits than a float has"
)]
fn dollars(price: NanosPerHour) -> f64 {
    price.0 as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metric_line_has_its_dimension_and_labels() {
        let metric = Metric {
            name: "karpenter_nodeclaims_created_total",
            labels: [("nodepool", "general".to_owned())].into(),
            value: Measured::Count(2),
        };
        let at = Timestamp::from_millisecond(1_767_225_600_123).unwrap();
        let expected = json!({
            "_aws": {
                "Timestamp": 1_767_225_600_123_i64,
                "CloudWatchMetrics": [{
                    "Namespace": "Whittle",
                    "Dimensions": [["cluster"]],
                    "Metrics": [{"Name": "karpenter_nodeclaims_created_total", "Unit": "Count"}],
                }],
            },
            "cluster": "demo",
            "nodepool": "general",
            "level": "INFO",
            "timestamp": "2026-01-01T00:00:00.123Z",
            "karpenter_nodeclaims_created_total": 2,
        });
        assert_eq!(line("INFO", ("cluster", "demo"), at, &metric), expected);
    }

    /// Levels of Lambda's logging controls, least severe first.
    const LEVELS: [&str; 6] = ["TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL"];

    /// Whether Lambda forwards a line of a custom runtime to CloudWatch: a line without a level, or without a timestamp in RFC 3339, counts
    /// as INFO.
    fn lambda_keeps(line: &Value, configured: &str) -> bool {
        let rank = |level: &str| LEVELS.iter().position(|known| *known == level);
        let timestamp = line["timestamp"].as_str();
        let is_timed = timestamp.is_some_and(|text| text.parse::<Timestamp>().is_ok());
        let level = line["level"].as_str().and_then(rank);
        level.filter(|_| is_timed).or(rank("INFO")) >= rank(configured)
    }

    #[test]
    fn metrics_pass_every_log_level() {
        let metric = Metric {
            name: "whittle_turn_errors_total",
            labels: [].into(),
            value: Measured::Count(1),
        };
        // The values that the templates allow for LogLevel.
        for level in LEVELS.into_iter().filter(|level| *level != "FATAL") {
            let line = line(level, ("stack", "whittle"), Timestamp::UNIX_EPOCH, &metric);
            assert!(lambda_keeps(&line, level), "{level}: {line}");
        }
    }

    #[test]
    fn prices_are_dollars() {
        let metric = Metric {
            name: "whittle_dollars_per_hour",
            labels: [].into(),
            value: Measured::PricePerHour(NanosPerHour(12_500_000_000)),
        };
        let line = line("INFO", ("stack", "whittle"), Timestamp::UNIX_EPOCH, &metric);
        assert_eq!(line[metric.name], json!(12.5));
    }

    #[test]
    fn durations_are_seconds() {
        let metric = Metric {
            name: "karpenter_nodes_termination_duration_seconds",
            labels: [].into(),
            value: Measured::Duration(jiff::SignedDuration::from_millis(1_500)),
        };
        let line = line("INFO", ("stack", "whittle"), Timestamp::UNIX_EPOCH, &metric);
        assert_eq!(line[metric.name], json!(1.5));
        assert_eq!(line["stack"], "whittle");
    }
}
