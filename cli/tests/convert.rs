//! `whittle convert`, run on each `convert/<name>.yaml` and compared with the golden file `convert/<name>.out` (standard output and
//! standard error). `UPDATE_EXPECT=1` rewrites the golden files.

#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::{
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use expect_test::expect_file;
use harness::{stderr_of, stdout_of, transcript};

fn pages() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/convert");
    let files = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let mut pages: Vec<PathBuf> = files
        .filter(|file| file.extension().is_some_and(|end| end == "yaml"))
        .collect();
    pages.sort();
    pages
}

fn convert(input: &str, arguments: &[&str]) -> Output {
    let mut whittle = Command::new(env!("CARGO_BIN_EXE_whittle"))
        .args(["convert", "-f", "-"])
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    whittle
        .stdin
        .take()
        .unwrap()
        .write_all(input.as_bytes())
        .unwrap();
    whittle.wait_with_output().unwrap()
}

#[test]
fn output_of_every_example_matches_its_golden_file() {
    let pages = pages();
    assert!(pages.len() >= 5, "{pages:?}");
    for page in pages {
        let input = std::fs::read_to_string(&page).unwrap();
        let output = convert(&input, &[]);
        let shown = transcript(&output);
        expect_file![page.with_extension("out")].assert_eq(&shown);
        let refuses = shown.contains("is not converted");
        assert_eq!(
            output.status.code(),
            Some(i32::from(refuses)),
            "{}",
            page.display()
        );
    }
}

#[test]
fn converting_converted_manifests_changes_nothing() {
    for page in pages() {
        let input = std::fs::read_to_string(&page).unwrap();
        let once = stdout_of(&convert(&input, &[]));
        let twice = convert(&once, &[]);
        assert_eq!(stdout_of(&twice), once, "{}", page.display());
        assert_eq!(stderr_of(&twice), "", "{}", page.display());
    }
}

#[test]
fn unknown_field_becomes_a_comment_with_allow_unknown() {
    let input = "
apiVersion: karpenter.sh/v1beta1
kind: NodePool
metadata: {name: misspelt}
spec:
  foo: bar
  template: {spec: {nodeClassRef: {name: default}, requirements: []}}
";
    let output = convert(input, &["--allow-unknown"]);
    assert!(output.status.success(), "{}", stderr_of(&output));
    let converted = stdout_of(&output);
    assert!(
        converted.contains("# whittle: spec.foo: \"bar\" is left out: no version has this field"),
        "{converted}"
    );
}

#[test]
fn report_in_json_names_the_rejected_field() {
    let input = "{apiVersion: karpenter.sh/v1alpha5, kind: Machine, metadata: {name: old}}";
    let output = convert(input, &["--report", "json"]);
    assert_eq!(output.status.code(), Some(1));
    let report: serde_json::Value = serde_json::from_slice(&output.stderr).unwrap();
    let field = report
        .pointer("/refusals/0/field")
        .and_then(serde_json::Value::as_str);
    assert_eq!(field, Some("kind"));
}

/// A v1beta1 NodePool with kubelet settings whose EC2NodeClass is not in the input.
const KUBELET: &str = "
apiVersion: karpenter.sh/v1beta1
kind: NodePool
metadata: {name: alone}
spec: {template: {spec: {nodeClassRef: {name: absent}, requirements: [], kubelet: {maxPods: 10}}}}
";

#[test]
fn kubelet_fragment_for_a_missing_node_class_is_printed_on_request() {
    assert_eq!(convert(KUBELET, &[]).status.code(), Some(1));
    let output = convert(KUBELET, &["--kubelet-fragment"]);
    assert!(output.status.success(), "{}", stderr_of(&output));
    let converted = stdout_of(&output);
    let (_, fragment) = converted.split_once("---\n").unwrap();
    assert!(
        fragment.starts_with("# whittle: not a whole EC2NodeClass"),
        "{fragment}"
    );
    assert!(
        fragment.contains("  name: absent\nspec:\n  kubelet:\n    maxPods: 10\n"),
        "{fragment}"
    );
}

