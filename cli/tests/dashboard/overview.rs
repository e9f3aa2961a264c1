//! Thousands of nodes, and several clusters.

use serde_json::json;
use stories::{Relay, Rig, all_bound, secs};

use crate::{
    COUNT,
    browser::Browser,
    cluster,
    journal::{export, multiply, of_journal},
    served::Dashboard,
};

const NODES: usize = 5_000;
/// Upper bound on the elements of the page, however many nodes there are.
const ELEMENTS_MAX: u64 = 1_500;

/// Prints the time of an update. The time is not asserted, because it depends on the machine.
#[tokio::test(flavor = "multi_thread")]
async fn five_thousand_nodes_are_cells_and_few_are_boxes() {
    let mut rig = Rig::ready(Relay::Watching).await;
    rig.scale(1);
    assert!(rig.until(secs(180), all_bound).await.is_some());
    rig.pass(secs(20 * 60)).await;
    multiply(&rig, NODES);
    let folder = tempfile::tempdir().unwrap();
    export(&rig, folder.path());
    let look = move || {
        let served = of_journal(folder.path());
        let mut page = Browser::open(&served.address, 1400, 900);
        let options = "[...document.querySelectorAll('.cells [role=option]')].reduce((all, option) => all + Number(option.ariaSetSize), 0)";
        page.until(&format!("{options} === {NODES}"));
        println!(
            "update with {NODES} nodes: {} ms of script",
            page.text("document.body.dataset.milliseconds")
        );
        let elements = page.value("document.querySelectorAll('*').length");
        assert!(elements.as_u64().unwrap() < ELEMENTS_MAX, "{elements}");
        assert_eq!(page.violations(), Vec::<String>::new());

        // Cells by keyboard: the active option is described, and Enter shows it.
        page.value("document.querySelector('.cells').focus()");
        page.press("ArrowRight");
        page.press("ArrowDown");
        let active = page.text(
            "document.getElementById(document.activeElement.getAttribute('aria-activedescendant')).dataset.name",
        );
        page.press("Enter");
        page.until(&format!(
            "document.querySelector('#details h2').innerText === '{active}'"
        ));
        page.press("Escape");
        assert!(
            page.value("document.activeElement === document.querySelector('.cells')")
                == json!(true)
        );

        // Search by pod leaves one node, as a box.
        page.press("/");
        page.value("document.querySelector('#search').value = 'web-0042-7'");
        page.value(
            "document.querySelector('#search').dispatchEvent(new Event('input', {bubbles: true}))",
        );
        assert_eq!(page.value(COUNT), json!(1));
        assert_eq!(
            page.text("document.querySelector('#shown').innerText"),
            "1 of 5,000 nodes"
        );
        page.click("#filters .clear");
        page.until(&format!("{options} === {NODES}"));
        page.press("g");
        page.until("document.querySelectorAll('.group').length === 2");
    };
    tokio::task::spawn_blocking(look).await.unwrap();
}

/// One context twice, because each context is a cluster of its own to the page.
#[tokio::test(flavor = "multi_thread")]
async fn all_clusters_are_on_one_page_and_one_in_detail() {
    let cluster = cluster::of(3, 1).await;
    cluster.add_problems();
    let served = Dashboard::of_contexts(&cluster, &["sandbox", "sandbox"]);
    let look = move || {
        let mut page = Browser::open(&served.address, 1400, 900);
        page.until("document.querySelectorAll('#clusters tbody tr').length === 2");
        page.until("document.querySelector('#clusters tfoot').innerText.includes('8')");
        let row = page.text("document.querySelector('#clusters tbody tr').innerText");
        // Cluster, nodes, ready, stuck, pending pods and NodePools with problems.
        assert!(row.starts_with("sandbox\t4\t3\t1\t1\t1\t$"), "{row}");
        assert_eq!(page.violations(), Vec::<String>::new());
        page.resize(400, 800);
        assert_eq!(page.violations(), Vec::<String>::new());
        page.click("#clusters a");
        page.until(&format!("{COUNT} === 4"));
        page.click("#all");
        page.until("document.querySelector('#clusters').hidden === false");
    };
    tokio::task::spawn_blocking(look).await.unwrap();
}
