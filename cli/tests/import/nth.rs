//! `whittle import nth`: values of Node Termination Handler's chart.

use std::process::Output;

use expect_test::expect_file;
use harness::{stderr_of, stdout_of, transcript};

use crate::{folder, import};

#[test]
fn node_termination_handler_options_become_settings() {
    for (name, refused) in [
        ("nth", false),
        ("nth-template", false),
        ("nth-heartbeat", true),
        ("nth-odd", true),
        ("nth-refused", true),
        ("nth-secret", true),
        ("nth-current", false),
        ("nth-older", false),
        ("nth-older-refused", true),
        ("nth-text", false),
        ("nth-none", false),
        ("nth-empty", false),
    ] {
        let output = import(&["nth", "-f", &format!("{name}.yaml")]);
        let shown = transcript(&output);
        expect_file![folder().join(name).with_extension("out")].assert_eq(&shown);
        assert_eq!(output.status.code(), Some(i32::from(refused)), "{name}");
    }
    let parameter = "/whittle/credentials/nth";
    let output = import(&[
        "nth",
        "-f",
        "nth-template.yaml",
        "--webhook-parameter",
        parameter,
    ]);
    let settings = stdout_of(&output);
    assert!(
        settings.contains(r#""to": "ssm:/whittle/credentials/nth""#),
        "{settings}"
    );
}

/// Output and messages for values of NTH's chart.
fn import_values(values: &str) -> (Output, String, String) {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), values).unwrap();
    let output = import(&["nth", "-f", file.path().to_str().unwrap()]);
    let (manifests, messages) = (stdout_of(&output), stderr_of(&output));
    (output, manifests, messages)
}

#[test]
fn variables_of_extra_env_override_options() {
    let (output, manifests, messages) = import_values(
        "cordonOnly: false
dryRun: true
extraEnv:
- {name: CORDON_ONLY, value: \"true\"}
- {name: DRY_RUN, value: \"\"}
- {name: ENABLE_REBALANCE_DRAINING, value: \"true\"}
- {name: WEBHOOK_URL, value: \"https://hooks.example.com/nth\"}
- {name: HTTPS_PROXY, value: \"http://proxy:3128\"}
- {name: NODE_NAME, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}
",
    );
    assert!(output.status.success(), "{messages}");
    for line in [
        "\"cordonOnly\": true",
        "\"rebalance\": \"drain\"",
        "\"to\": \"https://hooks.example.com/nth\"",
    ] {
        assert!(manifests.contains(line), "{line}: {manifests}");
    }
    assert!(!manifests.contains("dryRun"), "{manifests}");
    for note in [
        "extraEnv.CORDON_ONLY: read as cordonOnly",
        "extraEnv.HTTPS_PROXY: not needed",
    ] {
        assert!(messages.contains(note), "{note}: {messages}");
    }
}

#[test]
fn variables_of_extra_env_that_cannot_be_read_are_refused() {
    for (values, refusal) in [
        (
            "extraEnv: [{name: CORDON_ONY, value: \"true\"}]",
            "extraEnv.CORDON_ONY is true: NTH reads no such variable (did you mean CORDON_ONLY?)",
        ),
        (
            "extraEnv: [{name: HOLD, value: \"1\"}]",
            "extraEnv.HOLD is 1: NTH reads no such variable: take it out",
        ),
        (
            "extraEnv: [{name: MANAGED_TAG, valueFrom: {configMapKeyRef: {name: a, key: b}}}]",
            "extraEnv.MANAGED_TAG is {\"configMapKeyRef\":{\"key\":\"b\",\"name\":\"a\"}}: its value is in another object",
        ),
        (
            "extraEnv: [{name: WEBHOOK_URL, valueFrom: {secretKeyRef: {name: hook, key: url}}}]",
            "webhookURLSecretName is hook: put the URL into a SecureString parameter",
        ),
        (
            "extraEnv: [{name: AWS_SECRET_ACCESS_KEY, value: wJalrXUtnFEMI}]",
            "awsSecretAccessKey is ***: access keys are not imported",
        ),
        (
            "extraEnv: {CORDON_ONLY: \"true\"}",
            "extraEnv is {\"CORDON_ONLY\":\"true\"}: expected a list of variables",
        ),
        (
            "checkTagBeforeDraining: true\nextraEnv: [{name: CHECK_TAG_BEFORE_DRAINING, value: \"false\"}]",
            "checkTagBeforeDraining is false: nodes of groups are opted in one by one",
        ),
    ] {
        let (output, manifests, messages) = import_values(values);
        assert_eq!(
            (output.status.code(), manifests.as_str()),
            (Some(1), ""),
            "{values}: {messages}"
        );
        assert!(
            messages.contains(refusal) && !messages.contains("wJalr"),
            "{values}: {messages}"
        );
    }
}

#[test]
fn files_that_are_not_values_of_the_chart_are_refused_completely() {
    for (values, refusal) in [
        (
            "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: aws-node-termination-handler}\nspec: {}",
            "it is of kind Deployment, not values of NTH's chart: give what `helm get values",
        ),
        (
            "image: x\naws-node-termination-handler: {enableSqsTerminationDraining: true, managedTag: x}",
            "it has the values of NTH's chart below aws-node-termination-handler: give what is below",
        ),
        (
            "addons: {nth: {values: {taintNode: true}}}",
            "it has the values of NTH's chart below addons.nth.values: give what is below addons.nth.values alone",
        ),
        (
            "nodeTerminationHandler: {enabled: true, managedASGTag: x}",
            "it has the values of NTH's chart below nodeTerminationHandler: give what is below nodeTerminationHandler alone",
        ),
    ] {
        let (output, manifests, messages) = import_values(values);
        assert_eq!(
            (output.status.success(), manifests.as_str()),
            (false, ""),
            "{messages}"
        );
        assert!(
            messages.contains(refusal) && !messages.contains("take it out"),
            "{messages}"
        );
    }
}

#[test]
fn option_with_a_value_that_no_setting_has_is_refused_by_its_name() {
    for (values, refusal) in [
        (
            "webhookURL: https://hooks.example.com/x\nwebhookTemplate: '{\"text\":\"x\"}'",
            "webhookTemplate is {\"text\":\"x\"}: expected at least one field, such as {{ .Description }}",
        ),
        (
            "webhookURL: http://hooks.example.com/x",
            "webhookURL is http://hooks.example.com/x: expected an HTTPS URL",
        ),
        (
            "taintEffect: Sometimes",
            "taintEffect is Sometimes: expected",
        ),
    ] {
        let (output, manifests, messages) = import_values(values);
        assert_eq!(
            (output.status.code(), manifests.as_str()),
            (Some(1), ""),
            "{messages}"
        );
        assert!(
            messages.contains(refusal) && !messages.contains("registry entry:"),
            "{messages}"
        );
    }
}
