//! Plays a story: the user's acts and the changes in AWS one after the other, each with the wait for its effects.

mod acts;
mod expectations;
#[cfg(test)]
mod tests;
mod waiting;

use std::{collections::BTreeSet, sync::Arc};

use anyhow::Result;
use jiff::{SignedDuration, Timestamp};
use model::{NanosPerHour, NodeClaimName, ledger::Mode};
use tokio::sync::watch;

use super::{
    audience::{Message, MessageSender, send_message},
    picture::Picture,
    script::{Script, Step},
    world::World,
};

/// Upper bound on the wait for one effect in simulated time.
const STORY_TIMEOUT: SignedDuration = SignedDuration::from_mins(20);

/// An effect that did not occur.
pub(super) type Missing = String;

pub(super) struct Story<'a> {
    world: &'a World,
    pictures: watch::Receiver<Arc<Picture>>,
    sender: MessageSender,
    pub(super) timeout: SignedDuration,
    pub(super) missing: Vec<Missing>,
    last_act: LastAct,
}

/// State before the last act, with which expectations compare.
#[derive(Default)]
struct LastAct {
    at: Timestamp,
    hourly: NanosPerHour,
    /// The NodeClaims that the act concerns.
    claims: BTreeSet<NodeClaimName>,
}

impl<'a> Story<'a> {
    pub(super) fn new(world: &'a World, sender: MessageSender) -> Self {
        Self {
            pictures: world.pictures(),
            world,
            sender,
            timeout: STORY_TIMEOUT,
            missing: Vec::new(),
            last_act: LastAct::default(),
        }
    }

    /// Plays all chapters, those that tidy up only if `to_the_end`. Returns the effects that did not occur.
    pub(super) async fn play(mut self, script: &Script, to_the_end: bool) -> Result<Vec<Missing>> {
        for chapter in &script.chapters {
            if chapter.tidies_up && !to_the_end {
                break;
            }
            self.send(Message::Chapter(chapter.title.clone()));
            for step in &chapter.steps {
                self.step(step).await?;
            }
        }
        Ok(self.missing)
    }

    async fn step(&mut self, step: &Step) -> Result<()> {
        match step {
            Step::Apply(file) => self.apply(file).await?,
            Step::Scale(replicas) => self.scale(replicas).await?,
            Step::Whittle(command) => self.whittle(command).await?,
            Step::Activate => self.switch("activate", Mode::Active),
            Step::Register => self.switch("register", Mode::Shadow),
            Step::Upgrade(version) => self.upgrade(version),
            Step::Notice(app) => self.notice(app).await?,
            Step::Capacity(limit) => self.limit_capacity(limit),
            Step::KarpenterRuns => self.start_karpenter()?,
            Step::KarpenterEnds => self.stop_karpenter().await?,
            Step::Runs(replicas) => {
                for (app, replicas) in replicas {
                    self.runs(app, *replicas).await;
                }
            }
            Step::Nodes(expected) => self.expect_nodes(expected),
            Step::Replaced(replicas) => self.replaced(replicas).await,
            Step::Cheaper(expected) => self.cheaper(expected).await,
            Step::Condition(expected) => self.condition(expected).await?,
            Step::Event(expected) => self.event(expected).await?,
            Step::Unchanged(minutes) => self.unchanged(SignedDuration::from_mins(*minutes)).await,
            Step::Gone => self.all_gone().await,
        }
        Ok(())
    }

    fn send(&self, message: Message) {
        send_message(&self.sender, message);
    }

    fn typed(&self, command: &str) {
        self.send(Message::Typed(self.world.now(), command.to_owned()));
    }

    fn note(&self, text: String) {
        self.send(Message::Note(self.world.now(), text));
    }
}
