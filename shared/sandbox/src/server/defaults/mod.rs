//! Defaults of built-in kinds, and the initial status of new objects.

mod pod;
mod workload;

use serde_json::{Value, json};

use super::ApiServer;
use crate::{error::ApiResult, json, kinds::ResourceType};

/// Sets the defaults of a new object.
pub(super) fn on_create(
    server: &mut ApiServer,
    kind: &ResourceType,
    value: &mut Value,
) -> ApiResult<()> {
    on_write(kind, value);
    match (kind.group.as_str(), kind.plural.as_str()) {
        ("", "pods") => {
            pod::admit(server, value)?;
            pod::start(value);
        }
        ("", "namespaces") => {
            json::set(value, &["spec", "finalizers"], json!(["kubernetes"]));
            json::set(value, &["status", "phase"], "Active");
            let name = json::text(value, &["metadata", "name"]).to_owned();
            json::set(
                value,
                &["metadata", "labels", "kubernetes.io/metadata.name"],
                name,
            );
        }
        ("", "services") => server.assign_address(value),
        ("", "persistentvolumeclaims" | "persistentvolumes") => {
            json::set_default(value, &["status", "phase"], "Pending");
        }
        ("apps", _) | ("batch", _) | ("policy", _) => {
            json::remove(value, &["status"]);
        }
        _ => {}
    }
    Ok(())
}

/// Sets the defaults of a changed object.
pub(super) fn on_update(kind: &ResourceType, old: &Value, value: &mut Value) {
    on_write(kind, value);
    if kind.group.is_empty() && kind.plural == "services" {
        for field in ["clusterIP", "clusterIPs"] {
            let kept = json::at(old, &["spec", field]).clone();
            if !kept.is_null() {
                json::set_default(value, &["spec", field], kept);
            }
        }
    }
}

fn on_write(kind: &ResourceType, value: &mut Value) {
    match (kind.group.as_str(), kind.plural.as_str()) {
        ("", "pods") => pod::fill(value, &["spec"]),
        ("apps", "deployments") => workload::deployment(value),
        ("apps", "replicasets") | ("", "replicationcontrollers") => workload::replica_set(value),
        ("apps", "statefulsets") => workload::stateful_set(value),
        ("apps", "daemonsets") => workload::daemon_set(value),
        ("batch", "jobs") => workload::job(value),
        ("batch", "cronjobs") => workload::cron_job(value),
        ("", "services") => service(value),
        ("", "persistentvolumes") => {
            json::set_default(value, &["spec", "persistentVolumeReclaimPolicy"], "Retain");
            json::set_default(value, &["spec", "volumeMode"], "Filesystem");
        }
        ("", "persistentvolumeclaims") => {
            json::set_default(value, &["spec", "volumeMode"], "Filesystem");
        }
        ("storage.k8s.io", "storageclasses") => {
            json::set_default(value, &["reclaimPolicy"], "Delete");
            json::set_default(value, &["volumeBindingMode"], "Immediate");
        }
        ("", "secrets") => json::set_default(value, &["type"], "Opaque"),
        _ => {}
    }
}

fn service(value: &mut Value) {
    json::set_default(value, &["spec", "type"], "ClusterIP");
    json::set_default(value, &["spec", "sessionAffinity"], "None");
    json::set_default(value, &["spec", "internalTrafficPolicy"], "Cluster");
    json::set_default(value, &["spec", "ipFamilyPolicy"], "SingleStack");
    json::set_default(value, &["spec", "ipFamilies"], json!(["IPv4"]));
    for port in json::items_mut(value, &["spec", "ports"]) {
        json::set_default(port, &["protocol"], "TCP");
        let same = json::at(port, &["port"]).clone();
        json::set_default(port, &["targetPort"], same);
    }
}

impl ApiServer {
    /// Assigns the next address of 10.100.0.0/16 to a service, past the addresses of the system's own services.
    fn assign_address(&mut self, service: &mut Value) {
        if json::text(service, &["spec", "type"]) == "ExternalName"
            || !json::text(service, &["spec", "clusterIP"]).is_empty()
        {
            return;
        }
        self.service_addresses = self.service_addresses.wrapping_add(1);
        let [high, low] = self.service_addresses.wrapping_add(0x0100).to_be_bytes();
        let address = format!("10.100.{high}.{low}");
        json::set(service, &["spec", "clusterIPs"], json!([address]));
        json::set(service, &["spec", "clusterIP"], address);
    }
}
