//! Whole objects by name, kept and read back.

use std::sync::Arc;

use ec2::Bucket;
use ports::Archive;
use serde_json::json;

use crate::aws::{FixedClock, MOTO, config};

#[tokio::test]
async fn objects_are_read_back_as_they_were_kept() {
    MOTO.call("s3", "create_bucket", json!({"Bucket": "whittle-bucket"}));
    let config = config().to_builder().endpoint_url(MOTO.endpoint()).build();
    let bucket = |name: &str| Bucket::new(&config, name, Arc::new(FixedClock));
    let ours = bucket("whittle-bucket");
    let name = "journal/demo/2026-08-22T12:00:00.000Z-provisioner-turn 1.json.zst";
    assert_eq!(ours.get(name).await.unwrap(), None);
    // No text: every byte there is.
    let object: Vec<u8> = (0..=255).collect();
    ours.put(name, object.clone()).await.unwrap();
    assert_eq!(ours.get(name).await.unwrap(), Some(object));
    let other = bucket("whittle-other");
    for error in [
        other.get(name).await.unwrap_err(),
        other.put(name, Vec::new()).await.unwrap_err(),
    ] {
        let said = error.to_string();
        assert!(
            said.contains(name) && said.contains("NoSuchBucket"),
            "{said}"
        );
    }
}
