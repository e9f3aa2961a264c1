/// What users should know of an object although no condition changes for it: an event's reason and message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    pub reason: &'static str,
    pub message: String,
}
