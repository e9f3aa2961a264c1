//! The demo's world and story as a source for the dashboard.

use std::sync::Arc;

use anyhow::Result;
use jiff::Timestamp;
use sandbox::WorldClock;
use tokio::sync::mpsc::{self, UnboundedReceiver};

use super::{
    HEAD_START, RATE,
    audience::{Teller, Told},
    story::Story,
    verdict,
    world::World,
};
use crate::{
    catalogs,
    dashboard::{
        decisions::{decision, of_report, trouble},
        document::Decision,
        hub::Hub,
    },
};

pub(crate) struct Exhibit {
    world: World,
    clock: WorldClock,
    teller: Teller,
    told: UnboundedReceiver<Told>,
}

impl Exhibit {
    pub(crate) async fn open() -> Result<Self> {
        let catalog = Arc::new(catalogs::us_east_1()?);
        let (teller, told) = mpsc::unbounded_channel();
        let clock = WorldClock::accelerated(RATE, HEAD_START);
        let world = World::start(catalog, clock.clone(), teller.clone()).await?;
        Ok(Self {
            world,
            clock,
            teller,
            told,
        })
    }

    pub(crate) fn client(&self) -> k8s::Client {
        self.world.client()
    }

    pub(crate) fn clock(&self) -> WorldClock {
        self.clock.clone()
    }

    /// Plays the story without its end, publishes decisions, and keeps the world running. Returns only if the story cannot be played.
    pub(crate) async fn play(self, hub: Arc<Hub>) -> Result<()> {
        let Self {
            world,
            teller,
            mut told,
            ..
        } = self;
        let heard = async {
            let mut last = world.now();
            while let Some(told) = told.recv().await {
                hub.decided(decisions(told, &mut last));
            }
        };
        let story = async {
            let missing = Story::new(&world, teller).play(false).await?;
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
fn decisions(told: Told, last: &mut Timestamp) -> Vec<Decision> {
    match told {
        Told::Chapter(text) => vec![decision(*last, "demo", "", &text)],
        Told::Typed(at, command) => {
            *last = at;
            vec![decision(at, "typed", "", &command)]
        }
        Told::Turn(report) => {
            *last = report.at;
            of_report(&report)
        }
        Told::Sweep(report) => {
            let troubles = report.alarms.iter().chain(&report.problems);
            troubles
                .map(|text| trouble(*last, "sweep", "", text))
                .collect()
        }
        Told::Broken(error) => vec![trouble(*last, "turn", "", &error.to_string())],
        Told::Picture(picture) => {
            *last = picture.at;
            Vec::new()
        }
        Told::End => Vec::new(),
    }
}
