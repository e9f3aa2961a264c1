//! Defaults and bounds of LimitRanges, as the API server's plugin LimitRanger applies them.

use api::{
    kubernetes::{Container, LimitRangeItem, Pod, PodSpec},
    quantity::ResourceList,
};
use model::{Resources, pod, quantity::Quantity, resources::amount_text};

/// Gives the containers of a pod their defaults. Returns the reasons to refuse the pod.
pub(super) fn apply(spec: &mut PodSpec, items: &[LimitRangeItem]) -> Vec<String> {
    for item in items.iter().filter(|item| item.r#type == "Container") {
        let containers = spec.init_containers.iter_mut().chain(&mut spec.containers);
        containers.for_each(|container| fill(container, item));
    }
    let mut refusals = Vec::new();
    for item in items {
        match item.r#type.as_str() {
            "Container" => {
                for container in spec.init_containers.iter().chain(&spec.containers) {
                    let (name, resources) = (&container.name, &container.resources);
                    refusals.extend(out_of_bounds(
                        &format!("container {name}"),
                        &amounts(&resources.requests),
                        &amounts(&resources.limits),
                        item,
                    ));
                }
            }
            "Pod" => {
                let pod = total_of_containers(spec);
                refusals.extend(out_of_bounds("the pod", &pod.requests, &pod.limits, item));
            }
            _ => {}
        }
    }
    refusals
}

/// Fills in the defaults of a container. A maximum stands in for a default limit, and a default limit for a default request.
fn fill(container: &mut Container, item: &LimitRangeItem) {
    let resources = &mut container.resources;
    let mut limits = item.default.clone();
    for (name, most) in &item.max {
        limits.entry(name.clone()).or_insert_with(|| most.clone());
    }
    let mut requests = item.default_request.clone();
    for (name, limit) in &limits {
        requests
            .entry(name.clone())
            .or_insert_with(|| limit.clone());
    }
    for (name, least) in &item.min {
        requests
            .entry(name.clone())
            .or_insert_with(|| least.clone());
    }
    for (to, from) in [
        (&mut resources.requests, requests),
        (&mut resources.limits, limits),
    ] {
        for (name, amount) in from {
            to.entry(name).or_insert(amount);
        }
    }
}

/// The pod with the resources of all its containers, without the overhead of its runtime.
fn total_of_containers(spec: &PodSpec) -> pod::Pod {
    let spec = PodSpec {
        overhead: ResourceList::default(),
        ..spec.clone()
    };
    let pod = Pod {
        spec,
        ..Pod::default()
    };
    pod.into()
}

/// The valid amounts; planning reports invalid ones.
fn amounts(list: &ResourceList) -> Resources {
    let mut amounts = Resources::default();
    for (name, quantity) in list {
        amounts.set_quantity(name, quantity.as_str()).ok();
    }
    amounts
}

fn out_of_bounds(
    what: &str,
    requests: &Resources,
    limits: &Resources,
    item: &LimitRangeItem,
) -> Vec<String> {
    let mut refusals = Vec::new();
    for (name, least) in amounts(&item.min).iter() {
        let asked = requests.get(name);
        if asked < least {
            let (asked, least) = (amount_text(name, asked), amount_text(name, least));
            refusals.push(format!(
                "{what} asks {asked} {name}, and a LimitRange wants {least} at least"
            ));
        }
    }
    for (name, most) in amounts(&item.max).iter() {
        let (asked, limit) = (requests.get(name), limits.0.get(name).copied());
        let found = match limit {
            Some(limit) if limit > most => {
                format!("is limited to {} {name}", amount_text(name, limit))
            }
            _ if asked > most => format!("asks {} {name}", amount_text(name, asked)),
            None => format!("has no limit of {name}"),
            Some(_) => continue,
        };
        let most = amount_text(name, most);
        refusals.push(format!(
            "{what} {found}, and a LimitRange allows {most} at most"
        ));
    }
    refusals.extend(out_of_ratio(what, requests, limits, item));
    refusals
}

const MILLI: i128 = 1000;

/// Checks the ratio of limit to request. It applies to resources with a request and a limit, and refuses resources that lack one of them.
fn out_of_ratio<'a>(
    what: &'a str,
    requests: &'a Resources,
    limits: &'a Resources,
    item: &'a LimitRangeItem,
) -> impl Iterator<Item = String> + 'a {
    let ratios = item.max_limit_request_ratio.iter();
    ratios.filter_map(move |(name, ratio)| {
        let most: Quantity = ratio.as_str().parse().ok()?;
        let asked = requests.get(name);
        let limit = limits.get(name);
        let found = if asked == 0 {
            format!("has no request of {name}")
        } else if limit == 0 {
            format!("has no limit of {name}")
        } else if i128::from(limit) * MILLI > i128::from(asked) * i128::from(most.milli()) {
            let (asked, limit) = (amount_text(name, asked), amount_text(name, limit));
            format!("asks {asked} {name} with a limit of {limit}")
        } else {
            return None;
        };
        Some(format!(
            "{what} {found}, and a LimitRange allows a limit of {} times the request at most",
            ratio.as_str()
        ))
    })
}
