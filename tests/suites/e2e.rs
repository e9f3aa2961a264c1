//! The deployed stack end to end: `sam deploy` into a local AWS, a cluster, kubectl, and the functions' own processes.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a missing value fails the test"
)]

use std::{collections::BTreeSet, process::Command, time::Duration};

use base64::{Engine, prelude::BASE64_STANDARD};
use deployed::{
    BY_SWEEP, CLUSTER, Deployed, MANIFESTS, SECRET_OF_NODES, SOON, all_run, all_true, permissions,
    relay::Relay, tags, wire::Fault,
};
use harness::{LocalAws, ProxyFault};
use serde_json::{Value, json};

#[test]
fn pending_pods_get_nodes_with_and_without_the_relay() {
    let aws = LocalAws::start(CLUSTER);
    let mut deployed = Deployed::start(&aws);
    let relay = Relay::start(&deployed);
    deployed.cluster.apply(MANIFESTS);
    deployed.sweep();
    deployed.until("the NodePool is ready", SOON, |world| {
        all_true(&world.cluster.list("nodepools"), &["Ready"], 1)
    });

    deployed.cluster.scale("web", 1);
    deployed.until("the first pod runs", SOON, |world| all_run(world, 1));
    deployed.until("the instance has its names", SOON, named);
    instances_match_the_node_pool(&deployed);
    let claims = deployed.until("the NodeClaim is initialized", SOON, initialized);
    node_claim_names_its_instance_and_node(&deployed, &claims[0]);
    deployed.until(
        "the NodePool counts the node",
        SOON,
        node_pool_counts_the_node,
    );

    drop(relay);
    deployed.cluster.scale("web", 5);
    deployed.until("five pods run without the relay", BY_SWEEP, |world| {
        all_run(world, 5)
    });
    deployed.until("all NodeClaims are initialized", BY_SWEEP, initialized);

    journal_records_the_launch(&deployed);

    deployed.cluster.scale("web", 0);
    deployed.until("everything is deleted", BY_SWEEP, nothing_is_left);
    let functions = [
        "provisioner",
        "lifecycle",
        "disruption",
        "terminator",
        "housekeeper",
    ];
    permissions::every_call_is_listed(&aws, &functions);
    for function in functions {
        no_secret_is_logged(&deployed, function);
    }
}

/// Checks the function's logs at level DEBUG.
fn no_secret_is_logged(deployed: &Deployed<'_>, function: &str) {
    let logs = deployed.stack.logs(function);
    assert!(!logs.is_empty(), "{function} logs nothing");
    for secret in [deployed.cluster.token(), SECRET_OF_NODES] {
        let leak = logs.iter().find(|line| line.contains(secret));
        assert_eq!(leak, None, "{function}");
    }
}

/// Queries the journal as a user does, by the name of the stack.
fn journal_records_the_launch(deployed: &Deployed<'_>) {
    let whittle = |arguments: &[&str]| {
        let output = Command::new(harness::built_program("whittle"))
            .args(arguments)
            .env_clear()
            .envs(deployed.aws.environment())
            // CloudFormation has the parameter of the stack.
            .env("AWS_ENDPOINT_URL_SSM", deployed.aws.ministack.endpoint())
            .output()
            .unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {stderr}");
        String::from_utf8(output.stdout).unwrap()
    };
    let records = whittle(&["journal", CLUSTER, "--lane", "provisioner", "-o", "json"]);
    let mut records = records
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let launched = records.find(|record| record["launched"][0].is_object());
    let launched = launched.unwrap_or_else(|| panic!("no record of a launch"));
    let pod = launched["planned"][0]["about"].as_array().unwrap();
    let pod = pod.iter().filter_map(Value::as_str);
    let mut pods = pod.filter(|subject| subject.starts_with("pod/"));
    let pod = pods.next().unwrap();
    let explained = whittle(&["explain", pod, "--cluster", CLUSTER]);
    assert!(explained.contains("launch default-"), "{explained}");
    let again = whittle(&["replay", CLUSTER, launched["turn"].as_str().unwrap()]);
    assert!(again.contains("launch m5."), "{again}");
}

/// Pods run as soon as their node is ready; the instance is tagged with node and NodeClaim concurrently.
fn named(deployed: &Deployed<'_>) -> Result<(), String> {
    let instances = deployed.instances();
    let named = instances
        .iter()
        .all(|instance| tags(instance).contains_key("karpenter.sh/nodeclaim"));
    if named {
        Ok(())
    } else {
        Err("no tag karpenter.sh/nodeclaim".to_owned())
    }
}

