use serde::Deserialize;

/// Prices in dollars, from `prices.yaml`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Prices {
    pub(crate) lambda: Lambda,
    pub(crate) dynamodb: DynamoDb,
    pub(crate) sqs: Sqs,
    pub(crate) scheduler: Scheduler,
    pub(crate) s3: S3,
    pub(crate) cloudwatch: CloudWatch,
    pub(crate) assumed: Assumed,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Lambda {
    pub(crate) gb_second: f64,
    pub(crate) request: f64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct DynamoDb {
    pub(crate) read_unit: f64,
    pub(crate) write_unit: f64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Sqs {
    pub(crate) request: f64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Scheduler {
    pub(crate) invocation: f64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct S3 {
    pub(crate) put: f64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct CloudWatch {
    pub(crate) alarm: f64,
    pub(crate) dashboard: f64,
    pub(crate) free_dashboards: usize,
    pub(crate) metric: f64,
    pub(crate) log_gigabyte: f64,
}

/// Assumptions that are not measured; `prices.yaml` has the reason of each.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Assumed {
    pub(crate) call_milliseconds: f64,
    pub(crate) overhead_milliseconds: f64,
    pub(crate) log_bytes: f64,
    pub(crate) idle_receives_per_minute: f64,
    pub(crate) quiet_beats_per_minute: f64,
    pub(crate) busy_beats_per_minute: f64,
}
