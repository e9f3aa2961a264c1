//! The product deployed: the real template, the really built functions.

use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    process::{self, Command},
    time::Duration,
};

use serde_json::{Value, json};

use crate::{LocalAws, REGION, emulator::text};

/// Outputs that are parameters of the lane's template.
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

/// What queues and schedule call.
const LIVE: &str = "live";

/// A deployed stack.
#[derive(Debug)]
pub struct Stack<'a> {
    aws: &'a LocalAws,
    pub name: String,
    /// The outputs of the template, by name.
    pub outputs: BTreeMap<String, String>,
}

/// Where `make functions` puts what it makes of the nested template.
const LANE: &str = "VpcLane/template.yaml";

impl<'a> Stack<'a> {
    pub(crate) fn deploy(aws: &'a LocalAws, name: &str) -> Self {
        Self::deploy_version(aws, name, "")
    }

    /// Deploys the stack again, with functions that mark the ledger's rows as of this version of its records; an empty one is
    /// that of the build.
    ///
    /// # Panics
    /// If the deployment fails.
    pub fn deploy_again(&self, schema: &str) {
        Self::deploy_version(self.aws, &self.name, schema);
    }

    /// Ends the stack as `sam delete` does.
    ///
    /// # Errors
    /// What SAM said went wrong.
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
        // Nothing of the nested stack would be made, and to pack its functions takes as long as all others.
        let built = crate::built("template.yaml");
        let text = fs::read_to_string(&built);
        let text = text.unwrap_or_else(|error| panic!("{}: {error}", built.display()));
        let text = without_lane(&text).replace(
            "        WHITTLE_REACH: public\n",
            &format!("        WHITTLE_REACH: public\n        WHITTLE_LEDGER_SCHEMA: '{schema}'\n"),
        );
        let beside = built.with_file_name(format!("template-{}.yaml", process::id()));
        fs::write(&beside, text).unwrap_or_else(|error| panic!("{}: {error}", beside.display()));
        let stack = Self::deploy_built(aws, name, &beside, &[("DeletionProtection", "false")]);
        // It is read; whether it stays is of no importance.
        let _ = fs::remove_file(&beside);
        stack
    }

    /// Deploys the functions of a VPC's reach. ministack does not transform nested stacks, so it is one of its own, as for a
    /// further VPC.
    ///
    /// # Panics
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

    /// The value of an output, such as `ProvisionQueueUrl`.
    ///
    /// # Panics
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

    /// Invokes a function (by its short name, such as `housekeeper`) and waits for the answer.
    ///
    /// # Errors
    /// What the function answered, if that was an error.
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

    /// Changes how long a function may run, as the console does, in a new version that gets all work.
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

    /// The environment a function of the stack runs in, as `sam local invoke --env-vars` would give it.
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

    /// What a function has logged so far, oldest first. A line appears when its invocation has ended.
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
        // A user's own profiles and settings must not reach in; SAM looks every five seconds unless told otherwise.
        .envs([
            ("AWS_CONFIG_FILE", "/dev/null"),
            ("AWS_SHARED_CREDENTIALS_FILE", "/dev/null"),
        ])
        .env_remove("AWS_PROFILE")
        .envs([("SAM_CLI_TELEMETRY", "0"), ("SAM_CLI_POLL_DELAY", "0.2")]);
    sam
}

/// The template without the nested stack and what it puts out.
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
