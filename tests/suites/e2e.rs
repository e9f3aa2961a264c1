//! The stack as it is deployed, end to end: `sam deploy` into a local AWS, a cluster, kubectl, and the functions' own processes.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "what is not there fails the test"
)]

use std::{collections::BTreeSet, process::Command, time::Duration};

use base64::{Engine, prelude::BASE64_STANDARD};
use deployed::{
    BY_SWEEP, CLUSTER, Deployed, MANIFESTS, SECRET_OF_NODES, SOON, all_run, all_true, permissions,
    relay::Relay, tags, wire::Fault,
};
use harness::{LocalAws, Trouble};
use serde_json::{Value, json};

#[test]
fn pending_pods_become_nodes_with_the_relay_and_without_it_and_nodes_end_with_their_pods() {
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
    deployed.until("its instance is named", SOON, named);
    an_instance_is_what_the_node_pool_asks_for(&deployed);
    let claims = deployed.until("its NodeClaim is initialized", SOON, initialized);
    a_node_claim_names_its_instance_and_node(&deployed, &claims[0]);
    deployed.until("the NodePool counts it", SOON, the_node_pool_counts_it);

    drop(relay);
    deployed.cluster.scale("web", 5);
    deployed.until("five pods run without the relay", BY_SWEEP, |world| {
        all_run(world, 5)
    });
    deployed.until("all NodeClaims are initialized", BY_SWEEP, initialized);

    the_journal_tells_it(&deployed);

    deployed.cluster.scale("web", 0);
    deployed.until("everything is gone", BY_SWEEP, nothing_is_left);
    let functions = [
        "provisioner",
        "lifecycle",
        "disruption",
        "terminator",
        "housekeeper",
    ];
    permissions::every_call_is_judged(&aws, &functions);
    for function in functions {
        no_secret_is_logged(&deployed, function);
    }
}

/// At the level DEBUG.
fn no_secret_is_logged(deployed: &Deployed<'_>, function: &str) {
    let logs = deployed.stack.logs(function);
    assert!(!logs.is_empty(), "{function} logs nothing");
    for secret in [deployed.cluster.token(), SECRET_OF_NODES] {
        let leak = logs.iter().find(|line| line.contains(secret));
        assert_eq!(leak, None, "{function}");
    }
}

/// As people ask: by the name of the stack.
fn the_journal_tells_it(deployed: &Deployed<'_>) {
    let whittle = |arguments: &[&str]| {
        let output = Command::new(harness::built_program("whittle"))
            .args(arguments)
            .env_clear()
            .envs(deployed.aws.environment())
            // The stack's own parameter is where CloudFormation is.
            .env("AWS_ENDPOINT_URL_SSM", deployed.aws.ministack.endpoint())
            .output()
            .unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {told}");
        String::from_utf8(output.stdout).unwrap()
    };
    let records = whittle(&["journal", CLUSTER, "--lane", "provisioner", "-o", "json"]);
    let mut records = records
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let bought = records.find(|record| record["launched"][0].is_object());
    let bought = bought.unwrap_or_else(|| panic!("no record of a launch"));
    let pod = bought["planned"][0]["about"].as_array().unwrap();
    let pod = pod.iter().filter_map(Value::as_str);
    let mut pods = pod.filter(|one| one.starts_with("pod/"));
    let pod = pods.next().unwrap();
    let explained = whittle(&["explain", pod, "--cluster", CLUSTER]);
    assert!(explained.contains("launch default-"), "{explained}");
    let again = whittle(&["replay", CLUSTER, bought["turn"].as_str().unwrap()]);
    assert!(again.contains("launch m5."), "{again}");
}

/// Pods run as soon as their node is ready; the names of node and NodeClaim are put on its instance beside that.
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

fn an_instance_is_what_the_node_pool_asks_for(deployed: &Deployed<'_>) {
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
    // One for each number of pods that an instance type can hold, and one that no node is launched from: EC2 was asked with
    // it whether it would allow launches, before there was any NodeClaim.
    let mut of_node_pool = 0;
    for template in templates {
        let name = template["LaunchTemplateName"].as_str().unwrap();
        assert!(name.starts_with("karpenter.k8s.aws/"), "{name}");
        let latest =
            json!({"LaunchTemplateId": template["LaunchTemplateId"], "Versions": ["$Latest"]});
        let versions = ec2("describe_launch_template_versions", latest);
        let data = &versions["LaunchTemplateVersions"][0]["LaunchTemplateData"];
        let user_data = a_launch_template_makes_nodes_of_the_cluster(deployed, instance, data);
        of_node_pool += usize::from(user_data.contains("karpenter.sh/nodepool=default"));
    }
    assert!(of_node_pool >= 1 && of_node_pool + 1 >= templates.len());
}

