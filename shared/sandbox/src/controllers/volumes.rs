use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde_json::json;

use super::{
    ATTACHMENTS, CLAIMS, Client, Controller, PODS, STORAGE_CLASSES, VOLUMES,
    client::Severity,
    owned::{is_finished, node_name},
    scheduler::PodInfo,
};
use crate::{
    digest::digest,
    error::ApiResult,
    json,
    server::Part,
    store::{Object, ObjectKey, TableId},
};

/// Volume controllers: provision volumes, create the claims of ephemeral volumes, and attach volumes to the nodes that
/// use them.
#[derive(Debug)]
pub(super) struct Volumes;

const COMPONENT: &str = "persistentvolume-controller";
const ZONE_LABEL: &str = "topology.kubernetes.io/zone";
const DEFAULT_CLASS: &str = "storageclass.kubernetes.io/is-default-class";

impl Controller for Volumes {
    fn name(&self) -> &'static str {
        COMPONENT
    }

    fn inputs(&self) -> &'static [TableId] {
        const { &[CLAIMS, VOLUMES, STORAGE_CLASSES, PODS] }
    }

    fn run(&mut self, client: &mut Client<'_>) -> ApiResult<Option<Timestamp>> {
        let pods: Vec<_> = client
            .all(&PODS)
            .into_iter()
            .filter(|pod| !json::items(pod.value(), &["spec", "volumes"]).is_empty())
            .collect();
        for pod in &pods {
            if !pod.is_terminating() {
                claim_ephemeral(client, pod)?;
            }
        }
        for claim in client.all(&CLAIMS) {
            if json::text(claim.value(), &["spec", "volumeName"]).is_empty() {
                reconcile_claim(client, &claim)?;
            }
        }
        reclaim(client)?;
        let users = pods
            .iter()
            .filter(|pod| !is_finished(pod))
            .map(|pod| &**pod);
        attach(client, users)?;
        Ok(None)
    }
}

/// Creates the claims of a pod's ephemeral volumes, owned by the pod.
fn claim_ephemeral(client: &mut Client<'_>, pod: &Object) -> ApiResult<()> {
    for volume in json::items(pod.value(), &["spec", "volumes"]) {
        let template = json::at(volume, &["ephemeral", "volumeClaimTemplate"]);
        let name = format!("{}-{}", pod.name(), json::text(volume, &["name"]));
        let key = ObjectKey::new(pod.namespace(), name.as_str());
        if template.is_null() || client.get(&CLAIMS, &key).is_some() {
            continue;
        }
        let claim = json!({
            "metadata": {"name": name, "ownerReferences": [super::owned::controller_reference(pod)]},
            "spec": json::at(template, &["spec"]),
        });
        client.create(&CLAIMS, pod.namespace(), claim)?;
    }
    Ok(())
}

/// Sets the default class of a claim and, unless the class waits for a consumer, provisions its volume.
fn reconcile_claim(client: &mut Client<'_>, claim: &Object) -> ApiResult<()> {
    let name = json::text(claim.value(), &["spec", "storageClassName"]);
    let classes = client.all(&STORAGE_CLASSES);
    if name.is_empty() && json::at(claim.value(), &["spec", "storageClassName"]).is_null() {
        let default = classes.iter().find(|class| {
            json::text(class.value(), &["metadata", "annotations", DEFAULT_CLASS]) == "true"
        });
        if let Some(class) = default {
            return client.change(&CLAIMS, &claim.key(), Part::Main, |claim| {
                json::set(claim, &["spec", "storageClassName"], class.name());
            });
        }
    }
    if let Some(volume) = unclaimed(client, claim) {
        return bind(client, claim, &volume);
    }
    let Some(class) = classes.iter().find(|class| class.name() == name) else {
        return Ok(());
    };
    if json::text(class.value(), &["volumeBindingMode"]) == "WaitForFirstConsumer" {
        return Ok(());
    }
    let zones: BTreeMap<String, String> = json::items(class.value(), &["allowedTopologies"])
        .iter()
        .flat_map(|term| json::items(term, &["matchLabelExpressions"]))
        .filter_map(|expression| {
            let first = json::items(expression, &["values"]).first()?.as_str()?;
            Some((
                json::text(expression, &["key"]).to_owned(),
                first.to_owned(),
            ))
        })
        .collect();
    provision(client, claim, class, Some(&zones))
}

/// Name of a volume that was created for this claim in advance.
fn unclaimed(client: &Client<'_>, claim: &Object) -> Option<String> {
    client
        .all(&VOLUMES)
        .iter()
        .find(|volume| {
            let reference = json::at(volume.value(), &["spec", "claimRef"]);
            json::text(reference, &["name"]) == claim.name()
                && json::text(reference, &["namespace"]) == claim.namespace()
        })
        .map(|volume| volume.name().to_owned())
}

