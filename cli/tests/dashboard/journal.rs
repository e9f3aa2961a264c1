//! Recorded journals.

use std::path::Path;

use model::PodKey;
use stories::{Relay, Rig, all_bound, secs};

use crate::{browser::Browser, served::Dashboard};

/// The journal has twenty minutes in which three pods got their nodes.
#[tokio::test(flavor = "multi_thread")]
async fn exported_journal_is_shown() {
    let mut rig = Rig::ready(Relay::Watching).await;
    rig.scale(3);
    assert!(rig.until(secs(180), all_bound).await.is_some());
    // The disruption function evaluates the whole cluster at least every ten minutes.
    rig.pass(secs(20 * 60)).await;
    let folder = tempfile::tempdir().unwrap();
    export(&rig, folder.path());
    let look = move || {
        let dashboard = of_journal(folder.path());
        let mut page = Browser::open(&dashboard.address, 1280, 800);
        page.until("document.querySelectorAll('.node.ready').length > 0");
        let decisions = page.text("document.querySelector('#decisions').innerText");
        assert!(decisions.contains("launch default-"), "{decisions}");
        let cost = page.text("document.querySelector('#decisions .launch .cost').innerText");
        assert!(cost.starts_with("+$") && cost.ends_with("/h"), "{cost}");
        let savings = page.text("document.querySelector('.savings').innerText");
        assert!(savings.contains("On-demand list price"), "{savings}");
        page.click("#decisions button");
        page.until("document.querySelector('#details').hidden === false");
        let details = page.text("document.querySelector('#details').innerText");
        assert!(details.contains("web-"), "{details}");
    };
    tokio::task::spawn_blocking(look).await.unwrap();
}

/// Dashboard of the whole time range of an exported journal.
pub(crate) fn of_journal(folder: &Path) -> Dashboard {
    let from = folder.to_str().unwrap();
    let whole = [
        "--since",
        "2000-01-01T00:00:00Z",
        "--until",
        "2100-01-01T00:00:00Z",
    ];
    Dashboard::start(
        &[&["--journal", "demo", "--from", from], &whole[..]].concat(),
        &[],
    )
}

/// Replaces the node in every recorded snapshot by `nodes` nodes with ten pods each.
pub(crate) fn multiply(rig: &Rig, nodes: usize) {
    rig.sim.with(|world| {
        for object in world.ledger.archive.values_mut() {
            let mut snapshot = turns::journal::unpack(object).unwrap();
            let (Some(node), Some(pod)) = (snapshot.nodes.pop(), snapshot.pods.pop()) else {
                continue;
            };
            snapshot.node_claims.clear();
            for number in 0..nodes {
                let mut node = node.clone();
                node.name = format!("node-{number:04}").as_str().into();
                node.provider_id = format!("aws:///us-east-1a/i-{number:017x}");
                let zone = format!("us-east-1{}", if number < nodes / 2 { "a" } else { "b" });
                node.labels
                    .insert("topology.kubernetes.io/zone".to_owned(), zone);
                for nth in 0..10 {
                    let mut pod = pod.clone();
                    pod.key = PodKey::new("default", format!("web-{number:04}-{nth}"));
                    pod.node_name = Some(node.name.clone());
                    snapshot.pods.push(pod);
                }
                snapshot.nodes.push(node);
            }
            *object = turns::journal::pack(snapshot).unwrap();
        }
    });
}

/// Exports the journal as `whittle journal --export` does.
pub(crate) fn export(rig: &Rig, folder: &Path) {
    rig.sim.with(|world| {
        let records = world.ledger.of(&Rig::cluster()).journal.values();
        let lines: Vec<String> = records
            .map(|entry| serde_json::to_string(entry).unwrap())
            .collect();
        std::fs::write(folder.join("demo.jsonl"), lines.join("\n")).unwrap();
        for (name, object) in &world.ledger.archive {
            let path = folder.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, object).unwrap();
        }
    });
}