fn a_launch_template_makes_nodes_of_the_cluster(
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

fn the_node_pool_counts_it(deployed: &Deployed<'_>) -> Result<(), String> {
    let pools = deployed.cluster.list("nodepools");
    let status = &pools[0]["status"];
    if status["nodes"] == 1 && status["resources"]["cpu"] == "2" {
        return Ok(());
    }
    Err(format!("{status}"))
}

fn a_node_claim_names_its_instance_and_node(deployed: &Deployed<'_>, claim: &Value) {
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
fn a_warned_node_is_tainted_replaced_drained_and_ended_while_the_relay_is_dead() {
    let aws = LocalAws::start(CLUSTER);
    let mut deployed = Deployed::start(&aws);
    // EC2 takes back spot instances only.
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

    // Garbage before it spoils nothing.
    deployed.announce("{");
    deployed.announce(&deployed.warning("spot-interruption", &victim));
    deployed.until("its node is tainted", SOON, |world| {
        let mut nodes = world.cluster.list("nodes");
        nodes.retain(|one| one["metadata"]["name"] == node);
        let taints = nodes
            .iter()
            .flat_map(|one| one["spec"]["taints"].as_array());
        let mut taints = taints.flatten();
        match nodes.is_empty() || taints.any(|taint| taint["key"] == "karpenter.sh/disrupted") {
            true => Ok(()),
            false => Err("no taint karpenter.sh/disrupted".into()),
        }
    });
    deployed.until("a replacement is bought", SOON, |world| {
        match world.instances_ever().len() {
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
    deployed.until("the warned instance is gone", BY_SWEEP, |world| {
        let instances = world.instances();
        match instances.iter().any(|one| one["InstanceId"] == victim) {
            true => Err("it still runs".into()),
            false => initialized(world).map(drop),
        }
    });
    let events = deployed.cluster.list("events");
    for reason in ["SpotInterrupted", "TerminatingOnInterruption"] {
        assert!(
            events.iter().any(|event| event["reason"] == reason),
            "{reason}"
        );
    }
    permissions::every_call_is_judged(&aws, &["interruption"]);
}

#[test]
fn a_bad_wire_costs_time_and_nothing_else() {
    let aws = LocalAws::start(CLUSTER);
    let mut deployed = Deployed::start(&aws);
    let slow = Trouble::Delay(Duration::from_secs(2));
    let anything = [
        slow,
        Trouble::Status(500),
        Trouble::LoseRequest,
        Trouble::LoseAnswer,
        Trouble::Status(503),
        Trouble::Truncate,
    ];
    aws.to_ministack.trouble(9, &anything);
    // moto launches a second time for a token that it has seen, which EC2 does not: its answers arrive.
    let before_it_acts = [
        slow,
        Trouble::Status(503),
        Trouble::LoseRequest,
        Trouble::Status(500),
    ];
    aws.to_moto.trouble(5, &before_it_acts);
    for (verb, resource) in [
        ("create", "nodeclaims"),
        ("patch", "nodeclaims"),
        ("patch", "nodeclaims/status"),
        ("delete", "nodeclaims"),
        ("patch", "nodes"),
        ("delete", "nodes"),
    ] {
        // What was refused is tried again once its lease has lapsed: each costs a minute.
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
        deployed.instances_ever().len(),
        claims.len(),
        "no instance too many"
    );
    deployed.cluster.scale("web", 0);
    deployed.until("everything is gone", slowly, nothing_is_left);
    let troubled = [&aws.to_ministack, &aws.to_moto].map(harness::Proxy::troubled);
    assert!(troubled.iter().all(|count| *count > 10), "{troubled:?}");
}

/// Who comes after a dead function waits until its lease has lapsed, which is when it would have ended at the latest.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A function, and the request to the API server in whose midst it is killed.
const DEATHS: [(&str, &str, &str); 5] = [
    // The plan is committed and nothing is launched.
    ("provisioner", "create", "nodeclaims"),
    // The instances run and nobody has said so.
    ("provisioner", "patch", "nodeclaims/status"),
    ("lifecycle", "patch", "nodes"),
    ("disruption", "delete", "nodeclaims"),
    ("terminator", "patch", "nodeclaims"),
];

#[test]
fn killing_a_function_in_the_midst_of_its_work_changes_nothing() {
    let aws = LocalAws::start(CLUSTER);
    let mut deployed = Deployed::start(&aws);
    for (function, ..) in DEATHS {
        deployed.stack.set_timeout(function, TIMEOUT);
    }
    let _relay = Relay::start(&deployed);
    deployed.cluster.apply(MANIFESTS);
    deployed.sweep();
    deployed.until("the NodePool is ready", SOON, |world| {
        all_true(&world.cluster.list("nodepools"), &["Ready"], 1)
    });

    let (growing, shrinking) = DEATHS.split_at(3);
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
        deployed.instances_ever().len(),
        claims.len(),
        "no instance too many"
    );

    deployed.cluster.scale("web", 0);
    for death in shrinking {
        arm(&deployed, death);
        kill_when_it_hangs(&mut deployed, death);
    }
    deployed.until("everything is gone", BY_SWEEP, nothing_is_left);
    assert_eq!(deployed.instances_ever().len(), claims.len());
}

/// The next such request hangs until its sender is dead.
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
