//! Total requests of a pod, computed as in Kubernetes (docs/spec/scheduling.md#resources).

use model::{
    Resources,
    resources::{CPU, MEMORY, PODS},
};

use super::amounts::{amounts, trusted_amounts};
use crate::kubernetes::{Container, PodSpec, PodStatus, ResourceRequirements};
use crate::quantity::ResourceList;

/// Requests, with `pods: 1`, and limits of the whole pod.
pub(super) fn pod_requests(
    spec: &PodSpec,
    status: &PodStatus,
    problem: &mut dyn FnMut(String),
) -> (Resources, Resources) {
    let mut requests = of_containers(spec, |container| {
        let mut problem = |text: String| problem(format!("container {}: {text}", container.name));
        let mut requests = amounts(&container.resources.requests, "requests", &mut problem);
        requests.raise_to(&while_resizing(container, status));
        requests
    });
    if let Some(resources) = &spec.resources {
        // Pod-level requests replace those of the containers. As in the API server's defaulting, pod-level limits are
        // requests only if no container has requests.
        let ResourceRequirements {
            requests: own,
            limits,
            ..
        } = resources;
        for (name, amount) in pod_level(limits, problem).0 {
            requests.0.entry(name).or_insert(amount);
        }
        for (name, amount) in pod_level(own, problem).0 {
            requests.0.insert(name, amount);
        }
    }
    let overhead = amounts(&spec.overhead, "spec.overhead", problem);
    requests.add(&overhead);
    requests.add(&Resources::from([(PODS, 1)]));

    let mut limits = of_containers(spec, |container| {
        trusted_amounts(&container.resources.limits)
    });
    if let Some(resources) = &spec.resources {
        for (name, amount) in pod_level(&resources.limits, &mut |_| {}).0 {
            limits.0.insert(name, amount);
        }
    }
    for (name, amount) in overhead
        .iter()
        .filter(|(name, _)| limits.get(name) != 0)
        .collect::<Vec<_>>()
    {
        limits.set(name, limits.get(name).saturating_add(amount));
    }
    (requests, limits)
}

/// Containers run together with the sidecars. Ordinary init containers run one after another, each together with the
/// sidecars started before it.
fn of_containers(spec: &PodSpec, mut amounts_of: impl FnMut(&Container) -> Resources) -> Resources {
    let mut containers = spec.containers.iter();
    let mut running = containers.next().map(&mut amounts_of).unwrap_or_default();
    for container in containers {
        running.add(&amounts_of(container));
    }
    let (mut sidecars, mut peak) = (Resources::default(), Resources::default());
    for container in &spec.init_containers {
        let mut needed = amounts_of(container);
        needed.add(&sidecars);
        peak.raise_to(&needed);
        if container.restart_policy.as_deref() == Some("Always") {
            sidecars = needed;
        }
    }
    running.add(&sidecars);
    running.raise_to(&peak);
    running
}

/// Resources allocated to a container during an in-place resize, which may exceed its requests.
fn while_resizing(container: &Container, status: &PodStatus) -> Resources {
    let mut held = Resources::default();
    let statuses = status
        .container_statuses
        .iter()
        .chain(&status.init_container_statuses);
    for status in statuses.filter(|status| status.name == container.name) {
        held.raise_to(&trusted_amounts(&status.allocated_resources));
        held.raise_to(&trusted_amounts(&status.resources.requests));
    }
    held
}

/// Entries of a pod-level list that Kubernetes supports.
fn pod_level(list: &ResourceList, problem: &mut dyn FnMut(String)) -> Resources {
    let mut level = amounts(list, "spec.resources", problem);
    level
        .0
        .retain(|name, _| matches!(name.as_str(), CPU | MEMORY) || name.starts_with("hugepages-"));
    level
}
