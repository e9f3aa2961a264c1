//! Admission of pods: defaults, changes and rejections.

use super::{deployment, plan, web};

#[test]
fn pods_get_the_defaults_of_the_api_server() {
    let pod = |name: &str, spec: &str| {
        format!("---\napiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec: {spec}\n")
    };
    let limits = "{containers: [{name: main, resources: {limits: {cpu: 2}}}]}";
    plan(&web(&format!("{}{}", pod("a", limits), pod("b", limits))))
        .stdout_starts_with("2 nodes to launch for 2 pods");
    let ports = "{hostNetwork: true, containers: [{name: main, ports: [{containerPort: 80}]}]}";
    plan(&web(&format!("{}{}", pod("a", ports), pod("b", ports))))
        .stdout_starts_with("2 nodes to launch for 2 pods");
    plan(&web(&deployment(3, ports))).stdout_starts_with("3 nodes to launch for 3 pods");
}

#[test]
fn limit_ranges_and_runtime_classes_add_to_pods() {
    let range = "---\napiVersion: v1\nkind: LimitRange\nmetadata: {name: defaults}\nspec: {limits: [{type: Container, defaultRequest: {cpu: 2}, max: {cpu: 3}}]}\n";
    let silent = "{containers: [{name: main}]}";
    plan(&web(&deployment(2, silent))).stdout_starts_with("1 node to launch for 2 pods");
    plan(&web(&format!("{range}{}", deployment(2, silent))))
        .stdout_starts_with("2 nodes to launch for 2 pods");
    let greedy = "{containers: [{name: main, resources: {limits: {cpu: 4}}}]}";
    plan(&web(&format!("{range}{}", deployment(1, greedy))))
        .stderr_contains("Deployment default/web: it would be refused: container main is limited to 4 cpu, and a LimitRange allows 3 at most");
    let runtime = "---\napiVersion: node.k8s.io/v1\nkind: RuntimeClass\nmetadata: {name: kata}\nhandler: kata\noverhead: {podFixed: {cpu: 2}}\nscheduling: {nodeSelector: {runtime: kata}}\n";
    let kata = "{runtimeClassName: kata, containers: [{name: main}]}";
    let labelled = web("").replace(
        "  template:\n",
        "  template:\n    metadata: {labels: {runtime: kata}}\n",
    );
    plan(&format!("{labelled}{runtime}{}", deployment(2, kata)))
        .stdout_starts_with("2 nodes to launch for 2 pods");
    plan(&web(&format!("{runtime}{}", deployment(2, kata))))
        .stdout_starts_with("Nothing to launch");
    plan(&web(&deployment(1, kata)))
        .stderr_contains("RuntimeClass kata is not among the manifests");
}

#[test]
fn pods_rejected_by_limit_ranges_are_not_planned() {
    let asking = |bounds: &str, asked: &str| {
        let range = format!(
            "---\napiVersion: v1\nkind: LimitRange\nmetadata: {{name: bounds}}\nspec: {{limits: [{bounds}]}}\n"
        );
        let pod =
            format!("{{containers: [{{name: main, resources: {{requests: {{cpu: {asked}}}}}}}]}}");
        let output = plan(&web(&format!("{range}{}", deployment(1, &pod))));
        output.stdout_starts_with("Nothing to launch");
        output
    };
    asking("{type: Container, max: {cpu: 2}}", "3").stderr_contains(
        "container main asks 3 cpu, and a LimitRange allows 2 at most; nothing is planned for it",
    );
    asking("{type: Pod, max: {cpu: 2}}", "3")
        .stderr_contains("the pod asks 3 cpu, and a LimitRange allows 2 at most");
    asking("{type: Pod, max: {cpu: 2}}", "1")
        .stderr_contains("the pod has no limit of cpu, and a LimitRange allows 2 at most");
    asking("{type: Pod, min: {cpu: 2}}", "1")
        .stderr_contains("the pod asks 1 cpu, and a LimitRange wants 2 at least");
    let ratio = |ratio: &str, resources: &str| {
        let range = format!(
            "---\napiVersion: v1\nkind: LimitRange\nmetadata: {{name: bounds}}\nspec: {{limits: [{{type: Container, maxLimitRequestRatio: {{cpu: {ratio}}}}}]}}\n"
        );
        let pod = format!("{{containers: [{{name: main, resources: {resources}}}]}}");
        plan(&web(&format!("{range}{}", deployment(1, &pod))))
    };
    ratio("1.5", "{requests: {cpu: 1}, limits: {cpu: 2}}").stderr_contains("container main asks 1 cpu with a limit of 2, and a LimitRange allows a limit of 1.5 times the request at most");
    ratio("2", "{requests: {cpu: 1}}").stderr_contains("container main has no limit of cpu");
    ratio("2", "{}").stderr_contains("container main has no request of cpu");
    ratio("2", "{requests: {cpu: 1}, limits: {cpu: 2}}")
        .stdout_starts_with("1 node to launch for 1 pod");
}
