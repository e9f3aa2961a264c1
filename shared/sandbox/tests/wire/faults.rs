use sandbox::faults::{Effect, Fault};

use crate::support::Fixture;

#[tokio::test]
async fn faults_hit_matching_requests_a_limited_number_of_times() {
    let fixture = Fixture::start().await;
    let pods = "/api/v1/pods";
    for (effect, expected) in [
        (Effect::throttle(1), 429),
        (Effect::internal_error(), 500),
        (Effect::conflict(), 409),
        (Effect::expired(), 410),
        (Effect::unavailable(), 503),
    ] {
        let fault = Fault::new(effect, 1).on_verb("list").on_resource("pods");
        fixture.sandbox.inject(fault);
        assert_eq!(
            fixture.plain_status("GET", "/api/v1/configmaps", "").await,
            200
        );
        assert_eq!(fixture.plain_status("GET", pods, "").await, expected);
        assert_eq!(fixture.plain_status("GET", pods, "").await, 200);
    }
}

#[tokio::test]
async fn response_can_be_lost_after_execution() {
    let fixture = Fixture::start().await;
    let fault = Fault::new(Effect::LoseAnswer, 1).on_verb("create");
    fixture.sandbox.inject(fault);
    let maps = "/api/v1/namespaces/default/configmaps";
    let map = r#"{"metadata":{"name":"a"}}"#;
    assert_eq!(fixture.plain_status("POST", maps, map).await, 500);
    assert_eq!(
        fixture.plain_status("GET", &format!("{maps}/a"), "").await,
        200
    );
}

#[tokio::test]
async fn requests_without_a_token_are_unauthorized() {
    let fixture = Fixture::start().await;
    assert_eq!(fixture.plain_status("GET", "/healthz", "").await, 200);
    assert_eq!(fixture.status_as("", "GET", "/api/v1/pods", "").await, 401);
    assert_eq!(
        fixture.status_as("wrong", "GET", "/api/v1/pods", "").await,
        401
    );
}
