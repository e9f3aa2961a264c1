//! Device claims, and the devices that can be allocated to them.

use std::collections::BTreeMap;

use model::{
    NodeName, PodKey,
    devices::{
        AllocatedDevice, Allocation, Allowed, Attribute, ClaimSpec, Device, DeviceAlternative,
        DeviceCapacity, DeviceClass, DeviceCount, DeviceRequest, MatchAttribute, PodClaim,
        RequestPolicy, ResourceClaim, ResourceClaimTemplate, ResourceSlice, qualified,
    },
    quantity::Quantity,
};

use super::DEFAULT_NAMESPACE;
use super::selector::node_selector_term;
use crate::kubernetes;
use crate::meta::ObjectMeta;

fn key(metadata: &ObjectMeta) -> PodKey {
    let namespace = metadata.namespace.as_deref();
    PodKey {
        namespace: namespace.unwrap_or(DEFAULT_NAMESPACE).to_owned(),
        name: metadata.name.clone(),
    }
}

impl From<kubernetes::DeviceClass> for DeviceClass {
    fn from(class: kubernetes::DeviceClass) -> Self {
        Self {
            name: class.metadata.name,
            selectors: expressions(class.spec.selectors),
        }
    }
}

impl From<kubernetes::ResourceClaimTemplate> for ResourceClaimTemplate {
    fn from(template: kubernetes::ResourceClaimTemplate) -> Self {
        Self {
            key: key(&template.metadata),
            spec: claim_spec(template.spec.spec),
        }
    }
}

impl From<kubernetes::ResourceClaim> for ResourceClaim {
    fn from(claim: kubernetes::ResourceClaim) -> Self {
        let owners = claim.metadata.owner_references.iter();
        let mut pods = owners.filter(|owner| owner.api_version == "v1" && owner.kind == "Pod");
        let consumers = claim.status.reserved_for.into_iter();
        let consumers = consumers.filter(|consumer| consumer.resource == "pods");
        Self {
            key: key(&claim.metadata),
            owner: pods.next().map(|owner| owner.uid.clone().into()),
            spec: claim_spec(claim.spec),
            allocation: claim.status.allocation.map(allocation),
            reserved_for: consumers.map(|consumer| consumer.uid.into()).collect(),
        }
    }
}

impl From<kubernetes::ResourceSlice> for ResourceSlice {
    fn from(slice: kubernetes::ResourceSlice) -> Self {
        let kubernetes::ResourceSliceSpec {
            driver,
            pool,
            node_name,
            devices,
        } = slice.spec;
        let owners = slice.metadata.owner_references.iter();
        let mut nodes = owners.filter(|owner| owner.api_version == "v1" && owner.kind == "Node");
        let node = node_name.filter(|name| !name.is_empty());
        let node = node.or_else(|| nodes.next().map(|owner| owner.name.clone()));
        let usable = devices.into_iter().filter(is_usable);
        let devices = usable.map(|published| device(published, &driver, &pool.name));
        Self {
            devices: devices.collect(),
            node: node.map(NodeName::from),
            driver,
            pool: pool.name,
            generation: pool.generation,
            slices: pool.resource_slice_count,
        }
    }
}

/// Whether the device can be allocated. Partitions of devices and tainted devices are not supported, so they count as
/// absent.
fn is_usable(device: &kubernetes::Device) -> bool {
    let repels = |taint: &kubernetes::DeviceTaint| {
        matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute")
    };
    device.consumes_counters.is_empty() && !device.taints.iter().any(repels)
}

fn device(published: kubernetes::Device, driver: &str, pool: &str) -> Device {
    let attributes = published.attributes.into_iter();
    let attributes =
        attributes.filter_map(|(name, value)| Some((qualified(&name, driver), attribute(value)?)));
    let capacity = published.capacity.into_iter();
    let capacity = capacity.map(|(name, value)| (qualified(&name, driver), device_capacity(value)));
    Device {
        attributes: attributes.collect(),
        capacity: capacity.collect(),
        is_shared: published.allow_multiple_allocations == Some(true),
        driver: driver.to_owned(),
        pool: pool.to_owned(),
        name: published.name,
    }
}

/// `None` for a value type that this version does not know.
fn attribute(value: kubernetes::DeviceAttribute) -> Option<Attribute> {
    let number = value.int.map(Attribute::Number);
    number
        .or(value.bool.map(Attribute::Flag))
        .or(value.string.map(Attribute::Text))
        .or(value.version.map(Attribute::Version))
}

