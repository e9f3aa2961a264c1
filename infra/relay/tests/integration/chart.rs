//! The chart, rendered by helm: the relay's configuration is valid, and the rights of functions are sufficient and minimal.

use std::collections::BTreeMap;
use std::process::Command;

use relay::config::{Config, QUEUES};
use relay::kind::Kind;
use serde_json::{Value, json};

use crate::support::tool;

const CHART: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../chart");

const FUNCTIONS: [&str; 6] = [
    "provisioner",
    "lifecycle",
    "disruption",
    "terminator",
    "interruption",
    "housekeeper",
];

fn helm(arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(tool("helm")).args(arguments).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() {
        Ok(text(&output.stdout))
    } else {
        Err(text(&output.stderr))
    }
}

/// Renders the chart with all required values and these.
pub(crate) fn render(sets: &[&str]) -> Vec<Value> {
    let values = format!("{CHART}/ci/complete-values.yaml");
    let mut arguments = vec![
        "template",
        "whittle",
        CHART,
        "--namespace",
        "whittle",
        "--values",
        &values,
    ];
    arguments.extend(sets.iter().flat_map(|set| ["--set", set]));
    let text = helm(&arguments).unwrap();
    text.split("\n---\n")
        .map(|document| serde_saphyr::from_str::<Value>(document).unwrap())
        .filter(|object| !object.is_null())
        .collect()
}

fn find<'a>(objects: &'a [Value], kind: &str, name: &str) -> Option<&'a Value> {
    objects
        .iter()
        .find(|object| object["kind"] == kind && object["metadata"]["name"] == name)
}

fn strings(value: &Value) -> Vec<&str> {
    value
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item.as_str().unwrap())
        .collect()
}

/// Returns whether a role allows the verb on the resource.
fn allows(role: &Value, verb: &str, group: &str, resource: &str) -> bool {
    role["rules"].as_array().unwrap().iter().any(|rule| {
        strings(&rule["verbs"]).contains(&verb)
            && strings(&rule["apiGroups"]).contains(&group)
            && strings(&rule["resources"]).contains(&resource)
    })
}

fn functions_that_may(
    objects: &[Value],
    verb: &str,
    group: &str,
    resource: &str,
) -> Vec<&'static str> {
    FUNCTIONS
        .into_iter()
        .filter(|function| {
            let role = find(objects, "ClusterRole", &format!("whittle:{function}")).unwrap();
            allows(role, verb, group, resource)
        })
        .collect()
}

#[test]
fn helm_lint_succeeds() {
    let values = format!("{CHART}/ci/complete-values.yaml");
    helm(&["lint", "--strict", CHART, "--values", &values]).unwrap();
}

#[test]
fn devices_are_readable_only_with_resource_claims_enabled() {
    let readers = |sets: &[&str], resource: &str| {
        let objects = render(sets);
        functions_that_may(&objects, "list", "resource.k8s.io", resource)
    };
    let none: [&str; 0] = [];
    for sets in [&[][..], &["settings.ignoreDRARequests=true"]] {
        assert_eq!(readers(sets, "resourceslices"), none, "{sets:?}");
    }
    for set in [
        "settings.enableDRA=true",
        "settings.ignoreDRARequests=false",
        "settings.awsFeatureGates.draEFA=true",
        "settings.awsFeatureGates.draNVIDIAGPU=true",
    ] {
        let may = ["provisioner", "disruption"];
        assert_eq!(readers(&[set], "resourceclaims"), may, "{set}");
        let may = ["provisioner", "lifecycle", "disruption"];
        assert_eq!(readers(&[set], "resourceslices"), may, "{set}");
    }
}

#[test]
fn resource_claims_can_be_enabled_alone() {
    for set in [
        "settings.ignoreDRARequests=true",
        "settings.awsFeatureGates.draEFA=true",
        "settings.awsFeatureGates.draNVIDIAGPU=true",
    ] {
        let values = format!("{CHART}/ci/complete-values.yaml");
        let both = ["--set", "settings.enableDRA=true", "--set", set];
        let rendered = helm(
            &[
                &["template", "whittle", CHART, "--values", &values][..],
                &both,
            ]
            .concat(),
        );
        let error = rendered.unwrap_err();
        assert!(error.contains("settings.enableDRA: leave out"), "{error}");
    }
}

