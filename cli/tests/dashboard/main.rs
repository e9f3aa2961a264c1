//! `whittle dashboard`, tested with a headless Chromium on a demo and on running clusters.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a missing element fails the test"
)]

mod accessibility;
mod browser;
mod cluster;
mod journal;
mod overview;
mod served;

use std::path::Path;

use serde_json::json;

use browser::Browser;
use served::Dashboard;

/// Rewrites a screenshot of the documentation if `UPDATE_EXPECT=1`.
fn picture(name: &str, browser: &mut Browser) {
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/images");
        std::fs::write(folder.join(name), browser.screenshot()).unwrap();
    }
}

const COUNT: &str = "document.querySelectorAll('.node').length";
const FOCUSED: &str = "document.activeElement.dataset.name ?? document.activeElement.id";

#[test]
fn demo_is_shown_while_it_runs() {
    let dashboard = Dashboard::start(&["--demo"], &[]);
    let mut page = Browser::open(&dashboard.address, 1400, 1000);
    page.until("document.querySelectorAll('.node.ready').length >= 2");
    page.until("document.querySelectorAll('#decisions .launch .cost').length > 0");
    let decisions = page.text("document.querySelector('#decisions').innerText");
    assert!(
        decisions.contains("kubectl apply -f node-pool.yaml"),
        "{decisions}"
    );
    assert!(decisions.contains("launch default-"), "{decisions}");
    assert!(
        page.text("document.querySelector('#costs svg').getAttribute('aria-label')")
            .contains("at most")
    );
    // The window is wide enough to show everything.
    page.until("document.querySelectorAll('.node.ready').length >= 6");
    picture("dashboard-light.png", &mut page);
    page.prefer("dark");
    picture("dashboard-dark.png", &mut page);
}

#[tokio::test(flavor = "multi_thread")]
async fn cluster_is_accessible_by_mouse_keyboard_and_assistive_technology() {
    let cluster = cluster::of(4, 3).await;
    let served = Dashboard::of(&cluster);
    tokio::task::spawn_blocking(move || check_dashboard(&served))
        .await
        .unwrap();
}