#[test]
fn node_claims_are_converted_on_request() {
    let input = "
apiVersion: karpenter.sh/v1beta1
kind: NodeClaim
metadata: {name: default-abcde, labels: {karpenter.sh/nodepool: default}}
spec:
  nodeClassRef: {name: default}
  requirements: [{key: kubernetes.io/arch, operator: In, values: [amd64]}]
  kubelet: {maxPods: 10}
---
apiVersion: karpenter.sh/v1beta1
kind: NodePool
metadata: {name: default}
spec: {disruption: {consolidationPolicy: WhenUnderutilized, expireAfter: 48h}, template: {spec: {nodeClassRef: {name: default}, requirements: []}}}
";
    assert_eq!(convert(input, &[]).status.code(), Some(1));
    let output = convert(input, &["--nodeclaims"]);
    assert!(output.status.success(), "{}", stderr_of(&output));
    let converted = stdout_of(&output);
    let (claim, _) = converted.split_once("---\n").unwrap();
    assert!(
        claim.contains("  # whittle: as NodePool default says\n  expireAfter: 48h\n"),
        "{claim}"
    );
    assert!(!claim.contains("maxPods"), "{claim}");
}

#[test]
fn default_requirements_and_instance_profiles_are_omitted_on_request() {
    let input = "
apiVersion: karpenter.sh/v1alpha5
kind: Provisioner
metadata: {name: default}
spec: {provider: {instanceProfile: nodes, subnetSelector: {a: b}, securityGroupSelector: {a: b}}}
";
    let output = convert(
        input,
        &["--ignore-defaults", "--role", "nodes-role", "--ipv6"],
    );
    assert!(output.status.success(), "{}", stderr_of(&output));
    let converted = stdout_of(&output);
    assert!(
        converted.contains("      requirements: []\n"),
        "{converted}"
    );
    assert!(
        converted.contains(
            "  # whittle: was spec.instanceProfile: nodes; set by --role\n  role: nodes-role\n"
        ),
        "{converted}"
    );
    assert!(
        converted.contains("    httpProtocolIPv6: enabled\n"),
        "{converted}"
    );
}

#[test]
fn pod_templates_of_any_kind_are_converted() {
    let pod = "metadata: {annotations: {karpenter.sh/do-not-evict: \"true\"}}, spec: {nodeSelector: {karpenter.sh/provisioner-name: a}, containers: []}";
    for (kind, spec) in [
        (
            "argoproj.io/v1alpha1, kind: Rollout",
            format!("spec: {{template: {{{pod}}}}}"),
        ),
        ("v1, kind: PodTemplate", format!("template: {{{pod}}}")),
        (
            "batch/v1, kind: CronJob",
            format!("spec: {{jobTemplate: {{spec: {{template: {{{pod}}}}}}}}}"),
        ),
        (
            "ray.io/v1, kind: RayCluster",
            format!("spec: {{workerGroupSpecs: [{{template: {{{pod}}}}}]}}"),
        ),
    ] {
        let input = format!("{{apiVersion: {kind}, metadata: {{name: a}}, {spec}}}");
        let output = convert(&input, &[]);
        let (converted, messages) = (stdout_of(&output), stderr_of(&output));
        assert!(
            converted.contains("karpenter.sh/do-not-disrupt: \"true\"")
                && converted.contains("karpenter.sh/nodepool: a"),
            "{converted}"
        );
        assert!(!messages.contains("warning"), "{messages}");
        let again = convert(&converted, &[]);
        assert_eq!(
            (stdout_of(&again), stderr_of(&again)),
            (converted, String::new())
        );
    }
}

