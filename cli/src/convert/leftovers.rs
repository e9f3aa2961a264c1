//! Leftovers of a conversion webhook in objects that are v1 already (docs/spec/migrate.md#v1beta1-names). Objects without leftovers stay
//! verbatim.

use super::{
    edit::{Edit, escaped},
    names,
};

pub(super) fn clean(edit: &mut Edit) {
    for key in names::DROPPED_ANNOTATIONS {
        edit.take(&format!("/metadata/annotations/{}", escaped(key)));
    }
    edit.take_annotation(names::ALIAS_VERSION);
    let Some(ubuntu) = edit.take_annotation(names::UBUNTU) else {
        return;
    };
    if ubuntu.contains("incompatible") {
        let remedy = "the webhook found no image for amiFamily Ubuntu and wrote a placeholder: select one by id, name or tags";
        edit.refuse("/spec/amiSelectorTerms", "", remedy);
    }
}
