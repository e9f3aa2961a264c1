//! Deployed stack: the real template with the built functions.

use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    process::{self, Command},
    time::Duration,
};

use serde_json::{Value, json};

use crate::{LocalAws, REGION, emulator::text};

/// Outputs that are parameters of the VPC lane's template.
const ROLES: [&str; 9] = [
    "ProvisionerRoleArn",
    "LifecycleRoleArn",
    "DisruptionRoleArn",
    "TerminatorRoleArn",
    "InterruptionRoleArn",
    "HousekeeperRoleArn",
    "ClusterRoleArn",
    "SweepRoleArn",
    "CodeDeployRoleArn",
];

/// Alias that queues and schedule invoke.
const LIVE: &str = "live";

/// Deployed stack.
#[derive(Debug)]
pub struct Stack<'a> {
    aws: &'a LocalAws,
    pub name: String,
    /// Outputs of the template, by name.
    pub outputs: BTreeMap<String, String>,
}

/// Path at which `make functions` builds the nested template.
const LANE: &str = "VpcLane/template.yaml";

impl<'a> Stack<'a> {
    pub(crate) fn deploy(aws: &'a LocalAws, name: &str) -> Self {
        Self::deploy_version(aws, name, "")
    }

    /// Deploys the stack again, with functions that write the ledger's rows with this schema version; an empty string
    /// selects the version of the build.
    ///
    /// # Panics
    ///
    /// If the deployment fails.
    pub fn deploy_again(&self, schema: &str) {
        Self::deploy_version(self.aws, &self.name, schema);
    }

    /// Deletes the stack with `sam delete`.
    ///
    /// # Errors
    ///
    /// SAM's output, if it fails.
    pub fn delete(self) -> Result<(), String> {
        let output = sam(self.aws)
            .args(["delete", "--no-prompts", "--region", REGION])
            .args(["--stack-name", &self.name])
            .output();
        let output = output.unwrap_or_else(|error| panic!("sam does not start: {error}"));
        match output.status.success() {
            true => Ok(()),
            false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
        }
    }

    fn deploy_version(aws: &'a LocalAws, name: &str, schema: &str) -> Self {
        // The nested stack is left out: ministack would create none of it, and packaging its functions takes as long as
        // all others together.
        let built = crate::built_template();
        let text = fs::read_to_string(&built);
        let text = text.unwrap_or_else(|error| panic!("{}: {error}", built.display()));
        let text = without_lane(&text).replace(
            "        WHITTLE_REACH: public\n",
            &format!("        WHITTLE_REACH: public\n        WHITTLE_LEDGER_SCHEMA: '{schema}'\n"),
        );
        let beside = built.with_file_name(format!("template-{}.yaml", process::id()));
        fs::write(&beside, text).unwrap_or_else(|error| panic!("{}: {error}", beside.display()));
        let stack = Self::deploy_built(aws, name, &beside, &[("DeletionProtection", "false")]);
        // The file has been read; a failure to delete it does not matter.
        let _ = fs::remove_file(&beside);
        stack
    }

    /// Deploys the functions that serve one VPC. ministack does not transform nested stacks, so it is a stack of its
    /// own, as for a further VPC.
    ///
    /// # Panics
    ///
    /// If the functions are not built or the deployment fails.
    #[must_use]
    pub fn deploy_lane(&self, vpc: &str, subnets: &str, security_groups: &str) -> Self {
        let outputs = ["Table", "Bucket"].into_iter().chain(ROLES);
        let mut parameters: Vec<(&str, &str)> =
            outputs.map(|name| (name, self.output(name))).collect();
        parameters.extend([
            ("StackName", self.name.as_str()),
            ("VpcId", vpc),
            ("SubnetIds", subnets),
            ("SecurityGroupIds", security_groups),
        ]);
        let name = format!("{}-lane", self.name);
        Self::deploy_built(self.aws, &name, &crate::built(LANE), &parameters)
    }

