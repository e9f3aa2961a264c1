//! No pod may share a domain, nor risk sharing one, with a pod that its or the other's required anti-affinity excludes.

use std::collections::BTreeMap;

use model::labels;

use super::{
    Scene,
    matching::{Term, Terms},
};
use crate::Findings;

pub(super) fn check(scene: &Scene<'_, '_>, findings: &mut Findings) {
    let mut terms = Terms::default();
    let mut owners_of: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (index, located) in scene.located.iter().enumerate() {
        let terms_of_pod = located.pod.pod_anti_affinity.required.iter();
        let known = terms_of_pod.filter(|term| {
            !located.is_to_come || scene.topology_key(&term.topology_key) == labels::HOSTNAME
        });
        for term in known {
            let id = terms.id(scene, term, located.pod);
            owners_of.entry(id).or_default().push(index);
        }
    }
    for (term, owners) in terms.all().iter().zip(owners_of.values()) {
        exclude(scene, term, owners, &scene.matching(term), findings);
    }
}

/// Whom a pod meets in a domain, on the way from the first pod to the last.
#[derive(Default)]
struct Present {
    owner: Option<usize>,
    matching: Option<usize>,
}

fn exclude(
    scene: &Scene<'_, '_>,
    term: &Term,
    owners: &[usize],
    matching: &[usize],
    findings: &mut Findings,
) {
    let mut concerned: BTreeMap<usize, (bool, bool)> = BTreeMap::new();
    for owner in owners {
        concerned.entry(*owner).or_default().0 = true;
    }
    let is_about = |one: &&usize| {
        let located = scene.located.get(**one);
        // A daemon to come is known on its own node alone.
        located.is_some_and(|located| !located.is_to_come || term.key == labels::HOSTNAME)
    };
    for one in matching.iter().filter(is_about) {
        concerned.entry(*one).or_default().1 = true;
    }
    let column = scene.column(&term.key);
    let mut present: BTreeMap<&str, Present> = BTreeMap::new();
    for (index, (is_owner, is_matching)) in concerned {
        let Some(located) = scene.located.get(index) else {
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
                Some((*domain, scene.located.get(rival)?.pod))
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
                // It will not be there.
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
