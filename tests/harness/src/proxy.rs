//! A proxy between the functions and an emulator: it writes down what they ask AWS for, and troubles them as networks and AWS do.

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

/// What somebody asked AWS for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Call {
    /// As its user agent names it, such as `whittle-provisioner`; empty if it does not.
    pub caller: String,
    /// Whether it has the credentials of a role that it assumed.
    pub assumed: bool,
    /// As IAM names it, such as `ec2:CreateFleet`.
    pub action: String,
}

/// What becomes of a request.
#[derive(Clone, Copy, Debug)]
pub enum Trouble {
    /// It takes longer.
    Delay(Duration),
    /// AWS is throttling, or in trouble.
    Status(u16),
    /// The connection breaks before the request arrives.
    LoseRequest,
    /// The connection breaks after the request had its effect.
    LoseAnswer,
    /// The answer ends in its midst.
    Truncate,
}

/// Listens on a free port of 127.0.0.1 until it is dropped.
#[derive(Debug)]
pub struct Proxy {
    endpoint: String,
    line: Arc<Line>,
    /// Its threads end with it.
    _runtime: Runtime,
}

#[derive(Debug, Default)]
struct Line {
    upstream: OnceLock<SocketAddr>,
    calls: Mutex<BTreeSet<Call>>,
    troubles: Mutex<Troubles>,
    troubled: AtomicUsize,
}

/// Of the requests of callers with a name, every so many-th meets the next trouble.
#[derive(Debug, Default)]
struct Troubles {
    every: usize,
    kinds: Vec<Trouble>,
    seen: usize,
}

impl Proxy {
    /// Starts one that leads nowhere until it is told where to.
    ///
    /// # Panics
    /// If it cannot listen.
    #[must_use]
    pub fn start() -> Self {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(1).enable_all().build();
        let runtime = runtime.unwrap_or_else(|error| panic!("a runtime: {error}"));
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0"));
        let listener = listener.unwrap_or_else(|error| panic!("a free port: {error}"));
        let address = listener.local_addr();
        let address = address.unwrap_or_else(|error| panic!("a free port: {error}"));
        let line = Arc::new(Line::default());
        runtime.spawn(listen(listener, Arc::clone(&line)));
        Self {
            endpoint: format!("http://{address}"),
            line,
            _runtime: runtime,
        }
    }

    #[must_use]
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// Hands requests on to this endpoint from now on.
    ///
    /// # Panics
    /// If it is no `http://` address, or there is one already.
    pub fn lead_to(&self, endpoint: &str) {
        let address = endpoint.strip_prefix("http://");
        let address = address.and_then(|address| address.parse().ok());
        let address = address.unwrap_or_else(|| panic!("{endpoint} is no address"));
        let led = self.line.upstream.set(address);
        led.unwrap_or_else(|_| panic!("it leads elsewhere already"));
    }

    /// From now on every so many-th request of a caller with a name meets the next of these troubles, in turn.
    pub fn trouble(&self, every: usize, kinds: &[Trouble]) {
        *lock(&self.line.troubles) = Troubles {
            every,
            kinds: kinds.to_vec(),
            seen: 0,
        };
    }

    /// How many requests met a trouble.
    #[must_use]
    pub fn troubled(&self) -> usize {
        self.line.troubled.load(Ordering::Relaxed)
    }

    /// What was asked for so far, each once.
    #[must_use]
    pub fn calls(&self) -> BTreeSet<Call> {
        lock(&self.line.calls).clone()
    }
}

impl Line {
    /// Writes the request down, and says what becomes of it.
    fn note(&self, head: &http::request::Parts, body: &[u8]) -> Option<Trouble> {
        let calls = action::calls(head, body);
        let named = calls.iter().any(|call| !call.caller.is_empty());
        lock(&self.calls).extend(calls);
        let mut troubles = lock(&self.troubles);
        if !named || troubles.kinds.is_empty() {
            return None;
        }
        troubles.seen += 1;
        if !troubles.seen.is_multiple_of(troubles.every) {
            return None;
        }
        self.troubled.fetch_add(1, Ordering::Relaxed);
        let next = (troubles.seen / troubles.every) % troubles.kinds.len();
        troubles.kinds.get(next).copied()
    }
}

async fn listen(listener: TcpListener, line: Arc<Line>) {
    while let Ok((stream, _)) = listener.accept().await {
        let line = Arc::clone(&line);
        tokio::spawn(async move {
            let service = service_fn(|request| hand_on(&line, request));
            let connection = hyper::server::conn::http1::Builder::new();
            // A connection that breaks is the other side's to notice.
            let _ = connection
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

type Answer = Response<Either<Full<Bytes>, Broken>>;
type Broken =
    StreamBody<futures::stream::Iter<std::vec::IntoIter<Result<Frame<Bytes>, std::io::Error>>>>;

/// An error breaks the connection.
async fn hand_on(line: &Line, request: Request<Incoming>) -> Result<Answer, std::io::Error> {
    let broken = || std::io::Error::from(std::io::ErrorKind::ConnectionReset);
    let (head, body) = request.into_parts();
    let body = body.collect().await.map_err(|_| broken())?.to_bytes();
    let trouble = line.note(&head, &body);
    match trouble {
        Some(Trouble::LoseRequest) => return Err(broken()),
        Some(Trouble::Status(status)) => {
            let mut answer = Response::new(Either::Left(Full::default()));
            *answer.status_mut() = StatusCode::from_u16(status).map_err(std::io::Error::other)?;
            return Ok(answer);
        }
        Some(Trouble::Delay(time)) => tokio::time::sleep(time).await,
        Some(Trouble::LoseAnswer | Trouble::Truncate) | None => {}
    }
    let request = Request::from_parts(head, Full::new(body));
    let (head, body) = ask(line, request).await?;
    match trouble {
        Some(Trouble::LoseAnswer) => Err(broken()),
        Some(Trouble::Truncate) => {
            let half = body.slice(..body.len() / 2);
            let frames = vec![Ok(Frame::data(half)), Err(broken())];
            let body = StreamBody::new(futures::stream::iter(frames));
            Ok(Response::from_parts(head, Either::Right(body)))
        }
        Some(Trouble::Delay(_) | Trouble::Status(_) | Trouble::LoseRequest) | None => {
            Ok(Response::from_parts(head, Either::Left(Full::new(body))))
        }
    }
}

async fn ask(
    line: &Line,
    request: Request<Full<Bytes>>,
) -> Result<(http::response::Parts, Bytes), std::io::Error> {
    let upstream = line.upstream.get();
    let upstream = upstream.ok_or_else(|| std::io::Error::other("it leads nowhere"))?;
    let stream = TcpStream::connect(upstream).await?;
    let connection = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = connection.map_err(std::io::Error::other)?;
    tokio::spawn(connection);
    let answer = sender.send_request(request).await;
    let (mut head, body) = answer.map_err(std::io::Error::other)?.into_parts();
    let body = body.collect().await.map_err(std::io::Error::other)?;
    // The body is whole now.
    head.headers.remove(header::TRANSFER_ENCODING);
    Ok((head, body.to_bytes()))
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
