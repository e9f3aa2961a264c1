//! Kubelet settings belong to EC2NodeClasses in v1; NodePools that shared a class with different settings need one each
//! (docs/spec/migrate.md#v1beta1-kubelet).

use std::collections::BTreeMap;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{
    edit::{Edit, escaped},
    names,
};

pub(super) const FIELDS: &[&str] = &[
    "clusterDNS",
    "cpuCFSQuota",
    "evictionHard",
    "evictionMaxPodGracePeriod",
    "evictionSoft",
    "evictionSoftGracePeriod",
    "imageGCHighThresholdPercent",
    "imageGCLowThresholdPercent",
    "kubeReserved",
    "maxPods",
    "podsPerCore",
    "systemReserved",
];
const OF_POOL: &str = "/spec/template/spec/kubelet";
const OF_CLASS: &str = "/spec/kubelet";
const REFERENCE: &str = "/spec/template/spec/nodeClassRef/name";
/// Maximum length of a DNS label.
const NAME_MAX: usize = 63;

/// A NodePool's index among the documents, and its settings.
struct Pool {
    at: usize,
    name: String,
    kubelet: Option<Value>,
}

/// Moves kubelet settings to EC2NodeClasses. With `fragments`, missing classes are generated as fragments.
pub(super) fn move_to_classes(edits: &mut Vec<Edit>, fragments: bool) {
    let mut pools: BTreeMap<String, Vec<Pool>> = BTreeMap::new();
    for (at, edit) in edits.iter_mut().enumerate() {
        let (version, kind) = edit.type_of();
        if version != names::NODE_POOL_V1 || kind != "NodePool" {
            continue;
        }
        let kubelet = take_settings(edit);
        let class = edit.text_at(REFERENCE).unwrap_or_default().to_owned();
        let name = edit
            .text_at("/metadata/name")
            .unwrap_or_default()
            .to_owned();
        pools
            .entry(class)
            .or_default()
            .push(Pool { at, name, kubelet });
    }
    let mut copies = Vec::new();
    for (class, mut pools) in pools {
        if pools.iter().any(|pool| pool.kubelet.is_some()) {
            pools.sort_by(|a, b| a.name.cmp(&b.name));
            copies.extend(move_to(&class, &pools, edits, fragments));
        }
    }
    copies.sort_by_key(|(after, _)| *after);
    for (after, copy) in copies.into_iter().rev() {
        edits.insert(after + 1, copy);
    }
}

/// Removes a NodePool's settings and returns them. Settings that the conversion webhook of 1.0 stored in an annotation win, as there.
fn take_settings(edit: &mut Edit) -> Option<Value> {
    let own = edit.take(OF_POOL);
    let stored = edit.take_annotation(names::KUBELET);
    match stored {
        Some(text) => match serde_json::from_str(&text) {
            Ok(kubelet) => Some(kubelet),
            Err(_) => {
                let field = format!("/metadata/annotations/{}", escaped(names::KUBELET));
                edit.refuse(
                    &field,
                    &text,
                    "expected the JSON of kubelet settings: correct or remove it",
                );
                None
            }
        },
        None => own,
    }
}

