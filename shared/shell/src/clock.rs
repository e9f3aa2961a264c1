use jiff::Timestamp;

/// The machine's clock.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock;

impl ports::Clock for SystemClock {
    #[expect(
        clippy::disallowed_methods,
        reason = "the one place where time enters a function"
    )]
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}
