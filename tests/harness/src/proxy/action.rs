//! Derives the IAM actions of a request to AWS.

use http::{HeaderMap, header::AUTHORIZATION, request::Parts};
use serde_json::Value;

use super::Call;
use crate::ACCOUNT;

/// Returns a call for each action that the caller must be allowed.
pub(super) fn calls(head: &Parts, body: &[u8]) -> Vec<Call> {
    let text = |name: &str| {
        let value = head.headers.get(name);
        value.and_then(|value| value.to_str().ok()).unwrap_or("")
    };
    let (key, service) = credential(&head.headers);
    let caller = text("user-agent").split_whitespace();
    let caller = caller.filter_map(|word| word.strip_prefix("app/")).next();
    let body = String::from_utf8_lossy(body);
    // DynamoDB_20120810.Query, AmazonSQS.SendMessage
    let operation = match text("x-amz-target").rsplit_once('.') {
        Some((_, operation)) => operation.to_owned(),
        None => match body
            .split('&')
            .find_map(|field| field.strip_prefix("Action="))
        {
            Some(operation) => operation.to_owned(),
            None => operation_of_path(service, head),
        },
    };
    let actions = match operation.as_str() {
        "TransactWriteItems" => actions_of_transaction(&body),
        operation => vec![format!("{service}:{operation}")],
    };
    let call = |action: String| Call {
        caller: caller.unwrap_or("").to_owned(),
        assumed: key != ACCOUNT,
        action,
    };
    actions.into_iter().map(call).collect()
}

/// Service of a request by its signature, such as `ec2`; empty without one.
pub(super) fn service(headers: &HeaderMap) -> &str {
    credential(headers).1
}

/// Access key and service of a signature: `Credential=<key>/<day>/<Region>/<service>/aws4_request`.
fn credential(headers: &HeaderMap) -> (&str, &str) {
    let signature = headers.get(AUTHORIZATION);
    let signature = signature
        .and_then(|value| value.to_str().ok())
        .unwrap_or("");
    let scope = signature.split_once("Credential=");
    let scope = scope.map_or("", |(_, rest)| rest.split(',').next().unwrap_or(""));
    let mut parts = scope.split('/');
    (parts.next().unwrap_or(""), parts.nth(2).unwrap_or(""))
}

/// Operation of a REST service, which is derived from method and path.
fn operation_of_path(service: &str, head: &Parts) -> String {
    let depth = head.uri.path().trim_matches('/').split('/').count();
    match (service, head.method.as_str(), depth) {
        ("eks", "GET", 2) => "DescribeCluster".to_owned(),
        ("s3", "GET", 2..) => "GetObject".to_owned(),
        ("s3", "PUT", 2..) => "PutObject".to_owned(),
        (_, method, _) => format!("{method} {}", head.uri.path()),
    }
}

/// Actions of a DynamoDB transaction, which requires the action of each of its writes.
fn actions_of_transaction(body: &str) -> Vec<String> {
    let body: Value = serde_json::from_str(body).unwrap_or_default();
    let items = body.get("TransactItems").and_then(Value::as_array);
    let writes = items.into_iter().flatten().filter_map(Value::as_object);
    let writes = writes.flat_map(|item| item.keys());
    let action = |write: &String| match write.as_str() {
        "ConditionCheck" => "dynamodb:ConditionCheckItem".to_owned(),
        write => format!("dynamodb:{write}Item"),
    };
    writes.map(action).collect()
}
