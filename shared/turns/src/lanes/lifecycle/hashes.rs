//! Hashes of the specs that nodes are made from, on NodePools, EC2NodeClasses and their NodeClaims
//! (docs/spec/lifecycle.md#hash-versions, docs/spec/aws.md#node-class-hash).

use std::collections::BTreeMap;

use api::{conditions::types::DRIFTED, names::annotation};
use model::{NodePoolName, Snapshot, node_claim::NodeClaim, plan::NodeClaimUpdate};
use planner::{NODE_POOL_HASH_VERSION, node_pool_hash};
use ports::{ClusterError, StaticHash, cluster::EventTarget};

use crate::{Report, TurnError, context::Turn};

/// A hash and its version, with the annotations that hold them.
struct HashAnnotations<'a> {
    hash_key: &'static str,
    hash: &'a str,
    version_key: &'static str,
    version: &'static str,
}

impl HashAnnotations<'_> {
    fn annotations(&self) -> BTreeMap<String, String> {
        BTreeMap::from([
            (self.hash_key.to_owned(), self.hash.to_owned()),
            (self.version_key.to_owned(), self.version.to_owned()),
        ])
    }

    fn is_of_this_version(&self, annotations: &BTreeMap<String, String>) -> bool {
        annotations.get(self.version_key).map(String::as_str) == Some(self.version)
    }

    fn is_on(&self, annotations: &BTreeMap<String, String>) -> bool {
        self.is_of_this_version(annotations)
            && annotations.get(self.hash_key).map(String::as_str) == Some(self.hash)
    }
}

/// Keeps the hash of every NodePool up to date; a NodePool that fails does not stop the others.
pub(crate) async fn update_node_pools(
    turn: &Turn<'_>,
    snapshot: &mut Snapshot,
    report: &mut Report,
) {
    for pool in &mut snapshot.node_pools {
        if pool.deleted_at.is_some() {
            continue;
        }
        let hash = node_pool_hash(&pool.template);
        let hash_annotations = HashAnnotations {
            hash_key: annotation::NODE_POOL_HASH,
            hash: &hash,
            version_key: annotation::NODE_POOL_HASH_VERSION,
            version: NODE_POOL_HASH_VERSION,
        };
        let name = pool.name.clone();
        let about = EventTarget::NodePool(name.clone(), pool.uid.clone());
        let claims = &mut snapshot.node_claims;
        let updated = update_node_pool(
            turn,
            &name,
            &mut pool.annotations,
            claims,
            &hash_annotations,
        );
        if !report.may_continue_after(&about, updated.await) {
            break;
        }
    }
}

async fn update_node_pool(
    turn: &Turn<'_>,
    name: &NodePoolName,
    annotations: &mut BTreeMap<String, String>,
    claims: &mut [NodeClaim],
    hash_annotations: &HashAnnotations<'_>,
) -> Result<(), TurnError> {
    if hash_annotations.is_on(annotations) {
        return Ok(());
    }
    if !hash_annotations.is_of_this_version(annotations) {
        let own = |claim: &NodeClaim| claim.node_pool().as_ref() == Some(name);
        migrate_node_claims(turn, claims, own, hash_annotations).await?;
    }
    let written = hash_annotations.annotations();
    turn.api.annotate_node_pool(name, &written).await?;
    annotations.extend(written);
    Ok(())
}

/// Keeps the hash of one EC2NodeClass up to date.
pub(crate) async fn update_node_class(
    turn: &Turn<'_>,
    class: &mut api::EC2NodeClass,
    hash: &StaticHash,
    claims: &mut [NodeClaim],
) -> Result<(), TurnError> {
    let hash_annotations = HashAnnotations {
        hash_key: annotation::EC2_NODE_CLASS_HASH,
        hash: &hash.hash,
        version_key: annotation::EC2_NODE_CLASS_HASH_VERSION,
        version: hash.version,
    };
    let metadata = &mut class.metadata;
    if hash_annotations.is_on(&metadata.annotations) {
        return Ok(());
    }
    if !hash_annotations.is_of_this_version(&metadata.annotations) {
        let name = metadata.name.as_str();
        let own = |claim: &NodeClaim| claim.spec.node_class.name.as_str() == name;
        migrate_node_claims(turn, claims, own, &hash_annotations).await?;
    }
    let written = hash_annotations.annotations();
    turn.api
        .annotate_node_class(&metadata.name, &written)
        .await?;
    metadata.annotations.extend(written);
    Ok(())
}

/// Writes this version's hash to NodeClaims with a hash of another version, as far as it is known: NodeClaims that have drifted
/// stay drifted.
async fn migrate_node_claims(
    turn: &Turn<'_>,
    claims: &mut [NodeClaim],
    is_own: impl Fn(&NodeClaim) -> bool,
    hash_annotations: &HashAnnotations<'_>,
) -> Result<(), TurnError> {
    let old = claims.iter_mut().filter(|claim| {
        is_own(claim)
            && claim.deleted_at.is_none()
            && !hash_annotations.is_of_this_version(&claim.annotations)
    });
    for claim in old {
        let mut annotations = hash_annotations.annotations();
        if claim.condition(DRIFTED).is_some() {
            annotations.remove(hash_annotations.hash_key);
        }
        let update = NodeClaimUpdate {
            name: claim.name.clone(),
            uid: claim.uid.clone(),
            resource_version: claim.resource_version.clone(),
            set_annotations: annotations,
            ..NodeClaimUpdate::default()
        };
        match turn.api.update_node_claim(&update).await {
            Ok(written) => *claim = written,
            Err(ClusterError::NotFound { .. }) => {}
            // A NodeClaim that may not be changed keeps its hash; the others are migrated.
            Err(
                error @ (ClusterError::Denied { .. }
                | ClusterError::Invalid { .. }
                | ClusterError::Admission { .. }),
            ) => {
                tracing::warn!(node_claim = %claim.name, %error, "hash annotation of the NodeClaim not migrated");
            }
            // The conflicting change comes first: the version stays as it is, and the next turn migrates again.
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
