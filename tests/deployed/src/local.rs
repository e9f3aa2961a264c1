//! Local AWS for invoking functions by hand, at the endpoints and with the names in `events/env.json`.

use std::{fs, path::Path};

use harness::{LocalAws, Proxy};
use serde_json::{Value, json};

use crate::{Deployed, MANIFESTS, cluster, condition};

/// Pods of the sample cluster that wait for a node.
const PENDING_PODS: usize = 3;

/// Deployed stack, and a cluster with a NodePool and pending pods, in which a function runs only when it is invoked.
pub struct Local<'a> {
    pub deployed: Deployed<'a>,
    _endpoints: Vec<Proxy>,
}

impl<'a> Local<'a> {
    /// Serves the endpoints of `variables`, a file as `sam local invoke --env-vars` reads it.
    ///
    /// # Panics
    ///
    /// If a port is in use, or the file names another table than the stack's.
    pub fn start(aws: &'a LocalAws, variables: &Path) -> Self {
        let text = fs::read_to_string(variables);
        let text = text.unwrap_or_else(|error| panic!("{}: {error}", variables.display()));
        let content: Value = serde_json::from_str(&text).unwrap();
        let variable = |name: &str| content["Parameters"][name].as_str().unwrap();
        let ports = ["AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_EC2"].map(|name| port(variable(name)));
        let endpoints = ports.map(|port| aws.serve_on(port)).into();

        let mut deployed = Deployed::start(aws);
        assert_eq!(variable("WHITTLE_TABLE"), deployed.stack.output("Table"));
        deployed.stack.deliver_nothing();
        use_bucket(&deployed, variable("WHITTLE_BUCKET"));
        deployed.sweep();
        deployed.cluster.apply(MANIFESTS);
        make_ready(&deployed);
        deployed.cluster.scale("web", PENDING_PODS);
        Self {
            deployed,
            _endpoints: endpoints,
        }
    }
}

/// Has the lifecycle function resolve the EC2NodeClass, without which the provisioner launches nothing.
fn make_ready(deployed: &Deployed<'_>) {
    let wake = cluster::root().join("events/lifecycle/wake.json");
    let wake = serde_json::from_str(&fs::read_to_string(wake).unwrap()).unwrap();
    let answer = deployed.stack.invoke("lifecycle", &wake);
    answer.unwrap_or_else(|error| panic!("the lifecycle function failed: {error}"));
    let classes = deployed.cluster.list("ec2nodeclasses");
    let is_ready = |class| condition(class, "Ready") == "True";
    assert!(classes.iter().all(is_ready), "{classes:?}");
}

/// Creates a bucket with this name, which CloudFormation would choose, and has the stack's parameter name it: the command line
/// reads the journal there.
fn use_bucket(deployed: &Deployed<'_>, bucket: &str) {
    let aws = deployed.aws;
    aws.ministack
        .call("s3", "create_bucket", json!({"Bucket": bucket}));
    let memory = json!({
        "account": harness::ACCOUNT, "table": deployed.stack.output("Table"), "bucket": bucket,
    });
    let parameter = json!({
        "Name": format!("/whittle/stacks/{}", deployed.stack.name), "Type": "String",
        "Value": memory.to_string(), "Overwrite": true,
    });
    aws.moto.call("ssm", "put_parameter", parameter);
}

/// Port of an endpoint such as `http://127.0.0.1:4566`.
fn port(endpoint: &str) -> u16 {
    let port = endpoint
        .rsplit_once(':')
        .and_then(|(_, port)| port.parse().ok());
    port.unwrap_or_else(|| panic!("{endpoint} has no port"))
}
