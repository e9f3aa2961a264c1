use thiserror::Error;

/// Why a claim cannot be launched now, by what becomes of it (spec/aws §12.1).
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LaunchProblem {
    /// Nothing that the claim admits can be had: it is deleted and its pods are planned again.
    #[error("{message}")]
    InsufficientCapacity { message: String },
    /// The NodeClass cannot be used: the claim is deleted.
    #[error("{message}")]
    NodeClassNotReady { message: String },
    /// The claim is kept, with this reason in its Launched condition, and tried again until its launch time-out.
    #[error("{message}")]
    Create {
        reason: &'static str,
        message: String,
    },
}