/// Provisions a volume for a claim, reachable from nodes with these labels.
pub(super) fn provision(
    client: &mut Client<'_>,
    claim: &Object,
    class: &Object,
    place: Option<&BTreeMap<String, String>>,
) -> ApiResult<()> {
    let name = format!("pvc-{}", claim.uid());
    let zone = place.and_then(|labels| labels.get(ZONE_LABEL));
    let mut volume = json!({
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": json::at(claim.value(), &["spec", "resources", "requests", "storage"])},
            "accessModes": json::at(claim.value(), &["spec", "accessModes"]),
            "persistentVolumeReclaimPolicy": json::at(class.value(), &["reclaimPolicy"]),
            "storageClassName": class.name(),
            "claimRef": {
                "kind": "PersistentVolumeClaim", "apiVersion": "v1",
                "namespace": claim.namespace(), "name": claim.name(), "uid": claim.uid(),
            },
            "csi": {
                "driver": json::at(class.value(), &["provisioner"]),
                "volumeHandle": format!("vol-{:017x}", digest(&[claim.uid()])),
            },
        },
    });
    if let Some(zone) = zone {
        json::set(
            &mut volume,
            &["spec", "nodeAffinity", "required", "nodeSelectorTerms"],
            json!([{"matchExpressions": [{"key": ZONE_LABEL, "operator": "In", "values": [zone]}]}]),
        );
    }
    client.create(&VOLUMES, "", volume)?;
    bind(client, claim, &name)?;
    let message = format!("Successfully provisioned volume {name}");
    client.record(
        claim,
        COMPONENT,
        Severity::Normal,
        "ProvisioningSucceeded",
        &message,
    )
}

fn bind(client: &mut Client<'_>, claim: &Object, volume: &str) -> ApiResult<()> {
    client.change(&CLAIMS, &claim.key(), Part::Main, |claim| {
        json::set(claim, &["spec", "volumeName"], volume);
    })?;
    client.change(&CLAIMS, &claim.key(), Part::Status, |claim| {
        json::set(claim, &["status", "phase"], "Bound");
        let storage = json::at(claim, &["spec", "resources", "requests", "storage"]).clone();
        json::set(claim, &["status", "capacity"], json!({"storage": storage}));
    })?;
    client.change(
        &VOLUMES,
        &ObjectKey::new("", volume),
        Part::Status,
        |volume| {
            json::set(volume, &["status", "phase"], "Bound");
        },
    )
}

/// Releases volumes whose claims are gone, and deletes them where the reclaim policy says so.
fn reclaim(client: &mut Client<'_>) -> ApiResult<()> {
    for volume in client.all(&VOLUMES) {
        let reference = json::at(volume.value(), &["spec", "claimRef"]);
        let uid = json::text(reference, &["uid"]);
        if uid.is_empty() || client.server.store.exists(uid) {
            continue;
        }
        if json::text(volume.value(), &["spec", "persistentVolumeReclaimPolicy"]) == "Delete" {
            client.delete(&VOLUMES, &volume.key())?;
        } else {
            client.change(&VOLUMES, &volume.key(), Part::Status, |volume| {
                json::set(volume, &["status", "phase"], "Released");
            })?;
        }
    }
    Ok(())
}

/// Creates one VolumeAttachment for each pair of volume and node.
fn attach<'p>(client: &mut Client<'_>, pods: impl Iterator<Item = &'p Object>) -> ApiResult<()> {
    let mut wanted: BTreeSet<(String, String, String)> = BTreeSet::new();
    for pod in pods.filter(|pod| !node_name(pod).is_empty()) {
        let info = PodInfo::of(pod);
        for claim in info.claims() {
            let claim = client.get(&CLAIMS, &ObjectKey::new(pod.namespace(), claim.as_str()));
            let volume = claim.and_then(|claim| {
                let name = json::text(claim.value(), &["spec", "volumeName"]);
                client.get(&VOLUMES, &ObjectKey::new("", name))
            });
            let Some(volume) = volume else {
                continue;
            };
            let driver = json::text(volume.value(), &["spec", "csi", "driver"]);
            if !driver.is_empty() {
                wanted.insert((
                    volume.name().to_owned(),
                    node_name(pod).to_owned(),
                    driver.to_owned(),
                ));
            }
        }
    }
    for attachment in client.all(&ATTACHMENTS) {
        let text = |path: &[&str]| json::text(attachment.value(), path).to_owned();
        let place = (
            text(&["spec", "source", "persistentVolumeName"]),
            text(&["spec", "nodeName"]),
            text(&["spec", "attacher"]),
        );
        let is_own = attachment.name() == attachment_name(&place);
        if !wanted.remove(&place) && is_own {
            client.delete(&ATTACHMENTS, &attachment.key())?;
        }
    }
    for place in wanted {
        let name = attachment_name(&place);
        let (volume, node, driver) = place;
        let attachment = json!({
            "metadata": {"name": name},
            "spec": {"attacher": driver, "nodeName": node, "source": {"persistentVolumeName": volume}},
            "status": {"attached": true},
        });
        client.create(&ATTACHMENTS, "", attachment)?;
    }
    Ok(())
}

fn attachment_name((volume, node, driver): &(String, String, String)) -> String {
    format!("csi-{:016x}", digest(&[volume, node, driver]))
}
