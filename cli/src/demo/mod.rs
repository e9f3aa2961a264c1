//! `whittle demo`: pending pods become nodes in a simulated account and cluster, and unneeded nodes are removed.
//!
//! Everything but AWS and the machines is real: turns plan, check, commit and act, and talk to the cluster over HTTP.

mod audience;
mod kubectl;
mod lanes;
mod picture;
mod relay;
#[cfg(test)]
mod roles;
#[cfg(test)]
mod scenarios;
mod screen;
mod source;
mod story;
mod summary;
mod world;

use std::{
    io::{IsTerminal, Write},
    path::Path,
    pin::pin,
    sync::Arc,
    time::Instant,
};

use anyhow::{Context, Result, bail};
use clap::Args;
use jiff::SignedDuration;
use sandbox::WorldClock;
use tempfile::NamedTempFile;
use tokio::sync::mpsc;

pub(crate) use self::source::DemoSource;
use self::{
    audience::{Audience, Message, send_message},
    screen::{Screen, print},
    story::{Missing, Story},
    summary::summary,
    world::World,
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
  whittle demo --keep")]
pub(crate) struct Arguments {
    /// Keep the cluster running after the demo, for kubectl, until Ctrl-C
    #[arg(long)]
    keep: bool,
    /// Print plain lines; the default where standard output is no terminal, or NO_COLOR or CI is set
    #[arg(long)]
    plain: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start")?;
    runtime.block_on(Box::pin(demo(arguments)))
}

async fn demo(arguments: &Arguments) -> Result<()> {
    let begun = Instant::now();
    let catalog = Arc::new(catalogs::us_east_1()?);
    let (sender, messages) = mpsc::unbounded_channel();
    let clock = WorldClock::accelerated(RATE, HEAD_START);
    let world = World::start(catalog, clock, sender.clone()).await?;
    let audience = Audience::new(screen(arguments), world.now());
    let audience = tokio::task::spawn_blocking(move || audience.listen(messages));
    // One future for the whole story: no signal is lost between two waits.
    let mut interrupted = pin!(tokio::signal::ctrl_c());
    let story = Story::new(&world, sender.clone());
    let played = tokio::select! {
        played = Box::pin(story.play(!arguments.keep)) => Some(played),
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
        let kubeconfig = kubeconfig(&world)?;
        print(&how_to_reach(kubeconfig.path()));
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

/// Writes a kubeconfig for kubectl, which is deleted when it is dropped.
fn kubeconfig(world: &World) -> Result<NamedTempFile> {
    let mut file = tempfile::Builder::new()
        .prefix("whittle-demo-")
        .suffix(".yaml")
        .tempfile()
        .context("cannot write a kubeconfig")?;
    file.write_all(world.kubeconfig_yaml().as_bytes())
        .context("cannot write a kubeconfig")?;
    Ok(file)
}

fn how_to_reach(kubeconfig: &Path) -> String {
    format!(
        "\nThe cluster stays up. In another terminal:\n\n  export KUBECONFIG={}\n  kubectl get nodeclaims\n  \
         kubectl scale deployment inflate --replicas=80\n\nCtrl-C ends it.",
        kubeconfig.display()
    )
}
