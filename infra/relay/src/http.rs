//! `/healthz`, `/readyz` and `/metrics`.

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
use crate::watches::Watching;

/// The loop turns at least every few seconds; one that has not for this long hangs.
const HANGING: Duration = Duration::from_mins(1);

pub fn router(shared: Shared) -> Router {
    Router::new()
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .with_state(shared)
}

/// Whether restarting the process would help: 200 as long as its loop turns.
async fn healthz(State(shared): State<Shared>) -> Response {
    let still = shared.now().saturating_sub(shared.last_turn());
    if still < HANGING {
        (StatusCode::OK, "ok\n").into_response()
    } else {
        let text = format!("the loop has not turned for {} s\n", still.as_secs());
        (StatusCode::INTERNAL_SERVER_ERROR, text).into_response()
    }
}

/// 200 once every kind is watched; the text says how each is doing either way.
async fn readyz(State(shared): State<Shared>) -> Response {
    let now = shared.now();
    shared.with(|relay| {
        let status = if relay.watches().all_current() {
            StatusCode::OK
        } else {
            StatusCode::SERVICE_UNAVAILABLE
        };
        let told = shared.metrics().told().doing();
        (status, readiness(relay, &told, now)).into_response()
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

fn readiness(relay: &Relay, told: &str, now: Duration) -> String {
    let mut text = String::new();
    for kind in Kind::ALL {
        let doing = match relay.watches().get(kind) {
            Watching::Starting => "starting: first list not complete".to_owned(),
            Watching::Current => format!("watching {} objects", relay.state().count(kind)),
            Watching::Missing if kind.is_gated() => "not installed".to_owned(),
            Watching::Missing => format!(
                "missing: the API server does not serve {}; install the CRDs of the chart",
                kind.path()
            ),
            Watching::Failing(cause) => format!("failing: {cause}"),
        };
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{kind}: {doing}");
    }
    let heartbeat = match relay.last_beat() {
        Some(beat) => format!("written {} s ago", now.saturating_sub(beat).as_secs()),
        None => "not written, or the last write failed".to_owned(),
    };
    let _ = writeln!(text, "heartbeat: {heartbeat}");
    let _ = writeln!(text, "metrics of the functions: {told}");
    text
}
