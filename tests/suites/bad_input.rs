//! User mistakes: each is reported on the object concerned, other work continues, and nothing is lost.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a missing value fails the test"
)]

use deployed::{BY_SWEEP, CLUSTER, Deployed, MANIFESTS, all_run, all_true, condition};
use fakes::Fault;
use harness::LocalAws;
use serde_json::{Value, json};
use stories::{Relay, Rig, all_bound, secs};

/// A NodePool without its NodeClass, a NodeClass without subnets with its own NodePool, and a pod too large for any instance type.
const MISTAKES: &str = "
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: orphan}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: forgotten}
      requirements: [{key: kubernetes.io/arch, operator: In, values: [amd64]}]
---
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: nowhere}
spec:
  role: KarpenterNodeRole-demo
  amiSelectorTerms: [{alias: al2023@latest}]
  subnetSelectorTerms: [{tags: {karpenter.sh/discovery: elsewhere}}]
  securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: demo}}]
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: nowhere}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: nowhere}
      requirements: [{key: kubernetes.io/arch, operator: In, values: [amd64]}]
---
apiVersion: v1
kind: Pod
metadata: {name: huge, namespace: kube-public}
spec:
  containers:
  - name: huge
    image: example.com/huge:1
    resources: {requests: {cpu: 10k}}
";

const UNKNOWN_OPERATOR: &str = "
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: odd}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      requirements: [{key: kubernetes.io/arch, operator: Near, values: [amd64]}]
";

#[test]
fn user_mistakes_are_reported_on_their_objects_and_block_nothing_else() {
    let aws = LocalAws::start(CLUSTER);
    let mut deployed = Deployed::start(&aws);
    clusters_that_cannot_work(&deployed);
    deployed.cluster.apply(MANIFESTS);
    deployed.sweep();
    deployed.until("the good NodePool is ready", BY_SWEEP, |world| {
        all_true(&world.cluster.list("nodepools"), &["Ready"], 1)
    });
    deployed.cluster.apply(MISTAKES);
    let refused = deployed
        .cluster
        .try_kubectl(&["apply", "-f", "-"], UNKNOWN_OPERATOR);
    let refused = refused.unwrap_err();
    for part in ["requirements[0].operator", "Near", "NotIn"] {
        assert!(refused.contains(part), "no {part:?} in {refused}");
    }
    deployed.cluster.scale("web", 2);
    deployed.sweep();
    send(&deployed, "no wake");
    send(
        &deployed,
        r#"{"version":1,"cluster":"nobodys","lane":"provisioner","reason":"test"}"#,
    );

    deployed.until("the good pods run", BY_SWEEP, |world| all_run(world, 2));
    deployed.until(
        "the objects report the mistakes",
        BY_SWEEP,
        objects_report_mistakes,
    );
    deployed.until(
        "the logs report the mistakes",
        BY_SWEEP,
        logs_report_mistakes,
    );
    // Messages that lead to no turn and stay in the queue would be received instead of wakes.
    deployed.until(
        "messages that are no wakes are deleted",
        BY_SWEEP,
        |world| match queued(world) {
            0 => Ok(()),
            left => Err(format!("{left} messages are left")),
        },
    );
}

/// Registers clusters that cannot be served: an unreachable server, a rejected token, the credentials of another cluster, and
/// invalid JSON.
fn clusters_that_cannot_work(deployed: &Deployed<'_>) {
    let mut absent = deployed.entry();
    absent["endpoint"] = json!("https://127.0.0.1:1");
    absent["credentials"] = json!("/whittle/credentials/absent");
    deployed.register("absent", &absent);
    let mut thief = absent.clone();
    thief["credentials"] = json!("/whittle/credentials/absent");
    deployed.register("thief", &thief);

    let name = "/whittle/credentials/expired";
    for name in ["/whittle/credentials/absent", name] {
        let token = json!({"Name": name, "Type": "SecureString", "Value": "not-the-token"});
        deployed.aws.moto.call("ssm", "put_parameter", token);
    }
    let mut expired = deployed.entry();
    expired["credentials"] = json!(name);
    deployed.register("expired", &expired);

    let broken =
        json!({"Name": "/whittle/clusters/broken", "Type": "String", "Value": "{\"type\":"});
    deployed.aws.moto.call("ssm", "put_parameter", broken);
}

fn send(deployed: &Deployed<'_>, body: &str) {
    let queue = deployed.stack.output("ProvisionQueueUrl");
    let message = json!({"QueueUrl": queue, "MessageBody": body});
    deployed.aws.ministack.call("sqs", "send_message", message);
}

