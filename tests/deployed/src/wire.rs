//! The way from the functions to the API server: they know its address and its token alone, whatever the cluster's own
//! credentials are; in the cluster each acts with the rights that the chart gives it, by impersonation; and on the way requests
//! fail where a test asks for that.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri, header};
use http_body_util::BodyExt;
use hyper::{body::Incoming, service::service_fn};
use hyper_util::rt::TokioIo;
use kube::{Client, client::Body};
use serde_json::json;
use tokio::net::TcpListener;

/// What becomes of a request.
#[derive(Clone, Copy, Debug)]
pub enum Fault {
    /// Nothing is done, and 503 is the answer.
    Unavailable,
    /// It is done, and its sender never learns: 500 is the answer.
    LoseAnswer,
    /// It is done after this time, if its sender waits for so long.
    Delay(Duration),
}

/// Listens on a free port of 127.0.0.1 as long as the runtime that it was started in.
pub struct Wire {
    address: SocketAddr,
    faults: Arc<Mutex<Vec<Armed>>>,
}

/// The next request of this kind meets it.
struct Armed {
    fault: Fault,
    verb: String,
    resource: String,
}

pub const TOKEN: &str = "of-the-functions-alone";

impl Wire {
    pub async fn start(client: Client) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let faults = Arc::default();
        tokio::spawn(listen(listener, client, Arc::clone(&faults)));
        Self { address, faults }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// `verb` and `resource` as RBAC names them: `patch`, `nodeclaims/status`.
    pub fn inject(&self, fault: Fault, verb: &str, resource: &str) {
        self.faults.lock().unwrap().push(Armed {
            fault,
            verb: verb.to_owned(),
            resource: resource.to_owned(),
        });
    }

    /// How many faults no request has met.
    pub fn pending_faults(&self) -> usize {
        self.faults.lock().unwrap().len()
    }
}

async fn listen(listener: TcpListener, client: Client, faults: Arc<Mutex<Vec<Armed>>>) {
    while let Ok((stream, _)) = listener.accept().await {
        let (client, faults) = (client.clone(), Arc::clone(&faults));
        tokio::spawn(async move {
            let service = service_fn(|request| hand_on(&client, &faults, request));
            let connection = hyper::server::conn::http1::Builder::new();
            // A connection that breaks is the other side's to notice.
            let _ = connection
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

/// An error breaks the connection.
async fn hand_on(
    client: &Client,
    faults: &Mutex<Vec<Armed>>,
    request: Request<Incoming>,
) -> Result<Response<Body>, kube::Error> {
    let (mut head, body) = request.into_parts();
    let token = head.headers.remove(header::AUTHORIZATION);
    if token != HeaderValue::from_str(&format!("Bearer {TOKEN}")).ok() {
        return Ok(refusal(StatusCode::UNAUTHORIZED, "Unauthorized"));
    }
    let fault = met(faults, &head.method, &head.uri);
    match fault {
        Some(Fault::Unavailable) => {
            return Ok(refusal(
                StatusCode::SERVICE_UNAVAILABLE,
                "ServiceUnavailable",
            ));
        }
        Some(Fault::Delay(time)) => tokio::time::sleep(time).await,
        Some(Fault::LoseAnswer) | None => {}
    }
    act_as_function(&mut head.headers);
    // The cluster's own host is the client's to name, and so is the length of what it sends.
    head.headers.remove(header::HOST);
    let body = body.collect().await.map_err(kube::Error::HyperError)?;
    let request = Request::from_parts(head, Body::from(body.to_bytes()));
    let (mut head, body) = client.send(request).await?.into_parts();
    if matches!(fault, Some(Fault::LoseAnswer)) {
        return Ok(refusal(StatusCode::INTERNAL_SERVER_ERROR, "InternalError"));
    }
    head.headers.remove(header::TRANSFER_ENCODING);
    head.headers.remove(header::CONNECTION);
    let mut answer = Response::new(body);
    *answer.status_mut() = head.status;
    *answer.headers_mut() = head.headers;
    Ok(answer)
}

/// In the cluster the function that asks is a member of its group alone, as its access entry of EKS makes it; who gives no
/// function's name is nobody.
fn act_as_function(headers: &mut HeaderMap) {
    let agent = headers
        .get(header::USER_AGENT)
        .and_then(|agent| agent.to_str().ok());
    let agent = agent.unwrap_or("nobody").to_owned();
    let group = agent.replacen("whittle-", "whittle:", 1);
    for (name, value) in [
        ("impersonate-user", agent.as_str()),
        ("impersonate-group", group.as_str()),
        ("impersonate-group", "system:authenticated"),
    ] {
        headers.append(name, HeaderValue::from_str(value).unwrap());
    }
}

/// As API servers word it.
fn refusal(code: StatusCode, reason: &str) -> Response<Body> {
    let status = json!({
        "apiVersion": "v1", "kind": "Status", "status": "Failure", "message": "the wire is troubled",
        "reason": reason, "code": code.as_u16(),
    });
    let mut answer = Response::new(Body::from(status.to_string().into_bytes()));
    *answer.status_mut() = code;
    let json = HeaderValue::from_static("application/json");
    answer.headers_mut().insert(header::CONTENT_TYPE, json);
    answer
}

/// The fault that waits for such a request, which is over with it.
fn met(faults: &Mutex<Vec<Armed>>, method: &Method, uri: &Uri) -> Option<Fault> {
    let (verb, resource) = asked(method, uri)?;
    let mut faults = faults.lock().unwrap();
    let meets = |armed: &Armed| armed.verb == verb && armed.resource == resource;
    let first = faults.iter().position(meets)?;
    Some(faults.remove(first).fault)
}

/// The verb and the resource of a request for an object or a collection.
fn asked(method: &Method, uri: &Uri) -> Option<(&'static str, String)> {
    let mut path = uri.path().trim_matches('/').split('/');
    let below = if path.next()? == "api" { 1 } else { 2 };
    let mut path: Vec<&str> = path.skip(below).collect();
    if let ["namespaces", _, _, ..] = path.as_slice() {
        path.drain(..2);
    }
    let resource = match path.as_slice() {
        [resource] | [resource, _] => (*resource).to_owned(),
        [resource, _, part, ..] => format!("{resource}/{part}"),
        [] => return None,
    };
    let watches = uri.query().is_some_and(|query| query.contains("watch="));
    let verb = match (method, path.len()) {
        (&Method::GET, 1) if watches => "watch",
        (&Method::GET, 1) => "list",
        (&Method::GET, _) => "get",
        (&Method::POST, _) => "create",
        (&Method::PUT, _) => "update",
        (&Method::PATCH, _) => "patch",
        (&Method::DELETE, 1) => "deletecollection",
        (&Method::DELETE, _) => "delete",
        _ => return None,
    };
    Some((verb, resource))
}
