//! HTTP proxy between the functions and an emulator: records the IAM actions of their requests, and injects network and
//! AWS faults.

mod action;

use std::{
    collections::BTreeSet,
    net::SocketAddr,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use http_body_util::{BodyExt, Either, Full, StreamBody};
use hyper::{
    Request, Response, StatusCode,
    body::{Bytes, Frame, Incoming},
    header,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use tokio::{
    net::{TcpListener, TcpStream},
    runtime::Runtime,
};

/// IAM action of a request, with its caller.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Call {
    /// Application name in the user agent, such as `whittle-provisioner`; empty if there is none.
    pub caller: String,
    /// Whether the request is signed with the credentials of an assumed role.
    pub assumed: bool,
    /// IAM action, such as `ec2:CreateFleet`.
    pub action: String,
}

/// Fault injected into a request.
#[derive(Clone, Copy, Debug)]
pub enum ProxyFault {
    /// The request is delayed.
    Delay(Duration),
    /// AWS responds with this status code, as when throttling or unavailable.
    Status(u16),
    /// The connection breaks before the request arrives.
    LoseRequest,
    /// The connection breaks after the request had its effect.
    LoseAnswer,
    /// The response is truncated.
    Truncate,
}

/// Proxy that listens on a free port of 127.0.0.1 until it is dropped.
#[derive(Debug)]
pub struct Proxy {
    endpoint: String,
    state: Arc<ProxyState>,
    /// Runtime whose threads end with the proxy.
    _runtime: Runtime,
}

#[derive(Debug, Default)]
struct ProxyState {
    upstream: OnceLock<SocketAddr>,
    /// Services with another upstream, by their names in signatures, such as `ssm`.
    elsewhere: OnceLock<(&'static [&'static str], SocketAddr)>,
    calls: Mutex<BTreeSet<Call>>,
    faults: Mutex<ProxyFaultSchedule>,
    faults_injected: AtomicUsize,
}

/// Fault schedule: every `every`-th request of a named caller gets the next fault, round-robin.
#[derive(Debug, Default)]
struct ProxyFaultSchedule {
    every: usize,
    faults: Vec<ProxyFault>,
    seen: usize,
}

impl Proxy {
    /// Starts a proxy without an upstream; [`Self::forward_to`] sets it.
    ///
    /// # Panics
    ///
    /// If it cannot listen.
    #[must_use]
    pub fn start() -> Self {
        Self::start_on(0)
    }

    /// Like [`Self::start`], on this port of 127.0.0.1.
    ///
    /// # Panics
    ///
    /// If the port is in use.
    #[must_use]
    pub fn start_on(port: u16) -> Self {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(1).enable_all().build();
        let runtime = runtime.unwrap_or_else(|error| panic!("a runtime: {error}"));
        let listener = runtime.block_on(TcpListener::bind(("127.0.0.1", port)));
        let listener = listener.unwrap_or_else(|error| {
            panic!("cannot listen on 127.0.0.1:{port}: {error}: end the program that uses it")
        });
        let address = listener.local_addr();
        let address = address.unwrap_or_else(|error| panic!("a free port: {error}"));
        let state = Arc::new(ProxyState::default());
        runtime.spawn(listen(listener, Arc::clone(&state)));
        Self {
            endpoint: format!("http://{address}"),
            state,
            _runtime: runtime,
        }
    }

    #[must_use]
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// Sets the upstream endpoint.
    ///
    /// # Panics
    ///
    /// If the endpoint is no `http://` address, or an upstream is already set.
    pub fn forward_to(&self, endpoint: &str) {
        let set = self.state.upstream.set(address(endpoint));
        set.unwrap_or_else(|_| panic!("the proxy has an upstream already"));
    }

    /// Sets another upstream endpoint for some services, by their names in signatures, such as `ssm`.
    pub fn forward_services_to(&self, services: &'static [&'static str], endpoint: &str) {
        let set = self.state.elsewhere.set((services, address(endpoint)));
        set.unwrap_or_else(|_| panic!("the proxy has an upstream for services already"));
    }

    /// From now on every `every`-th request of a named caller gets the next of these faults, round-robin.
    pub fn inject_faults(&self, every: usize, faults: &[ProxyFault]) {
        *lock(&self.state.faults) = ProxyFaultSchedule {
            every,
            faults: faults.to_vec(),
            seen: 0,
        };
    }

    /// Number of requests that met a fault.
    #[must_use]
    pub fn faults_injected(&self) -> usize {
        self.state.faults_injected.load(Ordering::Relaxed)
    }

    /// Distinct calls so far.
    #[must_use]
    pub fn calls(&self) -> BTreeSet<Call> {
        lock(&self.state.calls).clone()
    }
}

