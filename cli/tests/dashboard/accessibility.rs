//! Rules of accessibility, in every layout and theme, and the list of problems.

use serde_json::json;

use crate::{COUNT, browser::Browser, cluster, served::Dashboard};

/// Sizes of a phone, a laptop and a large screen.
const SIZES: [(u32, u32); 3] = [(400, 850), (1400, 900), (2500, 1300)];

#[tokio::test(flavor = "multi_thread")]
async fn page_has_no_violations_and_fits_every_screen() {
    let cluster = cluster::of(4, 3).await;
    cluster.add_problems();
    let served = Dashboard::of(&cluster);
    let look = move || {
        let mut page = Browser::open(&served.address, 1400, 900);
        page.until(&format!("{COUNT} === 5"));
        for (width, height) in SIZES {
            page.resize(width, height);
            for scheme in ["light", "dark"] {
                page.prefer(scheme);
                let none = Vec::<String>::new();
                assert_eq!(page.violations(), none, "{width} pixels, {scheme}");
                page.click(".node");
                assert_eq!(page.violations(), none, "{width} pixels, {scheme}, details");
                page.press("Escape");
            }
            let wide = page.value("document.documentElement.scrollWidth");
            assert!(wide.as_u64().unwrap() <= u64::from(width), "{wide}");
        }
    };
    tokio::task::spawn_blocking(look).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn problems_come_first_with_their_reasons() {
    let cluster = cluster::of(2, 1).await;
    cluster.add_problems();
    let served = Dashboard::of(&cluster);
    let look = move || {
        let mut page = Browser::open(&served.address, 1400, 900);
        page.until(&format!("{COUNT} === 3"));
        let attention = page.text("document.querySelector('#attention').innerText");
        for part in [
            "Needs attention (2)",
            "NodePool gpu",
            "EC2NodeClass gpu does not exist",
            "1 node not ready",
            "the kubelet has stopped reporting",
        ] {
            assert!(attention.contains(part), "{part}: {attention}");
        }
        let first = page.text("document.querySelector('.group').innerText");
        assert!(first.starts_with("gpu"), "{first}");
        assert!(first.contains("no nodes"), "{first}");
        page.click("#attention button.link");
        page.until("document.querySelector('#details h2').innerText === 'node-9999'");

        // States are filters.
        page.press("Escape");
        page.click("#states [data-state=ready]");
        page.until(&format!("{COUNT} === 2"));
        assert_eq!(
            page.text("document.querySelector('#shown').innerText"),
            "2 of 3 nodes"
        );
    };
    tokio::task::spawn_blocking(look).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn all_problems_are_shown_on_demand() {
    const NODE_POOLS: usize = 70;
    let cluster = cluster::of(1, 0).await;
    for number in 0..NODE_POOLS {
        cluster.add_node_pool(&format!("pool-{number}"));
    }
    let served = Dashboard::of(&cluster);
    let look = move || {
        let mut page = Browser::open(&served.address, 1400, 900);
        page.until("document.querySelector('#attention .all').innerText === 'Show all 70'");
        page.click("#attention .all");
        let rows = page.value("document.querySelectorAll('#attention li').length");
        assert_eq!(rows, json!(NODE_POOLS));
    };
    tokio::task::spawn_blocking(look).await.unwrap();
}
