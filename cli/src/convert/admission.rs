//! Whether the CRDs admit what came out.

use super::edit::Edit;
use crate::crds;

/// Refuses what an API server would refuse.
pub(crate) fn check(edit: &mut Edit) {
    let (version, kind) = edit.type_of();
    if !edit.refusals.is_empty() || !version.starts_with("karpenter.") {
        return;
    }
    match crds::errors(&kind, &edit.object) {
        Ok(errors) => {
            for error in errors {
                edit.refuse("", "", format!("v1 does not allow it: {error}"));
            }
        }
        Err(error) => edit.refuse("", "", format!("it could not be checked: {error}")),
    }
}