#[test]
fn settings_of_registry_entry_are_accepted_and_named() {
    let values = format!("{CHART}/ci/complete-values.yaml");
    let gates = api::FEATURE_GATES.map(|(_, gate)| format!("settings.featureGates.{gate}"));
    let aws_gates =
        api::AWS_FEATURE_GATES.map(|(_, gate)| format!("settings.awsFeatureGates.{gate}"));
    let mut settings = vec![
        ("settings.legacyNodeRepair".to_owned(), "true"),
        ("settings.securityGroupRefreshInterval".to_owned(), "5m"),
        (
            "settings.schedulerConfig.podTopologySpread".to_owned(),
            "{}",
        ),
    ];
    let gates = gates.into_iter().chain(aws_gates);
    settings.extend(gates.map(|gate| (gate, "true")));
    let sets = settings
        .iter()
        .flat_map(|(name, value)| ["--set".to_owned(), format!("{name}={value}")]);
    let sets: Vec<String> = sets.collect();
    let notes = |sets: &[String]| {
        let mut arguments = vec!["install", "whittle", CHART, "--dry-run=client"];
        arguments.extend(["--values", &values]);
        arguments.extend(sets.iter().map(String::as_str));
        let text = helm(&arguments).unwrap();
        text.split_once("NOTES:").unwrap().1.to_owned()
    };
    let has_no_effect = "These values have no effect here.";
    assert!(!notes(&[]).contains(has_no_effect));
    let notes = notes(&sets);
    assert!(notes.contains(has_no_effect), "{notes}");
    // Feature gates for which the chart grants rights.
    let acted_on = ["podDeletionCostManagement", "draEFA", "draNVIDIAGPU"];
    for (name, _) in settings {
        let name = name.trim_end_matches(".podTopologySpread");
        let is_acted_on = acted_on.iter().any(|known| name.ends_with(known));
        let is_named = notes.lines().any(|line| line.trim() == name);
        assert_eq!(is_named, !is_acted_on, "{name}: {notes}");
    }
}

#[test]
fn deployed_relay_is_completely_configured() {
    let objects = render(&["settings.batchMaxDuration=20s", "metrics.perObject=true"]);
    let deployment = find(&objects, "Deployment", "whittle-relay").unwrap();
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    let environment: BTreeMap<String, String> = container["env"]
        .as_array()
        .unwrap()
        .iter()
        .map(|variable| {
            (
                variable["name"].as_str().unwrap().to_owned(),
                variable["value"].as_str().unwrap().to_owned(),
            )
        })
        .collect();
    let config = Config::parse(&environment).unwrap();
    assert_eq!(config.cluster.as_str(), "demo");
    assert_eq!(config.window.max.as_secs(), 20);
    assert!(config.per_object);
    assert_eq!(config.status_namespace, "kube-system");
    for (lane, _) in QUEUES {
        assert!(config.queues[&lane].starts_with("https://sqs."), "{lane}");
    }
    assert_eq!(container["ports"][0]["containerPort"], config.listen.port());
}

#[test]
fn relay_runs_with_minimal_privileges() {
    let objects = render(&[]);
    let deployment = find(&objects, "Deployment", "whittle-relay").unwrap();
    assert_eq!(deployment["spec"]["replicas"], 1);
    assert_eq!(deployment["spec"]["strategy"]["type"], "Recreate");
    let pod = &deployment["spec"]["template"]["spec"];
    assert_eq!(pod["dnsPolicy"], "Default");
    assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
    assert_eq!(
        pod["securityContext"]["seccompProfile"]["type"],
        "RuntimeDefault"
    );
    assert_eq!(pod["tolerations"][0]["key"], "CriticalAddonsOnly");
    let expected = json!({
        "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": {"drop": ["ALL"]},
    });
    assert_eq!(pod["containers"][0]["securityContext"], expected);
    let budget = find(&objects, "PodDisruptionBudget", "whittle-relay").unwrap();
    assert_eq!(
        budget["spec"]["maxUnavailable"], 1,
        "of one relay: it must never block a drain"
    );
}

