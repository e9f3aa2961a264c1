//! Label and field selectors, as query strings and as objects.

mod fields;
mod labels;

pub use fields::FieldSelector;
pub use labels::LabelSelector;