fn check_dashboard(dashboard: &Dashboard) {
    let mut page = Browser::open(&dashboard.address, 1280, 800);
    page.until(&format!("{COUNT} === 4"));

    // Pending pods show their reason.
    let pending = page.text("document.querySelector('#pending').innerText");
    assert!(pending.contains("default/huge"), "{pending}");
    assert!(pending.contains("no NodePool"), "{pending}");

    // Mouse.
    page.click(".node[data-name='node-0001']");
    page.until("document.querySelector('#details h2')?.innerText === 'node-0001'");
    let details = page.text("document.querySelector('#details').innerText");
    for part in [
        "m5.large",
        "on-demand",
        "us-east-1a",
        "default/web-0001-2",
        "300m of 2",
    ] {
        assert!(details.contains(part), "{part}: {details}");
    }
    page.click("#details .close");
    page.until("document.querySelector('#details').hidden");

    // Keyboard.
    assert_eq!(page.text(FOCUSED), "node-0001", "focus returns to the node");
    page.press("ArrowRight");
    assert_eq!(page.text(FOCUSED), "node-0002");
    page.press("Home");
    assert_eq!(page.text(FOCUSED), "node-0000");
    page.press("ArrowLeft");
    assert_eq!(
        page.text(FOCUSED),
        "node-0000",
        "the first node has no predecessor"
    );
    page.press("Enter");
    page.until("document.querySelector('#details h2')?.innerText === 'node-0000'");
    page.press("Escape");
    page.until("document.querySelector('#details').hidden");
    let headings = "[...document.querySelectorAll('.group h2')].map(heading => heading.firstChild.textContent).join()";
    assert_eq!(page.text(headings), "default");
    page.press("g");
    assert_eq!(
        page.text(headings),
        "default · us-east-1a,default · us-east-1b"
    );
    page.press("ArrowDown");
    assert_eq!(
        page.text(FOCUSED),
        "node-0003",
        "the nearest of the next row"
    );
    page.press("/");
    assert_eq!(page.text(FOCUSED), "search");
    page.press("g");
    assert_eq!(
        page.text("document.querySelector('#search').value"),
        "g",
        "typing is no command"
    );
    page.press("Escape");
    page.click("#filters .clear");

    // Color scheme: the system's, and one that the user selects.
    let ground = "getComputedStyle(document.body).backgroundColor";
    page.prefer("light");
    let light = page.text(ground);
    page.prefer("dark");
    let dark = page.text(ground);
    assert_ne!(light, dark);
    page.press("t");
    assert_eq!(
        page.text(ground),
        light,
        "light is chosen, whatever the system prefers"
    );
    page.press("t");
    page.prefer("light");
    assert_eq!(page.text(ground), dark);

    // Nodes have names that contain their state.
    let accessible = page.accessible();
    let node = accessible
        .iter()
        .find(|(_, name)| name.starts_with("Node node-0002"));
    let (role, name) = node.unwrap();
    assert_eq!(role, "button");
    assert_eq!(
        name,
        "Node node-0002, m5.large on-demand in us-east-1a, ready, CPU 15 %, memory 2 %, 3 pods"
    );
    for region in ["Nodes", "Cost per hour", "Decisions"] {
        assert!(
            accessible
                .iter()
                .any(|(role, name)| role == "region" && name == region),
            "{region}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_connection_is_reported_and_the_last_state_stays_visible() {
    let cluster = cluster::of(2, 1).await;
    let served = Dashboard::of(&cluster);
    let (opened, gone) = (
        tokio::sync::oneshot::channel(),
        tokio::sync::oneshot::channel(),
    );
    let (notify, wait) = (opened.0, gone.1);
    let look = tokio::task::spawn_blocking(move || {
        let mut page = Browser::open(&served.address, 800, 600);
        page.until(&format!("{COUNT} === 2"));
        notify.send(()).unwrap();
        wait.blocking_recv().unwrap();
        page.until("document.querySelector('#trouble').hidden === false");
        let message = page.text("document.querySelector('#trouble').innerText");
        assert!(message.contains("it is tried again"), "{message}");
        assert!(!message.contains("backtrace"), "{message}");
        assert_eq!(page.value(COUNT), json!(2));
        // Then `whittle` itself exits.
        drop(served);
        page.until(
            "document.querySelector('#trouble').innerText.includes('does not answer any more')",
        );
        assert_eq!(page.value(COUNT), json!(2));
    });
    opened.1.await.unwrap();
    cluster.server.stop().await;
    gone.0.send(()).unwrap();
    look.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_need_the_token_and_are_read_only() {
    let cluster = cluster::of(1, 1).await;
    let served = Dashboard::of(&cluster);
    let asked = move || {
        let host = served.host();
        let token = format!("x-whittle-token: {}\r\n", served.token());
        let state = |host: &str, more: &str| {
            served.answer(&format!(
                "GET /api/state HTTP/1.1\r\nhost: {host}\r\n{more}"
            ))
        };
        assert!(state(&host, &token).starts_with("HTTP/1.1 200"));
        assert!(state(&host, &token).contains("\"version\":2"));
        let without = state(&host, "");
        assert!(without.starts_with("HTTP/1.1 403"), "{without}");
        assert!(
            without.contains("its token is missing or of another run"),
            "{without}"
        );
        assert!(state(&host, "x-whittle-token: guess\r\n").starts_with("HTTP/1.1 403"));
        let get = |path: &str, more: &str| {
            served.answer(&format!("GET {path} HTTP/1.1\r\nhost: {host}\r\n{more}"))
        };
        assert!(get("/api/clusters", "").starts_with("HTTP/1.1 403"));
        assert!(get("/api/clusters", &token).starts_with("HTTP/1.1 200"));
        assert!(get("/api/state?cluster=1", &token).starts_with("HTTP/1.1 404"));
        // A foreign host name that resolves to this machine (DNS rebinding).
        let rebound = state("evil.example.com", &token);
        assert!(rebound.starts_with("HTTP/1.1 403"), "{rebound}");
        let page = served.answer(&format!("GET / HTTP/1.1\r\nhost: {host}\r\n"));
        assert!(
            page.to_lowercase()
                .contains("content-security-policy: default-src 'self'"),
            "{page}"
        );
        assert!(
            !page.contains("://"),
            "nothing of elsewhere is loaded: {page}"
        );
        for method in ["POST", "PUT", "DELETE", "PATCH"] {
            let answer = served.answer(&format!(
                "{method} /api/state HTTP/1.1\r\nhost: {host}\r\n{token}"
            ));
            assert!(answer.starts_with("HTTP/1.1 405"), "{answer}");
        }
        let missing = served.answer(&format!(
            "GET /..%2fCargo.toml HTTP/1.1\r\nhost: {host}\r\n"
        ));
        assert!(missing.starts_with("HTTP/1.1 404"), "{missing}");
    };
    tokio::task::spawn_blocking(asked).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn rejected_credentials_are_reported_on_the_page() {
    let mut cluster = cluster::of(1, 1).await;
    cluster.invalidate_token();
    let served = Dashboard::of(&cluster);
    let look = move || {
        let mut page = Browser::open(&served.address, 800, 600);
        page.until("document.querySelector('#trouble').hidden === false");
        let message = page.text("document.querySelector('#trouble').innerText");
        assert!(
            message.contains("denied") || message.contains("Unauthorized"),
            "{message}"
        );
        assert_eq!(page.value(COUNT), json!(0));
        assert!(
            page.text("document.querySelector('#groups').innerText")
                .is_empty()
                || page
                    .text("document.querySelector('#groups').innerText")
                    .contains("No nodes")
        );
    };
    tokio::task::spawn_blocking(look).await.unwrap();
}

#[test]
fn missing_context_is_reported_at_startup() {
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("config");
    std::fs::write(&kubeconfig, "apiVersion: v1\nkind: Config\n").unwrap();
    let message = served::refused(&["--context", "nowhere"], &kubeconfig);
    assert!(
        message.contains(
            "context \"nowhere\" cannot be used: `kubectl config get-contexts` lists the contexts"
        ),
        "{message}"
    );
    let message = served::refused(&[], &kubeconfig);
    assert!(message.contains("--context"), "{message}");
}
