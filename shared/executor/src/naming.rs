use std::collections::BTreeMap;

use model::{
    Action, NodeClaimName, Plan, Uid,
    ids::{LaunchToken, PlanId, TurnId},
    plan::Expected,
};
use sha2::{Digest, Sha256};

/// Kubernetes' limit for names that become labels.
const NAME_MAX: usize = 63;
const DIGEST_LENGTH: usize = 10;

/// Names the NodeClaims of a plan after the generation it is to become, the turn that commits it and the index of the action in
/// it: a new plan never reuses a name, and a committed one is resumed under the names it has.
pub(crate) fn name_claims(plan: &mut Plan, generation: u64, turn: &TurnId) {
    let mut names: BTreeMap<NodeClaimName, NodeClaimName> = BTreeMap::new();
    for (index, planned) in plan.actions.iter_mut().enumerate() {
        if let Action::Launch(launch) = &mut planned.action {
            let digest = digest(&[&generation.to_string(), &index.to_string(), turn.as_str()]);
            let mut pool: String = launch
                .node_pool
                .as_str()
                .chars()
                .take(NAME_MAX - DIGEST_LENGTH - 1)
                .collect();
            pool.truncate(pool.trim_end_matches(['-', '.']).len());
            let name = NodeClaimName(format!(
                "{pool}-{}",
                digest.get(..DIGEST_LENGTH).unwrap_or_default()
            ));
            names.insert(std::mem::replace(&mut launch.name, name.clone()), name);
        }
    }
    for nomination in &mut plan.nominations {
        if let Expected::NodeClaim(name) = &mut nomination.node
            && let Some(new) = names.get(name)
        {
            name.clone_from(new);
        }
    }
}

/// The token of one attempt to launch these NodeClaims together (docs/protocol.md#a2): it depends on them and the attempt, and
/// on nothing else. At most 64 characters, as EC2 requires.
pub(crate) fn launch_token<'a>(
    uids: impl IntoIterator<Item = &'a Uid>,
    attempt: u32,
) -> LaunchToken {
    let attempt = attempt.to_string();
    let mut parts: Vec<&str> = uids.into_iter().map(Uid::as_str).collect();
    parts.sort_unstable();
    parts.push(&attempt);
    LaunchToken(digest(&parts).chars().take(40).collect())
}

/// Id of a plan, from its content, its base generation and the turn that proposes it.
pub(crate) fn plan_id(plan: &Plan, base: u64, turn: &TurnId) -> PlanId {
    let body = serde_json::to_string(plan).unwrap_or_default();
    PlanId(
        digest(&[&body, &base.to_string(), turn.as_str()])
            .chars()
            .take(40)
            .collect(),
    )
}

pub(crate) fn digest(parts: &[&str]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part.len().to_le_bytes());
        hash.update(part.as_bytes());
    }
    hash.finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        rebase,
        test_plans::{launch, nomination},
    };

    #[test]
    fn a2_launch_token_depends_on_members_and_attempt_only() {
        let (a, b) = (Uid::from("a"), Uid::from("b"));
        assert_eq!(launch_token([&a, &b], 1), launch_token([&b, &a], 1));
        assert_ne!(launch_token([&a, &b], 1), launch_token([&a, &b], 2));
        assert_ne!(launch_token([&a, &b], 1), launch_token([&a], 1));
        assert_ne!(digest(&["ab", "c"]), digest(&["a", "bc"]));
        assert!(launch_token([&a], 1).as_str().len() <= 64);
    }

    #[test]
    fn node_claim_name_fits_a_label_and_nominations_follow_it() {
        let mut plan = Plan {
            actions: vec![launch(&"p".repeat(80), "a", &[]), launch("short", "b", &[])],
            nominations: vec![nomination("waiting", Expected::NodeClaim("b".into()))],
            ..Plan::default()
        };
        name_claims(&mut plan, 7, &"turn".into());
        let names: Vec<&str> = rebase::launches(&plan)
            .map(|launch| launch.name.as_str())
            .collect();
        let [long, short] = names.as_slice() else {
            panic!("{names:?}")
        };
        assert_eq!(long.len(), NAME_MAX);
        assert_eq!(short.len(), "short-".len() + DIGEST_LENGTH);
        assert!(short.starts_with("short-"));
        assert_eq!(
            plan.nominations[0].node,
            Expected::NodeClaim((*short).into())
        );
    }
}
