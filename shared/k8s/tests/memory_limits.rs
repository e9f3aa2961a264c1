//! Memory held for responses of a hostile API server, counted by the allocator: no more than the documented limits
//! (docs/SECURITY.md), regardless of the response. The server sends the same bytes repeatedly, and holds none of them.
#![expect(clippy::unwrap_used, reason = "a missing value fails the test")]

use std::{iter, sync::Arc};

use k8s::{Access, Credentials, KubeCluster};
use peak_alloc::PeakAlloc;
use ports::{Cluster, ClusterError};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
};

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

const MIB: usize = 1 << 20;
/// Upper bound on the response for one object, and on a line of a watch.
const OBJECT: usize = 4 * MIB;
/// Upper bound on one page of a list.
const PAGE: usize = 64 * MIB;
/// Upper bound on all pages of one list of nodes.
const LIST: usize = 256 * MIB;
/// Upper bound on the keys of one list of nodes, times the bytes of each: a string, and its place in a map.
const KEYS: usize = 4_000_000 * 100;
/// A growing buffer doubles, and exists beside the one that it replaces.
const GROWTH: usize = 3;
/// Connections, TLS roots and other memory of a client.
const CLIENT: usize = 16 * MIB;

/// A body as a sequence of chunks.
type Body = Box<dyn Iterator<Item = Arc<str>> + Send>;
/// Returns the response for a path.
type Answer = fn(&str) -> Body;

/// Serves every connection with these responses, until the client closes it.
async fn serve(listener: TcpListener, answer: Answer) {
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(converse(stream, answer));
    }
}

async fn converse(stream: TcpStream, answer: Answer) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await?;
        let Some(path) = line.split(' ').nth(1).map(str::to_owned) else {
            return Ok(());
        };
        let mut header = String::new();
        while stream.read_line(&mut header).await? > 2 {
            header.clear();
        }
        let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n";
        stream.write_all(head.as_bytes()).await?;
        for piece in answer(&path) {
            let length = format!("{:x}\r\n", piece.len());
            stream.write_all(length.as_bytes()).await?;
            stream.write_all(piece.as_bytes()).await?;
            stream.write_all(b"\r\n").await?;
        }
        stream.write_all(b"0\r\n\r\n").await?;
        stream.flush().await?;
    }
}

fn whole(text: impl Into<Arc<str>>) -> Body {
    Box::new(iter::once(text.into()))
}

/// A string that never ends.
fn endless(_: &str) -> Body {
    let noise: Arc<str> = "x".repeat(MIB).into();
    let begin: Arc<str> = r#"{"kind":"NodeList","metadata":{"selfLink":""#.into();
    Box::new(iter::once(begin).chain(iter::repeat(noise)))
}

/// Pages that never end, each of one node with a label of a megabyte.
fn pages(_: &str) -> Body {
    let begin = r#"{"kind":"NodeList","metadata":{"continue":"more","resourceVersion":"1"},"items":[{"metadata":{"name":"a","labels":{"b":""#;
    let noise = "x".repeat(MIB);
    let pieces = [begin, &noise, r#""}}}]}"#].map(Arc::from);
    Box::new(pieces.into_iter())
}

/// One page of a node with an endless sequence of shortest keys.
fn keys(_: &str) -> Body {
    let begin =
        r#"{"kind":"NodeList","metadata":{},"items":[{"metadata":{"name":"a","labels":{"a":"""#;
    let labels = (0..4_500_000).step_by(10_000).map(|first| {
        let labels = (first..first + 10_000).map(|n| format!(",\"{n:x}\":\"\""));
        labels.collect::<String>().into()
    });
    Box::new(whole(begin).chain(labels).chain(whole("}}}]}")))
}

/// More pods than a page has, followed by a watch of one endless line.
fn line(path: &str) -> Body {
    if path.contains("watch=") {
        return endless(path);
    }
    let pod = |index: usize| {
        format!(
            r#"{{"metadata":{{"name":"p{index}","namespace":"default","uid":"{index}"}},"spec":{{"containers":[]}}}}"#
        )
    };
    let pods: Vec<String> = (0..510).map(pod).collect();
    let pods = pods.join(",");
    whole(format!(
        r#"{{"kind":"PodList","metadata":{{"resourceVersion":"7"}},"items":[{pods}]}}"#
    ))
}

/// Peak memory beyond the memory held before, while `read` runs against a server with these responses.
async fn peak_memory<T>(
    answer: Answer,
    read: impl AsyncFn(&KubeCluster) -> Result<T, ClusterError>,
) -> (usize, Result<T, ClusterError>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let server = tokio::spawn(serve(listener, answer));
    let access = Access {
        endpoint,
        certificate_authority: None,
        credentials: Credentials::BearerToken("token".to_owned().into()),
    };
    let cluster = KubeCluster::new(access.client().unwrap(), "kube-system");
    let before = ALLOCATOR.current_usage();
    ALLOCATOR.reset_peak_usage();
    let answer = read(&cluster).await;
    let held = ALLOCATOR.peak_usage().saturating_sub(before);
    server.abort();
    (held, answer)
}

fn assert_within(case: &str, held: usize, most: usize) {
    assert!(held < most, "{case}: {} of {} MiB", held / MIB, most / MIB);
}

/// A single test, because allocations of concurrent tests would count as well.
#[tokio::test]
async fn answers_of_a_hostile_server_are_held_up_to_their_limits() {
    let (most, answer) = peak_memory(endless, async |cluster| cluster.leader_lease().await).await;
    assert!(answer.is_err());
    assert_within("an object without an end", most, GROWTH * OBJECT + CLIENT);

    let (most, answer) = peak_memory(endless, async |cluster| cluster.nodes().await).await;
    assert!(answer.is_err());
    assert_within("a page without an end", most, GROWTH * PAGE + CLIENT);

    let (most, answer) = peak_memory(pages, async |cluster| cluster.nodes().await).await;
    assert!(answer.is_err());
    assert_within("pages without an end", most, LIST + GROWTH * PAGE + CLIENT);

    let (most, answer) = peak_memory(keys, async |cluster| cluster.nodes().await).await;
    assert!(answer.is_err());
    assert_within("keys without number", most, KEYS + GROWTH * PAGE + CLIENT);

    let twice = async |cluster: &KubeCluster| {
        cluster.pods().await?;
        cluster.pods().await
    };
    let (most, answer) = peak_memory(line, twice).await;
    assert_eq!(answer.unwrap().len(), 510);
    assert_within("a line without an end", most, GROWTH * OBJECT + CLIENT);
}
