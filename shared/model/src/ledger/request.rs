use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::{
    caps::Spending,
    ids::{NodePoolName, Uid},
};

/// A plan that exceeds a limit of `settings.guards.approveAbove` and waits for a person's approval. Approval covers
/// this plan only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// Short, because people type it.
    pub id: String,
    pub asks: ApprovalScope,
    /// Description of the plan for people.
    #[serde(rename = "told")]
    pub description: String,
    /// Time after which the request cannot be approved. A plan that is still wanted is requested again, under another
    /// id.
    pub until: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approved: Option<Approval>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ApprovalScope {
    /// Launches of one turn: number of nodes and price per hour, by NodePool.
    Launches(BTreeMap<NodePoolName, Spending>),
    /// Removal of these NodeClaims together, with the number of evicted pods.
    Disruption { delete: BTreeSet<Uid>, evicts: u32 },
}

/// Approver, and the time until which the approval is valid.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Approval {
    pub by: String,
    pub until: Timestamp,
}

/// Reason why a request cannot be approved. The request is unchanged then.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ApprovalError {
    #[error(
        "there is no request {id}: `whittle approve <cluster> --list` shows open requests; a plan that changes is requested again \
         under another id"
    )]
    Unknown { id: String },
    #[error(
        "request {id} expired at {at:.0}: a plan that is still wanted is requested again under another id, which `whittle approve <cluster> \
         --list` shows"
    )]
    Expired { id: String, at: Timestamp },
    #[error("request {id} is approved already, by {by}")]
    Already { id: String, by: String },
}

impl ApprovalScope {
    /// Whether `wanted` is within this request.
    fn covers(&self, wanted: &Self) -> bool {
        match (self, wanted) {
            (Self::Launches(most), Self::Launches(wanted)) => {
                wanted.iter().all(|(pool, wanted)| {
                    let most = most.get(pool);
                    most.is_some_and(|most| {
                        wanted.nodes <= most.nodes && wanted.price <= most.price
                    })
                })
            }
            (
                Self::Disruption { delete, evicts },
                Self::Disruption {
                    delete: wanted,
                    evicts: evicted,
                },
            ) => delete == wanted && evicted <= evicts,
            (Self::Launches(_), Self::Disruption { .. })
            | (Self::Disruption { .. }, Self::Launches(_)) => false,
        }
    }
}

impl Request {
    /// Time during which a request can be approved. Long enough for a break in a working day, and short enough that the
    /// plan still resembles the current one.
    pub const OPEN_FOR: SignedDuration = SignedDuration::from_hours(4);
    /// Time for which an expired request is kept, so that a late approval is answered with an explanation.
    const KEPT_FOR: SignedDuration = SignedDuration::from_hours(24);
    /// Upper bound on a cluster's requests, all of which are stored in one row.
    pub const COUNT_MAX: usize = 20;

    pub fn is_open(&self, now: Timestamp) -> bool {
        self.approved.is_none() && self.until > now
    }

