use std::collections::{BTreeMap, BTreeSet};

use jiff::SignedDuration;
use model::InstanceId;
use ports::{CloudError, TerminationRefusal};

/// Results of one round of terminations.
#[derive(Debug, Default)]
pub(crate) struct TerminationResults {
    /// Instances that EC2 terminates, has terminated, or does not know.
    pub(crate) ended: BTreeSet<InstanceId>,
    pub(crate) refused: BTreeMap<InstanceId, TerminationRefusal>,
    /// Number of instances without an answer, and the error.
    pub(crate) unanswered: Option<(usize, CloudError)>,
    /// Duration of the request to EC2; `None` if none was sent.
    pub(crate) took: Option<SignedDuration>,
}
