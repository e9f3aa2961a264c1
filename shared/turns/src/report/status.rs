//! Status documents for the relay's `/metrics`, one per function: counters and gauges. Nothing depends on them: failures are
//! reported, and CloudWatch has the counters.

mod bounds;
mod gauges;

use model::{
    Lane, Snapshot,
    status::{Durations, Series, Status},
};
use ports::{
    Cluster, ClusterError, Metric, cluster::StatusDocument, metrics::Measured, with_causes,
};

use crate::Report;

/// Attempts: other functions write the same ConfigMap, seldom at the same moment.
const STORE_TRIES_MAX: usize = 3;

/// Gauges of the cluster, from the one lane that always reads all nodes and pods, and gauges of waiting pods, from the
/// provisioner while there are any.
pub(crate) fn gauges(report: &Report, snapshot: Option<&Snapshot>) -> Option<Vec<Series>> {
    match report.lane {
        Lane::Disruption => snapshot.map(gauges::cluster_gauges),
        Lane::Provisioner => report.waiting.as_ref().map(gauges::waiting_gauges),
        Lane::Lifecycle | Lane::Terminator | Lane::Interruption | Lane::Housekeeper => None,
    }
}

/// Adds counts to the function's document and replaces its gauges, if known. Reads nothing if there is nothing
/// to publish, and writes nothing if nothing has changed. Returns a warning about failures.
pub(crate) async fn publish(
    api: &dyn Cluster,
    lane: Lane,
    metrics: &[Metric],
    mut gauges: Option<Vec<Series>>,
) -> Option<String> {
    if gauges.is_none() && !metrics.iter().any(is_published) {
        return None;
    }
    for _ in 1..STORE_TRIES_MAX {
        match update_document(api, lane, metrics, &mut gauges).await {
            Err(ClusterError::Conflict { .. }) => {}
            result => return warning_of(result),
        }
    }
    warning_of(update_document(api, lane, metrics, &mut gauges).await)
}

/// Replaces the document once. Returns whether all of it fitted.
async fn update_document(
    api: &dyn Cluster,
    lane: Lane,
    metrics: &[Metric],
    gauges: &mut Option<Vec<Series>>,
) -> Result<bool, ClusterError> {
    let Some(before) = api.status_document(lane).await? else {
        return Ok(true);
    };
    // An unreadable document, written by a newer version or by hand, is replaced by a new one.
    let mut status = Status::read(&before.text).unwrap_or_default();
    for metric in metrics {
        add(metric, &mut status);
    }
    // A turn without a snapshot leaves the gauges as they are.
    let is_seen = gauges.is_some();
    if let Some(gauges) = gauges.take() {
        status.gauges = gauges;
    }
    let encoded = status.keep().map_err(|error| ClusterError::Invalid {
        what: "the status document".to_owned(),
        message: error.to_string(),
    })?;
    // After a conflict the gauges are published once more.
    *gauges = is_seen.then_some(status.gauges);
    if encoded.text != before.text {
        let document = StatusDocument {
            text: encoded.text,
            ..before
        };
        api.store_status_document(lane, &document).await?;
    }
    Ok(encoded.is_whole)
}

fn warning_of(result: Result<bool, ClusterError>) -> Option<String> {
    match result {
        // The ConfigMap was deleted in the meantime: no relay needs it.
        Ok(true) | Err(ClusterError::NotFound { .. }) => None,
        Ok(false) => Some(format!(
            "metrics of the relay: gauges take more than {} KiB and are left out; CloudWatch has the counters",
            Status::BYTES_MAX >> 10
        )),
        Err(error @ ClusterError::Denied { .. }) => Some(format!(
            "metrics of the relay: {}; upgrade the chart with `helm upgrade`, which allows it",
            with_causes(&error)
        )),
        Err(error) => Some(format!("metrics of the relay: {}", with_causes(&error))),
    }
}

/// Whether a metric belongs into the document: costs are published as gauges.
fn is_published(metric: &Metric) -> bool {
    !matches!(metric.value, Measured::PricePerHour(_))
}

#[expect(clippy::cast_precision_loss, reason = "no turn counts so many")]
fn add(metric: &Metric, status: &mut Status) {
    let labels = metric.labels.iter();
    let labels = labels.map(|(key, value)| ((*key).to_owned(), value.clone()));
    match metric.value {
        Measured::Count(count) => status.count(metric.name, labels.collect(), count as f64),
        Measured::Duration(took) => {
            let new = Durations::new(
                metric.name,
                labels.collect(),
                bounds::bucket_bounds(metric.name),
            );
            status.observe(new, took.as_secs_f64());
        }
        Measured::Value(thousandths) => {
            let new = Durations::new(
                metric.name,
                labels.collect(),
                bounds::bucket_bounds(metric.name),
            );
            status.observe(new, thousandths as f64 / 1e3);
        }
        Measured::PricePerHour(_) => {}
    }
}
