use std::{future::pending, time::Duration};

use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    time::timeout,
};

use super::*;

/// Directory that knows every cluster but one, whose lookup never ends.
struct Directions {
    port: u16,
    never: &'static str,
}

#[async_trait]
impl Directory for Directions {
    async fn access(&self, cluster: &ClusterName, _: &Value) -> Result<ClusterAccess, CloudError> {
        if cluster.as_str() == self.never {
            pending::<()>().await;
        }
        Ok(ClusterAccess {
            endpoint: format!("http://127.0.0.1:{}", self.port),
            certificate_authority: None,
            credentials: ClusterCredentials::BearerToken("token".into()),
            until: None,
        })
    }
}

/// Clock with a time that the test sets.
struct SetClock(Mutex<Timestamp>);

impl Clock for SetClock {
    fn now(&self) -> Timestamp {
        *self.0.lock().unwrap()
    }
}

/// An API server whose namespace kube-system has these UIDs, one after the other.
async fn api_server(uids: &'static [&'static str]) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        for uid in uids {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = [0; 4096];
            assert!(stream.read(&mut request).await.unwrap() > 0);
            let body = json!({"metadata": {"name": "kube-system", "uid": uid}}).to_string();
            let answer = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            );
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
    });
    port
}

#[tokio::test]
async fn unreachable_cluster_blocks_no_other() {
    let directory = Directions {
        port: api_server(&["u"]).await,
        never: "slow",
    };
    let clock = Arc::new(SetClock(Mutex::new(Timestamp::UNIX_EPOCH)));
    let connections = Connections::new(Arc::new(directory), clock, "test".to_owned());
    let (slow, other, entry) = ("slow".into(), "other".into(), json!({}));
    let mut waiting = connections.connect(&slow, &entry);
    assert!(waiting.as_mut().now_or_never().is_none(), "it hangs");
    let connected = timeout(Duration::from_secs(30), connections.connect(&other, &entry)).await;
    assert_eq!(
        connected.unwrap().unwrap().identity().await.unwrap(),
        "u".into()
    );
}

#[tokio::test]
async fn cache_of_recreated_cluster_is_dropped() {
    let directory = Directions {
        port: api_server(&["a", "a", "b"]).await,
        never: "",
    };
    let clock = Arc::new(SetClock(Mutex::new(Timestamp::UNIX_EPOCH)));
    let connections = Connections::new(Arc::new(directory), clock.clone(), "test".to_owned());
    let (cluster, entry) = (ClusterName::from("demo"), json!({"type": "eks"}));
    let mut seen = Vec::new();
    for _ in 0..3 {
        connections.connect(&cluster, &entry).await.unwrap();
        let last = connections.last(&cluster, &entry).unwrap();
        seen.push((last.uid.clone(), last.cluster));
        *clock.0.lock().unwrap() += CREDENTIALS_LIFETIME * 2;
    }
    let [(_, first), (_, renewed), (uid, recreated)] = &seen[..] else {
        panic!("three connections")
    };
    assert_eq!(*uid, "b".into());
    assert!(renewed.remembers_with(first));
    assert!(!recreated.remembers_with(renewed));
}
