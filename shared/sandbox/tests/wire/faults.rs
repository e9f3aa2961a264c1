use sandbox::faults::{Effect, Fault};

use crate::support::Bench;

#[tokio::test]
async fn faults_hit_what_they_are_for_and_only_so_often() {
    let bench = Bench::start().await;
    let pods = "/api/v1/pods";
    for (effect, expected) in [
        (Effect::throttle(1), 429),
        (Effect::internal_error(), 500),
        (Effect::conflict(), 409),
        (Effect::expired(), 410),
        (Effect::unavailable(), 503),
    ] {
        let fault = Fault::new(effect, 1).on_verb("list").on_resource("pods");
        bench.sandbox.inject(fault);
        assert_eq!(
            bench.plain_status("GET", "/api/v1/configmaps", "").await,
            200
        );
        assert_eq!(bench.plain_status("GET", pods, "").await, expected);
        assert_eq!(bench.plain_status("GET", pods, "").await, 200);
    }
}

#[tokio::test]
async fn an_answer_can_be_lost_after_the_deed() {
    let bench = Bench::start().await;
    let fault = Fault::new(Effect::LoseAnswer, 1).on_verb("create");
    bench.sandbox.inject(fault);
    let maps = "/api/v1/namespaces/default/configmaps";
    let map = r#"{"metadata":{"name":"a"}}"#;
    assert_eq!(bench.plain_status("POST", maps, map).await, 500);
    assert_eq!(
        bench.plain_status("GET", &format!("{maps}/a"), "").await,
        200
    );
}

#[tokio::test]
async fn nobody_comes_in_without_a_token() {
    let bench = Bench::start().await;
    assert_eq!(bench.plain_status("GET", "/healthz", "").await, 200);
    assert_eq!(bench.status_as("", "GET", "/api/v1/pods", "").await, 401);
    assert_eq!(
        bench.status_as("wrong", "GET", "/api/v1/pods", "").await,
        401
    );
}
