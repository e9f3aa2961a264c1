//! Server of the page and its document, only for the user who started the program: it listens on the loopback address, requires requests to
//! name that address (another site's name could be made to resolve to this machine), and requires a token that only the printed URL
//! contains. It is read-only.

use std::sync::Arc;

use anyhow::{Context, Result};
use axum::{
    Router,
    extract::{Path, Query, Request, State},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::get,
};
use serde::Deserialize;
use tokio::net::TcpListener;

use super::hub::Hub;

/// Files of the page: path, content type and content.
const FILES: &[(&str, &str, &str)] = &[
    ("index.html", HTML, include_str!("page/index.html")),
    ("style.css", "text/css", include_str!("page/style.css")),
    ("parts.css", "text/css", include_str!("page/parts.css")),
    ("icon.svg", "image/svg+xml", include_str!("page/icon.svg")),
    ("attention.js", JS, include_str!("page/attention.js")),
    ("boxes.js", JS, include_str!("page/boxes.js")),
    ("cells.js", JS, include_str!("page/cells.js")),
    ("clusters.js", JS, include_str!("page/clusters.js")),
    ("costs.js", JS, include_str!("page/costs.js")),
    ("decisions.js", JS, include_str!("page/decisions.js")),
    ("details.js", JS, include_str!("page/details.js")),
    ("filters.js", JS, include_str!("page/filters.js")),
    ("main.js", JS, include_str!("page/main.js")),
    ("overview.js", JS, include_str!("page/overview.js")),
    ("pending.js", JS, include_str!("page/pending.js")),
    ("states.js", JS, include_str!("page/states.js")),
    ("theme.js", JS, include_str!("page/theme.js")),
    ("totals.js", JS, include_str!("page/totals.js")),
    ("words.js", JS, include_str!("page/words.js")),
];
const HTML: &str = "text/html; charset=utf-8";
const JS: &str = "text/javascript; charset=utf-8";

/// Headers that prevent loading anything from other origins, and framing of the page.
const HEADERS: [(header::HeaderName, &str); 5] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::CACHE_CONTROL, "no-store"),
];

pub(super) struct Server {
    listener: TcpListener,
    port: u16,
    token: String,
}

struct Shared {
    /// One per cluster.
    hubs: Vec<Arc<Hub>>,
    token: String,
    hosts: [String; 2],
}

impl Server {
    /// Binds the port; 0 picks a free one.
    pub(super) async fn bind(port: u16) -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", port)).await;
        let listener = listener.with_context(|| {
            format!("cannot listen on 127.0.0.1:{port}: choose another --port, or leave it out")
        })?;
        let port = listener.local_addr().context("cannot listen")?.port();
        let mut random = [0; 16];
        getrandom::fill(&mut random).context("the system gives no random numbers")?;
        let token = random.iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Self {
            listener,
            port,
            token,
        })
    }

    /// URL to open in a browser.
    pub(super) fn address(&self) -> String {
        format!("http://127.0.0.1:{}/?token={}", self.port, self.token)
    }

    pub(super) async fn serve(self, hubs: Vec<Arc<Hub>>) -> Result<()> {
        let port = self.port;
        let shared = Arc::new(Shared {
            hubs,
            token: self.token,
            hosts: [format!("127.0.0.1:{port}"), format!("localhost:{port}")],
        });
        let router = Router::new()
            .route("/", get(async || file(Path("index.html".to_owned())).await))
            .route("/{file}", get(file))
            .route("/api/state", get(state))
            .route("/api/clusters", get(clusters))
            .layer(middleware::from_fn_with_state(Arc::clone(&shared), guard))
            .with_state(shared);
        let served = axum::serve(self.listener, router).await;
        served.context("the page can no longer be served")
    }
}

/// Refuses requests that do not name the loopback address, and adds the headers to every answer.
async fn guard(State(shared): State<Arc<Shared>>, request: Request, next: Next) -> Response {
    let host = request.headers().get(header::HOST);
    let host = host.and_then(|host| host.to_str().ok()).unwrap_or_default();
    let mut answer = match shared.hosts.iter().any(|known| known == host) {
        true => next.run(request).await,
        false => {
            let why = format!("host {host:?} is not served: open the address that was printed\n");
            (StatusCode::FORBIDDEN, why).into_response()
        }
    };
    for (name, value) in HEADERS {
        answer
            .headers_mut()
            .insert(name, HeaderValue::from_static(value));
    }
    answer
}

async fn file(Path(name): Path<String>) -> Response {
    match FILES.iter().find(|(known, ..)| *known == name) {
        Some((_, kind, text)) => ([(header::CONTENT_TYPE, *kind)], *text).into_response(),
        None => (StatusCode::NOT_FOUND, "there is no such file\n").into_response(),
    }
}

#[derive(Deserialize)]
struct Wanted {
    /// Index of the cluster in the answer of `/api/clusters`.
    #[serde(default)]
    cluster: usize,
    /// The revision that the client has.
    after: Option<i64>,
}

/// Header of the time up to which the state holds: it passes without a new revision.
const OBSERVED_AT: &str = "x-whittle-observed-at";

async fn state(
    State(shared): State<Arc<Shared>>,
    Query(Wanted { cluster, after }): Query<Wanted>,
    headers: HeaderMap,
) -> Response {
    if let Some(refusal) = shared.refuse(&headers) {
        return refusal;
    }
    let Some(hub) = shared.hubs.get(cluster) else {
        return (StatusCode::NOT_FOUND, "there is no such cluster\n").into_response();
    };
    let known = after.and_then(|after| u64::try_from(after).ok());
    match hub.after(known) {
        Ok(answer) => {
            let observed_at = [(OBSERVED_AT, answer.observed_at.to_string())];
            match answer.text {
                Some(text) => (observed_at, json(text.to_string())).into_response(),
                None => (observed_at, StatusCode::NO_CONTENT).into_response(),
            }
        }
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

/// A row for each cluster.
async fn clusters(State(shared): State<Arc<Shared>>, headers: HeaderMap) -> Response {
    if let Some(refusal) = shared.refuse(&headers) {
        return refusal;
    }
    let summaries: Vec<_> = shared.hubs.iter().map(|hub| hub.summary()).collect();
    match serde_json::to_string(&summaries) {
        Ok(text) => json(text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

fn json(text: String) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "application/json")], text)
}

impl Shared {
    /// The answer to requests without the token.
    fn refuse(&self, headers: &HeaderMap) -> Option<Response> {
        let token = headers.get("x-whittle-token");
        token.is_none_or(|token| token != self.token.as_str()).then(|| {
            let why = "open the whole address that `whittle dashboard` printed: its token is missing or of another run";
            (StatusCode::FORBIDDEN, why).into_response()
        })
    }
}
