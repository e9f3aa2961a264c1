//! Pauses in the ledger, where every turn reads them before it acts.

use std::{collections::BTreeMap, io::Write};

use anyhow::{Context, Result, bail};
use jiff::Timestamp;
use model::{ClusterName, Lane, ledger::Pause};
use ports::{
    Ledger,
    ledger::{ClusterLedger, ControlLedger, LaneLedger, Moved},
};

use crate::{
    exit::Exit,
    journal::source::block_on,
    pause::{ListedPause, PauseTarget},
};

/// Maximum number of attempts to commit: another user may write the same row.
const ATTEMPTS_MAX: usize = 5;

pub(crate) fn put(what: &PauseTarget, pause: Pause, now: Timestamp) -> Result<Exit> {
    block_on(async {
        let (ledger, _) = super::memory_of(&what.stack.name).await?;
        let of = known(&ledger, what).await?;
        let now_standing = change(&ledger, of.as_ref(), |pauses| {
            Ok(Pause::put(pauses, pause.clone(), now)?)
        });
        let all = now_standing.await?;
        let mut out = std::io::stdout().lock();
        writeln!(
            out,
            "{} is paused ({}) until {}: {}",
            what.name(),
            pause.level,
            pause.until,
            pause.reason
        )?;
        others(&mut out, &all, &pause.owner, now)?;
        Ok(Exit::Done)
    })
}

pub(crate) fn lift(what: &PauseTarget, who: &str, now: Timestamp) -> Result<Exit> {
    block_on(async {
        let (ledger, _) = super::memory_of(&what.stack.name).await?;
        let of = known(&ledger, what).await?;
        let scope = what.scope();
        let own = |pauses: &[Pause]| Pause::lift(pauses, &scope, who, now);
        let left = change(&ledger, of.as_ref(), |pauses| match own(pauses) {
            (Some(_), left) => Ok(left),
            (None, left) => bail!(
                "{who} has not paused {}, so nothing was changed{}",
                what.name(),
                standing(&left)
            ),
        });
        let left = left.await?;
        let clusters = match &of {
            Some(cluster) => vec![cluster.clone()],
            None => ledger.clusters().await?,
        };
        for cluster in &clusters {
            for lane in Lane::WOKEN {
                ledger.make_due(cluster, lane, now).await?;
            }
        }
        let mut out = std::io::stdout().lock();
        writeln!(out, "{who}'s pause of {} is over.", what.name())?;
        others(&mut out, &left, who, now)?;
        Ok(Exit::Done)
    })
}

/// The pauses of the target that are in force.
pub(crate) fn of_target(what: &PauseTarget, now: Timestamp) -> Result<Vec<ListedPause>> {
    block_on(async {
        let (ledger, _) = super::memory_of(&what.stack.name).await?;
        let of = known(&ledger, what).await?;
        let pauses = match &of {
            // The row has the pauses of the account, too.
            Some(cluster) => ledger.meta(cluster).await?.map(|meta| meta.pauses),
            None => Some(ledger.pauses(None).await?),
        };
        let pauses = pauses.unwrap_or_default();
        let live = pauses.iter().filter(|pause| pause.is_live(now));
        Ok(live.map(ListedPause::from).collect())
    })
}

/// The cluster to pause; `None` for the account.
async fn known(ledger: &dyn Ledger, what: &PauseTarget) -> Result<Option<ClusterName>> {
    let Some(name) = what.cluster() else {
        return Ok(None);
    };
    let cluster = ClusterName::from(name);
    if ledger.meta(&cluster).await?.is_none() {
        return Err(super::unknown_to_ledger(name));
    }
    Ok(Some(cluster))
}

async fn change(
    ledger: &dyn Ledger,
    of: Option<&ClusterName>,
    to: impl Fn(&[Pause]) -> Result<Vec<Pause>>,
) -> Result<Vec<Pause>> {
    for _ in 0..ATTEMPTS_MAX {
        let from = ledger.pauses(of).await?;
        let to = to(&from)?;
        let moved = ledger.store_pauses(of, &from, &to).await;
        if moved.context("cannot write pauses; nothing was changed")? == Moved::Yes {
            return Ok(to);
        }
    }
    bail!("others change the same pauses all the time; nothing was changed: try again")
}

fn others(
    out: &mut impl Write,
    pauses: &[Pause],
    owner: &str,
    now: Timestamp,
) -> std::io::Result<()> {
    let others = pauses.iter();
    let others = others.filter(|pause| pause.owner != owner && pause.is_live(now));
    for pause in others {
        writeln!(out, "Besides, {pause}")?;
    }
    Ok(())
}

fn standing(left: &[Pause]) -> String {
    let remaining: Vec<String> = left.iter().map(ToString::to_string).collect();
    match remaining.is_empty() {
        true => ": nobody has".to_owned(),
        false => format!(
            ". Resume with --who and the owner's name: {}",
            remaining.join("; ")
        ),
    }
}

/// Pauses of each cluster, for lists of clusters.
pub(crate) async fn of_clusters(
    ledger: &dyn Ledger,
    clusters: impl Iterator<Item = &ClusterName>,
    now: Timestamp,
) -> Result<BTreeMap<ClusterName, Vec<Pause>>> {
    let mut all = BTreeMap::new();
    for cluster in clusters {
        let meta = ledger.meta(cluster).await?;
        let pauses = meta.map(|meta| meta.pauses).unwrap_or_default();
        let live = pauses.into_iter().filter(|pause| pause.is_live(now));
        all.insert(cluster.clone(), live.collect());
    }
    Ok(all)
}
