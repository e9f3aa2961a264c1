//! Measurements as CloudWatch's embedded metric format: lines of JSON on stdout, which Lambda hands to CloudWatch.

use std::io::Write;

use jiff::Timestamp;
use model::{ClusterName, NanosPerHour};
use ports::metrics::{Measured, Metric, Metrics};
use serde_json::{Map, Value, json};

const NAMESPACE: &str = "Whittle";

/// Every series costs, so `cluster` is the only dimension, or `stack` for what concerns no single cluster; labels are
/// properties, which Logs Insights groups by.
pub(crate) struct EmbeddedMetrics {
    pub(crate) stack: String,
}

impl Metrics for EmbeddedMetrics {
    fn publish(&self, cluster: Option<&ClusterName>, at: Timestamp, metrics: &[Metric]) {
        let mut lines = String::new();
        let about = match cluster {
            Some(cluster) => ("cluster", cluster.as_str()),
            None => ("stack", self.stack.as_str()),
        };
        for metric in metrics {
            lines.push_str(&line(about, at, metric).to_string());
            lines.push('\n');
        }
        // There is nobody to tell, and nothing to stop for it.
        let _ = std::io::stdout().lock().write_all(lines.as_bytes());
    }
}

fn line((dimension, about): (&str, &str), at: Timestamp, metric: &Metric) -> Value {
    let (unit, value) = match metric.value {
        Measured::Count(count) => ("Count", json!(count)),
        Measured::Took(took) => ("Seconds", json!(took.as_secs_f64())),
        Measured::Costs(price) => ("None", json!(dollars(price))),
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
    fn a_line_names_its_metric_its_only_dimension_and_every_label() {
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
            "karpenter_nodeclaims_created_total": 2,
        });
        assert_eq!(line(("cluster", "demo"), at, &metric), expected);
    }

    #[test]
    fn prices_are_dollars() {
        let metric = Metric {
            name: "whittle_dollars_per_hour",
            labels: [].into(),
            value: Measured::Costs(NanosPerHour(12_500_000_000)),
        };
        let line = line(("stack", "whittle"), Timestamp::UNIX_EPOCH, &metric);
        assert_eq!(line[metric.name], json!(12.5));
    }

    #[test]
    fn durations_are_seconds() {
        let metric = Metric {
            name: "karpenter_nodes_termination_duration_seconds",
            labels: [].into(),
            value: Measured::Took(jiff::SignedDuration::from_millis(1_500)),
        };
        let line = line(("stack", "whittle"), Timestamp::UNIX_EPOCH, &metric);
        assert_eq!(line[metric.name], json!(1.5));
        assert_eq!(line["stack"], "whittle");
    }
}
