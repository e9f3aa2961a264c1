//! Progress of work that may take longer than a second, on standard error, if that is a terminal.

use std::{
    io::IsTerminal,
    sync::mpsc::{self, RecvTimeoutError, Sender},
    thread::{self, JoinHandle},
    time::Duration,
};

use indicatif::ProgressBar;

/// Time after which work is shown: shorter work needs no explanation.
const DELAY: Duration = Duration::from_secs(1);
/// Interval between two pictures of the spinner.
const TICK: Duration = Duration::from_millis(100);

/// Work in progress, shown until this value is dropped. Drop it before anything is printed.
pub(crate) struct Progress(Option<(Sender<()>, JoinHandle<()>)>);

impl Progress {
    /// Shows `work`, such as "Reading the journal".
    pub(crate) fn of(work: impl Into<String>) -> Self {
        if !std::io::stderr().is_terminal() {
            return Self(None);
        }
        let work = work.into();
        let (ends, ended) = mpsc::channel();
        let show = move || {
            if ended.recv_timeout(DELAY) == Err(RecvTimeoutError::Timeout) {
                let spinner = ProgressBar::new_spinner().with_message(work);
                spinner.enable_steady_tick(TICK);
                // The sender is only dropped.
                let _ = ended.recv();
                spinner.finish_and_clear();
            }
        };
        // Without a thread there is no spinner, and the work goes on.
        let thread = thread::Builder::new().spawn(show).ok();
        Self(thread.map(|thread| (ends, thread)))
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some((ends, thread)) = self.0.take() {
            drop(ends);
            // A panic of the spinner is no failure of the work.
            let _ = thread.join();
        }
    }
}