    fn deploy_built(
        aws: &'a LocalAws,
        name: &str,
        template: &Path,
        parameters: &[(&str, &str)],
    ) -> Self {
        let architecture = match cfg!(target_arch = "aarch64") {
            true => "Architecture=arm64",
            false => "Architecture=x86_64",
        };
        let output = sam(aws)
            .args(["deploy", "--stack-name", name, "--region", REGION])
            .args(["--resolve-s3", "--capabilities", "CAPABILITY_IAM"])
            .args(["--no-confirm-changeset", "--no-progressbar"])
            .arg("--template-file")
            .arg(template)
            .args(["--parameter-overrides", "LogLevel=DEBUG", architecture])
            .args(
                parameters
                    .iter()
                    .map(|(key, value)| format!("{key}={value}")),
            )
            .output()
            .unwrap_or_else(|error| panic!("sam does not start: {error}"));
        let (out, err) = (
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr),
        );
        assert!(
            output.status.success(),
            "sam deploy: {}\n{out}\n{err}",
            output.status
        );
        let stacks = aws.ministack.call(
            "cloudformation",
            "describe_stacks",
            json!({"StackName": name}),
        );
        let outputs = objects(
            stacks.pointer("/Stacks/0").unwrap_or(&Value::Null),
            "Outputs",
        );
        let outputs = outputs
            .iter()
            .map(|output| (text(output, "OutputKey"), text(output, "OutputValue")))
            .collect();
        Self {
            aws,
            name: name.to_owned(),
            outputs,
        }
    }

    /// Value of an output, such as `ProvisionQueueUrl`.
    ///
    /// # Panics
    ///
    /// If the template has no such output.
    #[must_use]
    pub fn output(&self, name: &str) -> &str {
        self.outputs.get(name).unwrap_or_else(|| {
            panic!(
                "the stack has no output {name:?}: {:?}",
                self.outputs.keys()
            )
        })
    }

    /// Invokes a function by its short name, such as `housekeeper`, and waits for the response.
    ///
    /// # Errors
    ///
    /// The function's error.
    pub fn invoke(&self, function: &str, event: &Value) -> Result<Value, Value> {
        let name = format!("{}-{function}", self.name);
        let parameters =
            json!({"FunctionName": name, "Qualifier": LIVE, "Payload": event.to_string()});
        let answer = self.aws.ministack.call("lambda", "invoke", parameters);
        let payload = serde_json::from_str(&text(&answer, "Payload")).unwrap_or_default();
        if answer.get("FunctionError").is_some() {
            Err(payload)
        } else {
            Ok(payload)
        }
    }

    /// Changes a function's timeout, as the console does, and publishes the change as the version that serves all
    /// invocations.
    pub fn set_timeout(&self, function: &str, timeout: Duration) {
        let name = format!("{}-{function}", self.name);
        let lambda =
            |operation, parameters| self.aws.ministack.call("lambda", operation, parameters);
        let parameters = json!({"FunctionName": name, "Timeout": timeout.as_secs()});
        lambda("update_function_configuration", parameters);
        let published = lambda("publish_version", json!({"FunctionName": name}));
        let version = text(&published, "Version");
        let parameters = json!({"FunctionName": name, "Name": LIVE, "FunctionVersion": version});
        lambda("update_alias", parameters);
    }

    /// Detaches the functions from their queues and their schedule: each runs only when it is invoked.
    pub fn deliver_nothing(&self) {
        let lambda =
            |operation, parameters| self.aws.ministack.call("lambda", operation, parameters);
        let mappings = lambda("list_event_source_mappings", json!({}));
        for mapping in objects(&mappings, "EventSourceMappings") {
            let parameters = json!({"UUID": text(mapping, "UUID")});
            lambda("delete_event_source_mapping", parameters);
        }
        let schedule = json!({"Name": format!("{}-sweep", self.name)});
        self.aws
            .ministack
            .call("scheduler", "delete_schedule", schedule);
    }

    /// Environment variables of a function, in the form of `sam local invoke --env-vars`.
    #[must_use]
    pub fn function_environment(&self, function: &str) -> BTreeMap<String, String> {
        let name = format!("{}-{function}", self.name);
        let parameters = json!({"FunctionName": name});
        let answer = self
            .aws
            .ministack
            .call("lambda", "get_function_configuration", parameters);
        let variables = answer
            .pointer("/Environment/Variables")
            .unwrap_or(&Value::Null);
        let own = variables
            .as_object()
            .into_iter()
            .flat_map(|variables| variables.keys());
        let mut environment: BTreeMap<_, _> = own
            .map(|name| (name.clone(), text(variables, name)))
            .collect();
        environment.extend(
            self.aws
                .environment()
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value)),
        );
        environment
    }

    /// Log lines of a function so far, oldest first. A line appears when its invocation has ended.
    #[must_use]
    pub fn logs(&self, function: &str) -> Vec<String> {
        let group = format!("/aws/lambda/{}-{function}", self.name);
        let mut parameters = json!({"logGroupName": group});
        let mut lines = Vec::new();
        loop {
            let page = self
                .aws
                .ministack
                .call("logs", "filter_log_events", parameters.clone());
            lines.extend(
                objects(&page, "events")
                    .iter()
                    .map(|event| text(event, "message")),
            );
            match page.get("nextToken") {
                Some(token) => parameters = json!({"logGroupName": group, "nextToken": token}),
                None => return lines,
            }
        }
    }
}

fn sam(aws: &LocalAws) -> Command {
    let mut sam = Command::new(crate::tool("bin/sam"));
    sam.envs(aws.environment())
        // The user's own AWS profiles and SAM settings must have no effect; SAM polls every five seconds by default.
        .envs([
            ("AWS_CONFIG_FILE", "/dev/null"),
            ("AWS_SHARED_CREDENTIALS_FILE", "/dev/null"),
        ])
        .env_remove("AWS_PROFILE")
        .envs([("SAM_CLI_TELEMETRY", "0"), ("SAM_CLI_POLL_DELAY", "0.2")]);
    sam
}

/// Template without the nested stack and its outputs.
fn without_lane(template: &str) -> String {
    let (mut section, mut skipped) = ("", false);
    let mut kept = String::new();
    for line in template.lines() {
        if !line.starts_with(' ') {
            (section, skipped) = (line, false);
        } else if !line.starts_with("   ") {
            let is_lane = line.starts_with("  VpcLane");
            skipped = is_lane && ["Resources:", "Outputs:"].contains(&section);
        }
        if !skipped {
            kept.push_str(line);
            kept.push('\n');
        }
    }
    kept
}

fn objects<'v>(value: &'v Value, field: &str) -> &'v [Value] {
    value
        .get(field)
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default()
}
