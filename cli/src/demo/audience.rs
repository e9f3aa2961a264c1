//! Turns events of the demo into lines of output, and collects the summary.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use jiff::{SignedDuration, Timestamp};
use model::{InstanceId, NanosPerHour, Uid};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use turns::{Outcome, Report, SweepReport, TurnError};

use super::{
    picture::{Bought, NodeLine, Picture, Stage, is_running},
    screen::{Line, Screen},
};

/// Messages to the output. They go through one queue, so that none is printed before its cause.
pub(super) enum Message {
    Chapter(String),
    Typed(Timestamp, String),
    /// Output of a command.
    Output(String),
    /// An event in AWS or in the cluster, or an effect that occurred.
    Note(Timestamp, String),
    Turn(Box<Report>),
    Sweep(SweepReport),
    /// A turn or sweep that could not record its failure.
    Broken(TurnError),
    Picture(Arc<Picture>),
    End,
}

pub(super) type MessageSender = UnboundedSender<Message>;

/// Sends a message, which is lost once the demo has ended.
pub(super) fn send_message(sender: &MessageSender, message: Message) {
    drop(sender.send(message));
}

pub(super) struct Audience {
    screen: Screen,
    tally: Tally,
    lines: BTreeMap<String, NodeLine>,
    pods: (usize, usize),
    told_until: Timestamp,
    /// Warnings that were printed, and reasons of plans that were not carried out; each is printed once.
    warned: BTreeSet<String>,
}

/// Waiting times, instances and costs that the demo's summary is computed from.
#[derive(Debug)]
pub(super) struct Tally {
    pub(super) started: Timestamp,
    pub(super) ended: Timestamp,
    /// Time from creation to Running of every pod that ran.
    pub(super) waits: BTreeMap<Uid, SignedDuration>,
    pub(super) bought: BTreeMap<InstanceId, Bought>,
    pub(super) spent_nanos: i64,
    pub(super) highest_hourly: NanosPerHour,
    pub(super) remaining: usize,
}

impl Audience {
    pub(super) fn new(screen: Screen, start: Timestamp) -> Self {
        Self {
            screen,
            tally: Tally::new(start),
            lines: BTreeMap::new(),
            pods: (0, 0),
            told_until: start,
            warned: BTreeSet::new(),
        }
    }

    /// Receives messages until the demo has ended. Blocks, because terminals may be slow.
    pub(super) fn listen(mut self, mut messages: UnboundedReceiver<Message>) -> Tally {
        while let Some(next) = messages.blocking_recv() {
            match next {
                Message::Chapter(text) => self.screen.say(&Line::Chapter(text)),
                Message::Typed(at, command) => {
                    let at = self.since_start(at);
                    self.screen.say(&Line::Typed(at, command));
                }
                Message::Output(text) => self.screen.say(&Line::Output(text)),
                Message::Note(at, text) => {
                    let at = self.since_start(at);
                    self.screen.say(&Line::Note(at, text));
                }
                Message::Turn(report) => self.turn(&report),
                Message::Sweep(report) => self.sweep(&report),
                Message::Broken(error) => self.warn(None, error.to_string()),
                Message::Picture(picture) => {
                    self.observe(&picture);
                    // When messages queue up, only the last picture is drawn.
                    if messages.is_empty() {
                        self.screen.show(&picture);
                    }
                }
                Message::End => break,
            }
        }
        self.screen.end();
        self.tally
    }

    fn turn(&mut self, report: &Report) {
        for planned in &report.planned {
            // Effects of other lanes are visible in the nodes themselves.
            let line = match planned.split_once(": ") {
                Some((act, why))
                    if act.starts_with("launch ") || act.starts_with("delete nodeclaim/") =>
                {
                    let act = match &report.stopped {
                        Some(_) if !self.warned.insert(why.to_owned()) => continue,
                        Some(_) => format!("would {act}"),
                        None => act.to_owned(),
                    };
                    Line::Decided(self.since_start(report.at), act, why.to_owned())
                }
                Some(_) | None => continue,
            };
            self.screen.say(&line);
        }
        let failed = match &report.outcome {
            Outcome::Failed(error) => Some(error),
            Outcome::Done
            | Outcome::Held
            | Outcome::Unregistered
            | Outcome::Elsewhere(_)
            | Outcome::Postponed(_) => None,
        };
        let troubles = report.failed.iter().chain(&report.refused);
        let troubles = troubles.map(|line| &line.text).chain(&report.problems);
        for warning in troubles.chain(failed) {
            self.warn(Some(report.at), format!("{}: {warning}", report.lane));
        }
    }

    fn sweep(&mut self, report: &SweepReport) {
        for warning in report.alarms.iter().chain(&report.problems) {
            self.warn(None, format!("sweep: {warning}"));
        }
    }

    fn warn(&mut self, at: Option<Timestamp>, warning: String) {
        if self.warned.insert(warning.clone()) {
            let at = self.since_start(at.unwrap_or(self.tally.ended));
            self.screen.say(&Line::Warning(at, warning));
        }
    }

    fn observe(&mut self, picture: &Picture) {
        let at = self.since_start(picture.at);
        self.tally.observe(picture);
        let lines: BTreeMap<String, NodeLine> = picture
            .lines()
            .into_iter()
            .map(|line| (line.claim.clone(), line))
            .collect();
        for (claim, line) in &lines {
            let before = self.lines.get(claim).map(|line| line.stage);
            if line.stage == Stage::Ready && before != Some(Stage::Ready) {
                self.screen.say(&Line::Ready(at, line.clone()));
            }
        }
        for (claim, line) in &self.lines {
            if !lines.contains_key(claim) {
                self.screen.say(&Line::Gone(at, line.clone()));
            }
        }
        self.lines = lines;
        let running = picture.pods.iter().filter(|pod| is_running(pod)).count();
        let pods = (running, picture.pods.len());
        if pods != self.pods {
            self.screen
                .say(&Line::Pods(at, running, picture.pods.len()));
            self.pods = pods;
        }
    }

    /// Time since the start. Turns are reported when they end and dated when they began; a later line never gets an earlier date.
    fn since_start(&mut self, at: Timestamp) -> SignedDuration {
        self.told_until = self.told_until.max(at);
        self.told_until.duration_since(self.tally.started)
    }
}

impl Tally {
    fn new(start: Timestamp) -> Self {
        Self {
            started: start,
            ended: start,
            waits: BTreeMap::new(),
            bought: BTreeMap::new(),
            spent_nanos: 0,
            highest_hourly: NanosPerHour(0),
            remaining: 0,
        }
    }

    fn observe(&mut self, picture: &Picture) {
        self.ended = picture.at;
        for pod in picture.pods.iter().filter(|pod| is_running(pod)) {
            let created = pod.created_at.unwrap_or(picture.at);
            let wait = picture.at.duration_since(created);
            self.waits.entry(pod.uid.clone()).or_insert(wait);
        }
        for priced in &picture.instances {
            let bought = || Bought::of(priced);
            self.bought
                .entry(priced.instance.id.clone())
                .or_insert_with(bought);
        }
        self.spent_nanos = picture.spent_nanos;
        self.highest_hourly = self.highest_hourly.max(picture.hourly);
        self.remaining = picture.remaining().count();
    }
}