#[test]
fn relay_runs_only_on_supported_architectures() {
    let selector = |sets: &[&str]| {
        let objects = render(sets);
        let deployment = find(&objects, "Deployment", "whittle-relay").unwrap();
        deployment["spec"]["template"]["spec"]["nodeSelector"].clone()
    };
    let linux = |arch: &str| json!({"kubernetes.io/os": "linux", "kubernetes.io/arch": arch});
    assert_eq!(selector(&[]), linux("amd64"));
    let arm = selector(&["relay.image.architecture=arm64"]);
    assert_eq!(arm, linux("arm64"));
    let every = selector(&["relay.image.architecture="]);
    assert_eq!(every, json!({"kubernetes.io/os": "linux"}));
    // A user's own selector is kept.
    let own = selector(&["relay.nodeSelector.kubernetes\\.io/arch=arm64"]);
    assert_eq!(own, linux("arm64"));
}

#[test]
fn regions_of_every_partition_are_accepted() {
    for region in [
        "eu-central-1",
        "cn-northwest-1",
        "us-gov-west-1",
        "us-isob-east-1",
        "eu-isoe-west-1",
        "eusc-de-east-1",
    ] {
        let objects = render(&[&format!("stack.region={region}")]);
        assert!(find(&objects, "Deployment", "whittle-relay").is_some());
    }
}

#[test]
fn relay_may_only_watch_its_kinds() {
    let objects = render(&[]);
    let role = find(&objects, "ClusterRole", "whittle-relay").unwrap();
    for kind in Kind::ALL {
        let group = match kind.path().split('/').collect::<Vec<_>>()[..] {
            ["", "api", ..] => "",
            ["", "apis", group, ..] => group,
            _ => panic!("{}", kind.path()),
        };
        for verb in ["list", "watch"] {
            assert!(allows(role, verb, group, kind.resource()), "{verb} {kind}");
        }
    }
    for rule in role["rules"].as_array().unwrap() {
        assert_eq!(strings(&rule["verbs"]), ["list", "watch"]);
        assert!(
            strings(&rule["resources"])
                .iter()
                .all(|resource| Kind::ALL.iter().any(|kind| kind.resource() == *resource))
        );
    }
}

#[test]
fn only_terminator_may_change_pods() {
    let objects = render(&[]);
    assert_eq!(
        functions_that_may(&objects, "create", "", "pods/eviction"),
        ["terminator"]
    );
    assert_eq!(
        functions_that_may(&objects, "delete", "", "pods"),
        ["terminator"]
    );
    for verb in ["create", "update", "patch", "deletecollection"] {
        // Patches keep fields of other writers; a replacement would not.
        for resource in ["nodes", "nodeclaims", "nodepools", "ec2nodeclasses"] {
            for group in ["", "karpenter.sh", "karpenter.k8s.aws"] {
                let may = functions_that_may(&objects, "update", group, resource);
                assert_eq!(may, [""; 0], "{resource}");
            }
        }
        assert_eq!(
            functions_that_may(&objects, verb, "", "pods"),
            [""; 0],
            "{verb}"
        );
    }
}

#[test]
fn disruption_may_change_pods_only_to_manage_deletion_cost() {
    let gate = "settings.featureGates.podDeletionCostManagement";
    for (managed, may) in [("true", &["disruption"][..]), ("false", &[])] {
        let objects = render(&[&format!("{gate}={managed}")]);
        let patches = functions_that_may(&objects, "patch", "", "pods");
        assert_eq!(patches, may, "{managed}");
        for verb in ["create", "update", "deletecollection"] {
            let writes = functions_that_may(&objects, verb, "", "pods");
            assert_eq!(writes, [""; 0], "{verb}");
        }
    }
}

