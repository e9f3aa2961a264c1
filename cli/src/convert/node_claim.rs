//! NodeClaims of v1beta1, which are generated and converted only on request (docs/spec/migrate.md#v1beta1-node-claim).

use serde_json::Value;

use super::{
    Options,
    edit::{Edit, escaped},
    names, node_pool,
};

const EXPIRE_AFTER: &str = "/spec/expireAfter";

pub(super) fn convert(edit: &mut Edit, options: &Options) {
    if !options.node_claims {
        edit.refuse(
            "kind",
            "NodeClaim",
            "NodeClaims are made by machine: leave them out, their NodePool makes new ones, or give --nodeclaims",
        );
        return;
    }
    edit.set("/apiVersion", names::NODE_POOL_V1.into());
    edit.clean_metadata();
    node_pool::node_class(edit, "/spec");
    if edit.take("/spec/kubelet").is_some() {
        edit.comment(
            "/spec",
            "spec.kubelet is left out: the EC2NodeClass has such settings in v1",
        );
    }
}

/// Sets `expireAfter` as the NodeClaim's NodePool has it, if that is among the documents, else to v1's default.
pub(super) fn expiry(edits: &mut [Edit]) {
    let lives: Vec<(String, Value)> = edits
        .iter()
        .filter(|edit| edit.type_of().1 == "NodePool")
        .filter_map(|edit| {
            let name = edit.text_at("/metadata/name")?.to_owned();
            Some((name, edit.get("/spec/template/spec/expireAfter")?.clone()))
        })
        .collect();
    let claims = edits
        .iter_mut()
        .filter(|edit| edit.is_changed() && edit.type_of().1 == "NodeClaim");
    for edit in claims.filter(|edit| edit.refusals.is_empty()) {
        let label = format!("/metadata/labels/{}", escaped("karpenter.sh/nodepool"));
        let pool = edit.text_at(&label).unwrap_or_default().to_owned();
        let (life, why) = match lives.iter().find(|(name, _)| *name == pool) {
            Some((_, life)) => (life.clone(), format!("as NodePool {pool} says")),
            None => (
                "720h".into(),
                "v1's default: its NodePool is not among the manifests".to_owned(),
            ),
        };
        edit.set(EXPIRE_AFTER, life);
        edit.comment(EXPIRE_AFTER, why);
    }
}
