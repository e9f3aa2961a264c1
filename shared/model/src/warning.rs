/// Reason and message of an event for users about an object whose conditions do not change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    pub reason: &'static str,
    pub message: String,
}
