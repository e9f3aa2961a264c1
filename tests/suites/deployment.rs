//! Deployment of the stack: one set of functions for each reach, upgrades with turns in flight, and deletion.
#![expect(clippy::indexing_slicing, reason = "a missing value fails the test")]

use std::time::Duration;

use deployed::{BY_SWEEP, CLUSTER, Cluster, Deployed, MANIFESTS, all_run, all_true, wire::Fault};
use harness::LocalAws;
use model::ledger::SCHEMA;
use serde_json::{Value, json};

#[test]
fn reaches_of_one_stack_share_the_ledger_and_serve_their_own_clusters() {
    let aws = LocalAws::start(CLUSTER);
    let mut deployed = Deployed::unregistered(&aws);
    let vpc = deployed.serve_vpc();
    let mut inside = deployed.entry();
    inside["reach"] = json!(format!("vpc:{vpc}"));
    deployed.register(CLUSTER, &inside);
    let outside = Cluster::simulated();
    let credentials = "/whittle/credentials/outside";
    let token = json!({"Name": credentials, "Type": "SecureString", "Value": outside.token()});
    aws.moto.call("ssm", "put_parameter", token);
    let mut entry = deployed.entry();
    entry["endpoint"] = json!(outside.url());
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

/// Schema versions in the ledger's rows.
fn versions(deployed: &Deployed<'_>) -> Vec<String> {
    let table = json!({"TableName": deployed.stack.output("Table")});
    let rows = deployed.aws.ministack.call("dynamodb", "scan", table);
    let rows = rows["Items"].as_array().into_iter().flatten();
    let mut versions: Vec<String> = rows
        .filter_map(|row| Some(row["schema"]["N"].as_str()?.to_owned()))
        .collect();
    versions.sort();
    versions.dedup();
    versions
}

/// Checks that each NodeClaim has its own instance, and that there are no further instances.
fn one_instance_each(deployed: &Deployed<'_>) {
    let claims = deployed.cluster.list("nodeclaims");
    let mut named: Vec<&str> = claims
        .iter()
        .filter_map(|claim| claim["status"]["providerID"].as_str())
        .collect();
    named.sort_unstable();
    named.dedup();
    assert_eq!(named.len(), claims.len());
    assert_eq!(
        deployed.all_instances().len(),
        claims.len(),
        "none too many"
    );
}

#[test]
fn upgrade_and_downgrade_keep_launches_in_flight_and_deletion_leaves_nothing() {
    let aws = LocalAws::start(CLUSTER);
    let before = everything(&aws);
    let mut deployed = Deployed::start(&aws);
    deployed.cluster.apply(MANIFESTS);
    deployed.sweep();
    deployed.until("the NodePool is ready", BY_SWEEP, |world| {
        all_true(&world.cluster.list("nodepools"), &["Ready"], 1)
    });

    // The instances run, and their NodeClaims do not show them yet: this turn ends after the upgrade, if ever.
    let hang = Fault::Delay(Duration::from_secs(40));
    deployed
        .cluster
        .wire
        .inject(hang, "patch", "nodeclaims/status");
    deployed.cluster.scale("web", 2);
    deployed.until("a turn is in flight", BY_SWEEP, |world| {
        match world.cluster.wire.pending_faults() {
            0 => Ok(()),
            _ => Err("not yet".into()),
        }
    });
    let newer = (SCHEMA + 1).to_string();
    deployed.stack.deploy_again(&newer);
    deployed.until("the pods run", BY_SWEEP, |world| all_run(world, 2));
    one_instance_each(&deployed);
    deployed.cluster.scale("web", 3);
    deployed.until("the new version works", BY_SWEEP, |world| all_run(world, 3));
    let both = [SCHEMA.to_string(), newer];
    deployed.until("rows of both lie side by side", BY_SWEEP, |world| {
        let versions = versions(world);
        match versions == both {
            true => Ok(()),
            false => Err(format!("{versions:?}")),
        }
    });

    deployed.stack.deploy_again("");
    deployed.cluster.scale("web", 4);
    deployed.until("the old version works again", BY_SWEEP, |world| {
        all_run(world, 4)
    });
    one_instance_each(&deployed);

    deployed.cluster.kubectl(&["delete", "deployment", "web"]);
    deployed
        .cluster
        .kubectl(&["delete", "nodepools", "--all", "--wait=false"]);
    deployed.until("the nodes of the NodePool end with it", BY_SWEEP, |world| {
        let left = world.cluster.list("nodepools").len() + world.cluster.list("nodeclaims").len();
        match left + world.instances().len() {
            0 => Ok(()),
            left => Err(format!("{left} are left")),
        }
    });
    deployed
        .cluster
        .kubectl(&["delete", "ec2nodeclasses", "--all", "--wait=false"]);
    deployed.until(
        "launch templates and profiles are deleted with the EC2NodeClass",
        BY_SWEEP,
        |world| match world.cluster.list("ec2nodeclasses").len() {
            0 => Ok(()),
            left => Err(format!("{left} are left")),
        },
    );
    let entry = json!({"Name": format!("/whittle/clusters/{CLUSTER}")});
    aws.moto.call("ssm", "delete_parameter", entry);
    deployed.end().unwrap();
    assert_eq!(everything(&aws), before);
}

/// List operations for everything that a stack consists of.
const LISTS: [(&str, &str, &str); 11] = [
    ("dynamodb", "list_tables", "/TableNames"),
    ("sqs", "list_queues", "/QueueUrls"),
    ("lambda", "list_functions", "/Functions"),
    (
        "lambda",
        "list_event_source_mappings",
        "/EventSourceMappings",
    ),
    ("logs", "describe_log_groups", "/logGroups"),
    ("cloudwatch", "describe_alarms", "/MetricAlarms"),
    ("cloudwatch", "list_dashboards", "/DashboardEntries"),
    ("events", "list_rules", "/Rules"),
    ("scheduler", "list_schedules", "/Schedules"),
    ("iam", "list_roles", "/Roles"),
    ("s3", "list_buckets", "/Buckets"),
];

/// Number of resources by kind; SAM's own bucket for uploads stays.
fn everything(aws: &LocalAws) -> Vec<(String, usize)> {
    let count = |(service, operation, list): &(&str, &str, &str)| {
        let answer = aws.ministack.call(service, operation, json!({}));
        let items = answer.pointer(list).and_then(Value::as_array);
        let items = items.into_iter().flatten();
        let items = items.filter(|item| !item.to_string().contains("aws-sam-cli"));
        (format!("{service}:{operation}"), items.count())
    };
    let mut all: Vec<(String, usize)> = LISTS.iter().map(count).collect();
    for (operation, list) in [
        ("describe_launch_templates", "/LaunchTemplates"),
        ("describe_instances", "/Reservations"),
    ] {
        let alive =
            json!({"Filters": [{"Name": "instance-state-name", "Values": ["pending", "running"]}]});
        let asked = match operation {
            "describe_instances" => alive,
            _ => json!({}),
        };
        let answer = aws.moto.call("ec2", operation, asked);
        let items = answer.pointer(list).and_then(Value::as_array);
        all.push((operation.to_owned(), items.map_or(0, Vec::len)));
    }
    let profiles = aws.moto.call("iam", "list_instance_profiles", json!({}));
    let profiles = profiles["InstanceProfiles"].as_array().map_or(0, Vec::len);
    all.push(("instance profiles".to_owned(), profiles));
    all
}