fn instances_match_the_node_pool(deployed: &Deployed<'_>) {
    let instances = deployed.instances();
    let [instance] = instances.as_slice() else {
        panic!("one pod needs one instance: {instances:#?}")
    };
    assert_eq!(
        instance["InstanceType"], "m5.large",
        "the cheapest that fits"
    );
    assert!(
        aws_subnets(deployed).contains(instance["SubnetId"].as_str().unwrap()),
        "{instance:#}"
    );

    let claims = deployed.cluster.list("nodeclaims");
    let claim = claims[0]["metadata"]["name"].as_str().unwrap();
    let tags = tags(instance);
    for (key, value) in [
        ("karpenter.sh/nodepool", "default"),
        ("karpenter.sh/nodeclaim", claim),
        ("karpenter.k8s.aws/ec2nodeclass", "default"),
        ("eks:eks-cluster-name", CLUSTER),
        ("kubernetes.io/cluster/demo", "owned"),
        ("team", "payments"),
    ] {
        assert_eq!(tags.get(key), Some(&value), "{key} of {tags:#?}");
    }
    assert!(tags.contains_key("whittle.sh/launch"), "{tags:#?}");

    let ec2 = |operation, parameters| deployed.aws.moto.call("ec2", operation, parameters);
    let templates = ec2("describe_launch_templates", json!({}));
    let templates = templates["LaunchTemplates"].as_array().unwrap();
    // One template for each pod capacity of the instance types, and one that no node is launched from: it was used to check that
    // EC2 allows launches, before there was any NodeClaim.
    let mut of_node_pool = 0;
    for template in templates {
        let name = template["LaunchTemplateName"].as_str().unwrap();
        assert!(name.starts_with("karpenter.k8s.aws/"), "{name}");
        let latest =
            json!({"LaunchTemplateId": template["LaunchTemplateId"], "Versions": ["$Latest"]});
        let versions = ec2("describe_launch_template_versions", latest);
        let data = &versions["LaunchTemplateVersions"][0]["LaunchTemplateData"];
        let user_data = launch_template_joins_the_cluster(deployed, instance, data);
        of_node_pool += usize::from(user_data.contains("karpenter.sh/nodepool=default"));
    }
    assert!(of_node_pool >= 1 && of_node_pool + 1 >= templates.len());
}

fn launch_template_joins_the_cluster(
    deployed: &Deployed<'_>,
    instance: &Value,
    data: &Value,
) -> String {
    assert_eq!(data["ImageId"], instance["ImageId"]);
    assert_eq!(
        data["MetadataOptions"]["HttpTokens"], "required",
        "IMDSv2 only: {data:#}"
    );
    let group = &deployed.aws.moto.seed.security_group;
    assert_eq!(data["NetworkInterfaces"][0]["Groups"], json!([group]));
    let user_data = BASE64_STANDARD
        .decode(data["UserData"].as_str().unwrap())
        .unwrap();
    let user_data = String::from_utf8(user_data).unwrap();
    for part in [
        "apiVersion: node.eks.aws/v1alpha1",
        "kind: NodeConfig",
        "name: demo",
        &deployed.cluster.url(),
        "karpenter.sh/unregistered",
    ] {
        assert!(user_data.contains(part), "no {part:?} in:\n{user_data}");
    }
    user_data
}

fn node_pool_counts_the_node(deployed: &Deployed<'_>) -> Result<(), String> {
    let pools = deployed.cluster.list("nodepools");
    let status = &pools[0]["status"];
    if status["nodes"] == 1 && status["resources"]["cpu"] == "2" {
        return Ok(());
    }
    Err(format!("{status}"))
}

fn node_claim_names_its_instance_and_node(deployed: &Deployed<'_>, claim: &Value) {
    let instance = &deployed.instances()[0];
    let provider_id = claim["status"]["providerID"].as_str().unwrap();
    let id = instance["InstanceId"].as_str().unwrap();
    assert!(provider_id.starts_with("aws:///us-east-1"), "{provider_id}");
    assert!(provider_id.ends_with(id), "{provider_id} is not {id}");
    assert_eq!(claim["status"]["imageID"], instance["ImageId"]);
    assert_eq!(
        claim["metadata"]["labels"]["node.kubernetes.io/instance-type"],
        instance["InstanceType"]
    );
    let nodes = deployed.cluster.list("nodes");
    let [node] = nodes.as_slice() else {
        panic!("one node: {nodes:#?}")
    };
    assert_eq!(claim["status"]["nodeName"], node["metadata"]["name"]);
    assert_eq!(node["metadata"]["labels"]["tier"], "web");
    assert_eq!(
        node["metadata"]["labels"]["karpenter.sh/initialized"],
        "true"
    );
    assert_eq!(
        node["metadata"]["ownerReferences"][0]["uid"], claim["metadata"]["uid"],
        "deleting the NodeClaim's node deletes the NodeClaim's node only"
    );
    let taints = node["spec"]["taints"].as_array().into_iter().flatten();
    let unregistered = taints.filter(|taint| taint["key"] == "karpenter.sh/unregistered");
    assert_eq!(unregistered.count(), 0, "{node:#}");
}

