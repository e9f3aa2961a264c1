//! APIs that moto lacks: access entries, add-ons and Pod Identity of EKS, managed policies and Service Quotas, with recorded answers.

use std::sync::Arc;

use aws_smithy_runtime_api::client::http::{
    HttpConnector, HttpConnectorFuture, SharedHttpConnector, http_client_fn,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_types::body::SdkBody;
use ec2::{AccessEntry, Account, Options, PodIdentityAssociation};
use ports::CloudError;

use crate::aws::{FixedClock, config};

/// Recorded answers: the first whose text is in a request's address or body.
#[derive(Clone, Debug)]
struct Answers(&'static [(&'static str, u16, &'static str)]);

impl HttpConnector for Answers {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let body = request.body().bytes().unwrap_or_default();
        let (method, uri) = (request.method(), request.uri());
        let asked = format!("{method} {uri} {}", String::from_utf8_lossy(body));
        let found = self.0.iter().find(|(part, ..)| asked.contains(part));
        let (_, status, body) = found.unwrap_or_else(|| panic!("nobody expected {asked}"));
        let mut answer = HttpResponse::new((*status).try_into().unwrap(), SdkBody::from(*body));
        if *status >= 400 {
            let code = body.split('"').nth(3).unwrap_or_default();
            answer
                .headers_mut()
                .insert("x-amzn-errortype", code.to_owned());
        }
        HttpConnectorFuture::ready(Ok(answer))
    }
}

fn account(answers: &'static [(&'static str, u16, &'static str)]) -> Account {
    let http = http_client_fn(move |_, _| SharedHttpConnector::new(Answers(answers)));
    let config = config().to_builder().http_client(http).build();
    Account::new(&config, Options::default(), Arc::new(FixedClock))
}

#[tokio::test]
async fn access_entries_have_their_groups() {
    let account = account(&[
        (
            "role%2Fp",
            200,
            r#"{"accessEntry": {"principalArn": "arn:aws:iam::123456789012:role/p", "kubernetesGroups": ["whittle:provisioner"]}}"#,
        ),
        (
            "role%2Fgone",
            404,
            r#"{"__type": "ResourceNotFoundException", "message": "deleted just now"}"#,
        ),
        (
            "access-entries",
            200,
            r#"{"accessEntries": ["arn:aws:iam::123456789012:role/p", "arn:aws:iam::123456789012:role/gone"]}"#,
        ),
    ]);
    let entries = account.access_entries(&"demo".into()).await.unwrap();
    let expected = AccessEntry {
        principal: "arn:aws:iam::123456789012:role/p".to_owned(),
        groups: vec!["whittle:provisioner".to_owned()],
    };
    assert_eq!(entries, [expected]);
}

#[tokio::test]
async fn existing_access_entry_keeps_its_groups() {
    const ROLE: &str = "arn:aws:iam::123456789012:role/p";
    let demo = "demo".into();
    let fresh = account(&[("POST", 200, r#"{"accessEntry": {}}"#)]);
    let grant_access = fresh.grant_access(&demo, ROLE, "whittle:provisioner");
    grant_access.await.unwrap();
    let known = account(&[
        (
            "POST https://eks.us-east-1.amazonaws.com/clusters/demo/access-entries {",
            409,
            r#"{"__type": "ResourceInUseException", "message": "it is there"}"#,
        ),
        (
            "GET",
            200,
            r#"{"accessEntry": {"principalArn": "arn:aws:iam::123456789012:role/p", "kubernetesGroups": ["viewers"]}}"#,
        ),
        (
            r#""kubernetesGroups":["viewers","whittle:provisioner"]"#,
            200,
            r#"{"accessEntry": {}}"#,
        ),
    ]);
    let grant_access = known.grant_access(&demo, ROLE, "whittle:provisioner");
    grant_access.await.unwrap();
    let gone = account(&[(
        "DELETE",
        404,
        r#"{"__type": "ResourceNotFoundException", "message": "deleted just now"}"#,
    )]);
    gone.revoke_access(&demo, ROLE).await.unwrap();
}

#[tokio::test]
async fn quota_is_a_number_of_vcpus() {
    let account = account(&[
        (
            "L-1216C47A",
            200,
            r#"{"Quota": {"ServiceCode": "ec2", "QuotaCode": "L-1216C47A", "Value": 640.0, "Unit": "None"}}"#,
        ),
        (
            "L-34B43A08",
            400,
            r#"{"__type": "com.amazonaws.servicequotas#AccessDeniedException", "Message": "not you"}"#,
        ),
        ("L-0", 500, "busy"),
    ]);
    let quota = account.ec2_quota("L-1216C47A").await;
    assert!((quota.unwrap() - 640.0).abs() < f64::EPSILON);
    let denied = account.ec2_quota("L-34B43A08").await;
    assert!(
        matches!(&denied, Err(CloudError::Denied { action, .. }) if action == "servicequotas:GetServiceQuota"),
        "{denied:?}"
    );
    let busy = account.ec2_quota("L-0").await;
    assert!(matches!(busy, Err(CloudError::Unknown { .. })), "{busy:?}");
}

const EXISTS: &str = r#"<ErrorResponse xmlns="https://iam.amazonaws.com/doc/2010-05-08/"><Error><Type>Sender</Type><Code>EntityAlreadyExists</Code><Message>Role with name node already exists.</Message></Error><RequestId>1</RequestId></ErrorResponse>"#;
const DENIED: &str = r#"<ErrorResponse xmlns="https://iam.amazonaws.com/doc/2010-05-08/"><Error><Type>Sender</Type><Code>AccessDenied</Code><Message>no</Message></Error><RequestId>1</RequestId></ErrorResponse>"#;
const ATTACHED: &str = r#"<AttachRolePolicyResponse xmlns="https://iam.amazonaws.com/doc/2010-05-08/"><ResponseMetadata><RequestId>1</RequestId></ResponseMetadata></AttachRolePolicyResponse>"#;

#[tokio::test]
async fn role_of_nodes_that_exists_gets_its_policies() {
    let known = account(&[
        ("Action=CreateRole", 409, EXISTS),
        (
            "arn%3Aaws-cn%3Aiam%3A%3Aaws%3Apolicy%2FAmazon",
            200,
            ATTACHED,
        ),
    ]);
    known.create_node_role("node").await.unwrap();
    known.attach_node_policies("node", "aws-cn").await.unwrap();
    let denied = account(&[("Action=CreateRole", 403, DENIED)]);
    let denied = denied.create_node_role("node").await;
    assert!(
        matches!(&denied, Err(CloudError::Denied { action, .. }) if action == "iam:CreateRole"),
        "{denied:?}"
    );
    let denied = account(&[("Action=AttachRolePolicy", 403, DENIED)]);
    let denied = denied.attach_node_policies("node", "aws").await;
    assert!(
        matches!(&denied, Err(CloudError::Denied { action, .. }) if action == "iam:AttachRolePolicy"),
        "{denied:?}"
    );
}

#[tokio::test]
async fn access_entry_of_nodes_has_their_type() {
    const ROLE: &str = "arn:aws:iam::123456789012:role/node";
    let fresh = account(&[(r#""type":"EC2_LINUX""#, 200, r#"{"accessEntry": {}}"#)]);
    fresh
        .create_node_access(&"demo".into(), ROLE)
        .await
        .unwrap();
    let known = account(&[(
        "POST",
        409,
        r#"{"__type": "ResourceInUseException", "message": "it is there"}"#,
    )]);
    known
        .create_node_access(&"demo".into(), ROLE)
        .await
        .unwrap();
}

#[tokio::test]
async fn access_entry_has_a_type() {
    const ROLE: &str = "arn:aws:iam::123456789012:role/node";
    let known = account(&[("GET", 200, r#"{"accessEntry": {"type": "STANDARD"}}"#)]);
    let found = known.access_entry_type(&"demo".into(), ROLE).await;
    assert_eq!(found.unwrap().as_deref(), Some("STANDARD"));
    let none = account(&[(
        "GET",
        404,
        r#"{"__type": "ResourceNotFoundException", "message": "no entry"}"#,
    )]);
    let found = none.access_entry_type(&"demo".into(), ROLE).await;
    assert_eq!(found.unwrap(), None);
}

#[tokio::test]
async fn pod_identity_association_names_the_role_of_a_service_account() {
    let demo = "demo".into();
    let associated = account(&[
        (
            "pod-identity-associations/a-1",
            200,
            r#"{"association": {"associationId": "a-1", "roleArn": "arn:aws:iam::123456789012:role/relay"}}"#,
        ),
        (
            "namespace=kube-system&serviceAccount=whittle-relay",
            200,
            r#"{"associations": [{"associationId": "a-1", "namespace": "kube-system"}]}"#,
        ),
    ]);
    let found = associated.pod_identity_association(&demo, "kube-system", "whittle-relay");
    let expected = PodIdentityAssociation {
        id: "a-1".to_owned(),
        role: "arn:aws:iam::123456789012:role/relay".to_owned(),
    };
    assert_eq!(found.await.unwrap(), Some(expected));
    let none = account(&[("GET", 200, r#"{"associations": []}"#)]);
    let found = none.pod_identity_association(&demo, "kube-system", "whittle-relay");
    assert_eq!(found.await.unwrap(), None);
}
