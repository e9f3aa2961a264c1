//! How the stack is deployed: one set of functions for each reach, upgrades while turns are in flight, and deletion.
#![expect(clippy::indexing_slicing, reason = "what is not there fails the test")]

mod deployed;

use deployed::{BY_SWEEP, CLUSTER, Cluster, Deployed, MANIFESTS, all_run, all_true};
use harness::LocalAws;
use serde_json::json;

#[test]
fn two_reaches_in_one_stack_share_the_ledger_and_each_works_for_its_clusters() {
    let aws = LocalAws::start(CLUSTER);
    let mut deployed = Deployed::start(&aws);
    let vpc = deployed.serve_vpc();
    let mut inside = deployed.entry();
    inside["reach"] = json!(format!("vpc:{vpc}"));
    deployed.register(CLUSTER, &inside);
    let outside = Cluster::start();
    let credentials = "/whittle/credentials/outside";
    let token =
        json!({"Name": credentials, "Type": "SecureString", "Value": outside.sandbox.token()});
    aws.moto.call("ssm", "put_parameter", token);
    let mut entry = deployed.entry();
    entry["endpoint"] = json!(outside.sandbox.url());
    entry["credentials"] = json!(credentials);
    deployed.register("outside", &entry);

    deployed.cluster.apply(MANIFESTS);
    outside.apply(MANIFESTS);
    deployed.sweep();
    deployed.until("both NodePools are ready", BY_SWEEP, |world| {
        all_true(&world.cluster.list("nodepools"), &["Ready"], 1)?;
        all_true(&outside.list("nodepools"), &["Ready"], 1)
    });
    deployed.cluster.scale("web", 1);
    deployed.until("a pod runs behind the VPC", BY_SWEEP, |world| {
        all_run(world, 1)
    });

    let turns = |function: &str, cluster: &str| {
        let logs = deployed.stack.logs(function);
        let of_cluster = format!(r#""cluster":"{cluster}""#);
        logs.iter()
            .filter(|line| line.contains(&of_cluster))
            .count()
    };
    for function in ["provisioner", "lifecycle"] {
        let within = format!("{vpc}-{function}");
        assert_eq!(turns(function, CLUSTER), 0, "{function} is outside");
        assert_eq!(turns(&within, "outside"), 0, "{within} is inside");
        assert!(turns(function, "outside") > 0, "{function}");
        assert!(turns(&within, CLUSTER) > 0, "{within}");
    }
}
