use std::future::pending;

use serde_json::json;

use super::*;
use crate::SystemClock;

/// Knows how each cluster is reached but one, of which it never hears.
struct Unanswered(&'static str);

#[async_trait]
impl Directory for Unanswered {
    async fn access(&self, cluster: &ClusterName, _: &Value) -> Result<ClusterAccess, CloudError> {
        if cluster.as_str() == self.0 {
            pending::<()>().await;
        }
        Ok(ClusterAccess {
            endpoint: "http://127.0.0.1:9".to_owned(),
            certificate_authority: None,
            credentials: ClusterCredentials::BearerToken("token".into()),
            until: None,
        })
    }
}

#[tokio::test]
async fn cluster_that_cannot_be_reached_keeps_no_other_waiting() {
    let directory = Arc::new(Unanswered("slow"));
    let connections = Connections::new(directory, Arc::new(SystemClock));
    let (slow, other, entry) = ("slow".into(), "other".into(), json!({}));
    let mut waiting = connections.connect(&slow, &entry);
    assert!(waiting.as_mut().now_or_never().is_none(), "it hangs");
    let connected = connections.connect(&other, &entry).now_or_never();
    assert!(connected.is_some_and(|connected| connected.is_ok()));
}
