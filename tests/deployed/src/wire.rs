//! Proxy between the functions and the API server. Functions know only its address and token, whatever the cluster's
//! own credentials are; it forwards each request by impersonation, with the rights that the chart gives the function;
//! and it injects the faults that a test asks for.

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

/// Fault injected into a request.
#[derive(Clone, Copy, Debug)]
pub enum Fault {
    /// The request is not forwarded, and the response is 503.
    Unavailable,
    /// The request is forwarded, and the response is 500.
    LoseAnswer,
    /// The request is forwarded after this delay, if its sender still waits.
    Delay(Duration),
}

/// Proxy that listens on a free port of 127.0.0.1 as long as the runtime that it was started in.
pub struct ApiServerProxy {
    address: SocketAddr,
    faults: Arc<Mutex<Vec<PendingFault>>>,
}

/// Fault that waits for the next matching request.
struct PendingFault {
    fault: Fault,
    verb: String,
    resource: String,
}

pub const TOKEN: &str = "of-the-functions-alone";

impl ApiServerProxy {
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

    /// Adds a fault for the next request with this `verb` and `resource`, as RBAC names them: `patch`,
    /// `nodeclaims/status`.
    pub fn inject(&self, fault: Fault, verb: &str, resource: &str) {
        self.faults.lock().unwrap().push(PendingFault {
            fault,
            verb: verb.to_owned(),
            resource: resource.to_owned(),
        });
    }

    /// Number of faults that no request has met yet.
    pub fn pending_faults(&self) -> usize {
        self.faults.lock().unwrap().len()
    }
}

async fn listen(listener: TcpListener, client: Client, faults: Arc<Mutex<Vec<PendingFault>>>) {
    while let Ok((stream, _)) = listener.accept().await {
        let (client, faults) = (client.clone(), Arc::clone(&faults));
        tokio::spawn(async move {
            let service = service_fn(|request| forward(&client, &faults, request));
            let connection = hyper::server::conn::http1::Builder::new();
            // The client notices a broken connection itself.
            let _ = connection
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

/// Forwards a request; an error breaks the connection.
async fn forward(
    client: &Client,
    faults: &Mutex<Vec<PendingFault>>,
    request: Request<Incoming>,
) -> Result<Response<Body>, kube::Error> {
    let (mut head, body) = request.into_parts();
    let token = head.headers.remove(header::AUTHORIZATION);
    if token != HeaderValue::from_str(&format!("Bearer {TOKEN}")).ok() {
        return Ok(error_response(StatusCode::UNAUTHORIZED, "Unauthorized"));
    }
    let fault = take_fault(faults, &head.method, &head.uri);
    match fault {
        Some(Fault::Unavailable) => {
            return Ok(error_response(
                StatusCode::SERVICE_UNAVAILABLE,
                "ServiceUnavailable",
            ));
        }
        Some(Fault::Delay(time)) => tokio::time::sleep(time).await,
        Some(Fault::LoseAnswer) | None => {}
    }
    act_as_function(&mut head.headers);
    // The client sets the cluster's host and the content length itself.
    head.headers.remove(header::HOST);
    let body = body.collect().await.map_err(kube::Error::HyperError)?;
    let request = Request::from_parts(head, Body::from(body.to_bytes()));
    let (mut head, body) = client.send(request).await?.into_parts();
    if matches!(fault, Some(Fault::LoseAnswer)) {
        return Ok(error_response(
            StatusCode::INTERNAL_SERVER_ERROR,
            "InternalError",
        ));
    }
    head.headers.remove(header::TRANSFER_ENCODING);
    head.headers.remove(header::CONNECTION);
    let mut answer = Response::new(body);
    *answer.status_mut() = head.status;
    *answer.headers_mut() = head.headers;
    Ok(answer)
}

/// Impersonates the calling function as a member of its group alone, as its EKS access entry does. Requests whose user
/// agent names no function have no rights.
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

/// Error response in the form of API servers.
fn error_response(code: StatusCode, reason: &str) -> Response<Body> {
    let status = json!({
        "apiVersion": "v1", "kind": "Status", "status": "Failure", "message": "fault injected by the test",
        "reason": reason, "code": code.as_u16(),
    });
    let mut answer = Response::new(Body::from(status.to_string().into_bytes()));
    *answer.status_mut() = code;
    let json = HeaderValue::from_static("application/json");
    answer.headers_mut().insert(header::CONTENT_TYPE, json);
    answer
}

/// Takes the fault that waits for such a request.
fn take_fault(faults: &Mutex<Vec<PendingFault>>, method: &Method, uri: &Uri) -> Option<Fault> {
    let (verb, resource) = verb_and_resource(method, uri)?;
    let mut faults = faults.lock().unwrap();
    let matches = |pending: &PendingFault| pending.verb == verb && pending.resource == resource;
    let first = faults.iter().position(matches)?;
    Some(faults.remove(first).fault)
}

/// Verb and resource of a request for an object or a collection.
fn verb_and_resource(method: &Method, uri: &Uri) -> Option<(&'static str, String)> {
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
