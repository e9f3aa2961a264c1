//! Measures the time from an interruption message to the tainted node, and to the deleted NodeClaim, sent wakes and events:
//! Whittle's own time, on fakes that answer immediately.
//!
//!     cargo bench --profile dev -p stories --bench interruption
#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark prints, panics on a missing value and reads the clock"
)]

use std::{
    sync::Mutex,
    time::{Duration, Instant},
};

use fakes::World;
use model::InstanceId;
use stories::{Relay, Rig, all_bound, secs};
use turns::Message;

const NODES: usize = 1_000;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let mut rig = Rig::ready(Relay::Dead).await;
    rig.scale(1);
    rig.until(secs(180), all_bound).await.unwrap();
    rig.pass(secs(60)).await;
    let ids: Vec<InstanceId> = rig
        .sim
        .with(|world| (0..NODES).map(|number| copy(world, number)).collect());
    let (mut tainted, mut handled) = (Vec::new(), Vec::new());
    for id in &ids {
        let (to_taint, whole) = warn(&mut rig, id).await;
        tainted.push(to_taint);
        handled.push(whole);
        rig.sim.take_wakes();
    }
    println!("{NODES} warnings, one per delivery");
    print("event to taint", tainted);
    print("whole delivery", handled);
}

fn print(what: &str, mut took: Vec<Duration>) {
    took.sort();
    let at = |percent: usize| {
        let place = took.len() * percent / 100;
        took.get(place).copied().unwrap_or_default()
    };
    println!("{what}: p50 {:.2?}, p99 {:.2?}", at(50), at(99));
}

/// Time at which the taint was requested from the API server.
static TAINTED: Mutex<Option<Instant>> = Mutex::new(None);

/// Handles one spot warning and returns the time to the taint request and to the end.
async fn warn(rig: &mut Rig, id: &InstanceId) -> (Duration, Duration) {
    let now = rig.sim.with(|world| world.now);
    let body = serde_json::json!({
        "version": "0", "source": "aws.ec2", "detail-type": "EC2 Spot Instance Interruption Warning",
        "account": "123456789012", "region": "us-east-1", "time": now.to_string(), "detail": { "instance-id": id }
    });
    let message = Message {
        id: "1".into(),
        body: body.to_string(),
    };
    let turn = rig.next_turn();
    let now: fn(&mut World) = |_| *TAINTED.lock().unwrap() = Some(Instant::now());
    rig.sim
        .with(|world| world.on_call = Some(("update_node", now)));
    let start = Instant::now();
    let read = aws_rules::interruption::read;
    let delivery = Box::pin(turns::deliver(&rig.world, &[message], read, &turn)).await;
    let took = start.elapsed();
    assert!(delivery.kept.is_empty(), "{delivery:?}");
    let tainted = TAINTED.lock().unwrap().take().unwrap();
    (tainted.duration_since(start), took)
}

/// Adds a copy of the only launched node.
fn copy(world: &mut World, number: usize) -> InstanceId {
    let mut claim = world.api.node_claims.values().next().unwrap().clone();
    let mut node = world.api.nodes.values().next().unwrap().clone();
    let mut owner = world.ledger.owners.values().next().unwrap().clone();
    let name = format!("zz-{number:06}");
    let id = InstanceId(format!("i-{number:09}"));
    claim.name = name.as_str().into();
    claim.status.provider_id = format!("aws:///us-east-1a/{id}");
    claim.status.node_name = Some(name.as_str().into());
    claim
        .labels
        .insert("topology.k8s.aws/zone-id".into(), "use1-az1".into());
    node.name = name.as_str().into();
    node.provider_id.clone_from(&claim.status.provider_id);
    owner.holder = model::ledger::Holder::Claim(claim.name.clone());
    world.ledger.owners.insert(id.clone(), owner);
    world.api.node_claims.insert(claim.name.clone(), claim);
    world.api.nodes.insert(node.name.clone(), node);
    id
}