    /// The approved request that covers `wanted` now.
    pub fn granted<'a>(
        requests: &'a [Self],
        wanted: &ApprovalScope,
        now: Timestamp,
    ) -> Option<&'a Self> {
        requests.iter().find(|request| {
            let approved = request.approved.as_ref();
            approved.is_some_and(|approved| approved.until > now) && request.asks.covers(wanted)
        })
    }

    /// The requests after adding `new`, and the request that represents it: an existing open one that covers `new`, or
    /// `new` itself. A new request for launches replaces the open one.
    pub fn ask(requests: &[Self], new: Self, now: Timestamp) -> (Vec<Self>, Self) {
        let is_kept = |request: &&Self| {
            let end = request
                .approved
                .as_ref()
                .map_or(request.until, |approval| approval.until);
            now.duration_since(end) < Self::KEPT_FOR
        };
        let mut kept: Vec<Self> = requests.iter().filter(is_kept).cloned().collect();
        let stands = |request: &&Self| request.is_open(now) && request.asks.covers(&new.asks);
        if let Some(standing) = kept.iter().find(stands).cloned() {
            return (kept, standing);
        }
        if let ApprovalScope::Launches(_) = new.asks {
            kept.retain(|request| {
                !(request.is_open(now) && matches!(request.asks, ApprovalScope::Launches(_)))
            });
        }
        let excess = (kept.len() + 1).saturating_sub(Self::COUNT_MAX);
        kept.drain(..excess);
        kept.push(new.clone());
        (kept, new)
    }

    /// The requests after approving one, and that request.
    pub fn approve(
        requests: &[Self],
        id: &str,
        approval: Approval,
        now: Timestamp,
    ) -> Result<(Vec<Self>, Self), ApprovalError> {
        let mut after = requests.to_vec();
        let wanted = after.iter_mut().find(|request| request.id == id);
        let Some(request) = wanted else {
            return Err(ApprovalError::Unknown { id: id.to_owned() });
        };
        let id = request.id.clone();
        if let Some(Approval { by, .. }) = &request.approved {
            let by = by.clone();
            return Err(ApprovalError::Already { id, by });
        }
        if request.until <= now {
            let at = request.until;
            return Err(ApprovalError::Expired { id, at });
        }
        request.approved = Some(approval);
        let request = request.clone();
        Ok((after, request))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::NanosPerHour;

    fn at(hours: i64) -> Timestamp {
        Timestamp::from_second(hours * 3600).unwrap()
    }

    fn launches(nodes: u32) -> ApprovalScope {
        let spending = Spending {
            price: NanosPerHour(i64::from(nodes)),
            nodes,
        };
        ApprovalScope::Launches([("default".into(), spending)].into())
    }

    fn disruption(uids: &[&str], evicts: u32) -> ApprovalScope {
        let delete = uids.iter().map(|uid| Uid::from(*uid)).collect();
        ApprovalScope::Disruption { delete, evicts }
    }

    fn request(id: &str, asks: ApprovalScope) -> Request {
        Request {
            id: id.to_owned(),
            asks,
            description: String::new(),
            until: at(4),
            approved: None,
        }
    }

    fn ann(until: i64) -> Approval {
        Approval {
            by: "ann".to_owned(),
            until: at(until),
        }
    }

    #[test]
    fn approval_covers_at_most_the_requested_plan_until_it_expires() {
        let asked = [
            request("a", launches(5)),
            request("b", disruption(&["x", "y"], 7)),
        ];
        let (asked, _) = Request::approve(&asked, "a", ann(2), at(1)).unwrap();
        let (asked, _) = Request::approve(&asked, "b", ann(2), at(1)).unwrap();
        let granted = |wanted: &ApprovalScope, now| {
            let granted = Request::granted(&asked, wanted, at(now));
            granted.map(|request| request.id.clone())
        };
        assert_eq!(granted(&launches(5), 1).as_deref(), Some("a"));
        assert_eq!(granted(&launches(4), 1).as_deref(), Some("a"));
        assert_eq!(granted(&launches(6), 1), None);
        assert_eq!(granted(&launches(5), 2), None, "it has lapsed");
        assert_eq!(
            granted(&disruption(&["x", "y"], 6), 1).as_deref(),
            Some("b")
        );
        assert_eq!(granted(&disruption(&["x", "y"], 8), 1), None);
        assert_eq!(granted(&disruption(&["x"], 7), 1), None, "other nodes");
    }

    #[test]
    fn unapproved_request_grants_nothing() {
        let asked = [request("a", launches(5))];
        assert_eq!(Request::granted(&asked, &launches(1), at(1)), None);
    }

    #[test]
    fn approving_expired_unknown_or_approved_request_fails_with_remedy() {
        let asked = [request("a", launches(5))];
        let refused = |id, now| Request::approve(&asked, id, ann(9), at(now)).unwrap_err();
        let late = refused("a", 4).to_string();
        assert!(
            late.starts_with("request a expired at 1970-01-01T04:00:00Z"),
            "{late}"
        );
        assert!(
            refused("b", 1)
                .to_string()
                .starts_with("there is no request b: `whittle")
        );
        let (approved, _) = Request::approve(&asked, "a", ann(9), at(1)).unwrap();
        let again = Request::approve(&approved, "a", ann(9), at(1)).unwrap_err();
        assert_eq!(again.to_string(), "request a is approved already, by ann");
    }

    #[test]
    fn covered_request_is_not_repeated_and_new_launches_replace_open_ones() {
        let (asked, first) = Request::ask(&[], request("a", launches(5)), at(0));
        assert_eq!(first.id, "a");
        let (asked, stands) = Request::ask(&asked, request("b", launches(4)), at(1));
        assert_eq!(
            (asked.len(), stands.id.as_str()),
            (1, "a"),
            "no more than asked"
        );
        let (asked, new) = Request::ask(&asked, request("c", launches(6)), at(1));
        assert_eq!((asked.len(), new.id.as_str()), (1, "c"));
        let late = Request {
            until: at(9),
            ..request("d", launches(6))
        };
        let (asked, new) = Request::ask(&asked, late, at(5));
        assert_eq!((asked.len(), new.id.as_str()), (2, "d"), "c has expired");
        let mut many = asked;
        for n in 0..30 {
            let id = n.to_string();
            let new = request(&id, disruption(&[&id], 1));
            (many, _) = Request::ask(&many, new, at(1));
        }
        assert_eq!(many.len(), Request::COUNT_MAX);
        let (left, _) = Request::ask(&many, request("z", disruption(&["z"], 1)), at(40));
        assert_eq!(left.len(), 1, "what expired a day ago is forgotten");
    }
}
