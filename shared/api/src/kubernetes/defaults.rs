//! Defaults that the API server sets when a pod is created, for pods from manifests.

use super::pod::{Container, Pod, PodPhase};

/// Default termination grace period, in seconds.
const GRACE_PERIOD_SECONDS: i64 = 30;

impl Pod {
    /// Sets the API server's defaults: requests from limits, host ports of pods on the host network, and single values.
    /// Has no effect on a pod that was read from an API server.
    pub fn set_defaults(&mut self) {
        let spec = &mut self.spec;
        for container in spec.init_containers.iter_mut().chain(&mut spec.containers) {
            request_limits(container);
            for port in &mut container.ports {
                port.protocol.get_or_insert_with(|| "TCP".to_owned());
                if spec.host_network {
                    port.host_port.get_or_insert(port.container_port);
                }
            }
        }
        spec.termination_grace_period_seconds
            .get_or_insert(GRACE_PERIOD_SECONDS);
        spec.scheduler_name
            .get_or_insert_with(|| "default-scheduler".to_owned());
        self.status.phase.get_or_insert(PodPhase::Pending);
    }
}

fn request_limits(container: &mut Container) {
    let resources = &mut container.resources;
    for (name, limit) in &resources.limits {
        resources
            .requests
            .entry(name.clone())
            .or_insert_with(|| limit.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_defaults(spec: &str) -> serde_json::Value {
        let text = format!("{{metadata: {{name: a}}, spec: {spec}}}");
        let mut pod: Pod = serde_saphyr::from_str(&text).unwrap();
        pod.set_defaults();
        serde_json::to_value(pod).unwrap()
    }

    #[test]
    fn limits_become_missing_requests() {
        let pod = with_defaults(
            "{containers: [{name: a, resources: {requests: {cpu: 100m}, limits: {cpu: 1, memory: 1Gi}}}], \
             initContainers: [{name: i, resources: {limits: {cpu: 2}}}]}",
        );
        assert_eq!(
            pod["spec"]["containers"][0]["resources"]["requests"],
            serde_json::json!({ "cpu": "100m", "memory": "1Gi" })
        );
        assert_eq!(
            pod["spec"]["initContainers"][0]["resources"]["requests"]["cpu"],
            "2"
        );
    }

    #[test]
    fn host_network_pods_use_host_ports() {
        let ports = |host_network| {
            with_defaults(&format!(
                "{{hostNetwork: {host_network}, containers: [{{name: a, ports: [{{containerPort: 80}}]}}]}}"
            ))["spec"]["containers"][0]["ports"][0]
                .clone()
        };
        assert_eq!(
            ports(true),
            serde_json::json!({ "containerPort": 80, "hostPort": 80, "protocol": "TCP" })
        );
        assert_eq!(
            ports(false),
            serde_json::json!({ "containerPort": 80, "protocol": "TCP" })
        );
    }

    #[test]
    fn explicit_values_are_kept() {
        let pod = with_defaults(
            "{containers: [], terminationGracePeriodSeconds: 0, schedulerName: mine}",
        );
        assert_eq!(pod["spec"]["terminationGracePeriodSeconds"], 0);
        assert_eq!(pod["spec"]["schedulerName"], "mine");
        assert_eq!(
            with_defaults("{containers: []}")["spec"]["terminationGracePeriodSeconds"],
            30
        );
    }
}