fn aws_subnets<'d>(deployed: &'d Deployed<'_>) -> BTreeSet<&'d str> {
    let subnets = deployed.aws.moto.seed.subnets.values();
    subnets.map(String::as_str).collect()
}

#[test]
fn interrupted_node_is_tainted_replaced_drained_and_terminated_without_the_relay() {
    let aws = LocalAws::start(CLUSTER);
    let mut deployed = Deployed::start(&aws);
    // EC2 reclaims only spot instances.
    let spot = MANIFESTS.replace("[on-demand]", "[spot]");
    deployed.cluster.apply(&spot);
    deployed.sweep();
    deployed.until("the NodePool is ready", SOON, |world| {
        all_true(&world.cluster.list("nodepools"), &["Ready"], 1)
    });
    deployed.cluster.scale("web", 1);
    let claims = deployed.until("the node is initialized", BY_SWEEP, |world| {
        all_run(world, 1)?;
        initialized(world)
    });
    let victim = deployed.instances()[0]["InstanceId"].clone();
    let node = claims[0]["status"]["nodeName"].clone();

    // A malformed message before the interruption_event has no effect.
    deployed.send_event("{");
    deployed.send_event(&deployed.interruption_event("spot-interruption", &victim));
    deployed.until("the node is tainted", SOON, |world| {
        let mut nodes = world.cluster.list("nodes");
        nodes.retain(|node_object| node_object["metadata"]["name"] == node);
        let taints = nodes
            .iter()
            .flat_map(|node_object| node_object["spec"]["taints"].as_array());
        let mut taints = taints.flatten();
        match nodes.is_empty() || taints.any(|taint| taint["key"] == "karpenter.sh/disrupted") {
            true => Ok(()),
            false => Err("no taint karpenter.sh/disrupted".into()),
        }
    });
    deployed.until("a replacement is launched", SOON, |world| {
        match world.all_instances().len() {
            2 => Ok(()),
            count => Err(format!("{count} instances")),
        }
    });
    deployed.until("the pod runs on it", BY_SWEEP, |world| {
        let pods = world.cluster.list("pods");
        let left = pods.iter().any(|pod| pod["spec"]["nodeName"] == node);
        match left {
            true => Err("a pod is left on the node".into()),
            false => all_run(world, 1),
        }
    });
    deployed.until(
        "the interrupted instance is terminated",
        BY_SWEEP,
        |world| {
            let instances = world.instances();
            match instances
                .iter()
                .any(|instance| instance["InstanceId"] == victim)
            {
                true => Err("the instance still runs".into()),
                false => initialized(world).map(drop),
            }
        },
    );
    let events = deployed.cluster.list("events");
    for reason in ["SpotInterrupted", "TerminatingOnInterruption"] {
        assert!(
            events.iter().any(|event| event["reason"] == reason),
            "{reason}"
        );
    }
    permissions::every_call_is_listed(&aws, &["interruption"]);
}

#[test]
fn network_faults_only_cost_time() {
    let aws = LocalAws::start(CLUSTER);
    let mut deployed = Deployed::start(&aws);
    let slow = ProxyFault::Delay(Duration::from_secs(2));
    let anything = [
        slow,
        ProxyFault::Status(500),
        ProxyFault::LoseRequest,
        ProxyFault::LoseAnswer,
        ProxyFault::Status(503),
        ProxyFault::Truncate,
    ];
    aws.to_ministack.inject_faults(9, &anything);
    // moto launches a second time for a repeated token, which EC2 does not; therefore its answers are not lost.
    let before_it_acts = [
        slow,
        ProxyFault::Status(503),
        ProxyFault::LoseRequest,
        ProxyFault::Status(500),
    ];
    aws.to_moto.inject_faults(5, &before_it_acts);
    for (verb, resource) in [
        ("create", "nodeclaims"),
        ("patch", "nodeclaims"),
        ("patch", "nodeclaims/status"),
        ("delete", "nodeclaims"),
        ("patch", "nodes"),
        ("delete", "nodes"),
    ] {
        // A refused request is retried once its lease has expired, which takes a minute each.
        for fault in [Fault::Unavailable, Fault::LoseAnswer] {
            deployed.cluster.wire.inject(fault, verb, resource);
        }
    }
    deployed.cluster.apply(MANIFESTS);
    deployed.cluster.scale("web", 3);
    let slowly = BY_SWEEP * 2;
    deployed.until("all pods run", slowly, |world| all_run(world, 3));
    let claims = deployed.until("all NodeClaims are initialized", BY_SWEEP, initialized);
    assert_eq!(
        deployed.all_instances().len(),
        claims.len(),
        "no instance too many"
    );
    deployed.cluster.scale("web", 0);
    deployed.until("everything is deleted", slowly, nothing_is_left);
    let faults_injected = [&aws.to_ministack, &aws.to_moto].map(harness::Proxy::faults_injected);
    assert!(
        faults_injected.iter().all(|count| *count > 10),
        "{faults_injected:?}"
    );
}

