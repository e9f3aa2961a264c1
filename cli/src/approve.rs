//! `whittle approve`: a person has looked at what garbage collection held back, and lets it go on for a while (DESIGN §7.9).

use std::io::Write;

use anyhow::Result;
use clap::Args;
use jiff::{SignedDuration, Timestamp};

#[derive(Args)]
pub(crate) struct Arguments {
    /// The cluster, as it is registered.
    #[arg(value_parser = name)]
    cluster: String,
    /// How long instances that nothing explains may be terminated, such as 30m; a day at most.
    #[arg(long = "for", default_value = "1h", value_parser = lasting)]
    lasting: SignedDuration,
    /// Where clusters are registered in Parameter Store.
    #[arg(long, default_value = "/whittle/clusters")]
    registry: String,
}

const LONGEST: SignedDuration = SignedDuration::from_hours(24);

fn lasting(text: &str) -> Result<SignedDuration, String> {
    api::duration::parse_go_duration(text)
        .filter(|lasting| *lasting > SignedDuration::ZERO && *lasting <= LONGEST)
        .ok_or_else(|| "expected a duration of up to 24h, such as 30m".to_owned())
}

fn name(text: &str) -> Result<String, String> {
    match text.is_empty() || text.contains('/') {
        true => Err("expected the name of a cluster".to_owned()),
        false => Ok(text.to_owned()),
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    #[expect(
        clippy::disallowed_methods,
        reason = "the one reading of the clock of this command"
    )]
    let now = Timestamp::now();
    let until = (now + arguments.lasting).round(jiff::Unit::Second)?;
    approve(arguments, now, until)?;
    writeln!(
        std::io::stdout(),
        "Until {until}, garbage collection may end what it held back in {}.",
        arguments.cluster
    )?;
    Ok(())
}

#[cfg(feature = "aws")]
fn approve(arguments: &Arguments, now: Timestamp, until: Timestamp) -> Result<()> {
    use anyhow::Context;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let cluster = &arguments.cluster;
    let approved = runtime.block_on(crate::aws::approve(
        cluster,
        &arguments.registry,
        now,
        until,
    ));
    approved.with_context(|| {
        format!(
            "cannot write the registry entry {}/{cluster}; nothing was changed",
            arguments.registry
        )
    })
}

#[cfg(not(feature = "aws"))]
fn approve(_: &Arguments, _: Timestamp, _: Timestamp) -> Result<()> {
    anyhow::bail!("approve calls AWS, which this build cannot: build it with `--features aws`");
}