#[test]
fn old_names_outside_of_pod_templates_stay_and_are_reported() {
    let input = "
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: policy}
spec: {rules: [{message: \"set karpenter.sh/do-not-evict\"}, {pattern: {\"=(karpenter.sh/provisioner-name)\": \"?*\"}}]}
---
apiVersion: v1
kind: Node
metadata: {name: node, labels: {karpenter.sh/provisioner-name: a}}
---
apiVersion: v1
kind: Pod
metadata: {name: pod, annotations: {kubectl.kubernetes.io/last-applied-configuration: \"karpenter.sh/do-not-evict\"}}
spec: {containers: []}
";
    let output = convert(input, &[]);
    assert!(output.status.success());
    let messages = stderr_of(&output);
    let expected = "\
ClusterPolicy/policy (standard input, document 1): warning: spec.rules.0.message names karpenter.sh/do-not-evict, which is karpenter.sh/do-not-disrupt in v1 and is not converted here: change it by hand
ClusterPolicy/policy (standard input, document 1): warning: spec.rules.1.pattern.=(karpenter.sh/provisioner-name) names karpenter.sh/provisioner-name, which is karpenter.sh/nodepool in v1 and is not converted here: change it by hand
";
    assert_eq!(messages, expected);
}

#[test]
fn new_key_wins_if_old_and_new_are_set() {
    for (input, kept, warning) in [
        (
            "{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {nodeSelector: {karpenter.sh/provisioner-name: a, karpenter.sh/nodepool: b}, containers: []}}",
            "karpenter.sh/nodepool: b",
            "karpenter.sh/provisioner-name said \"a\", and karpenter.sh/nodepool says \"b\": that stays",
        ),
        (
            "{apiVersion: karpenter.sh/v1beta1, kind: NodePool, metadata: {name: p}, spec: {template: {metadata: {labels: {beta.kubernetes.io/arch: arm64, \
             kubernetes.io/arch: amd64}}, spec: {nodeClassRef: {name: a}, requirements: []}}}}",
            "kubernetes.io/arch: amd64",
            "beta.kubernetes.io/arch said \"arm64\", and kubernetes.io/arch says \"amd64\": that stays",
        ),
    ] {
        let output = convert(input, &[]);
        let (converted, messages) = (stdout_of(&output), stderr_of(&output));
        assert!(converted.contains(kept), "{converted} {messages}");
        assert!(messages.contains(warning), "{messages}");
    }
}

#[test]
fn tags_of_old_settings_go_into_node_classes() {
    let input = "
apiVersion: v1
kind: ConfigMap
metadata: {name: karpenter-global-settings}
data:
  aws.tags: \"{}\"
  aws.tags.team: x
  aws.tags.example.com/cost-center: \"42\"
  aws.nodeNameConvention: resource-name
  ttlAfterNotRegistered: 15m
---
apiVersion: karpenter.k8s.aws/v1alpha1
kind: AWSNodeTemplate
metadata: {name: a}
spec: {instanceProfile: p, subnetSelector: {a: b}, securityGroupSelector: {a: b}}
";
    let output = convert(input, &[]);
    let (converted, messages) = (stdout_of(&output), stderr_of(&output));
    assert!(output.status.success(), "{messages}");
    for tag in ["    example.com/cost-center: \"42\"\n", "    team: x\n"] {
        assert!(converted.contains(tag), "{converted}");
    }
    for warning in [
        "aws.tags.team: x is among the tags of the EC2NodeClasses",
        "aws.nodeNameConvention is not needed any more",
        "ttlAfterNotRegistered is not needed any more",
    ] {
        assert!(messages.contains(warning), "{messages}");
    }
}

#[test]
fn field_of_v1_in_an_older_version_is_refused_as_that() {
    let input = |field: &str| {
        format!(
            "{{apiVersion: karpenter.sh/v1beta1, kind: NodePool, metadata: {{name: a}}, spec: {{template: {{spec: {{{field}: 1h, \
             nodeClassRef: {{name: a}}, requirements: []}}}}}}}}"
        )
    };
    let messages = stderr_of(&convert(&input("terminationGracePeriod"), &[]));
    assert!(
        messages.contains(
            "karpenter.sh/v1beta1 does not have this field, so it had no effect; v1 has it"
        ),
        "{messages}"
    );
    let messages = stderr_of(&convert(&input("terminationGrace"), &[]));
    assert!(messages.contains("no version has this field"), "{messages}");
    let output = convert(&input("terminationGracePeriod"), &["--allow-unknown"]);
    assert!(output.status.success());
    assert!(
        stdout_of(&output)
            .contains("is left out: karpenter.sh/v1beta1 does not have this field, and v1 does")
    );
}

#[test]
fn typed_list_is_split_into_its_items() {
    let input = "
apiVersion: karpenter.sh/v1beta1
kind: NodePoolList
items:
- metadata: {name: a} # first
  spec: {disruption: {consolidationPolicy: WhenUnderutilized}, template: {spec: {nodeClassRef: {name: a}, requirements: []}}}
- apiVersion: karpenter.sh/v1beta1
  kind: NodePool
  metadata: {name: b}
  spec: {disruption: {consolidationPolicy: WhenUnderutilized}, template: {spec: {nodeClassRef: {name: a}, requirements: []}}}
";
    let output = convert(input, &[]);
    let (converted, messages) = (stdout_of(&output), stderr_of(&output));
    assert!(output.status.success(), "{messages}");
    assert_eq!(
        converted
            .matches("apiVersion: karpenter.sh/v1\nkind: NodePool\n")
            .count(),
        2,
        "{converted}"
    );
    assert!(converted.contains("# first"), "{converted}");
}

#[test]
fn templates_are_refused_with_the_command_that_renders_them() {
    for (input, remedy) in [
        (
            "spec:\n  %{ if x }\n  weight: 1\n  %{ endif }\n",
            "if it is a template of Terraform, render it first",
        ),
        (
            "spec: {key: a, values: ${families}}\n",
            "if it is a template of Terraform, render it first",
        ),
        (
            "spec: {{ .Values.spec }}\n",
            "it is a Helm template: render it",
        ),
        ("spec: [\n", "it cannot be read"),
    ] {
        let output = convert(input, &[]);
        let messages = stderr_of(&output);
        assert_eq!(output.status.code(), Some(1), "{messages}");
        assert!(messages.contains(remedy), "{messages}");
    }
}

#[test]
fn restricted_label_is_named() {
    let input = "{apiVersion: karpenter.sh/v1beta1, kind: NodePool, metadata: {name: a}, spec: {template: {metadata: {labels: {karpenter.sh/team: x}}, \
                 spec: {nodeClassRef: {name: a}, requirements: []}}}}";
    let messages = stderr_of(&convert(input, &[]));
    assert!(
        messages.contains(
            "spec.template.metadata.labels.karpenter.sh/team is x: v1 keeps this label for itself"
        ),
        "{messages}"
    );
    assert!(!messages.contains("is restricted"), "{messages}");
}

#[test]
fn text_that_is_no_object_of_kubernetes_is_copied_with_a_warning() {
    for input in [
        "resource:\n  kubernetes_manifest: {pool: {manifest: {kind: NodePool}}}\n",
        "- apiVersion: karpenter.sh/v1beta1\n  kind: NodePool\n",
    ] {
        let output = convert(input, &[]);
        assert_eq!(stdout_of(&output), input);
        let stderr = stderr_of(&output);
        assert!(
            stderr.contains("standard input, document 1: warning: it has neither apiVersion nor kind, and is copied unchanged"),
            "{stderr}"
        );
    }
}

#[test]
fn placeholders_of_templates_are_reported() {
    let pool = |name: &str| {
        format!(
            "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {{name: \"{name}\"}}\nspec:\n  template:\n    spec:\n      \
             nodeClassRef: {{group: karpenter.k8s.aws, kind: EC2NodeClass, name: a}}\n      requirements: []\n"
        )
    };
    for placeholder in ["{{ .Values.name }}", "${name}"] {
        let stderr = stderr_of(&convert(&pool(placeholder), &[]));
        let warning = format!("placeholders of a template, such as {placeholder}, are kept");
        assert!(stderr.contains(&warning), "{stderr}");
    }
    let class = "apiVersion: karpenter.k8s.aws/v1\nkind: EC2NodeClass\nmetadata: {name: a}\nspec:\n  role: r\n  \
                 userData: \"echo ${HOME}\"\n  amiSelectorTerms: [{alias: al2023@latest}]\n  subnetSelectorTerms: [{id: subnet-1}]\n  \
                 securityGroupSelectorTerms: [{id: sg-1}]\n";
    for input in [&pool("a"), class] {
        assert_eq!(stderr_of(&convert(input, &[])), "", "{input}");
    }
}

#[test]
fn old_versions_in_other_objects_are_reported() {
    let input = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {pool: \"apiVersion: karpenter.sh/v1beta1\"}\n";
    let output = convert(input, &[]);
    assert_eq!(stdout_of(&output), input);
    let stderr = stderr_of(&output);
    assert!(
        stderr.contains("data.pool names karpenter.sh/v1beta1, which is karpenter.sh/v1 in v1 and is not converted here"),
        "{stderr}"
    );
}

#[test]
fn unknown_field_of_an_inline_provider_is_refused_once() {
    let input = "apiVersion: karpenter.sh/v1alpha5\nkind: Provisioner\nmetadata: {name: a}\nspec:\n  provider: {launchTemplateName: x, \
                 subnetSelector: {a: b}, securityGroupSelector: {a: b}, instanceProfile: p}\n";
    let stderr = stderr_of(&convert(input, &[]));
    assert_eq!(
        stderr.matches("spec.provider.launchTemplateName").count(),
        1,
        "{stderr}"
    );
}