/// The successor of a crashed function waits until its lease has expired, which is when the function would have timed out.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A function, and the request to the API server during which it is killed.
const KILL_POINTS: [(&str, &str, &str); 5] = [
    // The plan is committed and nothing is launched.
    ("provisioner", "create", "nodeclaims"),
    // The instances run, and their NodeClaims do not show them yet.
    ("provisioner", "patch", "nodeclaims/status"),
    ("lifecycle", "patch", "nodes"),
    ("disruption", "delete", "nodeclaims"),
    ("terminator", "patch", "nodeclaims"),
];

#[test]
fn killing_a_function_mid_turn_changes_nothing() {
    let aws = LocalAws::start(CLUSTER);
    let mut deployed = Deployed::start(&aws);
    for (function, ..) in KILL_POINTS {
        deployed.stack.set_timeout(function, TIMEOUT);
    }
    let _relay = Relay::start(&deployed);
    deployed.cluster.apply(MANIFESTS);
    deployed.sweep();
    deployed.until("the NodePool is ready", SOON, |world| {
        all_true(&world.cluster.list("nodepools"), &["Ready"], 1)
    });

    let (growing, shrinking) = KILL_POINTS.split_at(3);
    let [before_launch, after_launch, at_registration] = growing else {
        unreachable!()
    };
    arm(&deployed, before_launch);
    deployed.cluster.scale("web", 3);
    kill_when_it_hangs(&mut deployed, before_launch);
    arm(&deployed, after_launch);
    kill_when_it_hangs(&mut deployed, after_launch);
    arm(&deployed, at_registration);
    kill_when_it_hangs(&mut deployed, at_registration);
    deployed.until("all pods run", BY_SWEEP, |world| all_run(world, 3));
    deployed.until("all NodeClaims are initialized", BY_SWEEP, initialized);

    let claims = deployed.cluster.list("nodeclaims");
    let named: BTreeSet<&str> = claims
        .iter()
        .map(|claim| claim["status"]["providerID"].as_str().unwrap())
        .collect();
    assert_eq!(named.len(), claims.len(), "an instance each: {named:?}");
    assert_eq!(
        deployed.all_instances().len(),
        claims.len(),
        "no instance too many"
    );

    deployed.cluster.scale("web", 0);
    for death in shrinking {
        arm(&deployed, death);
        kill_when_it_hangs(&mut deployed, death);
    }
    deployed.until("everything is deleted", BY_SWEEP, nothing_is_left);
    assert_eq!(deployed.all_instances().len(), claims.len());
}

/// Makes the next matching request hang until its sender is killed.
fn arm(deployed: &Deployed<'_>, (_, verb, resource): &(&str, &str, &str)) {
    let hang = Fault::Delay(Duration::from_secs(600));
    deployed.cluster.wire.inject(hang, verb, resource);
}

fn kill_when_it_hangs(
    deployed: &mut Deployed<'_>,
    (function, verb, resource): &(&str, &str, &str),
) {
    let what = format!("{function} hangs in {verb} {resource}");
    deployed.until(&what, BY_SWEEP, |world| {
        match world.cluster.wire.pending_faults() {
            0 => Ok(()),
            _ => Err("not yet".into()),
        }
    });
    let name = format!("whittle-{function}");
    assert!(deployed.aws.ministack.kill_function(&name) > 0, "{what}");
}

fn initialized(deployed: &Deployed<'_>) -> Result<Vec<Value>, String> {
    let claims = deployed.cluster.list("nodeclaims");
    let steps = ["Launched", "Registered", "Initialized", "Ready"];
    all_true(&claims, &steps, deployed.instances().len()).map(|()| claims)
}

fn nothing_is_left(deployed: &Deployed<'_>) -> Result<(), String> {
    let left = [
        ("instances", deployed.instances().len()),
        ("NodeClaims", deployed.cluster.list("nodeclaims").len()),
        ("nodes", deployed.cluster.list("nodes").len()),
    ];
    if left.iter().all(|(_, count)| *count == 0) {
        return Ok(());
    }
    Err(format!("{left:?}"))
}
