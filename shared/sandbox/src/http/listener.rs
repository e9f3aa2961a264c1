use std::{
    io,
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpListener, TcpStream},
    sync::mpsc,
    task::JoinHandle,
};
use tokio_rustls::{TlsAcceptor, rustls::ServerConfig, server::TlsStream};

/// Listener for HTTP and HTTPS on one port: kubectl sends its token over TLS only, and plain HTTP is convenient with
/// curl.
pub(crate) struct Listener {
    connections: mpsc::Receiver<(Connection, SocketAddr)>,
    address: SocketAddr,
    accepting: JoinHandle<()>,
}

pub(crate) enum Connection {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// Upper bound on accepted connections that wait to be served; further handshakes wait.
const BACKLOG: usize = 64;
/// Time after which a client that has sent nothing is disconnected.
const FIRST_BYTE_TIMEOUT: Duration = Duration::from_secs(10);
/// First byte of every TLS connection: a handshake record.
const TLS_HANDSHAKE: u8 = 0x16;
/// Pause after a failed accept, typically for lack of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

impl Listener {
    pub(crate) fn new(listener: TcpListener, tls: Arc<ServerConfig>) -> io::Result<Self> {
        let address = listener.local_addr()?;
        let (ready, connections) = mpsc::channel(BACKLOG);
        let acceptor = TlsAcceptor::from(tls);
        let accepting = tokio::spawn(async move {
            loop {
                let Ok((stream, peer)) = listener.accept().await else {
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                };
                let (acceptor, ready) = (acceptor.clone(), ready.clone());
                tokio::spawn(async move {
                    let connection =
                        tokio::time::timeout(FIRST_BYTE_TIMEOUT, greet(stream, &acceptor)).await;
                    if let Ok(Ok(connection)) = connection {
                        // The server is gone, so the connection is dropped.
                        drop(ready.send((connection, peer)).await);
                    }
                });
            }
        });
        Ok(Self {
            connections,
            address,
            accepting,
        })
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// Detects TLS by the first byte, and performs the handshake.
async fn greet(stream: TcpStream, acceptor: &TlsAcceptor) -> io::Result<Connection> {
    stream.set_nodelay(true)?;
    let mut first = [0];
    stream.peek(&mut first).await?;
    if first == [TLS_HANDSHAKE] {
        let stream = acceptor.accept(stream).await?;
        Ok(Connection::Tls(Box::new(stream)))
    } else {
        Ok(Connection::Plain(stream))
    }
}

impl axum::serve::Listener for Listener {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        match self.connections.recv().await {
            Some(connection) => connection,
            // The accepting task never ends by itself.
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.address)
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(cx, buffer),
            Self::Tls(stream) => Pin::new(stream).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(cx, bytes),
            Self::Tls(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Self::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