#[test]
fn each_function_may_write_its_objects() {
    let objects = render(&[]);
    assert_eq!(
        functions_that_may(&objects, "create", "karpenter.sh", "nodeclaims"),
        ["provisioner", "lifecycle", "disruption"]
    );
    assert_eq!(
        functions_that_may(
            &objects,
            "patch",
            "karpenter.k8s.aws",
            "ec2nodeclasses/status"
        ),
        ["lifecycle"]
    );
    assert_eq!(
        functions_that_may(&objects, "patch", "karpenter.sh", "nodepools/status"),
        ["lifecycle"]
    );
    assert_eq!(
        functions_that_may(&objects, "patch", "karpenter.sh", "nodeoverlays/status"),
        ["lifecycle"]
    );
    assert_eq!(
        functions_that_may(
            &objects,
            "patch",
            "autoscaling.x-k8s.io",
            "capacitybuffers/status"
        ),
        ["provisioner", "lifecycle"]
    );
    assert_eq!(
        functions_that_may(&objects, "patch", "", "nodes"),
        [
            "lifecycle",
            "disruption",
            "terminator",
            "interruption",
            "housekeeper"
        ]
    );
    assert_eq!(
        functions_that_may(&objects, "delete", "", "nodes"),
        ["terminator", "housekeeper"]
    );
    assert_eq!(
        functions_that_may(&objects, "list", "karpenter.sh", "nodepools"),
        FUNCTIONS
    );
    for (group, resource) in [("", "pods"), ("policy", "poddisruptionbudgets")] {
        assert_eq!(
            functions_that_may(&objects, "list", group, resource),
            ["provisioner", "lifecycle", "disruption", "terminator"],
            "{resource}"
        );
    }
}

/// Large lists of these kinds are followed by watches.
#[test]
fn functions_that_list_a_large_kind_may_watch_it() {
    let objects = render(&[]);
    for (group, resource) in [("", "pods"), ("", "nodes"), ("karpenter.sh", "nodeclaims")] {
        assert_eq!(
            functions_that_may(&objects, "watch", group, resource),
            functions_that_may(&objects, "list", group, resource),
            "{resource}"
        );
    }
}

#[test]
fn memory_limit_is_twice_usage_with_published_pods() {
    let objects = render(&["relay.publishPods=true", "stack.bucket=whittle-bucket"]);
    let deployment = find(&objects, "Deployment", "whittle-relay").unwrap();
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["resources"]["limits"]["memory"], "256Mi");
    let documented = std::fs::read_to_string(format!("{CHART}/values.yaml")).unwrap();
    assert!(documented.contains("up to 128 MiB for 50,000 pods"));
}

#[test]
fn metrics_can_be_restricted_by_network_policy() {
    let ingress = |sets: &[&str]| {
        let sets = [&["relay.networkPolicy.enabled=true"], sets].concat();
        let objects = render(&sets);
        let policy = find(&objects, "NetworkPolicy", "whittle-relay").unwrap();
        policy["spec"]["ingress"][0].clone()
    };
    assert_eq!(ingress(&[]).get("from"), None);
    let label = "kubernetes\\.io/metadata\\.name";
    let peer = format!(
        "relay.networkPolicy.metricsFrom[0].namespaceSelector.matchLabels.{label}=monitoring"
    );
    let expected = json!([{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}]);
    assert_eq!(ingress(&[&peer])["from"], expected);
}

#[test]
fn no_function_may_read_secrets_or_use_wildcards() {
    let objects = render(&[]);
    for function in FUNCTIONS {
        let role = find(&objects, "ClusterRole", &format!("whittle:{function}")).unwrap();
        for rule in role["rules"].as_array().unwrap() {
            for field in ["apiGroups", "resources", "verbs"] {
                for word in strings(&rule[field]) {
                    assert!(
                        !["*", "secrets", "configmaps"].contains(&word),
                        "{function}: {word}"
                    );
                }
            }
        }
    }
}

