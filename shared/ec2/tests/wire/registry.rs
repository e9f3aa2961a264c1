use ec2::ClusterCredentials;
use ports::{CloudError, Registry};
use secrecy::ExposeSecret;
use serde_json::json;

use crate::aws::{MOTO, account, register};

on_one_moto! {
    invalid_registry_entry_affects_no_other,
    endpoint_cluster_uses_the_credentials_of_its_parameter,
    eks_cluster_uses_a_token_of_our_own_identity,
    unusable_entry_is_named,
    entry_that_was_changed_meanwhile_is_not_replaced,
}

async fn entry_that_was_changed_meanwhile_is_not_replaced() {
    let before = register("replaced");
    let mut after = before.clone();
    after["mode"] = "active".into();
    let account = account();
    let cluster = "replaced".into();
    let replace = account.replace_entry(&cluster, &before, &after);
    replace.await.unwrap();
    let replace = account.replace_entry(&cluster, &before, &before);
    let refused = replace.await.unwrap_err();
    assert!(
        refused.to_string().contains("nothing was written"),
        "{refused}"
    );
    let entries = account.entries().await.unwrap();
    let entry = entries
        .iter()
        .find(|entry| entry.cluster.as_str() == "replaced");
    assert_eq!(entry.unwrap().body.as_ref().unwrap(), &after);
}

async fn invalid_registry_entry_affects_no_other() {
    register("registered");
    let broken = json!({ "Name": "/whittle/clusters/broken", "Value": "{\"type\":", "Type": "String", "Overwrite": true });
    MOTO.call("ssm", "put_parameter", broken);
    let entries = account().entries().await.unwrap();
    let entry = |name: &str| entries.iter().find(|e| e.cluster.as_str() == name).unwrap();
    assert_eq!(
        entry("registered").body.as_ref().unwrap()["type"],
        "endpoint"
    );
    let problem = entry("broken").body.as_ref().unwrap_err();
    assert!(
        problem.contains("/whittle/clusters/broken is not JSON"),
        "{problem}"
    );
}

async fn endpoint_cluster_uses_the_credentials_of_its_parameter() {
    let entry = register("reached");
    let put = |value: &str| {
        let parameter = json!({ "Name": "/whittle/credentials/reached", "Value": value, "Type": "SecureString", "Overwrite": true });
        MOTO.call("ssm", "put_parameter", parameter);
    };
    put("t0ken\n");
    let access = account()
        .cluster_access(&"reached".into(), &entry)
        .await
        .unwrap();
    assert_eq!(access.endpoint, "https://demo.example.com");
    let ClusterCredentials::BearerToken(token) = access.credentials else {
        panic!("{access:?}")
    };
    assert_eq!(token.expose_secret(), "t0ken");

    put(
        &json!({ "clientCertificate": "-----BEGIN CERTIFICATE-----", "clientKey": "a2V5" })
            .to_string(),
    );
    let access = account()
        .cluster_access(&"reached".into(), &entry)
        .await
        .unwrap();
    let ClusterCredentials::ClientCertificate { certificate, key } = access.credentials else {
        panic!("{access:?}")
    };
    assert_eq!(certificate, "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0t");
    assert_eq!(key.expose_secret(), "a2V5");
}

async fn eks_cluster_uses_a_token_of_our_own_identity() {
    let cluster = json!({
        "name": "eks-demo", "roleArn": "arn:aws:iam::123456789012:role/eks", "version": "1.35",
        "resourcesVpcConfig": { "subnetIds": MOTO.seed.subnets.values().collect::<Vec<_>>() },
    });
    let created = MOTO.call("eks", "create_cluster", cluster);
    let entry = json!({ "type": "eks" });
    let access = account()
        .cluster_access(&"eks-demo".into(), &entry)
        .await
        .unwrap();
    assert_eq!(
        Some(access.endpoint.as_str()),
        created["cluster"]["endpoint"].as_str()
    );
    assert!(access.until.is_some());
    let ClusterCredentials::BearerToken(token) = access.credentials else {
        panic!("{access:?}")
    };
    assert!(token.expose_secret().starts_with("k8s-aws-v1."));
}

async fn unusable_entry_is_named() {
    for (entry, part) in [
        (json!({ "type": "gke" }), "expected \"eks\" or \"endpoint\""),
        (
            json!({ "type": "endpoint", "endpoint": "https://x" }),
            "credentials is missing",
        ),
        (
            json!({ "type": "endpoint", "endpoint": "https://x", "credentials": "/no/nowhere" }),
            "does not exist",
        ),
        (
            json!({ "type": "eks" }),
            "No cluster found for name: nowhere",
        ),
    ] {
        let access = account().cluster_access(&"nowhere".into(), &entry).await;
        let error = access.unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
    // NotFound makes the sweep collect the resources of a deleted cluster.
    let entry = json!({ "type": "eks" });
    let access = account().cluster_access(&"nowhere".into(), &entry).await;
    assert!(
        matches!(access, Err(CloudError::NotFound { .. })),
        "{access:?}"
    );
}