fn device_capacity(capacity: kubernetes::DeviceCapacity) -> DeviceCapacity {
    DeviceCapacity {
        value: amount(&capacity.value),
        policy: capacity.request_policy.map(|policy| RequestPolicy {
            default: policy.default.as_ref().map(amount),
            allowed: match policy.valid_range {
                Some(range) => Allowed::Range {
                    least: range.min.as_ref().map_or(0, amount),
                    most: range.max.as_ref().map(amount),
                    step: range.step.as_ref().map(amount),
                },
                None => Allowed::Values(policy.valid_values.iter().map(amount).collect()),
            },
        }),
    }
}

/// The API server accepts valid quantities only.
fn amount(quantity: &crate::quantity::Quantity) -> i64 {
    let parsed = quantity.as_str().parse::<Quantity>();
    parsed.map_or(0, Quantity::ceil)
}

fn amounts(list: crate::quantity::ResourceList) -> BTreeMap<String, i64> {
    let amounts = list.into_iter();
    amounts
        .map(|(name, wanted)| (name, amount(&wanted)))
        .collect()
}

fn expressions(selectors: Vec<kubernetes::DeviceSelector>) -> Vec<String> {
    let cel = selectors.into_iter().filter_map(|selector| selector.cel);
    cel.map(|cel| cel.expression).collect()
}

fn claim_spec(spec: kubernetes::ResourceClaimSpec) -> ClaimSpec {
    let mut problems = Vec::new();
    let mut requests = Vec::new();
    for request in spec.devices.requests {
        let all: Vec<_> = request.exactly.into_iter().collect();
        let all = [all, request.first_available].concat();
        if all.is_empty() {
            problems.push(format!(
                "request {}: expected exactly or firstAvailable",
                request.name
            ));
        }
        let alternatives = all.into_iter().map(|request_alternative| {
            alternative(request_alternative, &request.name, &mut problems)
        });
        requests.push(DeviceRequest {
            alternatives: alternatives.collect(),
            name: request.name,
        });
    }
    let mut constraints = Vec::new();
    for constraint in spec.devices.constraints {
        match constraint.match_attribute {
            Some(attribute) => constraints.push(MatchAttribute {
                attribute,
                requests: constraint.requests,
            }),
            None => problems.push("a constraint other than matchAttribute".to_owned()),
        }
    }
    ClaimSpec {
        requests,
        constraints,
        problems,
    }
}

fn alternative(
    sub: kubernetes::DeviceSubRequest,
    request: &str,
    problems: &mut Vec<String>,
) -> DeviceAlternative {
    if sub.admin_access == Some(true) {
        problems.push(format!("adminAccess of request {request}"));
    }
    let count = match sub.allocation_mode.as_deref() {
        None | Some("" | "ExactCount") => {
            let count = sub.count.unwrap_or(1).max(1);
            DeviceCount::Exactly(u32::try_from(count).unwrap_or(u32::MAX))
        }
        Some("All") => DeviceCount::All,
        Some(other) => {
            problems.push(format!("allocationMode {other} of request {request}"));
            DeviceCount::All
        }
    };
    DeviceAlternative {
        name: sub.name,
        class: sub.device_class_name,
        selectors: expressions(sub.selectors),
        count,
        capacity: sub
            .capacity
            .map(|wanted| amounts(wanted.requests))
            .unwrap_or_default(),
    }
}

fn allocation(result: kubernetes::AllocationResult) -> Allocation {
    let results = result.devices.results.into_iter();
    let held = results.filter(|device| device.admin_access != Some(true));
    let terms = result.node_selector.map(|selector| {
        let terms = selector.node_selector_terms.into_iter();
        let terms = terms.filter_map(|term| node_selector_term(term, "nodeSelector", &mut |_| {}));
        terms.collect()
    });
    Allocation {
        devices: held
            .map(|held| AllocatedDevice {
                consumed: held.consumed_capacity.map(|consumed| {
                    let named = amounts(consumed).into_iter();
                    named
                        .map(|(name, amount)| (qualified(&name, &held.driver), amount))
                        .collect()
                }),
                driver: held.driver,
                pool: held.pool,
                device: held.device,
            })
            .collect(),
        nodes: terms,
    }
}

/// Resource claims of a pod, including those generated for it.
pub(super) fn of_pod(
    claims: Vec<kubernetes::PodResourceClaim>,
    generated: &[kubernetes::PodResourceClaimStatus],
) -> Vec<PodClaim> {
    let of_pod = claims.into_iter().map(|claim| {
        let known = generated.iter().find(|status| status.name == claim.name);
        let is_generated = claim.resource_claim_template_name.is_some();
        let known = known.filter(|_| is_generated);
        let name = known.and_then(|status| status.resource_claim_name.clone());
        PodClaim {
            is_void: known.is_some() && name.is_none(),
            claim: claim.resource_claim_name.or(name),
            template: claim.resource_claim_template_name,
            name: claim.name,
        }
    });
    of_pod.collect()
}
