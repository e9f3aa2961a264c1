use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{CRDS, Client, Controller, NAMESPACES};
use crate::{
    error::ApiResult,
    json,
    server::{CLEANUP_FINALIZER, FOREGROUND_FINALIZER, ORPHAN_FINALIZER, Part},
    store::{Object, ObjectKey, ObjectRef, Start, TableId},
};

/// Garbage collector: deletes objects whose owners are gone, and the contents of namespaces and
/// CustomResourceDefinitions that are being deleted.
#[derive(Debug)]
pub(super) struct GarbageCollector;

impl Controller for GarbageCollector {
    fn name(&self) -> &'static str {
        "garbage-collector"
    }

    fn inputs(&self) -> &'static [TableId] {
        &[]
    }

    fn run(&mut self, client: &mut Client<'_>) -> ApiResult<Option<Timestamp>> {
        collect_orphans(client)?;
        release_owners(client)?;
        end_namespaces(client)?;
        end_definitions(client)?;
        Ok(None)
    }
}

/// Deletes objects whose owners are all gone.
fn collect_orphans(client: &mut Client<'_>) -> ApiResult<()> {
    let possible_orphans: Vec<ObjectRef> = client.server.store.take_possible_orphans().collect();
    for (table, key) in possible_orphans {
        let Some(object) = client.get(&table, &key) else {
            continue;
        };
        let store = &client.server.store;
        let has_owner = object.owner_uids().any(|uid| store.exists(uid));
        let is_owned = object.owner_uids().next().is_some();
        if is_owned && !has_owner && !object.is_terminating() {
            client.delete(&table, &key)?;
        }
    }
    Ok(())
}

/// Removes the `foregroundDeletion` and `orphan` finalizers of owners whose dependents are gone or detached.
fn release_owners(client: &mut Client<'_>) -> ApiResult<()> {
    let waiting: Vec<(ObjectRef, Arc<Object>)> = client
        .server
        .store
        .terminating()
        .map(|(table, object)| ((table.clone(), object.key()), object.clone()))
        .collect();
    for ((table, key), owner) in waiting {
        let finalizers = json::items(owner.value(), &["metadata", "finalizers"]);
        let waits = |finalizer: &str| finalizers.iter().any(|own| own == finalizer);
        let dependents = client.server.store.dependents(owner.uid());
        if waits(FOREGROUND_FINALIZER) {
            for (table, key) in &dependents {
                let is_ending = client.get(table, key).is_none_or(|o| o.is_terminating());
                if !is_ending {
                    client.delete(table, key)?;
                }
            }
            if client.server.store.dependents(owner.uid()).is_empty() {
                remove_finalizer(client, &table, &key, FOREGROUND_FINALIZER)?;
            }
        }
        if waits(ORPHAN_FINALIZER) {
            let uid = owner.uid();
            for (table, key) in &dependents {
                client.change(table, key, Part::Main, |object| {
                    if let Some(owners) = json::array_mut(object, &["metadata", "ownerReferences"])
                    {
                        owners.retain(|owner| json::text(owner, &["uid"]) != uid);
                    }
                })?;
            }
            remove_finalizer(client, &table, &key, ORPHAN_FINALIZER)?;
        }
    }
    Ok(())
}

fn end_namespaces(client: &mut Client<'_>) -> ApiResult<()> {
    for namespace in client.all(&NAMESPACES) {
        if !namespace.is_terminating() {
            continue;
        }
        let tables: Vec<TableId> = client.server.store.tables().cloned().collect();
        let mut left = 0;
        for table in tables.iter().filter(|table| **table != NAMESPACES) {
            let contents =
                client
                    .server
                    .store
                    .list(table, Some(namespace.name()), &Start::Beginning);
            for object in contents.objects {
                if !object.is_terminating() {
                    client.delete(table, &object.key())?;
                }
                left += usize::from(client.get(table, &object.key()).is_some());
            }
        }
        if left == 0 {
            client.change(&NAMESPACES, &namespace.key(), Part::Main, |namespace| {
                json::set(namespace, &["spec", "finalizers"], json!([]));
            })?;
        }
    }
    Ok(())
}

fn end_definitions(client: &mut Client<'_>) -> ApiResult<()> {
    for definition in client.all(&CRDS) {
        if !definition.is_terminating() {
            continue;
        }
        let group = json::text(definition.value(), &["spec", "group"]);
        let plural = json::text(definition.value(), &["spec", "names", "plural"]);
        let table = TableId::of(group, plural);
        for object in client.all(&table) {
            if !object.is_terminating() {
                client.delete(&table, &object.key())?;
            }
        }
        if client.server.store.count(&table) == 0 {
            remove_finalizer(client, &CRDS, &definition.key(), CLEANUP_FINALIZER)?;
        }
    }
    Ok(())
}

fn remove_finalizer(
    client: &mut Client<'_>,
    table: &TableId,
    key: &ObjectKey,
    finalizer: &str,
) -> ApiResult<()> {
    client.change(table, key, Part::Main, |object| {
        if let Some(finalizers) = json::array_mut(object, &["metadata", "finalizers"]) {
            finalizers.retain(|own: &Value| own != finalizer);
        }
    })
}