/// Number of messages in the queue, including those in flight.
fn queued(deployed: &Deployed<'_>) -> u64 {
    let queue = deployed.stack.output("ProvisionQueueUrl");
    let asked = json!({"QueueUrl": queue, "AttributeNames": ["All"]});
    let answer = deployed
        .aws
        .ministack
        .call("sqs", "get_queue_attributes", asked);
    let count = |name: &str| {
        answer["Attributes"][name]
            .as_str()
            .unwrap()
            .parse::<u64>()
            .unwrap()
    };
    count("ApproximateNumberOfMessages") + count("ApproximateNumberOfMessagesNotVisible")
}

fn objects_report_mistakes(deployed: &Deployed<'_>) -> Result<(), String> {
    let named = |kind: &str, name: &str| {
        let mut objects = deployed.cluster.list(kind);
        objects.retain(|object| object["metadata"]["name"] == name);
        objects.pop().unwrap_or_default()
    };
    let orphan = named("nodepools", "orphan");
    expect_condition(
        &orphan,
        "NodeClassReady",
        "NodeClassNotFound",
        "NodeClass not found on cluster",
    )?;
    let nowhere = named("ec2nodeclasses", "nowhere");
    expect_condition(
        &nowhere,
        "SubnetsReady",
        "SubnetsNotFound",
        "SubnetSelector did not match any Subnets",
    )?;
    for unready in [&orphan, &nowhere, &named("nodepools", "nowhere")] {
        if condition(unready, "Ready") != "False" {
            return Err(format!("{} is not unready", unready["metadata"]));
        }
    }
    let events = deployed.cluster.list("events");
    let reported = events.iter().find(|event| {
        event["involvedObject"]["name"] == "huge"
            && event["reason"] == "FailedScheduling"
            && event["source"]["component"] == "whittle"
    });
    let message = reported.map(|event| event["message"].as_str().unwrap_or_default());
    match message {
        Some(text) if text.contains("default") && text.contains("cpu") => Ok(()),
        other => Err(format!("unexpected event on pod huge: {other:?}")),
    }
}

fn expect_condition(object: &Value, kind: &str, reason: &str, message: &str) -> Result<(), String> {
    let conditions = object["status"]["conditions"].as_array();
    let found = conditions
        .into_iter()
        .flatten()
        .find(|condition| condition["type"] == kind);
    let text = |key: &str| {
        found
            .and_then(|condition| condition[key].as_str())
            .unwrap_or_default()
    };
    if text("status") == "False" && text("reason") == reason && text("message").contains(message) {
        return Ok(());
    }
    let name = object["metadata"]["name"].as_str().unwrap_or("?");
    Err(format!("unexpected condition {kind} of {name}: {found:?}"))
}

fn logs_report_mistakes(deployed: &Deployed<'_>) -> Result<(), String> {
    let provisioner = deployed.stack.logs("provisioner").join("\n");
    let housekeeper = deployed.stack.logs("housekeeper").join("\n");
    for (log, part) in [
        (&provisioner, "the message is not a wake"),
        (&provisioner, "cluster is not registered"),
        (&housekeeper, "/whittle/clusters/broken is not JSON"),
    ] {
        if !log.contains(part) {
            return Err(format!("no log has {part:?}"));
        }
    }
    for (cluster, part) in [
        ("absent", "Connection refused"),
        ("thief", "expected /whittle/credentials/thief"),
        ("expired", "check that the credentials"),
    ] {
        let of_cluster = format!(r#""cluster":"{cluster}""#);
        if !provisioner
            .lines()
            .any(|line| line.contains(&of_cluster) && line.contains(part))
        {
            return Err(format!("no log of cluster {cluster} has {part:?}"));
        }
    }
    Ok(())
}

#[tokio::test]
async fn missing_permission_is_reported_on_the_node_claim_and_blocks_no_pod() {
    let mut rig = Rig::ready(Relay::Watching).await;
    rig.sim.fail_next("launch", Fault::Denied);
    rig.scale(1);
    let reported = rig.until(secs(30), |world| {
        world.api.node_claims.values().any(|claim| {
            claim.status.conditions.iter().any(|condition| {
                condition.kind == "Launched"
                    && condition.reason == "Unauthorized"
                    && condition.message.contains("not authorized")
            })
        })
    });
    assert!(reported.await.is_some(), "{:#?}", rig.transcript);
    assert!(
        rig.until(secs(400), all_bound).await.is_some(),
        "{:#?}",
        rig.transcript
    );
}
