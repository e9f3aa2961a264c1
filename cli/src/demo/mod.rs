//! `whittle demo`: pending pods become nodes in a simulated account and cluster, and unneeded nodes are removed.
//!
//! Everything but AWS and the machines is real: turns plan, check, commit and act, and talk to the cluster over HTTP.

mod audience;
mod commands;
mod identities;
mod karpenter;
mod keep;
mod kubectl;
mod lanes;
mod names;
mod notices;
mod observation;
mod picture;
mod ports;
mod relay;
#[cfg(test)]
mod roles;
#[cfg(test)]
mod scenarios;
mod screen;
mod script;
mod source;
mod story;
mod summary;
mod world;

use std::{io::IsTerminal, pin::pin, sync::Arc, time::Instant};

use anyhow::{Context, Result, bail};
use clap::Args;
use jiff::SignedDuration;
use sandbox::WorldClock;
use tokio::sync::mpsc;

pub(crate) use self::source::DemoSource;
use self::{
    audience::{Audience, Message, send_message},
    screen::{Screen, print},
    script::Script,
    story::{Missing, Story},
    summary::summary,
    world::{BOOT, World},
};
use crate::catalogs;

/// Factor by which time runs faster in the cluster while no turn runs.
const RATE: u32 = 25;
/// Simulated time before the start. Longer than the demo, so that its clock need not slow down; short enough for ages to look right at the
/// end.
const HEAD_START: SignedDuration = SignedDuration::from_mins(30);

#[derive(Args)]
#[command(after_help = "Examples:
  whittle demo
  whittle demo --list
  whittle demo consolidation --keep")]
pub(crate) struct Arguments {
    /// Story to play, one of those that --list prints
    #[arg(default_value = script::DEFAULT)]
    story: String,
    /// List the stories
    #[arg(long, conflicts_with_all = ["keep", "plain"])]
    list: bool,
    /// Keep the cluster running after the story, for kubectl and commands that read the journal, until Ctrl-C
    #[arg(long)]
    keep: bool,
    /// Print plain lines; the default if standard output is not a terminal, or NO_COLOR or CI is set
    #[arg(long)]
    plain: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    if arguments.list {
        print(script::list()?.trim_end());
        return Ok(());
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start")?;
    runtime.block_on(Box::pin(demo(arguments)))
}

async fn demo(arguments: &Arguments) -> Result<()> {
    let begun = Instant::now();
    let script = Script::named(&arguments.story)?;
    let catalog = Arc::new(catalogs::us_east_1()?);
    let (sender, messages) = mpsc::unbounded_channel();
    let clock = WorldClock::accelerated(RATE, HEAD_START);
    let world = World::start(catalog, clock, sender.clone()).await?;
    print(&how_time_passes());
    let audience = Audience::new(screen(arguments), world.now());
    let audience = tokio::task::spawn_blocking(move || audience.listen(messages));
    // One future for the whole story: no signal is lost between two waits.
    let mut interrupted = pin!(tokio::signal::ctrl_c());
    let story = Story::new(&world, sender.clone());
    let played = tokio::select! {
        played = Box::pin(story.play(&script, !arguments.keep)) => Some(played),
        interrupted = &mut interrupted => {
            interrupted.context("cannot wait for Ctrl-C")?;
            None
        }
    };
    send_message(&sender, Message::End);
    let tally = audience.await?;
    let Some(played) = played else {
        world.stop().await;
        bail!("interrupted; nothing is left running");
    };
    let missing = played?;
    print("");
    print(summary(&tally, &missing, !arguments.keep, begun.elapsed()).trim_end());
    if arguments.keep {
        print(&keep::guide(&world, &script).await?);
        interrupted.await.context("cannot wait for Ctrl-C")?;
    }
    world.stop().await;
    verdict(&missing)
}

fn verdict(missing: &[Missing]) -> Result<()> {
    if missing.is_empty() {
        Ok(())
    } else {
        bail!("the story did not end as it should: {}", missing.join("; "))
    }
}

fn screen(arguments: &Arguments) -> Screen {
    let asked = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    if arguments.plain || asked("NO_COLOR") || asked("CI") || !std::io::stdout().is_terminal() {
        Screen::plain()
    } else {
        Screen::bars()
    }
}

/// The ways in which the demo's times differ from those on AWS.
fn how_time_passes() -> String {
    let boot = BOOT.as_secs();
    let tenths = boot * 10 / i64::from(RATE);
    format!(
        "AWS, the nodes and the clock are simulated. Times below are the cluster's:\n\
         its clock runs {RATE} times as fast as yours, except while Whittle works.\n\
         EC2 boot takes {boot} s and is shortened to {}.{} s plus Whittle's own time.",
        tenths / 10,
        tenths % 10
    )
}
