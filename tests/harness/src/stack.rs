//! The product deployed: the real template, the really built functions.

use std::{collections::BTreeMap, process::Command, time::Duration};

use serde_json::{Value, json};

use crate::{LocalAws, REGION, emulator::text};

/// A deployed stack.
#[derive(Debug)]
pub struct Stack<'a> {
    aws: &'a LocalAws,
    pub name: String,
    /// The outputs of the template, by name.
    pub outputs: BTreeMap<String, String>,
}

impl<'a> Stack<'a> {
    pub(crate) fn deploy(aws: &'a LocalAws, name: &str) -> Self {
        let output = Command::new(crate::tool("bin/sam"))
            .args([
                "deploy",
                "--stack-name",
                name,
                "--region",
                REGION,
                "--resolve-s3",
                "--capabilities",
                "CAPABILITY_IAM",
            ])
            .args([
                "--no-confirm-changeset",
                "--no-progressbar",
                "--template-file",
            ])
            .arg(crate::built("template.yaml"))
            .args([
                "--parameter-overrides",
                "DeletionProtection=false",
                "LogLevel=DEBUG",
            ])
            .arg(format!(
                "Architecture={}",
                if cfg!(target_arch = "aarch64") {
                    "arm64"
                } else {
                    "x86_64"
                }
            ))
            .envs(aws.environment())
            // A user's own profiles and settings must not reach in; SAM looks every five seconds unless told otherwise.
            .envs([
                ("AWS_CONFIG_FILE", "/dev/null"),
                ("AWS_SHARED_CREDENTIALS_FILE", "/dev/null"),
            ])
            .env_remove("AWS_PROFILE")
            .envs([("SAM_CLI_TELEMETRY", "0"), ("SAM_CLI_POLL_DELAY", "0.2")])
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
        let parameters = json!({"FunctionName": name, "Payload": event.to_string()});
        let answer = self.aws.ministack.call("lambda", "invoke", parameters);
        let payload = serde_json::from_str(&text(&answer, "Payload")).unwrap_or_default();
        if answer.get("FunctionError").is_some() {
            Err(payload)
        } else {
            Ok(payload)
        }
    }

    /// Changes how long a function may run, as the console does.
    pub fn set_timeout(&self, function: &str, timeout: Duration) {
        let name = format!("{}-{function}", self.name);
        let parameters = json!({"FunctionName": name, "Timeout": timeout.as_secs()});
        self.aws
            .ministack
            .call("lambda", "update_function_configuration", parameters);
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

fn objects<'v>(value: &'v Value, field: &str) -> &'v [Value] {
    value
        .get(field)
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default()
}
