//! What a function leaves in the cluster for its relay's `/metrics`: what it counted, and how things stand. Nothing depends on it:
//! what fails is said, and stands in CloudWatch.

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

/// Others write the same ConfigMap; they seldom do so at the same moment.
const TRIES: usize = 3;

/// Gauges of the cluster, from the one lane that always sees all nodes and pods, and of pods that wait, from the provisioner while there
/// are any.
pub(crate) fn gauges(report: &Report, seen: Option<&Snapshot>) -> Option<Vec<Series>> {
    match report.lane {
        Lane::Disruption => seen.map(gauges::of),
        Lane::Provisioner => report.waiting.as_ref().map(gauges::of_waiting),
        Lane::Lifecycle | Lane::Terminator | Lane::Interruption | Lane::Housekeeper => None,
    }
}

/// Adds what was counted to the function's document, and replaces what that says of how things stand, where it is known. Reads nothing where there is
/// nothing to tell, and writes nothing where nothing has changed. Returns what is to be said of what went wrong.
pub(crate) async fn tell(
    api: &dyn Cluster,
    lane: Lane,
    metrics: &[Metric],
    mut gauges: Option<Vec<Series>>,
) -> Option<String> {
    if gauges.is_none() && !metrics.iter().any(is_told) {
        return None;
    }
    for _ in 1..TRIES {
        match replace(api, lane, metrics, &mut gauges).await {
            Err(ClusterError::Conflict { .. }) => {}
            told => return complaint(told),
        }
    }
    complaint(replace(api, lane, metrics, &mut gauges).await)
}

/// Says whether all of it fitted.
async fn replace(
    api: &dyn Cluster,
    lane: Lane,
    metrics: &[Metric],
    gauges: &mut Option<Vec<Series>>,
) -> Result<bool, ClusterError> {
    let Some(before) = api.status_document(lane).await? else {
        return Ok(true);
    };
    // What cannot be read, because a newer version wrote it or somebody else did, begins again.
    let mut status = Status::read(&before.text).unwrap_or_default();
    for metric in metrics {
        add(metric, &mut status);
    }
    // A turn that saw nothing says nothing of how things stand.
    let is_seen = gauges.is_some();
    if let Some(gauges) = gauges.take() {
        status.gauges = gauges;
    }
    let kept = status.keep().map_err(|error| ClusterError::Invalid {
        what: "what is told of the turn".to_owned(),
        message: error.to_string(),
    })?;
    // Where somebody else was faster, they are told once more.
    *gauges = is_seen.then_some(status.gauges);
    if kept.text != before.text {
        let document = StatusDocument {
            text: kept.text,
            ..before
        };
        api.store_status_document(lane, &document).await?;
    }
    Ok(kept.is_whole)
}

fn complaint(told: Result<bool, ClusterError>) -> Option<String> {
    match told {
        // It went away meanwhile: nobody wants to know.
        Ok(true) | Err(ClusterError::NotFound { .. }) => None,
        Ok(false) => Some(format!(
            "metrics of the relay: how things stand takes more than {} KiB and is left out; CloudWatch has what is counted",
            Status::BYTES_MAX >> 10
        )),
        Err(error @ ClusterError::Denied { .. }) => Some(format!(
            "metrics of the relay: {}; upgrade the chart with `helm upgrade`, which allows it",
            with_causes(&error)
        )),
        Err(error) => Some(format!("metrics of the relay: {}", with_causes(&error))),
    }
}

/// What clusters come to is told as how things stand.
fn is_told(metric: &Metric) -> bool {
    !matches!(metric.value, Measured::Costs(_))
}

#[expect(clippy::cast_precision_loss, reason = "no turn counts so many")]
fn add(metric: &Metric, status: &mut Status) {
    let labels = metric.labels.iter();
    let labels = labels.map(|(key, value)| ((*key).to_owned(), value.clone()));
    match metric.value {
        Measured::Count(count) => status.count(metric.name, labels.collect(), count as f64),
        Measured::Took(took) => {
            let new = Durations::new(metric.name, labels.collect(), bounds::of(metric.name));
            status.observe(new, took.as_secs_f64());
        }
        Measured::Scored(thousandths) => {
            let new = Durations::new(metric.name, labels.collect(), bounds::of(metric.name));
            status.observe(new, thousandths as f64 / 1e3);
        }
        Measured::Costs(_) => {}
    }
}