/// Gives a class the settings of its NodePools. Returns additional classes, each with the index of the document to insert it after.
fn move_to(class: &str, pools: &[Pool], edits: &mut [Edit], fragments: bool) -> Vec<(usize, Edit)> {
    let Some(at) = edits.iter().position(|edit| is_class(edit, class)) else {
        if let Some(fragment) = fragment(class, pools, edits).filter(|_| fragments) {
            return vec![fragment];
        }
        for pool in pools.iter().filter(|pool| pool.kubelet.is_some()) {
            let remedy = format!(
                "v1 has it in EC2NodeClass {class}, which is not among the manifests: convert both together, or print what \
                 to add to it with --kubelet-fragment, if all its NodePools have the same settings"
            );
            refuse(edits, pool, remedy);
        }
        return Vec::new();
    };
    let has = edits.get(at).and_then(|edit| edit.get(OF_CLASS)).cloned();
    if has.is_some() && pools.iter().any(|pool| pool.kubelet != has) {
        for pool in pools.iter().filter(|pool| pool.kubelet.is_some()) {
            let remedy = format!(
                "EC2NodeClass {class} has settings of its own that differ: choose which of them hold"
            );
            refuse(edits, pool, remedy);
        }
        return Vec::new();
    }
    // The class stays with the pools without settings, else with the first pool by name.
    let keeper = match pools.iter().any(|pool| pool.kubelet.is_none()) {
        true => None,
        false => pools.first().and_then(|pool| pool.kubelet.clone()),
    };
    let mut copies = Vec::new();
    let mut others: Vec<&Value> = Vec::new();
    for pool in pools.iter().filter(|pool| pool.kubelet != keeper) {
        if let Some(kubelet) = pool
            .kubelet
            .as_ref()
            .filter(|kubelet| !others.contains(kubelet))
        {
            others.push(kubelet);
        }
    }
    for kubelet in others {
        let users: Vec<&Pool> = pools
            .iter()
            .filter(|pool| pool.kubelet.as_ref() == Some(kubelet))
            .collect();
        copies.extend(copy_for(class, at, kubelet, &users, edits));
    }
    if let (Some(kubelet), Some(edit)) = (keeper, edits.get_mut(at)) {
        let of: Vec<&str> = pools
            .iter()
            .filter(|pool| pool.kubelet.as_ref() == Some(&kubelet))
            .map(|pool| pool.name.as_str())
            .collect();
        edit.set(OF_CLASS, kubelet);
        edit.comment(OF_CLASS, format!("was in NodePool {}", of.join(", ")));
        edit.warn("its kubelet settings reach every NodePool that uses it, also those that are not among these manifests");
    }
    copies
}

/// A fragment to add to a class that is not among the documents, where all of its pools agree.
fn fragment(class: &str, pools: &[Pool], edits: &[Edit]) -> Option<(usize, Edit)> {
    let (first, others) = pools.split_first()?;
    let kubelet = first.kubelet.as_ref()?;
    if others
        .iter()
        .any(|pool| pool.kubelet.as_ref() != Some(kubelet))
    {
        return None;
    }
    let at = pools.iter().map(|pool| pool.at).max()?;
    let mut edit = edits.get(at)?.caused(json!({
        "apiVersion": names::NODE_CLASS_V1, "kind": "EC2NodeClass", "metadata": { "name": class },
        "spec": { "kubelet": kubelet },
    }));
    edit.comment(
        "",
        format!(
            "not a whole EC2NodeClass: what to add to {class}, which is not among the manifests"
        ),
    );
    Some((at, edit))
}

/// A class of its own for pools with these settings.
fn copy_for(
    class: &str,
    at: usize,
    kubelet: &Value,
    users: &[&Pool],
    edits: &mut [Edit],
) -> Option<(usize, Edit)> {
    let first = users.first()?;
    let name = shortened(&format!("{class}-{}", first.name));
    if edits.iter().any(|edit| is_class(edit, &name)) {
        for pool in users {
            let remedy = format!(
                "it needs an EC2NodeClass of its own, and {name} exists already: rename that one"
            );
            refuse(edits, pool, remedy);
        }
        return None;
    }
    for pool in users {
        let edit = edits.get_mut(pool.at)?;
        edit.set(REFERENCE, name.as_str().into());
        edit.comment(
            REFERENCE,
            format!("was {class}, which other NodePools use with other kubelet settings"),
        );
        edit.warn(format!(
            "its nodes will drift to EC2NodeClass {name}, under its budgets"
        ));
    }
    let mut copy = edits.get(at)?.copy(&name);
    let names: Vec<&str> = users.iter().map(|pool| pool.name.as_str()).collect();
    copy.set(OF_CLASS, kubelet.clone());
    copy.comment(
        "",
        format!(
            "a copy of EC2NodeClass {class} with the kubelet settings of NodePool {}",
            names.join(", ")
        ),
    );
    Some((at, copy))
}

fn is_class(edit: &Edit, name: &str) -> bool {
    let (version, kind) = edit.type_of();
    version == names::NODE_CLASS_V1
        && kind == "EC2NodeClass"
        && edit.text_at("/metadata/name") == Some(name)
}

fn refuse(edits: &mut [Edit], pool: &Pool, remedy: String) {
    if let Some(edit) = edits.get_mut(pool.at) {
        edit.refuse(OF_POOL, "", remedy);
    }
}

fn shortened(name: &str) -> String {
    if name.len() <= NAME_MAX {
        return name.to_owned();
    }
    let digest = Sha256::digest(name);
    let suffix: String = digest
        .iter()
        .take(4)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let kept = name.get(..NAME_MAX - 1 - suffix.len()).unwrap_or_default();
    format!("{}-{suffix}", kept.trim_end_matches(['-', '.']))
}