#[test]
fn roles_are_bound_to_groups_and_all_may_read_lease() {
    let objects = render(&["leaderElection.namespace=karpenter"]);
    for function in FUNCTIONS {
        let name = format!("whittle:{function}");
        let binding = find(&objects, "ClusterRoleBinding", &name).unwrap();
        assert_eq!(binding["roleRef"]["name"], json!(name));
        assert_eq!(
            binding["subjects"],
            json!([{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": name}])
        );
        let readers = find(&objects, "RoleBinding", "whittle:leader-election-reader").unwrap();
        assert!(
            readers["subjects"]
                .as_array()
                .unwrap()
                .iter()
                .any(|subject| subject["name"] == json!(name)),
            "{name}"
        );
    }
    let holder = find(&objects, "Role", "whittle:leader-election-holder").unwrap();
    assert_eq!(holder["metadata"]["namespace"], "karpenter");
    assert!(allows(holder, "patch", "coordination.k8s.io", "leases"));
    assert!(!allows(holder, "update", "coordination.k8s.io", "leases"));
    let holders = find(&objects, "RoleBinding", "whittle:leader-election-holder").unwrap();
    assert_eq!(holders["subjects"].as_array().unwrap().len(), 1);
    assert_eq!(holders["subjects"][0]["name"], "whittle:housekeeper");
}

#[test]
fn functions_may_write_status_config_map_that_relay_watches() {
    let objects = render(&["leaderElection.namespace=karpenter"]);
    let map = find(&objects, "ConfigMap", "whittle-status").unwrap();
    assert_eq!(map["metadata"]["namespace"], "karpenter");
    assert!(
        map.get("data").is_none(),
        "an upgrade must keep the published data"
    );
    let everybody = FUNCTIONS.map(|function| format!("whittle:{function}"));
    for (name, verbs, subjects) in [
        ("whittle:status-writer", ["get", "patch"], &everybody[..]),
        (
            "whittle:status-reader",
            ["list", "watch"],
            &["whittle-relay".to_owned()][..],
        ),
    ] {
        let role = find(&objects, "Role", name).unwrap();
        assert_eq!(role["metadata"]["namespace"], "karpenter");
        let only = json!([{
            "apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["whittle-status"], "verbs": verbs,
        }]);
        assert_eq!(role["rules"], only, "{name}");
        let binding = find(&objects, "RoleBinding", name).unwrap();
        let bound = binding["subjects"].as_array().unwrap().iter();
        let bound: Vec<&str> = bound
            .map(|subject| subject["name"].as_str().unwrap())
            .collect();
        assert_eq!(bound, subjects, "{name}");
    }
    let without = render(&["relay.enabled=false"]);
    assert_eq!(find(&without, "ConfigMap", "whittle-status"), None);
}

#[test]
fn parts_can_be_disabled() {
    let objects = render(&[
        "relay.enabled=false",
        "rbac.functions=false",
        "rbac.aggregate=false",
        "crds.enabled=false",
        "priorityAndFairness.enabled=false",
    ]);
    assert_eq!(objects, Vec::<Value>::new());
    let objects = render(&[
        "serviceMonitor.enabled=false",
        "prometheusRule.enabled=false",
        "relay.serviceAccount.create=false",
        "relay.serviceAccount.name=own",
    ]);
    assert!(objects.iter().all(|object| {
        !["ServiceMonitor", "PrometheusRule", "ServiceAccount"]
            .contains(&object["kind"].as_str().unwrap())
    }));
    let binding = find(&objects, "ClusterRoleBinding", "whittle-relay").unwrap();
    assert_eq!(binding["subjects"][0]["name"], "own");
}

#[test]
fn alerts_are_rendered_as_prometheus_rule_if_enabled() {
    let rule = render(&["prometheusRule.labels.release=monitoring"]);
    let rule = find(&rule, "PrometheusRule", "whittle-relay").unwrap();
    assert_eq!(rule["metadata"]["labels"]["release"], "monitoring");
    let groups = rule["spec"]["groups"].as_array().unwrap().iter();
    let rules = groups.flat_map(|group| group["rules"].as_array().unwrap());
    for rule in rules {
        let (name, summary) = (&rule["alert"], &rule["annotations"]["summary"]);
        assert!(name.as_str().unwrap().starts_with("Whittle"), "{name}");
        assert!(summary.is_string(), "{name} has no summary");
    }
}

#[test]
fn wrong_values_are_rejected_by_name() {
    let values = format!("{CHART}/ci/complete-values.yaml");
    for (set, named) in [
        ("cluster=", "cluster is needed"),
        (
            "stack.queues.terminate=",
            "stack.queues.terminate is needed",
        ),
        (
            "relay.image.repository=",
            "relay.image.repository is needed",
        ),
        (
            "stack.queues.provision=whittle-provision",
            "/stack/queues/provision",
        ),
        (
            "settings.batchIdleDuration=soon",
            "/settings/batchIdleDuration",
        ),
        ("relay.logLevel=loud", "/relay/logLevel"),
        ("relay.replicas=2", "replicas"),
    ] {
        let error = helm(&[
            "template", "whittle", CHART, "--values", &values, "--set", set,
        ])
        .unwrap_err();
        assert!(error.contains(named), "{set}: {error}");
    }
}
