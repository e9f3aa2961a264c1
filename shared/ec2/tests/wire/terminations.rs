//! Terminations that EC2 refuses: a stand-in that refuses whole calls as EC2 does and records the requests.

use std::sync::{Arc, Mutex};

use aws_smithy_runtime_api::client::http::{
    HttpConnector, HttpConnectorFuture, SharedHttpConnector, http_client_fn,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_types::body::SdkBody;
use ec2::{Account, Options};
use model::InstanceId;
use ports::{Cloud, Termination, Terminations};

use crate::aws::{FixedClock, config};

/// Refuses each call that names `bad`, with this code.
#[derive(Clone, Debug)]
struct Refusing {
    bad: &'static [&'static str],
    code: &'static str,
    /// Instances of each call.
    asked: Arc<Mutex<Vec<Vec<String>>>>,
}

impl HttpConnector for Refusing {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let body = request.body().bytes().unwrap_or_default();
        let body = String::from_utf8_lossy(body).into_owned();
        let ids = body.split('&').filter_map(|pair| {
            let (key, value) = pair.split_once('=')?;
            key.starts_with("InstanceId.").then(|| value.to_owned())
        });
        let ids: Vec<String> = ids.collect();
        let bad = ids.iter().find(|id| self.bad.contains(&id.as_str()));
        let (status, answer) = match bad {
            Some(id) => (
                400,
                format!(
                    "<Response><Errors><Error><Code>{}</Code><Message>The instance '{id}' may not be terminated.</Message></Error></Errors>\
                     <RequestID>r</RequestID></Response>",
                    self.code
                ),
            ),
            None => (
                200,
                r#"<TerminateInstancesResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"/>"#
                    .to_owned(),
            ),
        };
        if body.contains("Action=TerminateInstances") {
            self.asked.lock().unwrap().push(ids);
        }
        let answer = HttpResponse::new(status.try_into().unwrap(), SdkBody::from(answer));
        HttpConnectorFuture::ready(Ok(answer))
    }
}

/// Verdicts on these instances, and the calls made for them.
async fn terminate(
    ids: &[&str],
    bad: &'static [&'static str],
    code: &'static str,
) -> (Terminations, Vec<Vec<String>>) {
    let asked = Arc::default();
    let refusing = Refusing {
        bad,
        code,
        asked: Arc::clone(&asked),
    };
    let http = http_client_fn(move |_, _| SharedHttpConnector::new(refusing.clone()));
    let config = config().to_builder().http_client(http).build();
    let account = Account::new(&config, Options::default(), Arc::new(FixedClock));
    let ids: Vec<InstanceId> = ids.iter().map(|id| InstanceId::from(*id)).collect();
    let verdicts = account.terminate(&"demo".into(), &ids).await;
    let asked = asked.lock().unwrap().clone();
    (verdicts, asked)
}

#[tokio::test]
async fn instances_of_a_refused_call_are_terminated_singly() {
    for code in [
        "OperationNotPermitted",
        "UnauthorizedOperation",
        "IncorrectInstanceState",
    ] {
        let (verdicts, asked) = terminate(&["i-1", "i-2", "i-3"], &["i-2"], code).await;
        for id in ["i-1", "i-3"] {
            let verdict = &verdicts[&InstanceId::from(id)];
            assert!(
                matches!(verdict, Termination::Ended),
                "{code}: {verdicts:?}"
            );
            assert!(asked.contains(&vec![id.to_owned()]), "{code}: {asked:?}");
        }
        let Termination::Refused(refusal) = &verdicts[&InstanceId::from("i-2")] else {
            panic!("{code}: {verdicts:?}")
        };
        assert_eq!(refusal.code, code);
        assert!(refusal.message.contains("i-2"), "{refusal}");
    }
}

#[tokio::test]
async fn unknown_instance_counts_as_terminated_and_the_others_end() {
    let (verdicts, _) = terminate(&["i-1", "i-2"], &["i-1"], "InvalidInstanceID.NotFound").await;
    let (first, second) = (InstanceId::from("i-1"), InstanceId::from("i-2"));
    assert!(
        matches!(verdicts[&first], Termination::Gone),
        "{verdicts:?}"
    );
    assert!(
        matches!(verdicts[&second], Termination::Ended),
        "{verdicts:?}"
    );
}

#[tokio::test]
async fn refusal_of_every_instance_takes_a_bounded_number_of_calls() {
    const BAD: [&str; 3] = ["i-1", "i-2", "i-3"];
    let (verdicts, asked) = terminate(&BAD, &BAD, "OperationNotPermitted").await;
    let refused = |verdict: &Termination| matches!(verdict, Termination::Refused(_));
    assert!(verdicts.values().all(refused), "{verdicts:?}");
    assert_eq!(asked.len(), 5, "{asked:?}");
}
