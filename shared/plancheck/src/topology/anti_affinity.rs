//! Required anti-affinity: no pod may share a domain, or possibly share one, with a pod that its own or the other pod's
//! terms exclude.

use std::collections::BTreeMap;

use model::labels;

use super::{
    TopologyContext,
    matching::{Term, Terms},
};
use crate::Findings;

pub(super) fn check(context: &TopologyContext<'_, '_>, findings: &mut Findings) {
    let mut terms = Terms::default();
    let mut owners_of: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (index, located) in context.located.iter().enumerate() {
        let terms_of_pod = located.pod.pod_anti_affinity.required.iter();
        let known = terms_of_pod.filter(|term| {
            !located.is_expected || context.topology_key(&term.topology_key) == labels::HOSTNAME
        });
        for term in known {
            let id = terms.id(context, term, located.pod);
            owners_of.entry(id).or_default().push(index);
        }
    }
    for (term, owners) in terms.all().iter().zip(owners_of.values()) {
        exclude(context, term, owners, &context.matching(term), findings);
    }
}

/// Pods already in a domain, while pods are visited in order.
#[derive(Default)]
struct Present {
    owner: Option<usize>,
    matching: Option<usize>,
}

fn exclude(
    context: &TopologyContext<'_, '_>,
    term: &Term,
    owners: &[usize],
    matching: &[usize],
    findings: &mut Findings,
) {
    let mut concerned: BTreeMap<usize, (bool, bool)> = BTreeMap::new();
    for owner in owners {
        concerned.entry(*owner).or_default().0 = true;
    }
    let is_about = |index: &&usize| {
        let located = context.located.get(**index);
        // The domain of a daemon that does not run yet is certain for its hostname only.
        located.is_some_and(|located| !located.is_expected || term.key == labels::HOSTNAME)
    };
    for index in matching.iter().filter(is_about) {
        concerned.entry(*index).or_default().1 = true;
    }
    let column = context.column(&term.key);
    let mut present: BTreeMap<&str, Present> = BTreeMap::new();
    for (index, (is_owner, is_matching)) in concerned {
        let Some(located) = context.located.get(index) else {
            continue;
        };
        let domains = column.of(located.place);
        if let Some(subject) = located.subject {
            let rival = domains.iter().find_map(|domain| {
                let there = present.get(*domain)?;
                let rival = there
                    .matching
                    .filter(|_| is_owner)
                    .or(there.owner.filter(|_| is_matching))?;
                Some((*domain, context.located.get(rival)?.pod))
            });
            if let Some((domain, rival)) = rival {
                let pod = &located.pod.key;
                findings.add(
                    subject,
                    format!(
                        "pod {pod} may share {}={domain} with pod {}, against anti-affinity",
                        term.key, rival.key
                    ),
                );
                // A refused pod will not be placed.
                continue;
            }
        }
        for domain in domains {
            let there = present.entry(domain).or_default();
            there.owner = there.owner.or(is_owner.then_some(index));
            there.matching = there.matching.or(is_matching.then_some(index));
        }
    }
}
