//! The endpoints `/healthz`, `/readyz` and `/metrics`.

use std::fmt::Write as _;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use crate::kind::Kind;
use crate::relay::Relay;
use crate::run::Shared;
use crate::watches::WatchStatus;

/// Time without a turn after which the main loop counts as hanging; it turns at least every few seconds.
const HANGING_AFTER: Duration = Duration::from_mins(1);

pub fn router(shared: Shared) -> Router {
    Router::new()
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .with_state(shared)
}

/// Liveness: 200 as long as the main loop turns. A restart helps otherwise.
async fn healthz(State(shared): State<Shared>) -> Response {
    let still = shared.now().saturating_sub(shared.last_turn());
    if still < HANGING_AFTER {
        (StatusCode::OK, "ok\n").into_response()
    } else {
        let text = format!(
            "the main loop has made no progress for {} s\n",
            still.as_secs()
        );
        (StatusCode::INTERNAL_SERVER_ERROR, text).into_response()
    }
}

/// Readiness: 200 once every kind is watched; the text shows the status of each kind in either case.
async fn readyz(State(shared): State<Shared>) -> Response {
    let now = shared.now();
    shared.with(|relay| {
        let status = if relay.watches().all_current() {
            StatusCode::OK
        } else {
            StatusCode::SERVICE_UNAVAILABLE
        };
        let functions = shared.metrics().functions().summary();
        (status, readiness(relay, &functions, now)).into_response()
    })
}

async fn metrics(State(shared): State<Shared>) -> Response {
    let now = shared.now();
    match shared.with(|relay| shared.metrics().render(relay, now)) {
        Ok(text) => {
            let format = "application/openmetrics-text; version=1.0.0; charset=utf-8";
            ([(header::CONTENT_TYPE, format)], text).into_response()
        }
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

fn readiness(relay: &Relay, functions: &str, now: Duration) -> String {
    let mut text = String::new();
    for kind in Kind::ALL {
        let status = match relay.watches().get(kind) {
            WatchStatus::Starting => "starting: first list not complete".to_owned(),
            WatchStatus::Current => format!("watching {} objects", relay.state().count(kind)),
            WatchStatus::Missing if kind.is_gated() => "not installed".to_owned(),
            WatchStatus::Missing => format!(
                "missing: the API server does not serve {}; install the CRDs of the chart",
                kind.path()
            ),
            WatchStatus::Failing(cause) => format!("failing: {cause}"),
        };
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{kind}: {status}");
    }
    let heartbeat = match relay.last_beat() {
        Some(beat) => format!("written {} s ago", now.saturating_sub(beat).as_secs()),
        None => "not written, or the last write failed".to_owned(),
    };
    let _ = writeln!(text, "heartbeat: {heartbeat}");
    let _ = writeln!(text, "metrics of the functions: {functions}");
    text
}