impl ProxyState {
    /// Records the request, and returns the fault that it meets.
    fn record(&self, head: &http::request::Parts, body: &[u8]) -> Option<ProxyFault> {
        let calls = action::calls(head, body);
        let named = calls.iter().any(|call| !call.caller.is_empty());
        lock(&self.calls).extend(calls);
        let mut schedule = lock(&self.faults);
        if !named || schedule.faults.is_empty() {
            return None;
        }
        schedule.seen += 1;
        if !schedule.seen.is_multiple_of(schedule.every) {
            return None;
        }
        self.faults_injected.fetch_add(1, Ordering::Relaxed);
        let next = (schedule.seen / schedule.every) % schedule.faults.len();
        schedule.faults.get(next).copied()
    }
}

async fn listen(listener: TcpListener, state: Arc<ProxyState>) {
    while let Ok((stream, _)) = listener.accept().await {
        let state = Arc::clone(&state);
        tokio::spawn(async move {
            let service = service_fn(|request| forward(&state, request));
            let connection = hyper::server::conn::http1::Builder::new();
            // The client notices a broken connection itself.
            let _ = connection
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

type ProxyResponse = Response<Either<Full<Bytes>, TruncatedBody>>;
type TruncatedBody =
    StreamBody<futures::stream::Iter<std::vec::IntoIter<Result<Frame<Bytes>, std::io::Error>>>>;

/// Forwards a request; an error breaks the connection.
async fn forward(
    state: &ProxyState,
    request: Request<Incoming>,
) -> Result<ProxyResponse, std::io::Error> {
    let broken = || std::io::Error::from(std::io::ErrorKind::ConnectionReset);
    let (head, body) = request.into_parts();
    let body = body.collect().await.map_err(|_| broken())?.to_bytes();
    let fault = state.record(&head, &body);
    match fault {
        Some(ProxyFault::LoseRequest) => return Err(broken()),
        Some(ProxyFault::Status(status)) => {
            let mut answer = Response::new(Either::Left(Full::default()));
            *answer.status_mut() = StatusCode::from_u16(status).map_err(std::io::Error::other)?;
            return Ok(answer);
        }
        Some(ProxyFault::Delay(time)) => tokio::time::sleep(time).await,
        Some(ProxyFault::LoseAnswer | ProxyFault::Truncate) | None => {}
    }
    let request = Request::from_parts(head, Full::new(body));
    let (head, body) = send(state, request).await?;
    match fault {
        Some(ProxyFault::LoseAnswer) => Err(broken()),
        Some(ProxyFault::Truncate) => {
            let half = body.slice(..body.len() / 2);
            let frames = vec![Ok(Frame::data(half)), Err(broken())];
            let body = StreamBody::new(futures::stream::iter(frames));
            Ok(Response::from_parts(head, Either::Right(body)))
        }
        Some(ProxyFault::Delay(_) | ProxyFault::Status(_) | ProxyFault::LoseRequest) | None => {
            Ok(Response::from_parts(head, Either::Left(Full::new(body))))
        }
    }
}

async fn send(
    state: &ProxyState,
    request: Request<Full<Bytes>>,
) -> Result<(http::response::Parts, Bytes), std::io::Error> {
    let service = action::service(request.headers());
    let elsewhere = state.elsewhere.get();
    let elsewhere = elsewhere.filter(|(services, _)| services.contains(&service));
    let upstream = elsewhere.map(|(_, address)| address);
    let upstream = upstream.or_else(|| state.upstream.get());
    let upstream = upstream.ok_or_else(|| std::io::Error::other("the proxy has no upstream"))?;
    let stream = TcpStream::connect(upstream).await?;
    let connection = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = connection.map_err(std::io::Error::other)?;
    tokio::spawn(connection);
    let answer = sender.send_request(request).await;
    let (mut head, body) = answer.map_err(std::io::Error::other)?.into_parts();
    let body = body.collect().await.map_err(std::io::Error::other)?;
    // The body has been collected, so it is not chunked any more.
    head.headers.remove(header::TRANSFER_ENCODING);
    Ok((head, body.to_bytes()))
}

fn address(endpoint: &str) -> SocketAddr {
    let address = endpoint.strip_prefix("http://");
    let address = address.and_then(|address| address.parse().ok());
    address.unwrap_or_else(|| panic!("{endpoint} is no address"))
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
