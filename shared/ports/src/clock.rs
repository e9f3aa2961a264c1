use jiff::Timestamp;

/// The time, for the outermost layer only: a turn reads it once and passes it on; the executor uses it for deadlines.
pub trait Clock: Send + Sync {
    fn now(&self) -> Timestamp;
}
