//! The demo's world and story as a source for the dashboard.

use std::sync::Arc;

use anyhow::Result;
use jiff::Timestamp;
use sandbox::WorldClock;
use tokio::sync::mpsc::{self, UnboundedReceiver};

use super::{
    HEAD_START, RATE,
    audience::{Message, MessageSender},
    script::{DEFAULT, Script},
    story::Story,
    verdict,
    world::World,
};
use crate::{
    catalogs,
    dashboard::{
        decisions::{note, of_report, warning},
        document::Decision,
        hub::Hub,
    },
};

pub(crate) struct DemoSource {
    world: World,
    clock: WorldClock,
    sender: MessageSender,
    messages: UnboundedReceiver<Message>,
}

impl DemoSource {
    pub(crate) async fn open() -> Result<Self> {
        let catalog = Arc::new(catalogs::us_east_1()?);
        let (sender, messages) = mpsc::unbounded_channel();
        let clock = WorldClock::accelerated(RATE, HEAD_START);
        let world = World::start(catalog, clock.clone(), sender.clone()).await?;
        Ok(Self {
            world,
            clock,
            sender,
            messages,
        })
    }

    pub(crate) fn client(&self) -> k8s::Client {
        self.world.client()
    }

    pub(crate) fn clock(&self) -> WorldClock {
        self.clock.clone()
    }

    /// Plays the demo's steps without the last ones, publishes decisions, and keeps the world running. Returns only if a step fails.
    pub(crate) async fn play(self, hub: Arc<Hub>) -> Result<()> {
        let Self {
            world,
            sender,
            mut messages,
            ..
        } = self;
        let heard = async {
            let mut last = world.now();
            while let Some(message) = messages.recv().await {
                hub.decided(decisions(message, &mut last));
            }
        };
        let story = async {
            let script = Script::named(DEFAULT)?;
            let missing = Story::new(&world, sender).play(&script, false).await?;
            verdict(&missing)?;
            std::future::pending::<Result<()>>().await
        };
        tokio::select! {
            () = heard => Ok(()),
            played = story => played,
        }
    }
}

/// Decisions in a message; `last` is the time of the last decision.
fn decisions(message: Message, last: &mut Timestamp) -> Vec<Decision> {
    match message {
        Message::Chapter(text) => vec![note(*last, "demo", "", &text)],
        Message::Typed(at, command) => {
            *last = at;
            vec![note(at, "typed", "", &command)]
        }
        Message::Note(at, text) => {
            *last = at;
            vec![note(at, "demo", "", &text)]
        }
        Message::Turn(report) => {
            *last = report.at;
            of_report(&report)
        }
        Message::Sweep(report) => {
            let troubles = report.alarms.iter().chain(&report.problems);
            troubles
                .map(|text| warning(*last, "sweep", "", text))
                .collect()
        }
        Message::Broken(error) => vec![warning(*last, "turn", "", &error.to_string())],
        Message::Picture(picture) => {
            *last = picture.at;
            Vec::new()
        }
        Message::Output(_) | Message::End => Vec::new(),
    }
}
