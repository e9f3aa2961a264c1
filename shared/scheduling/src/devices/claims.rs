//! Claims with resolved DeviceClasses and evaluated selectors.

use std::collections::{BTreeMap, BTreeSet};

use model::devices::{ClaimSpec, Device, DeviceClass, DeviceCount, MatchAttribute};

use super::selector::{Evaluator, Selector};

/// Requests and constraints of a claim, evaluated for every kind of device.
pub(crate) struct EvaluatedClaim {
    pub(super) requests: Vec<Request>,
    pub(super) constraints: Vec<MatchAttribute>,
    /// Reason why no device can ever be allocated for the claim.
    pub(super) problem: Option<String>,
}

/// Device request with its alternatives, in order of preference.
pub(super) struct Request {
    pub(super) name: String,
    pub(super) alternatives: Vec<Alternative>,
}

/// One way to satisfy a request: devices of a class that match selectors.
pub(super) struct Alternative {
    pub(super) name: String,
    pub(super) class: String,
    pub(super) count: DeviceCount,
    pub(super) capacity: BTreeMap<String, i64>,
    /// Kinds of devices that all selectors match.
    matching: BTreeSet<usize>,
    /// Per kind, the selector that failed to evaluate, and why. The Kubernetes scheduler refuses nodes with such devices.
    failures: BTreeMap<usize, String>,
}

impl Alternative {
    pub(super) fn matches(&self, kind: usize) -> bool {
        self.matching.contains(&kind)
    }

    /// First evaluation failure for these kinds.
    pub(super) fn failures(&self, kinds: &[usize]) -> Option<&str> {
        let mut found = kinds.iter().filter_map(|kind| self.failures.get(kind));
        found.next().map(String::as_str)
    }
}

impl EvaluatedClaim {
    /// Whether a constraint applies to the devices of a request's alternative.
    pub(super) fn is_about(
        &self,
        constraint: &MatchAttribute,
        request: usize,
        alternative: usize,
    ) -> bool {
        let Some(request) = self.requests.get(request) else {
            return false;
        };
        let alternative = request.alternatives.get(alternative);
        let alternative = alternative.map_or("", |alternative| alternative.name.as_str());
        constraint.requests.is_empty()
            || constraint.requests.iter().any(|name| {
                let of_request = name.strip_prefix(request.name.as_str());
                of_request.is_some_and(|rest| {
                    rest.is_empty() || rest.strip_prefix('/') == Some(alternative)
                })
            })
    }
}

/// Per kind of device, whether a selector matches, or why it failed; an error if the text is no expression.
type Evaluated = Result<Vec<Result<bool, String>>, String>;

/// Evaluates claims for all kinds of devices.
pub(super) struct ClaimEvaluator<'a> {
    classes: BTreeMap<&'a str, &'a DeviceClass>,
    evaluator: Evaluator,
    /// Per kind of device, the value of the variable `device`.
    kinds: Vec<kube_cel::cel::Value>,
    /// Results by expression.
    known: BTreeMap<&'a str, Evaluated>,
}

impl<'a> ClaimEvaluator<'a> {
    pub(super) fn new(classes: &'a [DeviceClass], kinds: &[&Device]) -> Self {
        let evaluator = Evaluator::new();
        let names = kinds.iter().flat_map(|device| {
            let capacity = device.capacity.keys();
            device.attributes.keys().chain(capacity)
        });
        let domains = names.filter_map(|name| Some(name.split_once('/')?.0));
        let drivers = kinds.iter().map(|device| device.driver.as_str());
        let domains: BTreeSet<&str> = domains.chain(drivers).collect();
        let kinds = kinds.iter().map(|device| evaluator.value(device, &domains));
        Self {
            classes: classes
                .iter()
                .map(|class| (class.name.as_str(), class))
                .collect(),
            kinds: kinds.collect(),
            evaluator,
            known: BTreeMap::new(),
        }
    }

    pub(super) fn judge(&mut self, spec: &'a ClaimSpec) -> EvaluatedClaim {
        let unsupported = spec.problems.first();
        let unsupported = unsupported.map(|what| format!("{what} is not supported"));
        let mut found: Option<String> = None;
        let requests = spec.requests.iter().map(|request| Request {
            name: request.name.clone(),
            alternatives: request
                .alternatives
                .iter()
                .map(|wanted| {
                    let (matching, failures) = match self.matching(&wanted.class, &wanted.selectors)
                    {
                        Ok(judged) => judged,
                        Err(problem) => {
                            found.get_or_insert(problem);
                            Default::default()
                        }
                    };
                    Alternative {
                        name: wanted.name.clone(),
                        class: wanted.class.clone(),
                        count: wanted.count,
                        capacity: wanted.capacity.clone(),
                        matching,
                        failures,
                    }
                })
                .collect(),
        });
        let requests = requests.collect();
        EvaluatedClaim {
            requests,
            constraints: spec.constraints.clone(),
            problem: unsupported.or(found),
        }
    }

    /// Kinds that a class and further selectors match, and the kinds for which a selector failed.
    fn matching(
        &mut self,
        class: &str,
        own: &'a [String],
    ) -> Result<(BTreeSet<usize>, BTreeMap<usize, String>), String> {
        let Some(class) = self.classes.get(class).copied() else {
            return Err(format!("DeviceClass {class} does not exist"));
        };
        let mut matching: BTreeSet<usize> = (0..self.kinds.len()).collect();
        let mut failures = BTreeMap::new();
        // Selectors of the class come first: those of a request may use attributes that only devices of the class have.
        for text in class.selectors.iter().chain(own) {
            let judged = self.known.entry(text).or_insert_with(|| {
                let selector = Selector::compile(text)?;
                let kinds = self.kinds.iter();
                Ok(kinds
                    .map(|kind| selector.matches(kind, &self.evaluator))
                    .collect())
            });
            let judged = judged.as_ref().map_err(|why| cannot(text, why))?;
            matching.retain(|kind| match judged.get(*kind) {
                Some(Ok(matches)) => *matches,
                Some(Err(why)) => {
                    failures.insert(*kind, cannot(text, why));
                    false
                }
                None => false,
            });
        }
        Ok((matching, failures))
    }
}

fn cannot(expression: &str, why: &str) -> String {
    format!("expression \"{expression}\" cannot be evaluated: {why}")
}
